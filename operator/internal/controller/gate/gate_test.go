// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

// saying is a pod whose gate says that since a while, behind another condition.
func saying(status corev1.ConditionStatus, since time.Time) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop", UID: "u"}}
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "R", Message: "m", LastTransitionTime: metav1.NewTime(since.Add(-time.Hour))},
		{Type: v1alpha1.PodConditionJoined, Status: status, Reason: "R", Message: "m", LastTransitionTime: metav1.NewTime(since)},
	}
	return p
}

// A pod says something already when its own gate does, in the same words.
func TestWhatAPodSaysAlready(t *testing.T) {
	for name, c := range map[string]struct {
		p    *corev1.Pod
		v    verdict.Verdict
		want bool
	}{
		"the same":          {saying(corev1.ConditionTrue, time.Time{}), verdict.Yes("R", "m"), true},
		"the same no":       {saying(corev1.ConditionFalse, time.Time{}), verdict.No("R", "m"), true},
		"another answer":    {saying(corev1.ConditionFalse, time.Time{}), verdict.Yes("R", "m"), false},
		"not known":         {saying(corev1.ConditionUnknown, time.Time{}), verdict.No("R", "m"), true},
		"another reason":    {saying(corev1.ConditionTrue, time.Time{}), verdict.Yes("Q", "m"), false},
		"another text":      {saying(corev1.ConditionTrue, time.Time{}), verdict.Yes("R", "n"), false},
		"nothing":           {&corev1.Pod{}, verdict.No("R", "m"), false},
		"another condition": {&corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "R", Message: "m"}}}}, verdict.Yes("R", "m"), false},
	} {
		if Same(c.p, c.v) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// The gate alone is written, of that very pod; its time is that of the last change of the answer, not of its words.
func TestWhatMakesAPodSaySo(t *testing.T) {
	now, since := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 11, 0, 0, 0, time.FixedZone("", 3600))
	for name, c := range map[string]struct {
		p      *corev1.Pod
		v      verdict.Verdict
		status string
		since  string
	}{
		"other words":    {saying(corev1.ConditionTrue, since), verdict.Yes("Q", "n"), "True", "2026-11-01T10:00:00Z"},
		"still no":       {saying(corev1.ConditionFalse, since), verdict.No("Q", "n"), "False", "2026-11-01T10:00:00Z"},
		"another answer": {saying(corev1.ConditionTrue, since), verdict.No("Q", "n"), "False", "2026-11-01T12:00:00Z"},
		"joins":          {saying(corev1.ConditionFalse, since), verdict.Yes("Q", "n"), "True", "2026-11-01T12:00:00Z"},
		"from nothing":   {&corev1.Pod{ObjectMeta: saying("", since).ObjectMeta}, verdict.Yes("Q", "n"), "True", "2026-11-01T12:00:00Z"},
	} {
		u := Patch(c.p, c.v, now)
		all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if len(all) != 1 || u.GetKind() != "Pod" || u.GetName() != "p" || u.GetNamespace() != "shop" || u.GetUID() != "u" {
			t.Fatalf("%s: %v", name, u.Object)
		}
		want := map[string]any{"type": v1alpha1.PodConditionJoined, "status": c.status, "reason": "Q", "message": "n", "lastTransitionTime": c.since}
		for key, v := range all[0].(map[string]any) {
			if v != want[key] {
				t.Errorf("%s: %s is %v, want %v", name, key, v, want[key])
			}
		}
	}
}
