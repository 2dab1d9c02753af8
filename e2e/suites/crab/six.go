// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"fmt"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// six: a Service of both families has an address of each, published so that
// kube-proxy leaves them alone; clients of every node find that of IPv6 by neighbour
// discovery, and reach all servers by it.
func (s *Suite) six(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("a dual-stack Service: %d connections to its IPv6 address from each node", asked), Cost: "40 s",
		Cause: "the address is not announced: bobtail_crab_ndp_total of the agents; or the nodes do not forward IPv6: kubectl get ndp -o yaml"},
		func(ctx context.Context) error {
			out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "service", "both", "-o", `jsonpath={range .status.loadBalancer.ingress[*]}{.ip} {.ipMode}{"\n"}{end}`)
			if err != nil {
				return err
			}
			f := strings.Fields(out)
			if len(f) != 4 || !strings.HasPrefix(f[0], "fd99::2") || !strings.HasPrefix(f[2], "10.99.0.2") || f[1] != "Proxy" || f[3] != "Proxy" {
				return fmt.Errorf("the Service publishes %q, want an IPv6 and an IPv4 address of the pool, both with mode Proxy", out)
			}
			return s.dial(ctx, f[0], "_ipv6")
		})
}

// nodePortSix is nodePort by the nodes' IPv6 addresses.
func (s *Suite) nodePortSix(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d connections to that node port by node-a's IPv6 address", asked), Cost: "40 s",
		Cause: "node-a does not redirect: kubectl get ndp node-a -o yaml"},
		func(ctx context.Context) error {
			return s.askNodePort(ctx, 1, "_ipv6")
		})
}
