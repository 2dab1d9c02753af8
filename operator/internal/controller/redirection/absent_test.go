// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// node has been in that state of readiness for so long; "": nobody says.
func node(name string, status corev1.ConditionStatus, since time.Duration) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if status != "" {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))},
			{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(noon.Add(-since)), LastHeartbeatTime: metav1.NewTime(noon)},
		}
	}
	return n
}

func TestWhoIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []corev1.Node
		gone  bool
		next  time.Duration
	}{
		{"Ready", []corev1.Node{node("x", corev1.ConditionTrue, time.Hour)}, false, 0},
		{"new, and nobody has said anything", []corev1.Node{node("x", "", 0)}, false, 0},
		{"not Ready for a moment", []corev1.Node{node("x", corev1.ConditionFalse, 10*time.Second)}, false, 50 * time.Second},
		{"unknown for a moment", []corev1.Node{node("x", corev1.ConditionUnknown, 59*time.Second)}, false, time.Second},
		{"not Ready for a minute", []corev1.Node{node("x", corev1.ConditionFalse, time.Minute)}, true, 0},
		{"dead", []corev1.Node{node("x", corev1.ConditionUnknown, time.Hour)}, true, 0},
		{"deleted", nil, true, 0},
		{"deleted, and others are there", []corev1.Node{node("y", corev1.ConditionTrue, 0)}, true, 0},
		{"one without agent is not looked at", []corev1.Node{node("x", corev1.ConditionTrue, 0), node("y", corev1.ConditionFalse, 0)}, false, 0},
	} {
		gone, next := absent([]v1alpha1.NodeDataplane{agent("x")}, c.nodes, noon)
		if gone["x"] != c.gone || next != c.next || gone["y"] {
			t.Errorf("%s: gone %v, next after %s; want %v, %s", c.name, gone, next, c.gone, c.next)
		}
	}
	_, next := absent([]v1alpha1.NodeDataplane{agent("x"), agent("y")}, []corev1.Node{node("x", corev1.ConditionFalse, 10*time.Second), node("y", corev1.ConditionFalse, 40*time.Second)}, noon)
	if next != 20*time.Second {
		t.Errorf("the next one is absent after %s", next)
	}
}

// A node that is dead or gone holds nothing up, whatever it said last, and is counted.
func TestProgrammedWithoutAbsentNodes(t *testing.T) {
	s := service("a", 1, "192.0.2.1", nil)
	now := crabplan.Revision(&s)
	refusing, falling := agent("dead"), agent("dead", now)
	refusing.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRejected, Message: "port: is 0"}}
	falling.Status.VIPs[0].FallBack = "no server takes redirects"
	const left = "left out: 1, whose nodes are deleted or have not been Ready for 1m0s"
	for _, c := range []struct {
		name   string
		agents []v1alpha1.NodeDataplane
		want   verdict.Verdict
	}{
		{"it acknowledged an old one", []v1alpha1.NodeDataplane{agent("x", now), agent("dead", "old")}, verdict.Yes(v1alpha1.ReasonProgrammed, "1 nodes acknowledge it; "+left)},
		{"it never knew", []v1alpha1.NodeDataplane{agent("x", now), agent("dead")}, verdict.Yes(v1alpha1.ReasonProgrammed, left)},
		{"it refused", []v1alpha1.NodeDataplane{agent("x", now), refusing}, verdict.Yes(v1alpha1.ReasonProgrammed, left)},
		{"it fell back", []v1alpha1.NodeDataplane{agent("x", now), falling}, verdict.Yes(v1alpha1.ReasonProgrammed, "2 nodes acknowledge it")},
		{"another one is waited for", []v1alpha1.NodeDataplane{agent("x"), agent("dead")}, verdict.No(v1alpha1.ReasonReconciling, "1 of 1 nodes have yet to acknowledge: x; "+left)},
		{"there is no other", []v1alpha1.NodeDataplane{agent("dead")}, verdict.No(v1alpha1.ReasonNoAgents, left)},
	} {
		got := decideProgrammed(&s, verdict.Yes("", ""), c.agents, map[string]bool{"dead": true})
		if got.Status != c.want.Status || got.Reason != c.want.Reason || !strings.Contains(got.Message, c.want.Message) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What is kept of a Node must say for how long it has not been Ready, and not change
// with every heartbeat.
func TestSlimNodeKeepsItsReadiness(t *testing.T) {
	first, later := node("x", corev1.ConditionFalse, time.Hour), node("x", corev1.ConditionFalse, time.Hour)
	later.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(noon.Add(time.Minute))
	first.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	later.Status.Addresses = first.Status.Addresses
	for _, n := range []*corev1.Node{&first, &later} {
		if _, err := slim(n); err != nil {
			t.Fatal(err)
		}
	}
	gone, _ := absent([]v1alpha1.NodeDataplane{agent("x")}, []corev1.Node{first}, noon)
	if !gone["x"] || len(first.Status.Addresses) != 1 || len(first.Status.Conditions) != 1 {
		t.Errorf("kept %+v", first.Status)
	}
	if !reflect.DeepEqual(ofNode(&first), ofNode(&later)) {
		t.Error("a heartbeat of a kubelet wakes the controller")
	}
	ready := node("x", corev1.ConditionTrue, time.Second)
	if reflect.DeepEqual(ofNode(&first), ofNode(&ready)) {
		t.Error("a node that is Ready again wakes nobody")
	}
}

// The controller comes back when a node's minute is over: nothing else would wake it.
func TestReconcileComesBackForADyingNode(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	dying, a := node("x", corev1.ConditionUnknown, 20*time.Second), agent("x")
	for after, want := range map[time.Duration]time.Duration{0: 40 * time.Second, 2 * time.Minute: 0} {
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(dying.DeepCopy(), a.DeepCopy()).Build()
		r := &Reconciler{Cluster: c, Live: c, Writer: c, Now: func() time.Time { return noon.Add(after) }}
		result, err := r.Reconcile(context.Background(), ctrl.Request{})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("%s later: %+v, %v; want it back after %s", after, result, err, want)
		}
	}
}
