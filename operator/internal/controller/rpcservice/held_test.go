// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// A device is held by a pod that was made for it and runs, and by no other: who holds one keeps it while its definition is away.
func TestDevicesAreHeldByPodsThatRunOnThem(t *testing.T) {
	service := onVFs()
	vfs, data := service.Spec.Device.Device, service.Spec.Device.Fallback[0]
	on := func(d v1alpha1.Device, change func(*corev1.Pod)) *corev1.Pod {
		p := aPod("s1", "10.0.0.1", "rR")
		p.Annotations[render.AnnotationDevice] = render.Describe(d, service.Namespace)
		change(p)
		return p
	}
	as := func(*corev1.Pod) {}
	gone := metav1.NewTime(start)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		held bool
	}{
		"it runs":           {on(vfs, as), true},
		"on another device": {on(data, as), false},
		"it is going":       {on(vfs, func(p *corev1.Pod) { p.DeletionTimestamp = &gone }), false},
		"it waits":          {on(vfs, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), false},
	} {
		s := &snapshot{service: service, now: start, servers: []*corev1.Pod{on(data, as), c.pod}}
		if got := held(s, vfs); got != c.held {
			t.Errorf("%s: %t", name, got)
		}
		if s.servers = nil; held(s, vfs) {
			t.Errorf("%s: held by nobody", name)
		}
	}
}
