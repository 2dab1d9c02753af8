// SPDX-License-Identifier: Apache-2.0

// Whose word is waited for. A node that is dead or gone acknowledges nothing any
// more, and serves nothing either: it must not keep a Service from being programmed.
package redirection

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// deadAfter is how long a node may be not Ready before nobody waits for its agent.
// The control plane notices a dead node after 40 s; an agent starts within seconds.
const deadAfter = time.Minute

// absent are the agents nobody waits for: those of nodes that are deleted, or have
// not been Ready for deadAfter. next is how long it takes until one more is; 0: none
// will be.
func absent(agents []v1alpha1.NodeDataplane, nodes []corev1.Node, now time.Time) (gone map[string]bool, next time.Duration) {
	gone = map[string]bool{}
	for i := range agents {
		gone[agents[i].Name] = true // until a node of that name is found
	}
	for i := range nodes {
		left, dying := remaining(&nodes[i], now)
		if _, has := gone[nodes[i].Name]; !has || dying && left <= 0 {
			continue
		}
		delete(gone, nodes[i].Name)
		if dying && (next == 0 || left < next) {
			next = left
		}
	}
	return gone, next
}

// remaining is how long a node that is not Ready is still waited for; dying is false
// for one that is Ready, or of which nobody has said anything yet.
func remaining(n *corev1.Node, now time.Time) (left time.Duration, dying bool) {
	ready := readiness(n)
	if ready == nil || ready.Status == corev1.ConditionTrue {
		return 0, false
	}
	return ready.LastTransitionTime.Add(deadAfter).Sub(now), true
}

// readiness is the node's condition Ready, as far as it is looked at here: the time
// of its last heartbeat changes all the time.
func readiness(n *corev1.Node) *corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return &corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
		}
	}
	return nil
}
