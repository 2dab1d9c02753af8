// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func serverOf(t *testing.T, in Input) *appsv1.Deployment {
	t.Helper()
	for _, o := range Objects(in) {
		if d, ok := o.(*appsv1.Deployment); ok && d.Name == ServerName(in.Service) {
			return d
		}
	}
	t.Fatal("there is no server Deployment")
	return nil
}

func cpuOf(d *appsv1.Deployment) string {
	r := d.Spec.Template.Spec.Containers[0].Resources
	return r.Requests.Cpu().String() + "-" + r.Limits.Cpu().String()
}

// D-6: while nothing but cores changes, the template stays as it is, and pods are changed
// in place. The next rollout takes the present cores.
func TestTemplateKeepsItsCores(t *testing.T) {
	in := load(t, "testdata/scheduling.in.yaml")
	before := serverOf(t, in)
	if cpuOf(before) != "2-20" {
		t.Fatalf("CPU %s", cpuOf(before))
	}
	standing, ok := StandingOf(before)
	if !ok || standing.Cores != (Cores{2, 20}) {
		t.Fatalf("%+v %v", standing, ok)
	}
	in.Standing = standing
	in.Service.Spec.Scheduling.MaxCores, in.Service.Spec.Scheduling.BatchSize = 18, 1
	if after := serverOf(t, in); cpuOf(after) != "2-20" || after.Spec.Template.Annotations[AnnotationCores] != "2-20" {
		t.Errorf("only cores and the batch have changed, and pods are made anew: %s", cpuOf(after))
	}
	in.Service.Spec.Server.Args = []string{"--service-time=exp:30us"}
	if after := serverOf(t, in); cpuOf(after) != "2-18" || after.Spec.Template.Annotations[AnnotationCores] != "2-18" {
		t.Errorf("the rollout does not take the present cores: %s", cpuOf(after))
	}
	in = load(t, "testdata/scheduling.in.yaml")
	in.Standing = standing
	in.Service.Spec.Scheduling.MaxCores = 16 // one lane fewer
	if after := serverOf(t, in); cpuOf(after) != "2-16" {
		t.Errorf("another number of ports needs other pods: %s", cpuOf(after))
	}
	in.Service.Spec.Scheduling.CPUs, in.Service.Spec.Scheduling.MinCores = v1alpha1.CPUsExclusive, nil
	if _, ok := StandingOf(serverOf(t, in)); ok {
		t.Error("processors of its own are not changed in place")
	}
}

// D-7: with processors of its own a pod is Guaranteed, the sidecar included.
func TestExclusivePodsAreGuaranteed(t *testing.T) {
	pod := serverOf(t, load(t, "testdata/scheduling-exclusive.in.yaml")).Spec.Template.Spec
	for _, c := range append(append([]corev1.Container{}, pod.Containers...), pod.InitContainers...) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if request.IsZero() || request.Cmp(limit) != 0 {
				t.Errorf("container %s: requests %s %s and is limited to %s", c.Name, name, request.String(), limit.String())
			}
		}
	}
	if cpu := pod.Containers[0].Resources.Limits.Cpu(); cpu.String() != "3" {
		t.Errorf("CPU %s", cpu)
	}
}

// Lanes: one port for 16 cores that help one another, one for each of those that do not.
func TestLanes(t *testing.T) {
	for _, c := range []struct {
		mode    v1alpha1.SchedulingMode
		workers int32
		most    int32
		want    int32
	}{
		{"", 5, 0, 5},
		{v1alpha1.ModeWorkStealing, 1, 1, 1},
		{v1alpha1.ModeWorkStealing, 1, 16, 1},
		{v1alpha1.ModeWorkStealing, 1, 17, 2},
		{v1alpha1.ModeWorkStealing, 1, 64, 4},
		{v1alpha1.ModeWorkStealing, 3, 17, 3},
		{v1alpha1.ModeRunToCompletion, 1, 7, 7},
	} {
		s := v1alpha1.RpcServiceSpec{WorkersPerReplica: c.workers}
		if c.mode != "" {
			s.Scheduling = &v1alpha1.RpcServiceScheduling{Mode: c.mode, MaxCores: c.most}
		}
		if got := s.Lanes(); got != c.want {
			t.Errorf("%s, %d workers, %d cores: %d lanes, want %d", c.mode, c.workers, c.most, got, c.want)
		}
	}
}
