// SPDX-License-Identifier: Apache-2.0

// Package crab proves on a cluster of three nodes what CRAB does for Services: an
// address whose balancer sees one packet of each connection, node ports that lead
// past nodes without a pod, agents that may be restarted and servers that may go
// without any other connection noticing, and Services that are refused by name.
package crab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	Namespace = "bobtail-crab"
	// Pool lies in the network of the embedded cluster's nodes, above them all.
	Pool = "10.99.0.200-10.99.0.210,fd99::200-fd99::210"

	port    = 7080
	servers = 3
	asked   = 60 // connections from every node, one after the other
)

var nodes = []string{"node-a", "node-b", "node-c"}

// Suite is one run on a cluster of at least three nodes.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	// Only names the parts to play; empty: all.
	Only []string

	clients map[string]string // pod by node
	vip     string
}

func (s *Suite) parts() []harness.Part {
	return []harness.Part{{Name: "connect", Play: s.connect}, {Name: "six", Play: s.six}, {Name: "least", Play: s.least}, {Name: "rpcservice", Play: s.rpcService},
		{Name: "nodeport", Play: s.nodePort}, {Name: "nodeport6", Play: s.nodePortSix}, {Name: "refused", Play: s.refused}, {Name: "restart", Play: s.restartAgents},
		{Name: "kill", Play: s.killAgents}, {Name: "cut", Play: s.cutOwner}, {Name: "unready", Play: s.unready}, {Name: "deaf", Play: s.deaf},
		{Name: "remove", Play: s.removeServer}, {Name: "iptables", Play: s.otherMode}, {Name: "tunnel", Play: s.tunnel}}
}

// Judge says what is wrong with Only.
func (s *Suite) Judge() error {
	_, err := harness.Choose(s.parts(), s.Only)
	return err
}

// Run plays the parts, one after the other; one that fails hides none of the others.
func (s *Suite) Run(ctx context.Context) error {
	parts, err := harness.Choose(s.parts(), s.Only)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return errors.Join(harness.PlayAll(ctx, parts), s.clear(ctx))
}

func (s *Suite) prepare(ctx context.Context) error {
	agents := "no agent runs, or one lacks something: kubectl get ndp -o yaml; kubectl -n " + harness.SystemNamespace + " logs ds/bobtail-agent"
	for _, step := range []struct {
		harness.Step
		do func(context.Context) error
	}{
		{harness.Step{Name: "images of operator and agent into all nodes, and a small TCP peer", Cost: "15 s", Cause: "`make images` did not finish"}, s.images},
		{harness.Step{Name: "helm upgrade --install bobtail --set crab.enabled=true, pool " + Pool, Cost: "20 s", Cause: agents}, func(ctx context.Context) error { return s.install(ctx) }},
		{harness.Step{Name: "every node tells what it does for CRAB", Cost: "5 s", Cause: agents}, s.nodesReady},
		{harness.Step{Name: "kubectl apply: servers on node-b and node-c, a client on each node, seven Services", Cost: "10 s", Cause: agents}, s.apply},
	} {
		if err := s.Steps.Do(ctx, step.Step, step.do); err != nil {
			return err
		}
	}
	return nil
}

// install the chart with CRAB, and whatever else is asked for.
func (s *Suite) install(ctx context.Context, values ...string) error {
	return s.Env.Install(ctx, append([]string{"--set", "crab.enabled=true", "--set", "crab.vipPool={" + Pool + "}"}, values...)...)
}

func (s *Suite) images(ctx context.Context) error {
	return LoadImages(ctx, s.Env, "operator", "agent")
}

func (s *Suite) nodesReady(ctx context.Context) error {
	for _, node := range nodes {
		if err := s.Env.WaitCondition(ctx, time.Minute, "", "nodedataplanes.bobtail.dev", node, "Ready=True"); err != nil {
			return fmt.Errorf("%w (the suite needs three nodes: bobtail-cluster up --nodes=3)", err)
		}
	}
	out, err := s.Env.Kubectl(ctx, "get", "ndp")
	s.Steps.Say("\n$ kubectl get ndp\n%s", out)
	return err
}

func (s *Suite) apply(ctx context.Context) error {
	if err := s.Env.Apply(ctx, manifest()); err != nil {
		return err
	}
	for _, what := range []string{"deployment/web", "deployment/corner", "daemonset/client"} {
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "rollout", "status", what, "--timeout=60s"); err != nil {
			return err
		}
	}
	for _, name := range []string{"web", "both", "least", "corner"} {
		if err := s.waitService(ctx, name, "bobtail.dev/Programmed", "Programmed"); err != nil {
			return err
		}
	}
	var err error
	if s.vip, err = s.Env.Kubectl(ctx, "-n", Namespace, "get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}"); err != nil {
		return err
	}
	s.clients = map[string]string{}
	pods, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "app=client", "-o", `jsonpath={range .items[*]}{.spec.nodeName} {.metadata.name}{"\n"}{end}`)
	for line := range strings.Lines(pods) {
		if f := strings.Fields(line); len(f) == 2 {
			s.clients[f[0]] = f[1]
		}
	}
	return err
}

// waitService waits for a reason of a condition; Services have no generation.
func (s *Suite) waitService(ctx context.Context, name, kind, reason string) error {
	return harness.Until(ctx, time.Minute, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		o, err := s.Env.Object(ctx, Namespace, "service", name)
		c := o.Condition(kind)
		return c.Reason == reason, fmt.Sprintf("Service %s: %s=%s (%s: %s)", name, kind, c.Status, c.Reason, c.Message), err
	})
}

// peer runs crabpeer in the client pod of a node.
func (s *Suite) peer(ctx context.Context, node string, args ...string) (Answer, error) {
	return Ask(ctx, s.Env, Namespace, s.clients[node], args...)
}

func (s *Suite) clear(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "everything is deleted; the chart without CRAB", Cost: "20 s", Cause: "pods of namespace " + Namespace + " do not end"},
		func(ctx context.Context) error {
			if _, err := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--timeout=60s"); err != nil {
				return err
			}
			return s.Env.Install(ctx)
		})
}
