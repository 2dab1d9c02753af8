// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// tunnel: one value of the chart, first Open and then On, sends SYNs from node to node in UDP (C-80), without a
// connection that fails, in either family.
func (s *Suite) tunnel(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("crab.tunnel=Open, then On, and %d connections from each node to an address of each family", asked), Cost: "150 s",
		Cause: "UDP port 6080 is closed between nodes, or a node does not open tunnels: kubectl get ndp -o yaml, counters tunnel_*"},
		func(ctx context.Context) error {
			for _, mode := range []string{"Open", "On"} {
				if err := s.install(ctx, "--set", "crab.tunnel="+mode); err != nil {
					return err
				}
			}
			six, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "service", "both", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
			if err != nil {
				return err
			}
			return errors.Join(s.dialByTunnel(ctx, s.vip, "_tunnel"), s.dialByTunnel(ctx, six, "_tunnel_ipv6"))
		})
}

// dialByTunnel counts, besides what dial does, what went into tunnels and what came out.
func (s *Suite) dialByTunnel(ctx context.Context, vip, suffix string) error {
	before, err := s.counters(ctx)
	if err != nil {
		return err
	}
	if err := s.dial(ctx, vip, suffix); err != nil {
		return err
	}
	var sent, opened int64
	err = harness.Until(ctx, 90*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
		now, err := s.counters(ctx)
		sent, opened = now["lb_syn_tunnelled"]-before["lb_syn_tunnelled"], now["tunnel_opened"]-before["tunnel_opened"]
		return sent > 0 && opened >= sent, fmt.Sprintf("%d SYNs were sent by tunnel, %d let out", sent, opened), err
	})
	s.Steps.Say("     %d of their SYNs went from node to node by tunnel, %d were let out there", sent, opened)
	s.Got.Set("crab_cluster_syns_lost"+suffix, sent-opened)
	return err
}
