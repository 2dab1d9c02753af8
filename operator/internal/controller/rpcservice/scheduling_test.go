// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// withCores is a service that asks for 1 to 4 cores; its servers, of the present template,
// began so long ago and say so much.
func withCores(age time.Duration, says ...*dataplane.SchedulingState) *snapshot {
	service, one := aService(), int32(1)
	service.Spec.WorkersPerReplica = 1
	service.Spec.Scheduling = &v1alpha1.RpcServiceScheduling{Mode: v1alpha1.ModeWorkStealing, BatchSize: 16, MinCores: &one, MaxCores: 4}
	s := &snapshot{now: start, service: service, servers: pods(strings.TrimSpace(strings.Repeat("rRJ ", len(says)))), states: map[string]stateRead{}}
	for i, c := range says {
		p := s.servers[i]
		p.Annotations[render.AnnotationScheduling], p.Annotations[render.AnnotationCores] = "WorkStealing", "1-4"
		p.Spec.Containers = []corev1.Container{{Name: "server", Resources: render.WithCores(corev1.ResourceRequirements{}, render.Cores{Least: 1, Most: 4})}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "server", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start.Add(-age))}}}}
		s.states[p.Name] = stateRead{Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{Scheduling: c}}}
	}
	return s
}

func cores(active, processors int) *dataplane.SchedulingState {
	return &dataplane.SchedulingState{
		Mode: "WorkStealing", Lanes: 1, ActiveCores: active, MinCores: 1, MaxCores: min(4, processors), Processors: processors,
		Steals: 1234, Parks: 3, SlowHandlers: 1, LongestNanoseconds: 12_345_678,
	}
}

// D-6: the status is the sum of what servers say.
func TestSchedulingStatus(t *testing.T) {
	got := schedulingStatus(withCores(0, cores(1, 8), nil, cores(3, 2)), nil) // the silent one ends nothing
	want := v1alpha1.SchedulingStatus{Replicas: 2, ActiveCores: 4, AllowedCores: 6, Steals: 2400, Parks: 6, SlowHandlers: 2, LongestHandlerMicroseconds: 12000}
	if got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := schedulingStatus(withCores(0, nil), nil); got != nil {
		t.Errorf("nobody said anything: %+v", got)
	}
	without := withCores(0, cores(1, 8))
	without.service.Spec.Scheduling = nil
	if got := schedulingStatus(without, nil); got != nil {
		t.Errorf("nobody asked: %+v", got)
	}
}

// A server that does not report lanes within 30 s ignores the field.
func TestServerThatIgnoresScheduling(t *testing.T) {
	for _, c := range []struct {
		name   string
		s      *snapshot
		reason string
		names  string
	}{
		{"all say", withCores(time.Hour, cores(1, 8), cores(1, 8)), v1alpha1.ReasonReady, ""},
		{"one is silent, just begun", withCores(29*time.Second, cores(1, 8), nil), v1alpha1.ReasonLanesNotReported, "p1"},
		{"one is silent", withCores(30*time.Second, cores(1, 8), nil), v1alpha1.ReasonServerIgnoresScheduling, "program of p1 "},
		{"of another template", func() *snapshot {
			s := withCores(time.Hour, cores(1, 8), nil)
			delete(s.servers[1].Annotations, render.AnnotationScheduling)
			return s
		}(), v1alpha1.ReasonReady, ""},
	} {
		got := readyWithLanes(c.s, verdict.Yes(v1alpha1.ReasonReady, "fine"))
		if got.Reason != c.reason || got.OK() != (c.reason == v1alpha1.ReasonReady) || !strings.Contains(got.Message, c.names) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := readyWithLanes(withCores(time.Hour, nil), verdict.No(v1alpha1.ReasonRollingOut, "")); got.Reason != v1alpha1.ReasonRollingOut {
		t.Errorf("what stands in the way already comes first: %+v", got)
	}
}

// D-6, D-7: whether servers have the processors that were asked for.
func TestCoresAsAsked(t *testing.T) {
	for _, c := range []struct {
		name      string
		exclusive bool
		says      []*dataplane.SchedulingState
		reason    string
	}{
		{"enough", false, []*dataplane.SchedulingState{cores(1, 8), cores(1, 4)}, v1alpha1.ReasonAsAsked},
		{"fewer at one", false, []*dataplane.SchedulingState{cores(1, 8), cores(1, 3)}, v1alpha1.ReasonFewerProcessors},
		{"its own", true, []*dataplane.SchedulingState{cores(4, 4)}, v1alpha1.ReasonAsAsked},
		{"not its own", true, []*dataplane.SchedulingState{cores(4, 5)}, v1alpha1.ReasonCPUsShared},
		{"nobody said", false, []*dataplane.SchedulingState{nil}, v1alpha1.ReasonNothingReported},
	} {
		s := withCores(time.Hour, c.says...)
		if c.exclusive {
			s.service.Spec.Scheduling.CPUs = v1alpha1.CPUsExclusive
		}
		if got := decideCores(s); got.Reason != c.reason || got.OK() != (c.reason == v1alpha1.ReasonAsAsked) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	s := withCores(time.Hour, cores(1, 1))
	s.service.Spec.Scheduling = nil
	if got := decideCores(s); got.Reason != "" {
		t.Errorf("nobody asked: %+v", got)
	}
}

// D-6: pods with another CPU than the specification wants are changed in place, and no
// others.
func TestDecideResizes(t *testing.T) {
	s := withCores(time.Hour, cores(1, 8), cores(1, 8))
	if got := decideResizes(s); len(got) != 0 {
		t.Errorf("all stands as it should: %+v", got)
	}
	s.service.Spec.Scheduling.MaxCores = 6
	s.servers[1].DeletionTimestamp = &metav1.Time{Time: start}
	got := decideResizes(s)
	if len(got) != 1 || got[0].pod.Name != "p0" || got[0].cores != (render.Cores{Least: 1, Most: 6}) {
		t.Fatalf("%+v", got)
	}
	if most := s.servers[0].Spec.Containers[0].Resources.Limits.Cpu(); most.Cmp(resource.MustParse("4")) != 0 {
		t.Errorf("the pod that was read has been changed: %s", most)
	}
	s.service.Spec.Scheduling.CPUs = v1alpha1.CPUsExclusive
	if got := decideResizes(s); len(got) != 0 {
		t.Errorf("processors of its own are not changed in place: %+v", got)
	}
}

// What the kubelet and the API server say of a change.
func TestUnfinishedResizes(t *testing.T) {
	s := withCores(time.Hour, cores(1, 8), cores(1, 8), cores(1, 8))
	s.servers[0].Status.Conditions = append(s.servers[0].Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "Infeasible", Message: "Node didn't have enough capacity"})
	got := unfinishedResizes(s, map[string]string{"p2": "forbidden"})
	if strings.Join(got, "; ") != "p0: Infeasible: Node didn't have enough capacity; p2: forbidden" {
		t.Errorf("%q", got)
	}
}
