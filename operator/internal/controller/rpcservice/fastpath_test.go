// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// says is a router that says that of its fast path; without a reason it was
// started without one.
func says(active bool, reason, message string) stateRead {
	d := &dataplane.State{}
	if reason != "" {
		d.FastPath = &dataplane.FastPathState{Active: active, Reason: reason, Message: message}
	}
	return stateRead{Reply: &dataplane.SidecarState{Dataplane: d}}
}

func TestFastPathStatus(t *testing.T) {
	on := says(true, "Active", "requests are decided in the kernel")
	many := says(false, "TooManyWorkers", "there are more than 64 workers")
	refused := says(false, "NotLoaded", "it needs CAP_BPF")
	for _, c := range []struct {
		name, routers string
		answers       []stateRead
		state         v1alpha1.FastPathState
		active        int32
		reason        string
		message       string
	}{
		{"everywhere", "rR rR", []stateRead{on, on}, v1alpha1.FastPathActive, 2, "Active", "2 of 2 routers decide requests in the kernel"},
		{"nowhere", "rR rR", []stateRead{many, many}, v1alpha1.FastPathInactive, 0, "TooManyWorkers", "0 of 2 routers decide requests in the kernel; p0: there are more than 64 workers"},
		{"on one of two nodes", "rR rR", []stateRead{on, refused}, v1alpha1.FastPathPartial, 1, "NotLoaded", "1 of 2 routers decide requests in the kernel; p1: it needs CAP_BPF"},
		{"the oldest tells why", "rR rR rR", []stateRead{refused, many, on}, v1alpha1.FastPathPartial, 1, "NotLoaded", "1 of 3 routers decide requests in the kernel; p0: it needs CAP_BPF"},
		{"an old template", "rR rR", []stateRead{says(false, "", ""), on}, v1alpha1.FastPathPartial, 1, "RollingOut", "1 of 2 routers decide requests in the kernel; p0: it was started without the fast path"},
		{"one that leaves does not count", "rRd rR", []stateRead{says(false, "", ""), on}, v1alpha1.FastPathActive, 1, "Active", "1 of 1 routers decide requests in the kernel"},
		{"nor one that does not answer", "rR rR", []stateRead{silent, on}, v1alpha1.FastPathActive, 1, "Active", "1 of 1 routers decide requests in the kernel"},
		{"nor one without a router behind its sidecar", "rR rR", []stateRead{{Reply: &dataplane.SidecarState{}}, on}, v1alpha1.FastPathActive, 1, "Active", "1 of 1 routers decide requests in the kernel"},
		{"nobody answers", "rR r", []stateRead{silent, silent}, v1alpha1.FastPathInactive, 0, "NoAnswer", "0 of 0 routers decide requests in the kernel; no router has answered"},
	} {
		s := &snapshot{service: aService(), routers: pods(c.routers), states: map[string]stateRead{}}
		for i, p := range s.routers {
			s.states[p.Name] = c.answers[i]
		}
		if got := fastPathStatus(s, fastPath{}); got != nil {
			t.Errorf("%s, not asked for: %+v", c.name, got)
		}
		want := v1alpha1.FastPathStatus{State: c.state, ChosenBy: v1alpha1.FastPathByCluster, ActiveRouters: c.active, Reason: c.reason, Message: c.message}
		if got := fastPathStatus(s, fastPath{chooser: v1alpha1.FastPathByCluster}); got == nil || *got != want {
			t.Errorf("%s:\n got  %+v\n want %+v", c.name, got, want)
		}
	}
}

// What a router says at length is cut before the API server refuses the status.
func TestFastPathMessageIsBounded(t *testing.T) {
	s := &snapshot{service: aService(), routers: pods("rR"), states: map[string]stateRead{}}
	s.states[s.routers[0].Name] = says(false, "NotLoaded", strings.Repeat("x", 5000))
	if got := fastPathStatus(s, fastPath{chooser: v1alpha1.FastPathByService}); len(got.Message) > 1024 || !strings.Contains(got.Message, "xxx") {
		t.Errorf("%d bytes", len(got.Message))
	}
}

// A service whose kernel does not allow the program is programmed and ready all
// the same: the status says what is missing, once by an event.
func TestReconcileTellsOfTheFastPath(t *testing.T) {
	b := newBench(t)
	s := &v1alpha1.RpcService{}
	if err := b.Client.Get(context.Background(), key, s); err != nil {
		t.Fatal(err)
	}
	s.Spec.Router.FastPath = v1alpha1.FastPathAuto
	if err := b.Client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	b.fastPath = &dataplane.FastPathState{Reason: "NotLoaded", Message: "it needs CAP_BPF"}
	b.must(3)
	status := func() *v1alpha1.FastPathStatus {
		t.Helper()
		if err := b.Client.Get(context.Background(), key, s); err != nil {
			t.Fatal(err)
		}
		return s.Status.FastPath
	}
	if got := status(); got == nil || got.State != v1alpha1.FastPathInactive || got.Reason != "NotLoaded" || got.ChosenBy != v1alpha1.FastPathByService {
		t.Fatalf("status %+v", got)
	}
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionTrue {
		t.Errorf("Programmed waits for the fast path: %+v", c)
	}
	if !b.told("Warning FastPath") {
		t.Error("nobody was told that it is not in effect")
	}
	b.fastPath = &dataplane.FastPathState{Active: true, Reason: "Active"}
	b.must(2)
	if got := status(); got == nil || got.State != v1alpha1.FastPathActive || !b.told("Normal FastPath") {
		t.Errorf("status %+v, or nobody was told", got)
	}
	b.must(2)
	if b.told("FastPath") {
		t.Error("told again without news")
	}
	s.Spec.Router.FastPath = v1alpha1.FastPathOff
	if err := b.Client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	b.must(1)
	if got := status(); got != nil {
		t.Errorf("Off leaves %+v", got)
	}
}
