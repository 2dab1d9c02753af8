// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
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

// reads makes a sidecar answer with a histogram.
func (s *sidecar) measures(count int, microseconds uint64, rejected uint64) {
	h := &dataplane.Histogram{}
	for range count {
		h.Record(microseconds * 1000)
	}
	reply := &dataplane.HistogramReply{Name: "latency", Source: "Router", WindowSeconds: 5, CoveredSeconds: 5,
		Histogram: h, Requests: uint64(count) + rejected, Rejected: rejected}
	s.set(func() { s.measured = reply })
}

func (w *world) objective(change string) {
	w.t.Helper()
	o := parse(w.t, baseObjective)
	merge(o.Object, parse(w.t, `{spec: {windowSeconds: 5, targetRef: {name: `+w.name+`}}}`).Object)
	merge(o.Object, parse(w.t, change).Object)
	o.SetNamespace(w.ns)
	if err := direct.Create(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
	// As long as there is an objective, its status is written; another test sees that nothing else is.
	w.t.Cleanup(func() { _ = direct.Delete(context.Background(), o) })
}

func (w *world) waitMet(status metav1.ConditionStatus, reason string) *v1alpha1.ServiceLevelObjective {
	w.t.Helper()
	slo := &v1alpha1.ServiceLevelObjective{}
	eventually(w.t, fmt.Sprintf("Met=%s (%s)", status, reason), func() (bool, string) {
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "echo-p99"}, slo); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet)
		if c == nil {
			return false, "absent"
		}
		return c.Status == status && c.Reason == reason, fmt.Sprintf("%s (%s: %s)", c.Status, c.Reason, c.Message)
	})
	return slo
}

// The whole way: two routers, each with a part of the requests, read over mutual
// TLS, merged, judged, shown.
func TestObjectiveIsMeasuredAcrossRouters(t *testing.T) {
	t.Parallel()
	w, _, routers := serving(t, "fast", `{}`)
	for _, r := range routers {
		r.measures(0, 0, 0)
	}
	w.objective(`{}`)
	w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonTooFewSamples)
	routers[0].measures(900, 300, 0)
	routers[1].measures(600, 300, 500)
	slo := w.waitMet(metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet)
	st := slo.Status
	if *st.Samples != 1500 || *st.RequestsPerSecond != 300 || st.RejectedShare != "25.0%" || st.Source != v1alpha1.SourceRouter {
		t.Errorf("samples %d, rps %d, rejected %s, source %s", *st.Samples, *st.RequestsPerSecond, st.RejectedShare, st.Source)
	}
	if *st.ObservedMicroseconds < 300 || *st.ObservedMicroseconds > 303 || st.LastChangeTime == nil {
		t.Errorf("observed %d us, last change %v", *st.ObservedMicroseconds, st.LastChangeTime)
	}
	// These sidecars are of a version that knows no parts.
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionMet); !strings.Contains(c.Message, "does not tell") {
		t.Errorf("requests pass for independent, and nothing says so: %q", c.Message)
	}
	// 40 slow ones among 1540 are the p99 of all, interval and all, though of one router only.
	routers[1].set(func() {
		for range 40 {
			routers[1].measured.Histogram.Record(9_000_000)
		}
	})
	w.waitMet(metav1.ConditionFalse, v1alpha1.ReasonObjectiveMissed)
	_ = routers[1].server.Close()
	slo = w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonMeasurementIncomplete)
	if slo.Status.ObservedMicroseconds != nil {
		t.Error("half a picture shows a percentile")
	}
}

func TestObjectiveWithoutTarget(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "late")
	w.objective(`{}`)
	slo := w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource)
	c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionAccepted)
	if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonTargetNotFound {
		t.Errorf("%+v", c)
	}
	// The target appears: nobody has to touch the objective.
	w.create(`{}`)
	eventually(t, "the objective is accepted", func() (bool, string) {
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "echo-p99"}, slo); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionAccepted)
		return c.Status == metav1.ConditionTrue, c.Reason
	})
}

// Error budgets and capacity: read from routers and servers, shown with what
// they rest on.
func TestObjectiveShowsBudgetAndCapacity(t *testing.T) {
	t.Parallel()
	w, servers, routers := serving(t, "rich", `{}`)
	started := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
	for i, r := range routers {
		r.measures(1000, 300, 0)
		record := func(seconds int) dataplane.HistoryWindow {
			h := &dataplane.Histogram{}
			for n := range 1000 {
				h.Record(uint64(200+n%100*(i+1)*4) * 1000)
			}
			return dataplane.HistoryWindow{WindowSeconds: seconds, CoveredSeconds: seconds, Latency: h}
		}
		r.set(func() {
			r.history = &dataplane.History{Started: started, All: record(0), Windows: []dataplane.HistoryWindow{record(3600), record(86400)}}
		})
	}
	for _, s := range servers {
		h := &dataplane.Histogram{}
		for n := range 1000 {
			h.Record(uint64(50+n%20) * 1000)
		}
		s.set(func() { s.service = &dataplane.HistogramReply{Name: "service", Histogram: h} })
	}
	w.objective(`{}`)
	slo := w.waitMet(metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet)
	st := slo.Status
	// 500 us: of the first router's thousand 240 and of the second's 620 took longer.
	if len(st.ErrorBudgets) != 2 || st.ErrorBudgets[1].Requests != 2000 || st.ErrorBudgets[1].Remaining[0] != '-' {
		t.Errorf("budgets %+v", st.ErrorBudgets)
	}
	if st.HistorySince == nil || !st.HistorySince.Time.Equal(started) || st.MeasuredBy != 2 {
		t.Errorf("since %v by %d", st.HistorySince, st.MeasuredBy)
	}
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionCapacityKnown)
	if c == nil || c.Reason != v1alpha1.ReasonEstimated || st.Capacity == nil {
		t.Fatalf("capacity %+v: %+v", st.Capacity, c)
	}
	if e := st.Capacity; e.LowRequestsPerSecond <= 0 || e.LowRequestsPerSecond > e.RequestsPerSecond || e.RequestsPerSecond > e.HighRequestsPerSecond ||
		e.MeanServiceMicroseconds != 60 || e.ServiceSamples != 2000 {
		t.Errorf("%+v", e)
	}
	w.sidecarsBeginAnew(routers)
}

// sidecarsBeginAnew replaces the records of both routers by young ones: the API
// server keeps what the old ones held.
func (w *world) sidecarsBeginAnew(routers []*sidecar) {
	w.t.Helper()
	h := &dataplane.Histogram{}
	for range 100 {
		h.Record(100_000)
	}
	young := func(seconds int) dataplane.HistoryWindow {
		return dataplane.HistoryWindow{WindowSeconds: seconds, CoveredSeconds: 1, Latency: h}
	}
	for _, r := range routers {
		r.set(func() {
			r.history = &dataplane.History{Started: time.Now(), All: young(0), Windows: []dataplane.HistoryWindow{young(3600), young(86400)}}
		})
	}
	eventually(w.t, "the budget holds the old records and the young ones", func() (bool, string) {
		slo := &v1alpha1.ServiceLevelObjective{}
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "echo-p99"}, slo); err != nil {
			return false, err.Error()
		}
		b := slo.Status.ErrorBudgets
		return len(b) == 2 && b[0].Requests == 2200 && slo.Status.ErrorRecord != nil, fmt.Sprintf("%+v", b)
	})
}

func (w *world) waitObjective(name, kind string, status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%s of %s is %s (%s)", kind, name, status, reason), func() (bool, string) {
		slo := &v1alpha1.ServiceLevelObjective{}
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: name}, slo); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(slo.Status.Conditions, kind)
		if c == nil {
			return false, "absent"
		}
		return c.Status == status && c.Reason == reason, fmt.Sprintf("%s (%s: %s)", c.Status, c.Reason, c.Message)
	})
}

// The whole way of an enforcing objective: into the configuration, out of the
// acknowledgements into its conditions, and on to the next in age when it goes.
func TestObjectivesAreEnforcedOldestFirst(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "strict", `{}`)
	w.objective(`{spec: {enforcement: {mode: Reject}}}`)
	w.waitObjective("echo-p99", v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	config, _ := w.config()
	if a := config.Service.Admission; a == nil || a.Mode != "Reject" || a.Controller != "Track" || a.PercentilePer100000 != 99000 {
		t.Fatalf("admission %+v", a)
	}
	w.objective(`{metadata: {name: a-later-one}, spec: {percentile: "99.9", enforcement: {mode: Degrade}}}`)
	w.waitObjective("a-later-one", v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonConflict)
	w.waitObjective("a-later-one", v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	first := &v1alpha1.ServiceLevelObjective{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "echo-p99"}}
	if err := direct.Delete(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	w.waitObjective("a-later-one", v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	if config, _ = w.config(); config.Service.Admission.Mode != "Degrade" || config.Service.Admission.PercentilePer100000 != 99900 {
		t.Errorf("admission %+v", config.Service.Admission)
	}
}
