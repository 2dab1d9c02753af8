// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func overTCP() *v1alpha1.RpcService {
	target := aTarget()
	target.Namespace, target.Name, target.Spec.Protocol, target.Spec.TCP = "demo", "web", v1alpha1.ProtocolTCP, &v1alpha1.RpcServiceTCP{Port: 80}
	return target
}

// Where nobody measures that is said, with what can be done, and nothing else is.
func TestObjectiveOnTCP(t *testing.T) {
	slo := anObjective("99", 5_000_000) // above the timeout, which is about messages of R2P2
	s := &snapshot{slo: slo, target: overTCP(), slow: true}
	m, err := measure(s)
	if err != nil {
		t.Fatal(err)
	}
	accepted, met := decideAccepted(s), decideMet(slo, m, 1000)
	if accepted.Status != metav1.ConditionTrue || !strings.Contains(accepted.Message, "from SYN to established") {
		t.Errorf("accepted: %+v", accepted)
	}
	p := &plan{accepted: accepted, programmed: decideProgrammed(s, accepted), met: met, measured: m, required: 1000}
	writeStatus(slo, p, start)
	var l ledgers
	_, led := l.count(types.NamespacedName{Name: "p"}, slo, nil, start)
	writeSlow(slo, s, led, p, start)
	for kind, want := range map[string]struct {
		status metav1.ConditionStatus
		reason string
	}{
		v1alpha1.ConditionMet:           {metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource},
		v1alpha1.ConditionReady:         {metav1.ConditionFalse, v1alpha1.ReasonNotMeasuring},
		v1alpha1.ConditionCapacityKnown: {metav1.ConditionFalse, v1alpha1.ReasonNoMeasurementSource},
		v1alpha1.ConditionAttainable:    {metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource},
	} {
		c := meta.FindStatusCondition(slo.Status.Conditions, kind)
		if c == nil || c.Status != want.status || c.Reason != want.reason || !strings.Contains(c.Message, "LatencyExperiment with `target.targetRef` web") {
			t.Errorf("%s: %+v, want %+v", kind, c, want)
		}
	}
	if st := slo.Status; st.Source != v1alpha1.SourceNone || st.Observed != "" || st.Samples != nil || st.Capacity != nil || st.ErrorBudgets != nil {
		t.Errorf("numbers of nothing: %+v", st)
	}
}

// agents answer as they are told, by node.
type agents struct {
	Sidecars
	list    []Agent
	answers map[string]*dataplane.Connects
	errs    map[string]error
	asked   string
	early   bool
}

func (a *agents) Agents(context.Context) ([]Agent, error) {
	if a.early {
		return nil, ErrEarly
	}
	return a.list, nil
}

func (a *agents) Connects(_ context.Context, t dataplane.Target, namespace, service string, window, parts int) (*dataplane.Connects, error) {
	if t.Address == "a" {
		a.asked = fmt.Sprint(namespace, "/", service, " ", window, "/", parts)
	}
	return a.answers[t.Address], a.errs[t.Address]
}

func (a *agents) add(node, version string, expected bool, answer *dataplane.Connects, err error) {
	a.list = append(a.list, Agent{Node: node, Version: version, Expected: expected, Target: dataplane.Target{Address: node}})
	a.answers[node], a.errs[node] = answer, err
}

// connected is what an agent tells of `count` connections in the window, and the
// same in its record.
func connected(count int, microseconds uint64, never, seconds int) *dataplane.Connects {
	w := measured(count, microseconds, never, seconds)
	return &dataplane.Connects{Window: *w, Record: dataplane.History{Started: start.Add(-time.Hour), All: dataplane.HistoryWindow{Latency: w.Histogram}}}
}

func from(node string, c *dataplane.Connects) *dataplane.Connects {
	c.Node = node
	return c
}

func losing(n uint64, c *dataplane.Connects) *dataplane.Connects {
	c.Lost = n
	return c
}

var (
	unreachable = &dataplane.ReadError{Kind: dataplane.Unreachable, Err: errors.New("dial tcp 192.0.2.2:9442: connection refused")}
	unknown     = &dataplane.ReadError{Kind: dataplane.Refused, Refusal: &dataplane.CtlError{Message: "the node knows no address"}, Err: errors.New("x")}
)

func many(a *agents) {
	for i := range 9 {
		a.add(fmt.Sprint("n", i), "1", false, nil, unreachable)
	}
}

// connectsCases: what agents answer, and what is made of it.
var connectsCases = []struct {
	name   string
	add    func(*agents)
	status metav1.ConditionStatus
	reason string
	says   []string
}{
	{"one slow node among two decides", func(a *agents) {
		a.add("a", "1", true, connected(980, 100, 0, 30), nil)
		a.add("b", "1", true, connected(100, 5000, 0, 10), nil)
	}, "False", v1alpha1.ReasonObjectiveMissed, []string{"p99 is 5.", "from SYN to established, as the clients of 2 of 2 nodes saw it"}},
	{"connections that never came to stand are infinite", func(a *agents) {
		a.add("a", "1", true, connected(980, 100, 0, 30), nil)
		a.add("b", "1", true, connected(100, 100, 50, 30), nil)
	}, "False", v1alpha1.ReasonObjectiveMissed, []string{"p99 is +Inf"}},
	{"a node that is away is named", func(a *agents) {
		a.add("a", "1", true, connected(1100, 100, 0, 30), nil)
		a.add("b", "1", false, nil, unreachable)
	}, "True", v1alpha1.ReasonObjectiveMet, []string{"1 of 2 nodes saw it, not of b"}},
	{"many that are away are counted", func(a *agents) {
		a.add("a", "1", true, connected(1100, 100, 0, 30), nil)
		many(a)
	}, "True", v1alpha1.ReasonObjectiveMet, []string{"1 of 10 nodes saw it, not of n0, n1, n2, n3, n4 and 4 more"}},
	{"one that is away and answers counts", func(a *agents) {
		a.add("a", "1", true, connected(600, 100, 0, 30), nil)
		a.add("b", "1", false, connected(600, 100, 0, 30), nil)
	}, "True", v1alpha1.ReasonObjectiveMet, []string{"2 of 2 nodes"}},
	{"an older agent", func(a *agents) {
		a.add("a", "2", true, connected(1100, 100, 0, 30), nil)
		a.add("b", "0.1.0", true, nil, unreachable)
	}, "Unknown", v1alpha1.ReasonMeasurementIncomplete, []string{"no histogram from b (agent 0.1.0: Unreachable)", "an agent older than this operator"}},
	{"an agent that does not know the Service", func(a *agents) { a.add("a", "2", true, nil, unknown) },
		"Unknown", v1alpha1.ReasonMeasurementIncomplete, []string{"a (agent 2: the node knows no address)"}},
	{"another node at the address", func(a *agents) {
		a.add("a", "2", true, from("a", connected(1100, 100, 0, 30)), nil)
		a.add("b", "2", true, from("c", connected(1100, 100, 0, 30)), nil)
	}, "Unknown", v1alpha1.ReasonMeasurementIncomplete, []string{"no histogram from b (agent 2: node c answers at its address)"}},
	{"each at its own", func(a *agents) {
		a.add("a", "2", true, from("a", connected(600, 100, 0, 30)), nil)
		a.add("b", "2", true, from("b", connected(600, 100, 0, 30)), nil)
	}, "True", v1alpha1.ReasonObjectiveMet, []string{"2 of 2 nodes"}},
	{"a few waits lost", func(a *agents) {
		a.add("a", "2", true, losing(5, connected(600, 100, 0, 30)), nil)
		a.add("b", "2", true, losing(7, connected(600, 100, 0, 30)), nil)
	}, "True", v1alpha1.ReasonObjectiveMet, []string{"2 of 2 nodes saw it; 12 more, to whatever Service, found no room to be counted", "client_connect_full"}},
	{"more lost than the percentile leaves out", func(a *agents) {
		a.add("a", "2", true, losing(13, connected(1200, 100, 0, 30)), nil)
	}, "Unknown", v1alpha1.ReasonMeasurementIncomplete, []string{"more waits were lost than p99 leaves out of 1200 connections", "13 more"}},
	{"missed whatever the lost ones were", func(a *agents) {
		a.add("a", "2", true, losing(13, connected(1200, 100_000, 0, 30)), nil)
	}, "False", v1alpha1.ReasonObjectiveMissed, []string{"13 more"}},
	{"missed unless the lost ones were fast", func(a *agents) {
		a.add("a", "2", true, losing(200_000, connected(1200, 100_000, 0, 30)), nil)
	}, "Unknown", v1alpha1.ReasonMeasurementIncomplete, []string{"200000 more"}},
	{"nothing but lost", func(a *agents) {
		a.add("a", "2", true, losing(1, connected(0, 100, 0, 30)), nil)
	}, "Unknown", v1alpha1.ReasonMeasurementIncomplete, []string{"of 0 connections"}},
	{"too few", func(a *agents) { a.add("a", "1", true, connected(10, 100, 0, 30), nil) },
		"Unknown", v1alpha1.ReasonTooFewSamples, []string{"10 connections in the last 30 s; p99 needs 1000; from SYN", "1 of 1 nodes"}},
	{"nobody that should", many, "Unknown", v1alpha1.ReasonNoMeasurementSource, []string{"no agent answers, of 9"}},
	{"no agents", func(*agents) {}, "Unknown", v1alpha1.ReasonNoMeasurementSource, []string{"no node has an agent of CRAB"}},
}

// The nodes' counts are merged, and what is said tells how many nodes they are of;
// without one that should answer there is no figure, and a reason.
func TestConnectsAreMerged(t *testing.T) {
	for _, c := range connectsCases {
		a := &agents{answers: map[string]*dataplane.Connects{}, errs: map[string]error{}}
		c.add(a)
		s := &snapshot{slo: anObjective("99", 1000), target: overTCP(), slow: true}
		if err := (&Reconciler{Sidecars: a, Agents: a, Now: time.Now}).gatherConnects(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		m, err := measure(s)
		if err != nil {
			t.Fatal(err)
		}
		v := decideMet(s.slo, m, 1000)
		if v.Status != c.status || v.Reason != c.reason || a.asked != "" && a.asked != "demo/web 30/10" {
			t.Errorf("%s: %+v, asked %q", c.name, v, a.asked)
		}
		for _, say := range c.says {
			if !strings.Contains(v.Message, say) {
				t.Errorf("%s: %q does not say %q", c.name, v.Message, say)
			}
		}
		if strings.Contains(v.Message, "192.0.2.2") {
			t.Errorf("%s: what changes from look to look is in the status: %q", c.name, v.Message)
		}
		if len(s.records) != len(a.list) {
			t.Errorf("%s: %d records of %d nodes", c.name, len(s.records), len(a.list))
		}
	}
}

func TestConnectsInTheStatus(t *testing.T) {
	a := &agents{answers: map[string]*dataplane.Connects{}, errs: map[string]error{}}
	a.add("a", "1", true, connected(900, 100, 0, 30), nil)
	a.add("b", "1", true, connected(600, 100, 3, 10), nil)
	slo := anObjective("99", 1000)
	s := &snapshot{slo: slo, target: overTCP()}
	if err := (&Reconciler{Sidecars: a, Agents: a, Now: time.Now}).gatherConnects(t.Context(), s); err != nil || s.records != nil {
		t.Fatalf("%v, %d records of a quick look", err, len(s.records))
	}
	m, err := measure(s)
	if err != nil {
		t.Fatal(err)
	}
	writeStatus(slo, &plan{accepted: decideAccepted(s), programmed: decideProgrammed(s, decideAccepted(s)), met: decideMet(slo, m, 1000), measured: m, required: 1000}, start)
	st := slo.Status
	// 900/30 + 600/10: each node has its own age.
	if st.Source != v1alpha1.SourceClientNode || *st.Samples != 1503 || *st.Unanswered != 3 || *st.RequestsPerSecond != 90 || st.RejectedShare != "" || st.Observed == "" {
		t.Errorf("%+v", st)
	}
	a.early = true
	if err := (&Reconciler{Sidecars: a, Agents: a, Now: time.Now}).gatherConnects(t.Context(), s); !errors.Is(err, ErrEarly) {
		t.Errorf("%v", err)
	}
}

// The budget counts from the objective's beginning, each connection once, whoever
// restarts: the nodes' counts grow on, and only a node that boots begins anew.
func TestBudgetOfConnects(t *testing.T) {
	slo := anObjective("99", 1000)
	l, boot, now := &ledgers{}, start.Add(-100*time.Hour), start
	of := func(node string, started time.Time, fast, never int) record {
		return record{Name: node, Required: true, Reply: &dataplane.History{Started: started, All: dataplane.HistoryWindow{Latency: measured(fast, 100, never, 1).Histogram}}}
	}
	since := start
	step := func(name string, requests, violations int64, records ...record) {
		t.Helper()
		look(l, slo, now, records...)
		if b := slo.Status.ErrorBudgets; len(b) != 2 || b[0].Requests != requests || b[0].Violations != violations || !slo.Status.HistorySince.Time.Equal(since) {
			t.Errorf("%s: %+v since %s; want %d, %d since %s", name, b, slo.Status.HistorySince, requests, violations, since)
		}
		now = now.Add(15 * time.Second)
	}
	step("what was before is nobody's", 0, 0, of("a", boot, 5000, 50), of("b", boot, 7000, 70))
	step("both", 30, 3, of("a", boot, 5010, 51), of("b", boot, 7017, 72))
	l = &ledgers{}
	step("another operator", 35, 3, of("a", boot, 5015, 51), of("b", boot, 7017, 72))
	step("a node that booted a moment ago", 37, 4, of("a", boot, 5015, 51), of("b", now.Add(-5*time.Second), 1, 1))
	step("a node that is new", 41, 4, of("a", boot, 5015, 51), of("b", now.Add(-20*time.Second), 1, 1), of("c", now.Add(-10*time.Second), 4, 0))
	since = now // an address went from node a, with its counts
	step("counts that went", 41, 4, of("a", boot, 100, 0), of("b", now.Add(-35*time.Second), 1, 1), of("c", now.Add(-25*time.Second), 4, 0))
	step("and went on", 44, 5, of("a", boot, 102, 1), of("b", now.Add(-50*time.Second), 1, 1), of("c", now.Add(-40*time.Second), 4, 0))
	if slo.Status.MeasuredBy != 3 {
		t.Errorf("measured by %d", slo.Status.MeasuredBy)
	}
}

// A node counts for every Service from the same beginning, so what it counted of one
// must not be taken off what it counted of another: a record is of one target only,
// whether this operator or the one before began it.
func TestBudgetOfAnotherTarget(t *testing.T) {
	boot := start.Add(-100 * time.Hour)
	of := func(fast, never int) record {
		return record{Name: "a", Required: true, Reply: &dataplane.History{Started: boot, All: dataplane.HistoryWindow{Latency: measured(fast, 100, never, 1).Histogram}}}
	}
	for name, next := range map[string]func(*ledgers) *ledgers{
		"same operator":    func(l *ledgers) *ledgers { return l },
		"another operator": func(*ledgers) *ledgers { return &ledgers{} },
	} {
		slo, l, now := anObjective("99", 1000), &ledgers{}, start
		step := func(what string, want int64, r record) {
			t.Helper()
			now = now.Add(15 * time.Second)
			counted := look(l, slo, now, r)
			b := slo.Status.ErrorBudgets
			if len(b) != 2 || b[0].Requests != want || b[1].Requests != want || b[0].Violations != 0 || counted.Violations != 0 {
				t.Errorf("%s, %s: counted %+v, budgets %+v; want %d requests", name, what, counted, b, want)
			}
		}
		step("first look", 0, of(100, 0))
		step("some", 20, of(120, 0))
		l = next(l)
		slo.Spec.TargetRef.Name = "api"
		slo.Generation++
		step("another target", 0, of(7000, 70))
		step("and on", 5, of(7005, 70))
		// A record that does not say whose it is was left by an older operator.
		slo.Status.ErrorRecord.TargetName = ""
		l = &ledgers{}
		step("an older record", 8, of(7008, 70))
		if got := slo.Status.ErrorRecord.TargetName; got != "api" {
			t.Errorf("%s: the record is of %q", name, got)
		}
	}
}

// A roll-out restarts one agent after the other: a node that has told of the Service
// within a minute is left out and named, and then missing. One that never told is
// missing at once, and so are all where nobody tells.
func TestAgentRestartIsNoGap(t *testing.T) {
	a := &agents{answers: map[string]*dataplane.Connects{}, errs: map[string]error{}}
	a.add("a", "1", true, connected(1100, 100, 0, 30), nil)
	a.add("b", "1", true, connected(100, 100, 0, 30), nil)
	now := start
	r := &Reconciler{Sidecars: a, Agents: a, Now: func() time.Time { return now }}
	look := func(name string, after time.Duration, service, reason, says string, unreadRecords int) {
		t.Helper()
		now = now.Add(after)
		s := &snapshot{slo: anObjective("99", 1000), target: overTCP(), slow: true}
		s.target.Name = service
		if err := r.gatherConnects(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		m, err := measure(s)
		if err != nil {
			t.Fatal(err)
		}
		if v := decideMet(s.slo, m, 1000); v.Reason != reason || !strings.Contains(v.Message, says) || len(unread(s.records)) != unreadRecords {
			t.Errorf("%s: %+v, records missing of %q; want %s, %q, %d", name, v, unread(s.records), reason, says, unreadRecords)
		}
	}
	met, incomplete := v1alpha1.ReasonObjectiveMet, v1alpha1.ReasonMeasurementIncomplete
	look("both", 0, "web", met, "2 of 2 nodes", 0)
	a.answers["b"], a.errs["b"] = nil, unreachable
	look("away", 5*time.Second, "web", met, "1 of 2 nodes saw it, not of b", 0)
	a.errs["b"] = unknown // it listens again, and has not heard of the Services yet
	look("back, not at work yet", 55*time.Second, "web", met, "1 of 2 nodes saw it, not of b", 0)
	look("of a Service that it never told of", 0, "shop", incomplete, "b (agent 1", 1)
	look("for long", time.Millisecond, "web", incomplete, "b (agent 1", 1)
	a.answers["b"], a.errs["b"] = connected(100, 100, 0, 10), nil
	look("there again", time.Second, "web", met, "2 of 2 nodes", 0)
	for _, node := range []string{"a", "b"} {
		a.answers[node], a.errs[node] = nil, unreachable
	}
	look("nobody", time.Second, "web", incomplete, "a (agent 1: Unreachable), b (agent 1: Unreachable)", 2)
	now = now.Add(time.Hour)
	look("later", 0, "web", incomplete, "a (agent", 2)
	if n := len(r.told.at); n != 0 {
		t.Errorf("%d nodes remembered that told nothing for an hour", n)
	}
}
