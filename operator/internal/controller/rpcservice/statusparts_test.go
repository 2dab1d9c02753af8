// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

// Somebody has to do something about what is False and does not pass by itself, and about what falls back.
func TestWhatIsWarnedOf(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for _, c := range []struct {
		kind, reason string
		status       metav1.ConditionStatus
		want         bool
	}{
		{v1alpha1.ConditionAccepted, "R", no, true}, {v1alpha1.ConditionAccepted, "R", yes, false}, {v1alpha1.ConditionDeviceUsable, "R", no, true}, {v1alpha1.ConditionDeviceUsable, "R", yes, false},
		{v1alpha1.ConditionCoresAsAsked, "R", no, true}, {v1alpha1.ConditionCoresAsAsked, "R", unknown, false}, {v1alpha1.ConditionDeviceAsAsked, "R", no, true}, {v1alpha1.ConditionDeviceAsAsked, "R", unknown, false},
		{v1alpha1.ConditionAddressed, "R", no, true}, {v1alpha1.ConditionAddressed, v1alpha1.ReasonNetworkStatusMissing, no, false},
		{v1alpha1.ConditionProgrammed, v1alpha1.ReasonRejected, no, true}, {v1alpha1.ConditionProgrammed, v1alpha1.ReasonReconciling, no, false}, {v1alpha1.ConditionProgrammed, v1alpha1.ReasonUnreachable, no, false},
		{v1alpha1.ConditionReady, "R", no, false}, {v1alpha1.ConditionReady, v1alpha1.ReasonServerIgnoresScheduling, no, true},
		{v1alpha1.ConditionReady, v1alpha1.ReasonFallingBack, yes, true}, {v1alpha1.ConditionProgrammed, v1alpha1.ReasonFallingBack, no, true},
	} {
		if got := warns(metav1.Condition{Type: c.kind, Reason: c.reason, Status: c.status}); got != c.want {
			t.Errorf("%s is %s for %s: %v", c.kind, c.status, c.reason, got)
		}
	}
}

// Each router with an address is shown as it is, by name, 64 at most.
func TestRoutersAreShown(t *testing.T) {
	s := &snapshot{service: aService(), routers: pods("rR rRd rR rR r r - f rRd"), states: map[string]stateRead{
		"p0": runs(hash), "p1": runs(hash), "p2": silent, "p3": runs("old"), "p4": runs(hash)}}
	s.routers[0].Name = "z"
	s.states["z"] = runs(hash)
	s.routers[8].Status.PodIP = ""
	got := ""
	for _, r := range routerStatus(s, desired{hash: hash}) {
		got += fmt.Sprintf("%s=%s@%s ", r.Name, r.State, r.Address)
	}
	want := "p1=Draining@10.0.0.2:8000 p2=Unreachable@10.0.0.3:8000 p3=Starting@10.0.0.4:8000 p4=Starting@10.0.0.5:8000 p5=Unreachable@10.0.0.6:8000 z=Ready@10.0.0.1:8000 "
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if n := len(routerStatus(&snapshot{service: aService(), routers: pods(strings.Repeat("r ", 70))}, desired{})); n != 64 {
		t.Errorf("%d routers are shown", n)
	}
	if n := countExisting(pods("r rd f - rR fd")); n != 3 {
		t.Errorf("%d pods exist", n)
	}
}

// A status has the conditions that have something to say, loses those that have not, and keeps the hash of the document that
// serves.
func TestStatusHasWhatIsSaid(t *testing.T) {
	s := &snapshot{now: start, service: aService(), servers: pods("rRJ rd"), states: map[string]stateRead{}}
	s.service.Status.ConfigHash = "before"
	for _, kind := range []string{v1alpha1.ConditionDeviceUsable, v1alpha1.ConditionAddressed, v1alpha1.ConditionDeviceAsAsked, v1alpha1.ConditionCoresAsAsked} {
		verdict.Set(&s.service.Status.Conditions, kind, verdict.Yes("Old", ""), 1, start)
	}
	yes := verdict.Yes("R", "m")
	for hash, want := range map[string]string{"": "before", "now": "now"} {
		st := withStatus(s, &plan{}, &outcome{document: desired{hash: hash}}, verdicts{accepted: yes, programmed: yes, ready: yes, addressed: yes, cores: yes}).Status
		got := map[string]string{}
		for _, c := range st.Conditions {
			got[c.Type] = c.Reason
		}
		if len(got) != 5 || got[v1alpha1.ConditionAddressed] != "R" || got[v1alpha1.ConditionCoresAsAsked] != "R" || meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionDeviceUsable) != nil {
			t.Errorf("%v", got)
		}
		if st.ConfigHash != want || st.Replicas != 1 || st.Workers != "2/4" {
			t.Errorf("hash %q, %d pods, %s workers", st.ConfigHash, st.Replicas, st.Workers)
		}
	}
}

// What changed is told once: a mode of hedging when it was decided, the fast path when it begins or ceases.
func TestChangesOfAServiceAreTold(t *testing.T) {
	at := metav1.NewTime(start)
	hedging := func(mode v1alpha1.HedgingMode, decided *metav1.Time) v1alpha1.RpcServiceStatus {
		return v1alpha1.RpcServiceStatus{Hedging: &v1alpha1.HedgingStatus{Mode: mode, Reason: "Why", Message: "m", DecidedTime: decided}}
	}
	path := func(state v1alpha1.FastPathState, reason string) v1alpha1.RpcServiceStatus {
		return v1alpha1.RpcServiceStatus{FastPath: &v1alpha1.FastPathStatus{State: state, Reason: reason, Message: "m"}}
	}
	none := v1alpha1.RpcServiceStatus{}
	for _, c := range []struct {
		before, after v1alpha1.RpcServiceStatus
		want          string
	}{
		{none, hedging("Off", &at), "Normal Why hedged requests are Off: m"}, {none, hedging("Off", nil), ""}, {hedging("Off", &at), hedging("Off", &at), ""},
		{hedging("Off", &at), hedging("LoadAware", &at), "Normal Why hedged requests are LoadAware: m"}, {hedging("Off", &at), none, ""},
		{none, path(v1alpha1.FastPathActive, "A"), "Normal FastPath Active (A): m"}, {path(v1alpha1.FastPathActive, "A"), path(v1alpha1.FastPathActive, "A"), ""},
		{path(v1alpha1.FastPathActive, "A"), path(v1alpha1.FastPathInactive, "A"), "Warning FastPath Inactive (A): m"}, {path(v1alpha1.FastPathActive, "A"), path(v1alpha1.FastPathActive, "B"), "Normal FastPath Active (B): m"},
		{none, path(v1alpha1.FastPathInactive, v1alpha1.FastPathReasonRollingOut), ""}, {none, path(v1alpha1.FastPathInactive, v1alpha1.FastPathReasonNoAnswer), ""},
	} {
		recorder := events.NewFakeRecorder(10)
		before, after := aService(), aService()
		before.Status, after.Status = c.before, c.after
		(&Reconciler{Events: recorder}).announce(before, after)
		got := ""
		if len(recorder.Events) > 0 {
			got = <-recorder.Events
		}
		if got != c.want || len(recorder.Events) != 0 {
			t.Errorf("%+v to %+v: %q, want %q", c.before.FastPath, c.after.FastPath, got, c.want)
		}
	}
}

// What a switch does not hold yet, or refuses, is told by its own words, and only of one that it was asked for.
func TestWhatASwitchHasYetToDo(t *testing.T) {
	pods := verdict.Yes(v1alpha1.ReasonProgrammed, "all")
	status := func(name string, state v1alpha1.RpcServiceSwitchState) *v1alpha1.RpcServiceSwitchStatus {
		return &v1alpha1.RpcServiceSwitchStatus{Name: name, State: state}
	}
	entry := &v1alpha1.SwitchService{ConfigHash: hash, Workers: 2}
	for name, c := range map[string]struct {
		d      switchDecision
		reason string
	}{
		"held":             {switchDecision{status: status("leaf", v1alpha1.ServiceOnSwitch), entry: entry}, v1alpha1.ReasonProgrammed},
		"nothing":          {switchDecision{}, v1alpha1.ReasonReconciling},
		"another one":      {switchDecision{status: status("spine", v1alpha1.ServiceOnSwitch), entry: entry}, v1alpha1.ReasonReconciling},
		"leaves it":        {switchDecision{status: status("leaf", v1alpha1.ServiceLeavingSwitch), entry: entry}, v1alpha1.ReasonReconciling},
		"not read back":    {switchDecision{status: status("leaf", v1alpha1.ServiceOnSwitch)}, v1alpha1.ReasonSwitchNotProgrammed},
		"reads back older": {switchDecision{status: status("leaf", v1alpha1.ServiceOnSwitch), entry: &v1alpha1.SwitchService{ConfigHash: "old"}}, v1alpha1.ReasonSwitchNotProgrammed},
	} {
		s := &snapshot{now: start, service: aService()}
		s.service.Spec.Router.Placement = v1alpha1.PlacementSwitch
		s.service.Spec.Router.Switch = &v1alpha1.RouterSwitch{Name: "leaf"}
		if v := programmedBySwitch(s, c.d, desired{hash: hash}, pods); v.Reason != c.reason || v.OK() != (c.reason == v1alpha1.ReasonProgrammed) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	ready := verdict.Yes("R", "m")
	far := status("leaf", v1alpha1.ServiceOnSwitch)
	far.UnreachableWorkers = []string{"x"}
	for name, c := range map[string]struct {
		d     switchDecision
		ready verdict.Verdict
		want  string
	}{
		"no switch": {switchDecision{}, ready, "R"}, "reaches all": {switchDecision{status: status("leaf", "")}, ready, "R"}, "knows no way": {switchDecision{status: far}, ready, v1alpha1.ReasonWorkersUnreachable},
		"not ready": {switchDecision{status: far}, verdict.No("Q", "m"), "Q"},
	} {
		if v := readyAtSwitch(c.d, c.ready); v.Reason != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
