// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// text of an error; empty of none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The least and the most of each bound are taken, what lies beyond them is not.
func TestBoundsOfATrial(t *testing.T) {
	for _, c := range []struct {
		most    int
		timeout time.Duration
		want    string
	}{
		{1, time.Second, ""},
		{20, time.Hour, ""},
		{0, time.Minute, "--most-nodes: must be 1 to 20; got 0"},
		{21, time.Minute, "--most-nodes: must be 1 to 20; got 21"},
		{2, time.Second - 1, "--timeout: must be 1s to 1h; got 999.999999ms"},
		{2, time.Hour + 1, "--timeout: must be 1s to 1h; got 1h0m0.000000001s"},
	} {
		if got := text(paths{most: c.most, timeout: c.timeout}.check()); got != c.want {
			t.Errorf("%d nodes, %s: %q, want %q", c.most, c.timeout, got, c.want)
		}
	}
}

func TestBoundsOfTheWindow(t *testing.T) {
	for window, want := range map[string]string{
		"1": "", "600": "", "0": "--window: must be 1 to 600 seconds; got 0", "601": "--window: must be 1 to 600 seconds; got 601",
	} {
		if _, _, err := execute(t, webService(t), "top", "--window="+window); text(err) != want {
			t.Errorf("%s: %v, want %q", window, err, want)
		}
	}
}

// Of a pod's conditions only the one of its scheduling says why it does not run, and only when it is false.
func TestStanding(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Message: "why"}
	}
	for _, c := range []struct {
		name, pod  string
		conditions []corev1.PodCondition
		want       string
	}{
		{"no pod", "", nil, "no pod was made: a quota or an admission policy?"},
		{"nothing said", "p", nil, `its pod is "Pending"`},
		{"not ready", "p", []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse)}, `its pod is "Pending"`},
		{"scheduled", "p", []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionTrue)}, `its pod is "Pending"`},
		{"behind another one", "p", []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse), condition(corev1.PodScheduled, corev1.ConditionFalse)},
			"its pod is not scheduled: why"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.pod}, Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: c.conditions}}
		if got := standing(pod); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Only a reason that time does not mend ends the wait, whichever container has it.
func TestStuck(t *testing.T) {
	waits := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}
	}
	for _, c := range []struct {
		name string
		all  []corev1.ContainerStatus
		want string
	}{
		{"nothing said", nil, ""},
		{"runs", []corev1.ContainerStatus{{}}, ""},
		{"is being made", []corev1.ContainerStatus{waits("ContainerCreating")}, ""},
		{"the second one", []corev1.ContainerStatus{waits("ContainerCreating"), waits("ErrImagePull")}, "ErrImagePull of image i: why"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "i"}}}, Status: corev1.PodStatus{ContainerStatuses: c.all}}
		if got := stuck(pod); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A service whose connections take the way they should has no finding of it; each other standing has one.
func TestFindingsOnTheWayOfConnections(t *testing.T) {
	for _, c := range []struct {
		name      string
		status    metav1.ConditionStatus
		reason    string
		condition bool
		want      bool
	}{
		{"nothing is said", "", "", false, false},
		{"programmed", metav1.ConditionTrue, v1alpha1.ReasonProgrammed, true, false},
		{"true for another reason", metav1.ConditionTrue, v1alpha1.ReasonNoAgents, true, true},
		{"not programmed", metav1.ConditionFalse, v1alpha1.ReasonProgrammed, true, true},
		{"not, for a reason", metav1.ConditionFalse, v1alpha1.ReasonNoAgents, true, true},
	} {
		service := aService()
		if service.Status.Conditions = nil; c.condition {
			service.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: c.status, Reason: c.reason, Message: "why"}}
		}
		found := findingsTCP(anSLO(), service)
		if got := slices.ContainsFunc(found, func(f finding) bool { return f.Cause == causeRedirected }); got != c.want {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}
