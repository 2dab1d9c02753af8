// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

var ofP = types.NamespacedName{Namespace: "demo", Name: "p"}

// An objective is measured every few seconds, looked into every quarter of a minute, and told of when its answer changes.
func TestReconcileMeasures(t *testing.T) {
	slo := anObjective("99", 1000)
	s := newStand(t, append(peopled(v1alpha1.PlacementSoftware), slo)...)
	var seen []Counted
	s.Observe = func(_ types.NamespacedName, _ *v1alpha1.ServiceLevelObjective, c Counted) { seen = append(seen, c) }
	look := func(slow bool, told int) *v1alpha1.ServiceLevelObjective {
		t.Helper()
		result, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: ofP})
		if asked := s.calls(); err != nil || result.RequeueAfter != longest || strings.Contains(asked, "history of r1") != slow || strings.Contains(asked, "service of s1") != slow {
			t.Errorf("%+v, asked %s: %v", result, asked, err)
		}
		if n := len(s.events.Events); n != told {
			t.Errorf("told %d times, want %d", n, told)
		}
		s.drain()
		got := &v1alpha1.ServiceLevelObjective{}
		if err := s.Client.Get(context.Background(), ofP, got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := look(true, 2)
	if reasonOf(first) != v1alpha1.ReasonObjectiveMet || len(first.Status.ErrorBudgets) != 2 || first.Status.Capacity == nil {
		t.Errorf("%+v", first.Status)
	}
	s.now = s.now.Add(5 * time.Second)
	if again := look(false, 0); again.ResourceVersion != first.ResourceVersion {
		t.Error("written though nothing has changed")
	}
	s.reply = measured(2000, 5000, 0, 30)
	s.now = s.now.Add(10 * time.Second)
	missed := look(true, 2) // Met, and Attainable: the servers answer the same
	if got := reasonOf(missed); got != v1alpha1.ReasonObjectiveMissed {
		t.Errorf("met: %s", got)
	}
	if len(seen) != 3 || seen[0] != (Counted{}) || seen[1] != (Counted{}) {
		t.Errorf("observed %+v", seen)
	}
}

// reasonOf is that of whether the objective is met.
func reasonOf(slo *v1alpha1.ServiceLevelObjective) string {
	if c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet); c != nil {
		return c.Reason
	}
	return ""
}

// drain takes the events away.
func (s *stand) drain() {
	for len(s.events.Events) > 0 {
		<-s.events.Events
	}
}

// What has gone is forgotten; what is going is left alone.
func TestReconcileForgets(t *testing.T) {
	s := newStand(t, append(peopled(v1alpha1.PlacementSoftware), anObjective("99", 1000))...)
	reconcileOnce := func() {
		t.Helper()
		if _, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: ofP}); err != nil {
			t.Fatal(err)
		}
	}
	reconcileOnce()
	s.calls()
	slo := &v1alpha1.ServiceLevelObjective{}
	if err := s.Client.Get(context.Background(), ofP, slo); err != nil {
		t.Fatal(err)
	}
	slo.Finalizers = []string{"bobtail.dev/test"}
	if err := errors.Join(s.Client.Update(context.Background(), slo), s.Client.Delete(context.Background(), slo)); err != nil {
		t.Fatal(err)
	}
	s.refused.by = map[types.NamespacedName][]refusedAt{ofP: {{}}}
	if reconcileOnce(); s.calls() != "" || len(s.ledgers.by) != 1 {
		t.Error("one that is being deleted is measured")
	}
	if err := s.Client.Get(context.Background(), ofP, slo); err != nil {
		t.Fatal(err)
	}
	slo.Finalizers = nil
	if err := s.Client.Update(context.Background(), slo); err != nil {
		t.Fatal(err)
	}
	if reconcileOnce(); len(s.ledgers.by) != 0 || len(s.refused.by) != 0 {
		t.Errorf("%d ledgers, %d refusals of one that is gone", len(s.ledgers.by), len(s.refused.by))
	}
}

// What cannot be read is told, and measured again; a percentile that is none is not tried again.
func TestReconcileTellsErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "servicelevelobjectives"}, "p", errors.New("older"))
	group := func(s *v1alpha1.ServiceLevelObjective) {
		s.Spec.TargetRef.Kind, s.Spec.TargetRef.Name = v1alpha1.TargetGroup, "kv"
	}
	enforced := func(s *v1alpha1.ServiceLevelObjective) { s.Spec.Enforcement.Mode = v1alpha1.EnforcementReject }
	for _, c := range []struct {
		refuse string
		err    error
		change func(*v1alpha1.ServiceLevelObjective)
		says   string
	}{
		{"get ServiceLevelObjective", errors.New("no"), nil, "no"},
		{"get RpcService", errors.New("no"), nil, "read the target RpcService echo: no"},
		{"get ReplicationGroup", errors.New("no"), group, "read the target ReplicationGroup kv: no"},
		{"list PodList", errors.New("no"), nil, "list the router pods of echo: no"},
		{"list PodList", errors.New("no"), group, "list the member pods of kv: no"},
		{"list ServiceLevelObjectiveList", errors.New("no"), enforced, "list the objectives of the namespace: no"},
		{"get ConfigMap", errors.New("no"), enforced, "read the configuration of echo: no"},
		{"patch ServiceLevelObjective", errors.New("no"), nil, "write the status: no"},
		{"patch ServiceLevelObjective", conflict, nil, ""},
		{"", nil, func(s *v1alpha1.ServiceLevelObjective) { s.Spec.Percentile = "x" }, "terminal error: percentile \"x\" must be a decimal above 0 and below 100"},
	} {
		slo := anObjective("99", 1000)
		if c.change != nil {
			c.change(slo)
		}
		s := newStand(t, append(peopled(v1alpha1.PlacementSoftware), slo)...)
		s.refuse[c.refuse] = c.err
		_, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: ofP})
		if (err == nil) != (c.says == "") || err != nil && err.Error() != c.says {
			t.Errorf("%s: %v, want %s", c.refuse, err, c.says)
		}
		if n := len(s.events.Events); n > 0 {
			t.Errorf("%s: told %d times of what was not written", c.refuse, n)
		}
		if c.refuse == "" && !errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("tried again: %v", err)
		}
	}
}

// An operator that has just started does not know the agents yet, and looks again in a second.
func TestReconcileWaitsForAgents(t *testing.T) {
	target := overTCP()
	target.Name, target.Namespace = "echo", "demo"
	s := newStand(t, target, anObjective("99", 1000))
	s.Agents = &agents{early: true}
	if result, err := s.Reconcile(context.Background(), ctrl.Request{NamespacedName: ofP}); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("%+v, %v", result, err)
	}
}

// An event is made of what is new to the user, and warns of what is not as it should be.
func TestAnnounce(t *testing.T) {
	const accepted, met, attainable, ready = v1alpha1.ConditionAccepted, v1alpha1.ConditionMet, v1alpha1.ConditionAttainable, v1alpha1.ConditionReady
	of := func(kind string, status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "m"}
	}
	for _, c := range []struct {
		before, after *metav1.Condition
		want          string
	}{
		{nil, of(accepted, "True", "A"), "Normal A Accepted is True: m"},
		{nil, of(accepted, "False", "A"), "Warning A Accepted is False: m"},
		{of(accepted, "False", "A"), of(accepted, "False", "A"), ""},
		{of(accepted, "False", "A"), of(accepted, "False", "B"), "Warning B Accepted is False: m"},
		{of(accepted, "True", "A"), of(accepted, "True", "B"), "Normal B Accepted is True: m"},
		{of(accepted, "False", "A"), of(accepted, "True", "A"), "Normal A Accepted is True: m"},
		{of(met, "True", "A"), of(met, "True", "B"), ""},
		{of(met, "False", "A"), of(met, "False", "B"), "Warning B Met is False: m"},
		{of(met, "False", "A"), of(met, "True", "B"), "Normal B Met is True: m"},
		{of(met, "True", "A"), of(met, "Unknown", "B"), "Normal B Met is Unknown: m"},
		{nil, of(attainable, "True", "A"), ""},
		{nil, of(attainable, "False", "A"), "Warning A Attainable is False: m"},
		{of(attainable, "False", "A"), of(attainable, "False", "A"), ""},
		{of(attainable, "False", "A"), nil, ""},
		{nil, of(ready, "False", "A"), ""},
	} {
		recorder := events.NewFakeRecorder(10)
		before, after := &v1alpha1.ServiceLevelObjective{}, &v1alpha1.ServiceLevelObjective{}
		if c.before != nil {
			before.Status.Conditions = []metav1.Condition{*c.before}
		}
		if c.after != nil {
			after.Status.Conditions = []metav1.Condition{*c.after}
		}
		(&Reconciler{Events: recorder}).announce(before, after)
		got := ""
		if len(recorder.Events) > 0 {
			got = <-recorder.Events
		}
		if got != c.want || len(recorder.Events) > 0 {
			t.Errorf("%+v after %+v: %q, want %q", c.after, c.before, got, c.want)
		}
	}
}

// A target that changes wakes the objectives on it, of its kind and namespace, all of them.
func TestObjectivesOn(t *testing.T) {
	objective := func(namespace, name, kind, target string) client.Object {
		o := anObjective("99", 1000)
		o.Namespace, o.Name, o.Spec.TargetRef = namespace, name, v1alpha1.TargetReference{Kind: kind, Name: target}
		return o
	}
	s := newStand(t, objective("demo", "a", v1alpha1.TargetGroup, "echo"), objective("demo", "b", v1alpha1.TargetService, "echo"), objective("demo", "c", "", "echo"),
		objective("demo", "d", v1alpha1.TargetService, "other"), objective("other", "e", v1alpha1.TargetService, "echo"))
	target := aTarget()
	target.Name, target.Namespace = "echo", "demo"
	for kind, want := range map[string]string{v1alpha1.TargetService: "demo/b demo/c", v1alpha1.TargetGroup: "demo/a"} {
		var got []string
		for _, r := range s.objectivesOn(kind)(context.Background(), target) {
			got = append(got, r.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", kind, got, want)
		}
	}
	s.refuse["list ServiceLevelObjectiveList"] = errors.New("no")
	if got := s.objectivesOn(v1alpha1.TargetService)(context.Background(), target); got != nil {
		t.Errorf("%v where nothing can be listed", got)
	}
}

// Records are read at first, after each change and then at their interval, to the moment.
func TestWhenRecordsAreDue(t *testing.T) {
	l := &ledgers{by: map[types.NamespacedName]*ledger{ofP: {read: start, generation: 3}}}
	for _, c := range []struct {
		key        types.NamespacedName
		generation int64
		after      time.Duration
		want       bool
	}{
		{ofP, 3, slowly - 1, false}, {ofP, 3, slowly, true}, {ofP, 4, 0, true}, {types.NamespacedName{Name: "new"}, 3, 0, true},
	} {
		if got := l.due(c.key, c.generation, start.Add(c.after), slowly); got != c.want {
			t.Errorf("%+v: due %t", c, got)
		}
	}
	if l.forget(ofP); !l.due(ofP, 3, start, slowly) {
		t.Error("a forgotten one is remembered")
	}
}

// A pod that began anew and was heard of a moment before leaves no gap, to the moment; one that was not heard of does.
func TestGapsOfPods(t *testing.T) {
	history := func(started time.Time) record {
		return record{Name: "r", Required: true, Reply: &dataplane.History{Started: started, All: dataplane.HistoryWindow{Latency: &dataplane.Histogram{}}}}
	}
	for _, c := range []struct {
		unheard time.Duration
		back    bool
		want    time.Time
	}{
		{gap, true, start}, {gap + 1000, true, start.Add(gap + 1000)},
		{gap, false, start}, {gap + 1000, false, start.Add(gap + 1000)},
	} {
		slo, l := anObjective("99", 1000), &ledgers{}
		l.count(ofP, slo, []record{history(start.Add(-time.Hour))}, start)
		var later []record
		if c.back {
			later = append(later, history(start.Add(c.unheard)))
		}
		if _, led := l.count(ofP, slo, later, start.Add(c.unheard)); !led.since.Equal(c.want) {
			t.Errorf("unheard for %s, back %t: whole since %s, want %s", c.unheard, c.back, led.since, c.want)
		}
	}
	if a, b := start, start.Add(1); latest(a, b) != b || latest(b, a) != b {
		t.Error("the later one is not the latest")
	}
}
