// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A node that nobody looks at ends nothing, and of those that die the next one counts, wherever it stands.
func TestTheNextNodeToDie(t *testing.T) {
	agents := []v1alpha1.NodeDataplane{agent("x"), agent("y"), agent("z")}
	stranger, dead, ready := node("s", corev1.ConditionFalse, 0), node("x", corev1.ConditionFalse, time.Hour), node("x", corev1.ConditionTrue, 0)
	y, z := node("y", corev1.ConditionFalse, 40*time.Second), node("z", corev1.ConditionFalse, 10*time.Second)
	for _, c := range []struct {
		name  string
		nodes []corev1.Node
		gone  bool
	}{
		{"behind a stranger and a dead one", []corev1.Node{stranger, dead, y, z}, true},
		{"behind one that is Ready", []corev1.Node{ready, z, y}, false},
		{"before one that is Ready", []corev1.Node{y, z, ready}, false},
	} {
		gone, next := absent(agents, c.nodes, noon)
		if gone["x"] != c.gone || gone["y"] || gone["z"] || next != 20*time.Second {
			t.Errorf("%s: gone %v, next after %s", c.name, gone, next)
		}
	}
}

func TestListNamesSome(t *testing.T) {
	all := func(n int) []string { return strings.Split("abcdefghijklmnopqrstuvwxyz"[:n], "") }
	for n, want := range map[int]string{
		1: "a", named: strings.Join(all(named), ", "), named + 1: strings.Join(all(named), ", ") + " and 1 more", named + 3: strings.Join(all(named), ", ") + " and 3 more",
	} {
		if got := list(strings.Split("abcdefghijklmnopqrstuvwxyz"[:n], "")); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// A node refuses what it says is False for good, in the condition of what is programmed alone.
func TestRejection(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for _, c := range []struct {
		kind   string
		status metav1.ConditionStatus
		reason string
		want   string
	}{
		{v1alpha1.ConditionProgrammed, no, "TableFull", "why"},
		{v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonReconciling, ""},
		{v1alpha1.ConditionProgrammed, yes, "TableFull", ""},
		{v1alpha1.ConditionReady, no, "TableFull", ""},
		{v1alpha1.ConditionReady, yes, "TableFull", ""},
	} {
		a := agent("x")
		a.Status.Conditions = []metav1.Condition{{Type: c.kind, Status: c.status, Reason: c.reason, Message: "why"}}
		if got := rejection(&a); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
