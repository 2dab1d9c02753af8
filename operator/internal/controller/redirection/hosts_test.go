// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A node that only tells what it has acknowledges no Service, and none waits for it. One
// with an agent, with or without that, is waited for, and so is one that has just come.
func TestNodesWithoutAnAgentAreNotWaitedFor(t *testing.T) {
	node := func(name, agent string, host *v1alpha1.NodeHost) v1alpha1.NodeDataplane {
		return v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeDataplaneStatus{AgentVersion: agent, Host: host}}
	}
	all := []v1alpha1.NodeDataplane{
		node("came", "", nil), node("tells", "", &v1alpha1.NodeHost{}), node("agent", "1.0", nil), node("both", "1.0", &v1alpha1.NodeHost{}),
	}
	var got string
	for _, n := range ofCRAB(all) {
		got += n.Name + " "
	}
	if got != "came agent both " {
		t.Errorf("waited for: %s", got)
	}
	kept, err := slim(&all[1])
	if err != nil || kept.(*v1alpha1.NodeDataplane).RunsCRAB() {
		t.Errorf("the cache forgets who writes: %+v, %v", kept, err)
	}
}
