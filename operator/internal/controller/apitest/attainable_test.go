// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// An objective below what the service itself takes is accepted and measured, and
// warned of: the condition names the floor, and an event tells it. Raised above the
// floor it is attainable, and nobody has to do anything else.
func TestObjectiveBelowTheServiceTime(t *testing.T) {
	t.Parallel()
	w, servers, routers := serving(t, "slow", `{}`)
	for _, r := range routers {
		r.measures(1000, 12_000, 0)
	}
	for _, s := range servers {
		h := &dataplane.Histogram{}
		for range 1000 {
			h.Record(10_000_000)
		}
		s.set(func() { s.service = &dataplane.HistogramReply{Name: "service", Histogram: h} })
	}
	w.objective(`{spec: {latencyMicroseconds: 5000}}`)
	w.waitObjective("echo-p99", v1alpha1.ConditionAttainable, metav1.ConditionFalse, v1alpha1.ReasonServiceAboveObjective)
	slo := w.waitMet(metav1.ConditionFalse, v1alpha1.ReasonObjectiveMissed)
	if c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("it can be measured, and is not accepted: %+v", c)
	}
	warning := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionAttainable).Message
	for _, part := range []string{"p99 of the service time alone is 10ms", "no load meets the objective of 5ms", "spec.latencyMicroseconds"} {
		if !strings.Contains(warning, part) {
			t.Errorf("%q is missing in: %s", part, warning)
		}
	}
	if c := slo.Status.Capacity; c == nil || c.HighRequestsPerSecond != 0 || c.Range != "0-0" {
		t.Errorf("capacity %+v", c)
	}
	w.waitWarned(v1alpha1.ReasonServiceAboveObjective, "Attainable is False: "+warning)

	w.patch(slo, "echo-p99", `{"spec":{"latencyMicroseconds":50000}}`)
	w.waitObjective("echo-p99", v1alpha1.ConditionAttainable, metav1.ConditionTrue, v1alpha1.ReasonEstimated)
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "echo-p99"}, slo); err != nil || slo.Status.Capacity.LowRequestsPerSecond == 0 {
		t.Errorf("%v, capacity %+v", err, slo.Status.Capacity)
	}
}

// waitWarned waits for an event of the objective, of type Warning.
func (w *world) waitWarned(reason, note string) {
	w.t.Helper()
	eventually(w.t, "a warning of "+reason, func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := direct.List(context.Background(), list, client.InNamespace(w.ns)); err != nil {
			return false, err.Error()
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.Kind != "ServiceLevelObjective" {
				continue
			}
			if e.Reason == reason && e.Type == corev1.EventTypeWarning && e.Note == note {
				return true, ""
			}
			seen = append(seen, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
		}
		return false, strings.Join(seen, "; ")
	})
}
