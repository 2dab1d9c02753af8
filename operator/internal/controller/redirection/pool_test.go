// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What stands in the metrics is what the decisions leave: an address of a node is
// not free, and who finds none waits.
func TestPoolUse(t *testing.T) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "192.0.2.3"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
	four := func(size, free, waiting int) PoolUse {
		return PoolUse{corev1.IPv4Protocol: {size, free, waiting}, corev1.IPv6Protocol: {}}
	}
	affine := func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }
	for _, c := range []struct {
		name     string
		pool     string
		services []corev1.Service
		want     PoolUse
	}{
		{"nobody", "192.0.2.1-192.0.2.4", nil, four(4, 3, 0)},
		{"two", "192.0.2.1-192.0.2.4", []corev1.Service{service("a", 1, "", nil), service("b", 2, "192.0.2.1", nil)}, four(4, 1, 0)},
		{"one too many", "192.0.2.1-192.0.2.3", []corev1.Service{service("a", 1, "", nil), service("b", 2, "", nil), service("c", 3, "", nil)}, four(3, 0, 1)},
		{"one that is refused waits for no address", "192.0.2.1-192.0.2.3", []corev1.Service{service("a", 1, "", nil), service("b", 2, "", nil), service("c", 3, "", affine)}, four(3, 0, 0)},
		{"one that is gone", "192.0.2.1-192.0.2.3", []corev1.Service{service("a", 1, "192.0.2.1", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })}, four(3, 2, 0)},
		{"of the other family", "192.0.2.1/32,fd00::1-fd00::2", []corev1.Service{service("a", 1, "", stacks("6", single)), service("b", 1, "", stacks("64", prefer)), service("c", 1, "", stacks("6", single))},
			PoolUse{corev1.IPv4Protocol: {Size: 1}, corev1.IPv6Protocol: {Size: 2, Waiting: 1}}},
		{"both are required, and one is not to be had", "192.0.2.1-192.0.2.2,fd00::1/128", []corev1.Service{service("a", 1, "", stacks("6", single)), service("b", 2, "", stacks("64", required))},
			PoolUse{corev1.IPv4Protocol: {Size: 2, Free: 2}, corev1.IPv6Protocol: {Size: 1, Waiting: 1}}},
		{"an address of a former pool is none of this one's", "192.0.2.1-192.0.2.2", []corev1.Service{service("a", 1, "203.0.113.1", stacks("46", required))},
			PoolUse{corev1.IPv4Protocol: {Size: 2, Free: 2}, corev1.IPv6Protocol: {Waiting: 1}}},
		{"no pool", "", []corev1.Service{service("a", 1, "", nil)}, four(0, 0, 1)},
	} {
		s := snapshot{services: c.services, nodes: []corev1.Node{node}, pool: pool(t, c.pool)}
		decisions, _ := decide(s)
		if got := poolUse(s, decisions); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
