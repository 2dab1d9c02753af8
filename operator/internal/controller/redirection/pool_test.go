// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What stands in the metrics is what the decisions leave: an address of a node is
// not free, and who finds none waits.
func TestPoolUse(t *testing.T) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "192.0.2.3"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
	affine := func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }
	for _, c := range []struct {
		name     string
		pool     string
		services []corev1.Service
		want     PoolUse
	}{
		{"nobody", "192.0.2.1-192.0.2.4", nil, PoolUse{Size: 4, Free: 3}},
		{"two", "192.0.2.1-192.0.2.4", []corev1.Service{service("a", 1, "", nil), service("b", 2, "192.0.2.1", nil)}, PoolUse{Size: 4, Free: 1}},
		{"one too many", "192.0.2.1-192.0.2.3", []corev1.Service{service("a", 1, "", nil), service("b", 2, "", nil), service("c", 3, "", nil)}, PoolUse{Size: 3, Waiting: 1}},
		{"one that is refused waits for no address", "192.0.2.1-192.0.2.3", []corev1.Service{service("a", 1, "", nil), service("b", 2, "", nil), service("c", 3, "", affine)}, PoolUse{Size: 3}},
		{"one that is gone", "192.0.2.1-192.0.2.3", []corev1.Service{service("a", 1, "192.0.2.1", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })}, PoolUse{Size: 3, Free: 2}},
		{"no pool", "", []corev1.Service{service("a", 1, "", nil)}, PoolUse{Waiting: 1}},
	} {
		s := snapshot{services: c.services, nodes: []corev1.Node{node}, pool: pool(t, c.pool)}
		decisions, _ := decide(s)
		if got := poolUse(s, decisions); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
