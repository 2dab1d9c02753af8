// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// What is kept of a Node and of a NodeDataplane is enough to know where an agent
// answers, and whether it should.
func TestAgents(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, addresses ...string) corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.NewTime(time.Now())},
			},
		}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		kept, err := slim(n)
		if err != nil {
			t.Fatal(err)
		}
		if c := kept.(*corev1.Node).Status.Conditions; len(c) != 1 || !c[0].LastHeartbeatTime.IsZero() {
			t.Errorf("kept of a Node's conditions: %+v", c)
		}
		return *kept.(*corev1.Node)
	}
	agent := func(name, version string, programmed metav1.ConditionStatus) v1alpha1.NodeDataplane {
		n := &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeDataplaneStatus{AgentVersion: version}}
		n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: programmed}}
		kept, err := slim(n)
		if err != nil {
			t.Fatal(err)
		}
		return *kept.(*v1alpha1.NodeDataplane)
	}
	got := agentsOf(
		[]v1alpha1.NodeDataplane{agent("a", "1", "True"), agent("b", "1", "True"), agent("c", "2", "False"), agent("gone", "1", "True"), agent("d", "", "True")},
		[]corev1.Node{node("a", "True", "fd00::1", "192.0.2.1"), node("b", "Unknown", "192.0.2.2"), node("c", "True", "192.0.2.3"), node("d", "True"), node("without", "True", "192.0.2.5")})
	want := []Agent{
		{"a", "1", "fd00::1", true},
		{"b", "1", "192.0.2.2", false}, // the node is away
		{"c", "2", "192.0.2.3", false}, // the node lacks something
		{"d", "", "", true},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
