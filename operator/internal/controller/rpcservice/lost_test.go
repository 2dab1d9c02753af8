// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// replaced are the names of pods that are evicted, where the first of two has this status.
func replaced(change func(s *snapshot, first *corev1.Pod)) (out []string) {
	s := &snapshot{now: start, service: onVFs(), devices: everything(), states: map[string]stateRead{}}
	for _, name := range []string{"s1", "s2"} {
		p := runningOn(name, vfDevice, "r")
		p.Spec.Containers = []corev1.Container{{Name: "server"}}
		p.Status.StartTime = &metav1.Time{Time: start.Add(-replaceAfter)}
		s.servers = append(s.servers, p)
	}
	change(s, s.servers[0])
	for _, p := range decideReplaced(s, s.service.Spec.Device.Device) {
		out = append(out, p.Name)
	}
	return out
}

// A pod whose device is gone makes room for another; nothing else does.
func TestPodsThatLostTheirDeviceAreReplaced(t *testing.T) {
	lost := func(s *snapshot) { endedWith(s, deviceLostExit, vfTaken) }
	for _, c := range []struct {
		name   string
		change func(s *snapshot, first *corev1.Pod)
		want   int
	}{
		{"nothing is amiss", func(*snapshot, *corev1.Pod) {}, 0},
		{"its device was taken away", func(s *snapshot, _ *corev1.Pod) { lost(s) }, 1},
		{"it ended for another fault", func(s *snapshot, _ *corev1.Pod) { endedWith(s, 1, vfOnKernel) }, 0},
		{"it is young, and may have got what its predecessor had", func(s *snapshot, p *corev1.Pod) {
			lost(s)
			p.Status.StartTime = &metav1.Time{Time: start.Add(time.Second - replaceAfter)}
		}, 0},
		{"it goes already", func(s *snapshot, p *corev1.Pod) {
			lost(s)
			p.DeletionTimestamp = &metav1.Time{Time: start}
		}, 0},
		{"it was made for another device", func(s *snapshot, p *corev1.Pod) {
			lost(s)
			p.Annotations = map[string]string{}
		}, 0},
		{"no program of it will run again", func(s *snapshot, p *corev1.Pod) {
			lost(s)
			p.Status.Phase = corev1.PodFailed
		}, 0},
		{"its program runs again", func(s *snapshot, p *corev1.Pod) {
			lost(s)
			started := true
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			p.Status.ContainerStatuses[0].Started = &started
		}, 0},
		{"the service is on Kernel by now", func(s *snapshot, _ *corev1.Pod) {
			lost(s)
			s.service.Spec.Device = v1alpha1.RpcServiceDevice{}
		}, 0},
	} {
		if got := replaced(c.change); len(got) != c.want || c.want == 1 && got[0] != "s1" {
			t.Errorf("%s: %v is replaced", c.name, got)
		}
	}
}

// Clients are not led to a pod that says that its link is down.
func TestEndpointsWithoutALink(t *testing.T) {
	for link, want := range map[string]bool{"": true, "Up": true, dataplane.LinkDown: false, dataplane.LinkLost: false} {
		s := &snapshot{now: start, service: onVFs(), devices: everything(), states: map[string]stateRead{}}
		p := runningOn("r1", vfDevice, "r")
		p.Status.PodIP, p.Annotations = "10.0.0.1", nil
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		s.routers = []*corev1.Pod{p}
		s.states["r1"] = stateRead{Name: "r1", Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{Device: &dataplane.DeviceState{Link: link}}}}
		got := endpoints(s)
		if len(got) != 1 || got[0].Ready != want {
			t.Errorf("link %q: %+v", link, got)
		}
	}
}
