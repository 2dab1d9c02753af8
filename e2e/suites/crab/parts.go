// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// connect: clients of every node reach all servers, and the balancer saw a SYN of
// each connection and nothing else.
func (s *Suite) connect(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d connections to %s from each node", asked, s.vip), Cost: "40 s",
		Cause: "SYNs are not balanced, or redirects not believed: kubectl get ndp -o yaml shows the counters of each node"},
		func(ctx context.Context) error {
			return s.dial(ctx, s.vip, "")
		})
}

// dial asks an address from each node. Names of what is measured end in suffix.
func (s *Suite) dial(ctx context.Context, vip, suffix string) error {
	before, err := s.counters(ctx)
	if err != nil {
		return err
	}
	failed, slowest, target := 0, int64(0), net.JoinHostPort(vip, fmt.Sprint(port))
	for _, node := range nodes {
		a, err := s.peer(ctx, node, "ask", target, fmt.Sprint(asked))
		if err != nil {
			return err
		}
		s.Steps.Say("     %s: %d answered, %d failed, by %v, slowest %d ms, the socket's peer is %s %s", node, a.Connected, a.Failed, a.Servers, a.SlowestMilliseconds, a.Remote, a.Error)
		failed, slowest = failed+a.Failed, max(slowest, a.SlowestMilliseconds)
		if a.Failed == 0 && (len(a.Servers) != servers || a.Remote != target) {
			return fmt.Errorf("%s: answered by %v, peer %s: want %d servers, peer %s", node, a.Servers, a.Remote, servers, target)
		}
	}
	s.Got.Set("crab_cluster_connections_failed"+suffix, failed)
	s.Got.Set("crab_cluster_slowest_connection_ms"+suffix, slowest)
	if failed > 0 {
		return fmt.Errorf("%d connections failed", failed)
	}
	return s.packets(ctx, before, asked*len(nodes), "crab_cluster_lb_packets_per_connection"+suffix)
}

// packets waits until the nodes have told of all SYNs, and counts what else their
// balancers saw.
func (s *Suite) packets(ctx context.Context, before map[string]int64, made int, name string) error {
	connections := int64(made)
	var seen int64
	err := harness.Until(ctx, 90*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
		now, err := s.counters(ctx)
		seen = 0
		for name, n := range now {
			if strings.HasPrefix(name, "lb_") && name != "lb_syn_tunnelled" && name != "lb_syn_to_stack" { // their SYNs are counted as well
				seen += n - before[name]
			}
		}
		redirected := now["lb_syn_redirected"] - before["lb_syn_redirected"]
		return redirected >= connections, fmt.Sprintf("%d of %d SYNs redirected, %d packets seen", redirected, connections, seen), err
	})
	if err != nil {
		return err
	}
	s.Steps.Say("     the balancers saw %d packets of %d connections", seen, connections)
	s.Got.SetFinite(name, float64(seen)/float64(connections))
	return nil
}

// counters are the sums over all nodes.
func (s *Suite) counters(ctx context.Context) (map[string]int64, error) {
	var list struct {
		Items []struct {
			Status struct {
				Counters []struct {
					Name  string `json:"name"`
					Count int64  `json:"count"`
				} `json:"counters"`
			} `json:"status"`
		} `json:"items"`
	}
	sum := map[string]int64{}
	err := s.Env.Get(ctx, &list, "nodedataplanes.bobtail.dev")
	for _, n := range list.Items {
		for _, c := range n.Status.Counters {
			sum[c.Name] += c.Count
		}
	}
	return sum, err
}

// nodePort: the server is on node-c, the client on node-b, and the node dialled is
// node-a, which has no pod. With externalTrafficPolicy Local kube-proxy drops what
// comes there, so that an answer can only come by a redirect.
func (s *Suite) nodePort(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d connections to a node port of node-a, whose pod is on node-c, from node-b", asked), Cost: "40 s",
		Cause: "node-a does not redirect: kubectl get ndp node-a -o yaml"},
		func(ctx context.Context) error {
			return s.askNodePort(ctx, 0, "")
		})
}

// askNodePort by the address of node-a that stands first, which is of IPv4, or second.
func (s *Suite) askNodePort(ctx context.Context, which int, suffix string) error {
	nodePort, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "service", "corner", "-o", "jsonpath={.spec.ports[0].nodePort}")
	if err != nil {
		return err
	}
	ips, err := s.Env.Kubectl(ctx, "get", "node", "node-a", "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	if err != nil {
		return err
	}
	f := strings.Fields(ips)
	if len(f) != 2 {
		return fmt.Errorf("node-a has the addresses %q, want one of each family (bobtail-cluster up --dual-stack)", ips)
	}
	before, err := s.counters(ctx)
	if err != nil {
		return err
	}
	a, err := s.peer(ctx, "node-b", "ask", net.JoinHostPort(f[which], nodePort), fmt.Sprint(asked))
	if err != nil {
		return err
	}
	s.Steps.Say("     %d answered, %d failed, by %v %s", a.Connected, a.Failed, a.Servers, a.Error)
	s.Got.Set("crab_cluster_nodeport_failed"+suffix, a.Failed)
	if a.Failed > 0 {
		return fmt.Errorf("%d connections failed: %s", a.Failed, a.Error)
	}
	return s.packets(ctx, before, asked, "crab_cluster_nodeport_packets_per_connection"+suffix)
}

func (s *Suite) restartAgents(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("all agents are replaced under %d connections", heldMany*len(nodes)), Cost: "115 s",
		Cause: "an agent takes its programs or maps away when it ends"},
		func(ctx context.Context) error {
			k, err := s.holding(ctx, heldMany, 110*time.Second, func(ctx context.Context) error {
				if _, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "rollout", "restart", "daemonset/bobtail-agent"); err != nil {
					return err
				}
				_, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "rollout", "status", "daemonset/bobtail-agent", "--timeout=80s")
				return err
			})
			return errors.Join(err, s.judge("crab_cluster_broken_agent_restart", heldMany, k))
		})
}

// removeServer: of all connections only those of the server that goes break.
func (s *Suite) removeServer(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("one of %d servers goes, and another one comes, under %d connections", servers, held*len(nodes)), Cost: "25 s",
		Cause: "a change of the pool touches live connections"},
		func(ctx context.Context) error {
			var gone string
			k, err := s.holding(ctx, held, 20*time.Second, func(ctx context.Context) error {
				var err error
				gone, err = s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
				if err != nil {
					return err
				}
				_, err = s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pod", gone)
				return err
			})
			s.Steps.Say("     the connections of %s broke, %d of %d", gone, k.broken[gone], k.open)
			if k.broken[gone] == 0 {
				err = errors.Join(err, fmt.Errorf("no connection of %s broke: it had none, and nothing was tested", gone))
			}
			delete(k.broken, gone)
			return errors.Join(err, s.judge("crab_cluster_broken_pool_change", held, k))
		})
}
