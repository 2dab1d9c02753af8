// SPDX-License-Identifier: Apache-2.0

//go:build linux

package onswitch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/crab"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// The Service that a third switch redirects, and how often each of two clients asks it.
const (
	web       = "web"
	webPort   = 7080
	askedEach = 500
)

// webManifest: a server and a client on each node.
const webManifest = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [%[3]s]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: asker, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: asker}}
  template:
    metadata: {labels: {app: asker}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [%[3]s]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s, annotations: {bobtail.dev/switch: %[4]s}}
spec:
  type: LoadBalancer
  loadBalancerClass: bobtail.dev/crab
  selector: {app: web}
  ports: [{port: %[2]d}]
`

func manifestOfWeb() string {
	return fmt.Sprintf(webManifest, Namespace, webPort, crab.Container(webPort), balancer.name)
}

// redirected: a Service whose SYNs a switch with the crab program gives to pods, and the agents' programs of clients and
// servers do the rest (C-20 to C-28).
func (s *Suite) redirected(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("a Service with annotation bobtail.dev/switch, and %d connections to it", len(nodes)*askedEach), Cost: "90 s",
		Cause: "agents are not ready, or the switch does not redirect: kubectl -n " + Namespace + " get service web -o yaml; kubectl get ndp -o yaml"}, func(ctx context.Context) error {
		if err := crab.LoadImages(ctx, s.Env, "agent"); err != nil {
			return err
		}
		b, err := newBed(ctx, s.Env, balancer)
		if err != nil {
			return err
		}
		err = s.connections(ctx, b)
		_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "service,daemonset", web, "--ignore-not-found")
		_, asker := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "daemonset", "asker", "--ignore-not-found")
		_, psw := s.Env.Kubectl(ctx, "delete", "psw", balancer.name, "--ignore-not-found", "--timeout=60s")
		left := b.held()
		if err == nil && left > 0 {
			err = fmt.Errorf("the switch holds %d entries after its deletion", left)
		}
		return errors.Join(err, gone, asker, psw, b.close(ctx), s.Env.Install(ctx, wayToSwitches...))
	})
}

// connections has the Service on the switch, and counts those that failed.
func (s *Suite) connections(ctx context.Context, b *bed) error {
	values := append(slices.Clone(wayToSwitches), "--set", "crab.enabled=true", "--set", "crab.uplink="+balancer.far, "--set", "crab.vipPool={"+balancer.pool+"}")
	if err := s.Env.Install(ctx, values...); err != nil {
		return err
	}
	if _, err := s.apply(ctx, balancer); err != nil {
		return err
	}
	if err := s.Env.Apply(ctx, manifestOfWeb()); err != nil {
		return err
	}
	for _, what := range []string{"daemonset/web", "daemonset/asker"} {
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "rollout", "status", what, "--timeout=90s"); err != nil {
			return err
		}
	}
	err := harness.Until(ctx, 2*time.Minute, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		o, err := s.Env.Object(ctx, Namespace, "service", web)
		c := o.Condition("bobtail.dev/Programmed")
		return c.Reason == "Programmed", fmt.Sprintf("Service web: %s (%s: %s)", c.Status, c.Reason, c.Message), err
	})
	if err != nil {
		return err
	}
	return s.askWeb(ctx, b)
}

// askWeb connects from each node, and compares with what the switch redirected.
func (s *Suite) askWeb(ctx context.Context, b *bed) error {
	address, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "service", web, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
	if err != nil {
		return err
	}
	pods, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "app=asker", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	asked, failed := 0, 0
	for _, pod := range strings.Fields(pods) {
		a, err := crab.Ask(ctx, s.Env, Namespace, pod, "ask", fmt.Sprintf("%s:%d", address, webPort), fmt.Sprint(askedEach))
		if err != nil {
			return err
		}
		s.Steps.Say("     %s: %d answered, %d failed, by %v, slowest %d ms %s", pod, a.Connected, a.Failed, a.Servers, a.SlowestMilliseconds, a.Error)
		asked, failed = asked+a.Connected+a.Failed, failed+a.Failed
		if a.Failed == 0 && len(a.Servers) != len(nodes) {
			return fmt.Errorf("%s was answered by %v, want all of %d servers", pod, a.Servers, len(nodes))
		}
	}
	s.Got.Set("switch_crab_connections", asked)
	s.Got.Set("switch_crab_connections_failed", failed)
	s.Steps.Say("     the switch: %s; %d SYNs redirected", b.tally("balance"), b.redirects())
	if n := b.redirects(); n < uint64(asked-failed) {
		return fmt.Errorf("the switch redirected %d SYNs of %d connections", n, asked-failed)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d connections failed", failed, asked)
	}
	return nil
}

// redirects are the SYNs that the crab program gave to servers, their option rewritten or put in (headers.p4).
func (b *bed) redirects() (n uint64) {
	b.pipe.Look(func(m *model.Machine) {
		for vip := range uint64(1 << 8) {
			n += m.Count("Ingress.balance.outcomes", vip*32+1) + m.Count("Ingress.balance.outcomes", vip*32+2)
		}
	})
	return n
}
