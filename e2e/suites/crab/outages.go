// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	heldThroughKill = 80 * time.Second
	cutFor          = 10 * time.Second // less than a node may be silent before its pods are given up
	settles         = 2 * time.Minute  // after agents went: a node balances for a minute what it announces no more
)

// killAgents: every agent dies without a word, at once, and its successor goes on with what it left (C-72).
func (s *Suite) killAgents(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("kill -9 of all agents under %d connections", heldMany*len(nodes)), Cost: "85 s",
		Cause: "programs or maps do not outlive the agent, or its successor changes what is at work"},
		func(ctx context.Context) error {
			k, err := s.holding(ctx, heldMany, heldThroughKill, func(ctx context.Context) error {
				pids, err := s.agentProcesses(ctx)
				if err != nil {
					return err
				}
				for _, pid := range pids {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						return fmt.Errorf("kill -9 of the agent, pid %d: %w", pid, err)
					}
				}
				return s.agentsRestarted(ctx, len(pids))
			})
			return errors.Join(err, s.judge("crab_cluster_broken_agent_kill", heldMany, k))
		})
}

// agentProcesses are those of the agents' pods; the nodes are on this machine.
func (s *Suite) agentProcesses(ctx context.Context) ([]int, error) {
	uids, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "get", "pods", "-l", agents, "-o", "jsonpath={.items[*].metadata.uid}")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, uid := range strings.Fields(uids) {
		all = append(all, harness.PodProcesses(uid, "agent")...)
	}
	if len(all) != len(nodes) {
		return nil, fmt.Errorf("found %d processes of agents on %d nodes", len(all), len(nodes))
	}
	return all, nil
}

const agents = "app.kubernetes.io/component=agent"

// agentsRestarted waits until each has been started again by its kubelet, and is ready.
func (s *Suite) agentsRestarted(ctx context.Context, n int) error {
	return harness.Until(ctx, 50*time.Second, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		out, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "get", "pods", "-l", agents, "-o",
			`jsonpath={range .items[*]}{.status.containerStatuses[0].restartCount}/{.status.containerStatuses[0].ready}{"\n"}{end}`)
		well := 0
		for _, pod := range strings.Fields(out) {
			if !strings.HasPrefix(pod, "0/") && strings.HasSuffix(pod, "/true") {
				well++
			}
		}
		return well == n, fmt.Sprintf("restarts and readiness of the agents: %s", strings.Join(strings.Fields(out), " ")), err
	})
}

// cutOwner: the node that answers for the address falls silent, and another one takes its place, whatever the API server
// thinks of that node by then.
func (s *Suite) cutOwner(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the link of the node that announces the address is cut", Cost: "90 s",
		Cause: "agents do not hear each other (UDP port 9440), or nobody else announces it: kubectl get ndp -o yaml"},
		func(ctx context.Context) error {
			owner, err := s.settledOwner(ctx)
			if err != nil {
				return err
			}
			took, err := s.failOver(ctx, owner)
			if err != nil {
				return err
			}
			s.Steps.Say("     %s was cut off; the first connection from elsewhere was answered after %.2f s", owner, took.Seconds())
			s.Got.SetFinite("crab_cluster_failover_seconds", took.Seconds())
			return s.answersAgain(ctx, owner)
		})
}

// settledOwner waits until one node alone balances the address: it is the one that announces it.
func (s *Suite) settledOwner(ctx context.Context) (string, error) {
	var owners []string
	err := harness.Until(ctx, settles, time.Second, func(ctx context.Context) (done bool, saw string, err error) {
		owners, err = s.balancing(ctx)
		return len(owners) == 1, fmt.Sprintf("%s is balanced by %v, want one node", s.vip, owners), err
	})
	if err != nil {
		return "", err
	}
	return owners[0], nil
}

// balancing are the nodes that balance the address.
func (s *Suite) balancing(ctx context.Context) (names []string, err error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				VIPs []struct{ Address, Role string } `json:"vips"`
			}
		}
	}
	err = s.Env.Get(ctx, &list, "nodedataplanes.bobtail.dev")
	for _, n := range list.Items {
		for _, v := range n.Status.VIPs {
			if v.Address == s.vip && v.Role == "Balancer" {
				names = append(names, n.Metadata.Name)
			}
		}
	}
	return names, err
}

// link of a node, at the bridge that joins all of them.
func (s *Suite) link(ctx context.Context, node, state string) error {
	_, err := s.Env.Cluster(ctx, "exec-node", "control-plane", "--", "ip", "link", "set", "ve-"+strings.TrimPrefix(node, "node-"), state)
	return err
}

// failOver cuts a node off for a while and measures until a connection from another one is answered.
func (s *Suite) failOver(ctx context.Context, owner string) (time.Duration, error) {
	from := nodes[0]
	if from == owner {
		from = nodes[1]
	}
	cut := time.Now()
	if err := s.link(ctx, owner, "down"); err != nil {
		return 0, err
	}
	a, err := s.peer(ctx, from, "await", s.target(), cutFor.String())
	err = errors.Join(err, s.link(ctx, owner, "up"))
	if err == nil && a.Connected == 0 {
		err = fmt.Errorf("from %s: %s", from, a.Error)
	}
	return time.UnixMilli(a.AnsweredUnixMilliseconds).Sub(cut), err
}

// answersAgain: the node is back, and its clients and servers take part as before.
func (s *Suite) answersAgain(ctx context.Context, node string) error {
	return harness.Until(ctx, 30*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
		a, err := s.peer(ctx, node, "ask", s.target(), fmt.Sprint(oneRound))
		if err != nil { // its kubelet may not be there yet
			return false, err.Error(), nil
		}
		return a.Failed == 0 && len(a.Servers) == servers, fmt.Sprintf("%s, which was cut off: %d of %d answered, by %v %s", node, a.Connected, oneRound, a.Servers, a.Error), nil
	})
}
