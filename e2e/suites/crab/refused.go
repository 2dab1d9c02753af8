// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// unserved is a Service that CRAB cannot serve, and the rule that says so.
type unserved struct {
	name, rule string
	port       int
	how        string // crabpeer's client for it
	sticky     bool   // one server answers all connections of a client
}

var allUnserved = []unserved{
	{"translated", "PortTranslation", 80, "ask", false},
	{"datagrams", "ProtocolNotTCP", port, "send", false},
	{"sticky", "SessionAffinity", port, "ask", true},
}

// refused: Services that CRAB cannot serve are told by which rule, in a condition and an Event, get no address, and go on
// working as kube-proxy serves them.
func (s *Suite) refused(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "Services with another targetPort, with UDP and with sessionAffinity are refused by name, and work by their ClusterIPs", Cost: "5 s",
		Cause: "kubectl -n " + Namespace + " describe services"},
		func(ctx context.Context) error {
			var failed error
			for _, u := range allUnserved {
				if err := s.isRefused(ctx, u); err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: %w", u.name, err))
				}
			}
			return failed
		})
}

func (s *Suite) isRefused(ctx context.Context, u unserved) error {
	if err := s.waitService(ctx, u.name, "bobtail.dev/Accepted", u.rule); err != nil {
		return err
	}
	said, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "events", "--field-selector", "involvedObject.kind=Service,involvedObject.name="+u.name+",reason="+u.rule, "-o", "jsonpath={.items[*].message}")
	if err != nil {
		return err
	}
	if said == "" {
		return fmt.Errorf("no Event with reason %s", u.rule)
	}
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "service", u.name, "-o", "jsonpath={.spec.clusterIP} {.status.loadBalancer.ingress}")
	if err != nil {
		return err
	}
	f := strings.Fields(out)
	if len(f) != 1 {
		return fmt.Errorf("the Service has ClusterIP and address %q, want no address", out)
	}
	return s.works(ctx, u, net.JoinHostPort(f[0], fmt.Sprint(u.port)))
}

// works asks a Service through kube-proxy.
func (s *Suite) works(ctx context.Context, u unserved, target string) error {
	const times = 10
	a, err := s.peer(ctx, "node-a", u.how, target, fmt.Sprint(times))
	if err != nil {
		return err
	}
	s.Steps.Say("     %s (%s): %d of %d answered by its ClusterIP, by %v %s", u.name, u.rule, a.Connected, times, a.Servers, a.Error)
	switch {
	case a.Failed > 0 || a.Connected != times:
		return fmt.Errorf("%d of %d were answered by the ClusterIP: %s", a.Connected, times, a.Error)
	case u.sticky && len(a.Servers) != 1:
		return fmt.Errorf("one client was answered by %v: its affinity is lost", a.Servers)
	}
	return nil
}
