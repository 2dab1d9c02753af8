// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	busyWith = 30 // connections of one server, dialled directly
	toLeast  = 20 // connections to the Service whose policy is Least
)

// least: one server has connections that no balancer has seen. The agent of its
// node counts them and tells the address's owner, and none of the new ones goes there.
func (s *Suite) least(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d connections by policy Least while a server has %d of its own", toLeast, busyWith), Cost: "25 s",
		Cause: "connections are not counted, or reports do not reach the owner: kubectl -n " + Namespace + " describe service least; bobtail_crab_loads_total of the agents"},
		func(ctx context.Context) error {
			pod, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
			if err != nil {
				return err
			}
			ip, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
			if err != nil {
				return err
			}
			vip, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "service", "least", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
			if err != nil {
				return err
			}
			var holding sync.WaitGroup
			var held Answer
			var failed error
			holding.Go(func() {
				held, failed = s.peer(ctx, "node-a", "hold", fmt.Sprintf("%s:%d", ip, port), fmt.Sprint(busyWith), "20s")
			})
			time.Sleep(6 * time.Second) // until all are there, and have been told
			a, err := s.peer(ctx, "node-a", "ask", fmt.Sprintf("%s:%d", vip, port), fmt.Sprint(toLeast))
			holding.Wait()
			if err == nil {
				err = failed
			}
			if err != nil {
				return err
			}
			s.Steps.Say("     %s has %d connections; of %d new ones the servers got %v, %d failed %s", pod, held.Connected, a.Connected, a.Servers, a.Failed, a.Error)
			s.Got.Set("crab_cluster_least_to_busy_server", a.Servers[pod])
			if a.Failed > 0 || held.Connected != busyWith || a.Servers[pod] > 0 || len(a.Servers) != servers-1 {
				return fmt.Errorf("%d failed, %d of %d connections held, new ones by %v: want none by %s, and all other servers", a.Failed, held.Connected, busyWith, a.Servers, pod)
			}
			return s.waitService(ctx, "least", "bobtail.dev/Programmed", "Programmed") // not FallingBack
		})
}
