// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"errors"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// otherMode: with kube-proxy's older rules on every node (mode iptables; the suite runs with nftables) addresses and node
// ports are redirected as before, and what CRAB cannot serve works by them.
func (s *Suite) otherMode(ctx context.Context) error {
	const suffix = "_iptables"
	err := s.proxyMode(ctx, "iptables")
	if err == nil {
		err = errors.Join(
			s.Steps.Do(ctx, harness.Step{Name: "through those rules: connections to the address, and to the node port of node-a", Cost: "90 s",
				Cause: "rules of mode iptables see packets of redirected connections: iptables-save in the nodes (bobtail-cluster exec-node)"},
				func(ctx context.Context) error {
					return errors.Join(s.dial(ctx, s.vip, suffix), s.askNodePort(ctx, 0, suffix))
				}),
			s.refused(ctx))
	}
	return errors.Join(err, s.proxyMode(ctx, "nftables"))
}

func (s *Suite) proxyMode(ctx context.Context, mode string) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kube-proxy goes on in mode " + mode + " on every node", Cost: "5 s", Cause: "kube-proxy does not start: bobtail-cluster logs kube-proxy-a"},
		func(ctx context.Context) error {
			_, err := s.Env.Cluster(ctx, "proxy-mode", mode)
			return err
		})
}
