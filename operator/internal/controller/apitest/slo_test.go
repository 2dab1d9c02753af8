// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"testing"

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
	// 20 slow ones among 1520 are the p99 of all, though of one router only.
	routers[1].set(func() {
		for range 20 {
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
