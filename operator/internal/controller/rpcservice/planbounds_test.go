// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// EndpointSlices are kept by an operator that may, where Kubernetes' own would not do: for a device, at a switch, and where
// there are some still.
func TestWhoseSlices(t *testing.T) {
	for _, c := range []struct {
		name                        string
		able, device, switched, had bool
		tcp, want                   bool
	}{
		{"Kernel", true, false, false, false, false, false}, {"a device", true, true, false, false, false, true}, {"a switch", true, false, true, false, false, true},
		{"there are some", true, false, false, true, false, true}, {"over TCP", true, true, false, false, true, false}, {"not able", false, true, true, true, false, false},
	} {
		s := &snapshot{now: start, service: aService(), devices: everything(), servers: pods("rR")}
		if c.device {
			s.service.Spec.Device = onVFs().Spec.Device
		}
		s.devices.able, s.slices.ours = c.able, c.had
		p := &plan{overTCP: c.tcp}
		p.input.Service, p.input.Switched = s.service, c.switched
		if p.planDevice(s); p.input.Slices != c.want || (len(p.input.Endpoints) > 0) != c.want {
			t.Errorf("%s: %v, %d endpoints", c.name, p.input.Slices, len(p.input.Endpoints))
		}
	}
}

// Keys are numbered up to 255, and two rings are one when all of both is the same.
func TestKeyringsAtTheirBounds(t *testing.T) {
	value := []byte(strings.Repeat("a", 32))
	k := parseKeyring(map[string][]byte{"0": value, "1": value, "255": value, "256": value, "-1": value, "x": value, "2": value[:31]}, nil)
	if got := k.ids(); !slices.Equal(got, []int{1, 255}) {
		t.Errorf("%v", got)
	}
	one := keyring{keys: map[int][]byte{1: value}, stage: stageOverlapping, since: start, token: "t"}
	for name, other := range map[string]keyring{
		"stage": {one.keys, stageNone, start, "t"}, "since": {one.keys, one.stage, start.Add(time.Second), "t"}, "token": {one.keys, one.stage, start, "u"},
		"number": {map[int][]byte{2: value}, one.stage, start, "t"}, "value": {map[int][]byte{1: value[:31]}, one.stage, start, "t"}, "more": {map[int][]byte{1: value, 2: value}, one.stage, start, "t"},
	} {
		if one.equal(other) || other.equal(one) {
			t.Errorf("%s: the same", name)
		}
	}
	if !one.equal(keyring{map[int][]byte{1: slices.Clone(value)}, one.stage, start.UTC(), "t"}) {
		t.Error("the same is another")
	}
}

// While a specification is not accepted the keys there are stay as they are; none are not enough.
func TestKeysOfWhatIsNotAccepted(t *testing.T) {
	value := []byte(strings.Repeat("a", 32))
	s := &snapshot{now: start.Add(2 * keyLife), service: aService(), freshKey: []byte(strings.Repeat("b", 32))}
	s.keys = keyring{keys: map[int][]byte{1: value}, since: start}
	for rotate, want := range map[bool]int{false: 1, true: 2} {
		if got := decideKeys(s, rotate); len(got.keys) != want {
			t.Errorf("rotate %v: %v", rotate, got.ids())
		}
	}
	if s.keys = parseKeyring(nil, nil); len(decideKeys(s, false).keys) != 1 {
		t.Error("nothing serves without a key")
	}
}

// What goes on while nothing is accepted: nothing at all only where there never was a document or a server.
func TestWhatGoesOnServing(t *testing.T) {
	d := &appsv1.Deployment{}
	for _, c := range []struct {
		doc        *dataplane.Config
		deployment *appsv1.Deployment
		want       string
	}{
		{nil, nil, "so nothing serves"}, {nil, d, "the last accepted configuration keeps serving"}, {&dataplane.Config{}, nil, "the last accepted configuration keeps serving"},
		{&dataplane.Config{}, d, "the last accepted configuration keeps serving"},
	} {
		if got := stillServing(&snapshot{service: aService(), live: liveConfig{doc: c.doc}, serverDeployment: c.deployment}); !strings.Contains(got, c.want) {
			t.Errorf("%v, %v: %q", c.doc, c.deployment, got)
		}
	}
}

// Pods behind one that is not changed in place are, and what the API server said of one hides nothing of the next.
func TestResizesOfPodsBehind(t *testing.T) {
	s := withCores(time.Hour, cores(1, 8), cores(1, 8), cores(1, 8))
	s.servers[0].DeletionTimestamp = &metav1.Time{Time: start}
	s.service.Spec.Scheduling.MaxCores = 2
	var got []string
	for _, r := range decideResizes(s) {
		got = append(got, r.pod.Name)
	}
	if strings.Join(got, " ") != "p1 p2" {
		t.Errorf("%v", got)
	}
	pending := func(kind corev1.PodConditionType, status corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: kind, Status: status}}
	}
	s.servers[1].Status.Conditions = pending(corev1.PodResizeInProgress, corev1.ConditionTrue)
	s.servers[2].Status.Conditions = append(pending(corev1.PodResizePending, corev1.ConditionFalse), pending(corev1.PodReady, corev1.ConditionTrue)...)
	if got := unfinishedResizes(s, map[string]string{"p0": "forbidden"}); strings.Join(got, "; ") != "p0: forbidden; p1: PodResizeInProgress: the kubelet is at it" {
		t.Errorf("%q", got)
	}
	if v := decideCores(withCores(time.Hour, cores(1, 8), nil, cores(3, 4))); !strings.HasPrefix(v.Message, "2 servers have the processors") {
		t.Errorf("%+v", v)
	}
	s.service.Spec.Scheduling = nil
	if v := decideCores(s); v.Reason != "" {
		t.Errorf("nobody asked for cores: %+v", v)
	}
	if got := conditionStatus(&corev1.Pod{}, v1alpha1.PodConditionJoined); got != corev1.ConditionUnknown {
		t.Errorf("a pod that says nothing: %s", got)
	}
}
