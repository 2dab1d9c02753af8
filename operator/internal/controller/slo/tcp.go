// SPDX-License-Identifier: Apache-2.0

// Objectives on services of protocol TCP. Nobody sees their requests but the
// servers; what is measured is how long clients wait for a connection, from SYN to
// established, by the agents of the clients' own nodes.
package slo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/stats"
)

// Agents knows the agents of the cluster's nodes.
type Agents interface {
	// Agents lists them; ErrEarly while that is not known yet.
	Agents(ctx context.Context) ([]Agent, error)
}

// ErrEarly: the operator has just started.
var ErrEarly = errors.New("the agents are not known yet")

// Agent is that of one node.
type Agent struct {
	Node, Version string
	// Expected says that it should answer: its node is ready, and the agent has said
	// that it works there. Of others it counts what they answer.
	Expected bool
	Target   dataplane.Target
}

// nodes says who measures, and who does not.
type nodes struct {
	crab     bool // the operator knows of CRAB
	versions map[string]string
	lost     uint64 // waits that found no room to be counted
}

// gatherConnects reads the agents of all nodes. One answer holds the window and the
// record.
func (r *Reconciler) gatherConnects(ctx context.Context, s *snapshot) error {
	if r.Agents == nil {
		return nil
	}
	agents, err := r.Agents.Agents(ctx)
	if err != nil {
		return err
	}
	s.nodes = nodes{crab: true, versions: map[string]string{}}
	var sources []dataplane.Asked
	for _, a := range agents {
		s.nodes.versions[a.Node] = a.Version
		sources = append(sources, dataplane.Asked{Name: a.Node, Required: a.Expected, Target: a.Target})
	}
	window := int(s.slo.Spec.WindowSeconds)
	answers := dataplane.ReadAll(ctx, sources, func(ctx context.Context, t dataplane.Target) (*dataplane.Connects, error) {
		return r.Sidecars.Connects(ctx, t, s.target.Namespace, s.target.Name, window, windowParts)
	})
	identify(answers)
	r.told.excuse(types.NamespacedName{Namespace: s.target.Namespace, Name: s.target.Name}, answers, r.Now())
	for _, a := range answers {
		if a.Err == nil {
			s.nodes.lost += a.Reply.Lost
		}
		one, day := part{Name: a.Name, Required: a.Required, Err: a.Err}, record{Name: a.Name, Required: a.Required, Err: a.Err}
		if a.Err == nil {
			one.Reply, day.Reply = &a.Reply.Window, &a.Reply.Record
		}
		s.parts = append(s.parts, one)
		if s.slow {
			s.records = append(s.records, day)
		}
	}
	return nil
}

// anotherNode is the answer of an agent that is not the one that was asked, as when an
// address has gone from one node to another: it would count twice.
type anotherNode struct{ name string }

func (e anotherNode) Error() string { return "node " + e.name + " answers at its address" }

// identify drops answers of others. Agents older than the question do not say who
// they are.
func identify(answers []dataplane.Reading[*dataplane.Connects]) {
	for i := range answers {
		if a := &answers[i]; a.Err == nil && a.Reply.Node != "" && a.Reply.Node != a.Name {
			a.Err, a.Reply = anotherNode{a.Reply.Node}, nil
		}
	}
}

// grace is how long a node is left out whose agent restarts, as in every roll-out,
// before the figure is incomplete without it.
const grace = time.Minute

// told remembers when each node last told of each Service.
type told struct {
	mu sync.Mutex
	at map[tale]time.Time
}

type tale struct {
	node    string
	service types.NamespacedName
}

// excuse requires no answer of a node that told of the Service a moment ago, as long
// as another tells. One that refuses is excused, too: an agent listens before it has
// learnt of the Services.
func (l *told) excuse(service types.NamespacedName, answers []dataplane.Reading[*dataplane.Connects], now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = map[tale]time.Time{}
	}
	maps.DeleteFunc(l.at, func(_ tale, at time.Time) bool { return now.Sub(at) > grace })
	anybody := false
	for _, a := range answers {
		if a.Err == nil {
			l.at[tale{a.Name, service}], anybody = now, true
		}
	}
	for i := range answers {
		if _, lately := l.at[tale{answers[i].Name, service}]; anybody && lately {
			answers[i].Required = answers[i].Required && answers[i].Err == nil
		}
	}
}

// unseen says why there are no latencies of requests, and what can be done.
func unseen(target *v1alpha1.RpcService) string {
	return fmt.Sprintf("RpcService %s speaks TCP: connections leave the balancer with their SYN, and no router or server of ours sees their requests; "+
		"a LatencyExperiment with `target.targetRef` %s and `workload.protocol` HTTP, Redis or what else its servers speak measures them once",
		target.Name, target.Name)
}

// unmeasured says why there are no waits for connections either.
func unmeasured(s *snapshot) string {
	why := "no node has an agent of CRAB"
	if !s.nodes.crab {
		why = "this installation has no CRAB (crab.enabled of the chart)"
	}
	return fmt.Sprintf("nobody measures how long clients wait for connections, because %s; %s", why, unseen(s.target))
}

// named is how many missing nodes a message names.
const named = 5

// list names some of them.
func list(missing []string) string {
	if more := len(missing) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(missing[:named], ", "), more)
	}
	return strings.Join(missing, ", ")
}

// why a node's counts are missing, in words that stay the same from look to look.
func (n nodes) why(p part) string {
	reason := "Garbled"
	var read *dataplane.ReadError
	if errors.As(p.Err, &read) {
		reason = string(read.Kind)
		if read.Refusal != nil {
			reason = read.Refusal.Message
		}
	}
	var other anotherNode
	if errors.As(p.Err, &other) {
		reason = other.Error()
	}
	return fmt.Sprintf("%s (agent %s: %s)", p.Name, n.versions[p.Name], reason)
}

// lossy: more waits were lost than the percentile leaves out. Then it is not met for all
// that is known: what finds no room is what is rare, and slow waits are.
func lossy(all *dataplane.Histogram, lost uint64, slo *v1alpha1.ServiceLevelObjective) bool {
	p, ok := shareOf(slo.Spec.Percentile)
	return ok && float64(lost) > (1-p)*float64(all.Total())
}

// describe says of the measurement what is peculiar to connections, once the parts
// are merged.
func (m *measurement) describe(s *snapshot) {
	if len(s.parts) == 0 {
		m.why = unmeasured(s)
		return
	}
	var missing, absent []string
	answered := 0
	for _, p := range s.parts {
		switch {
		case p.Reply != nil && p.Reply.Histogram != nil:
			answered++
		case p.Required:
			missing = append(missing, s.nodes.why(p))
		default:
			absent = append(absent, p.Name)
		}
	}
	m.unit = "connections"
	m.scope = fmt.Sprintf("; from SYN to established, as the clients of %d of %d nodes saw it", answered, len(s.parts))
	if len(absent) > 0 {
		m.scope += ", not of " + list(absent)
	}
	if s.nodes.lost > 0 {
		m.scope += fmt.Sprintf("; %d more, to whatever Service, found no room to be counted (bobtail_crab_packets_total{reason=\"client_connect_full\"}, bobtail_crab_state_evicted_total{state=\"pending\"})", s.nodes.lost)
	}
	if len(missing) > 0 {
		m.incomplete = []string{list(missing) + "; an agent older than this operator tells nothing, and the operator must reach the agents' port (docs/guides/crab.md)"}
	} else if answered == 0 {
		m.why = fmt.Sprintf("no agent answers, of %d; %s", len(s.parts), unseen(s.target))
	}
}

// missedAnyway: had all that was lost been fast and of this Service, the percentile
// would still lie above the objective for sure.
func missedAnyway(all *dataplane.Histogram, lost uint64, slo *v1alpha1.ServiceLevelObjective) bool {
	p, ok := shareOf(slo.Spec.Percentile)
	if !ok || all.Total() == 0 {
		return false
	}
	return all.CountAtMost(objectiveOf(slo))+lost < stats.PercentileInterval(all.Total()+lost, p, confidenceLevel).Low
}
