// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func TestWorkers(t *testing.T) {
	for text, want := range map[string]int{"": 1, "x": 1, "-1": 1, "0": 1, "1": 1, "2": 2, "99999999999999999999": 1} {
		p := &corev1.Pod{}
		p.Annotations = map[string]string{AnnotationWorkers: text}
		if got := Workers(p); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestFlowControlDefers(t *testing.T) {
	for _, c := range []struct {
		wait    int32 // below 0: no flow control
		latency int
		want    bool
	}{{-1, 50, false}, {50, 0, false}, {0, 0, false}, {49, 50, false}, {50, 50, true}, {51, 50, true}, {1, 1, true}} {
		s := &v1alpha1.RpcService{}
		if c.wait >= 0 {
			s.Spec.FlowControl = &v1alpha1.RpcServiceFlowControl{WaitMicroseconds: c.wait}
		}
		if got := FlowControlDefers(s, c.latency); got != c.want {
			t.Errorf("wait %d, latency %d: %v", c.wait, c.latency, got)
		}
	}
}

// A Deployment's annotations are read whole or not at all.
func TestStandingOf(t *testing.T) {
	for _, c := range []struct {
		cores, besides string
		want           bool
	}{{"1-4", "x", true}, {"1-4", "", false}, {"1-", "x", false}, {"1", "x", false}, {"", "x", false}, {"", "", false}} {
		d := &appsv1.Deployment{}
		d.Spec.Template.Annotations = map[string]string{AnnotationCores: c.cores, AnnotationBesidesCores: c.besides}
		got, ok := StandingOf(d)
		if ok != c.want || ok && got != (Standing{BesidesCores: "x", Cores: Cores{Least: 1, Most: 4}}) {
			t.Errorf("%q besides %q: %+v, %v", c.cores, c.besides, got, ok)
		}
	}
}

// The half of the resources that was given goes for both where the default would not agree with it.
func TestOrDefaultOfOneHalf(t *testing.T) {
	cpu := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	otherwise := v1alpha1.Resources{Requests: cpu("2"), Limits: cpu("4")}
	for _, c := range []struct{ requests, limits, wantRequests, wantLimits string }{
		{"", "1", "1", "1"}, {"", "2", "2", "2"}, {"", "3", "2", "3"},
		{"3", "", "3", "4"}, {"4", "", "4", "4"}, {"5", "", "5", "5"},
		{"1", "9", "1", "9"}, {"", "", "2", "4"},
	} {
		got := orDefault(&v1alpha1.Resources{Requests: cpu(c.requests), Limits: cpu(c.limits)}, otherwise)
		if r, l := got.Requests.Cpu().String(), got.Limits.Cpu().String(); r != c.wantRequests || l != c.wantLimits {
			t.Errorf("%q of %q: %s of %s", c.requests, c.limits, r, l)
		}
	}
	// A resource that one side alone names is left as it is.
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	got := orDefault(&v1alpha1.Resources{Limits: memory}, otherwise)
	if _, asked := got.Requests[corev1.ResourceMemory]; asked || got.Requests.Cpu().String() != "2" {
		t.Errorf("requests %v", got.Requests)
	}
	got = orDefault(&v1alpha1.Resources{Requests: memory}, otherwise)
	if _, limited := got.Limits[corev1.ResourceMemory]; limited || got.Limits.Cpu().String() != "4" {
		t.Errorf("limits %v", got.Limits)
	}
}

func TestBoxOnSwitch(t *testing.T) {
	on := &v1alpha1.GroupBox{Placement: v1alpha1.BoxOnSwitch, Switch: &v1alpha1.GroupSwitch{}}
	for _, c := range []struct {
		name     string
		protocol v1alpha1.ReplicationProtocol
		box      *v1alpha1.GroupBox
		want     bool
	}{
		{"on a switch", v1alpha1.ReplicationHovercRaft, on, true},
		{"no box said", v1alpha1.ReplicationHovercRaft, nil, false},
		{"placed elsewhere", v1alpha1.ReplicationHovercRaft, &v1alpha1.GroupBox{Switch: on.Switch}, false},
		{"on no switch", v1alpha1.ReplicationHovercRaft, &v1alpha1.GroupBox{Placement: v1alpha1.BoxOnSwitch}, false},
		{"a protocol without a box", "Raft", on, false},
	} {
		g := &v1alpha1.ReplicationGroup{}
		g.Spec.Protocol, g.Spec.Box = c.protocol, c.box
		if got := BoxOnSwitch(g); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
