// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const hash = "aaaa"

func aService() *v1alpha1.RpcService {
	two := int32(2)
	return &v1alpha1.RpcService{
		ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "demo", UID: "u", Generation: 4},
		Spec: v1alpha1.RpcServiceSpec{
			Replicas: &two, WorkersPerReplica: 2, Protocol: v1alpha1.ProtocolR2P2, RequestTimeoutMilliseconds: 10000,
			Device: v1alpha1.RpcServiceDevice{Device: v1alpha1.Device{Type: v1alpha1.DeviceKernel}}, LegacyPeers: v1alpha1.LegacyPeersDeny,
			Router: v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementSoftware, Replicas: 2, Policy: v1alpha1.PolicyJBSQ,
				WorkerQueueDepth: 3, CentralQueueLimit: 65536, MaxQueueMilliseconds: 1000, Forwarding: v1alpha1.ForwardingAuto},
		},
	}
}

// aPod is a pod by a short description: "r" running, "d" being deleted, "R"
// ready, "J" joined, "f" finished, "-" no address.
func aPod(name, ip, how string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{render.AnnotationWorkers: "2"}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, PodIP: ip},
	}
	set := func(kind corev1.PodConditionType) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	for _, c := range how {
		switch c {
		case 'r':
			p.Status.Phase = corev1.PodRunning
		case 'd':
			p.DeletionTimestamp = &metav1.Time{Time: start}
		case 'R':
			set(corev1.PodReady)
		case 'J':
			set(v1alpha1.PodConditionJoined)
		case 'f':
			p.Status.Phase = corev1.PodFailed
		case '-':
			p.Status.PodIP = ""
		}
	}
	return p
}

func runs(hash string, joined ...string) stateRead {
	a := stateRead{Reply: &dataplane.SidecarState{AppliedHash: hash, Dataplane: &dataplane.State{Hash: hash}}}
	for _, ip := range joined {
		for i := range 2 {
			a.Reply.Dataplane.Members = append(a.Reply.Dataplane.Members, dataplane.WorkerState{Address: ip, Port: 8000 + i, Joined: true})
		}
	}
	return a
}

func refuses(field string) stateRead {
	a := runs("old")
	a.Reply.LastError = &dataplane.ApplyError{Field: field, Message: "must be 1..64; got 0", Hash: hash}
	return a
}

var silent = stateRead{Err: errors.New("connection refused")}

func TestDecideProgrammed(t *testing.T) {
	server := func(how string) []*corev1.Pod { return []*corev1.Pod{aPod("s1", "10.0.0.1", how)} }
	router := func(how string) []*corev1.Pod { return []*corev1.Pod{aPod("r1", "10.0.1.1", how)} }
	for _, c := range []struct {
		name             string
		servers, routers []*corev1.Pod
		states           map[string]stateRead
		change           func(*v1alpha1.RpcService)
		reason, message  string
	}{
		{name: "all run it", servers: server("r"), routers: router("r"), states: map[string]stateRead{"s1": runs(hash), "r1": runs(hash)},
			reason: v1alpha1.ReasonProgrammed, message: "1 of 1 routers and 1 of 1 servers acknowledged generation 4"},
		{name: "a peer one membership behind runs the same specification", servers: server("r"), routers: router("r"),
			states: map[string]stateRead{"s1": runs("same"), "r1": runs(hash)}, reason: v1alpha1.ReasonProgrammed},
		{name: "a server lags", servers: server("r"), routers: router("r"), states: map[string]stateRead{"s1": runs("old"), "r1": runs(hash)},
			reason: v1alpha1.ReasonReconciling, message: "waiting for s1"},
		{name: "nothing applied yet", servers: server("r"), routers: router("r"), states: map[string]stateRead{"s1": runs(""), "r1": runs(hash)},
			reason: v1alpha1.ReasonReconciling, message: "waiting for s1"},
		{name: "a router refuses", servers: server("r"), routers: router("r"), states: map[string]stateRead{"s1": runs(hash), "r1": refuses("service.workerQueueDepth")},
			reason: v1alpha1.ReasonRejected, message: "service.workerQueueDepth: must be 1..64; got 0"},
		{name: "an old refusal of another document", servers: server("r"), routers: router("r"),
			states: map[string]stateRead{"s1": runs(hash), "r1": {Reply: &dataplane.SidecarState{AppliedHash: hash,
				LastError: &dataplane.ApplyError{Hash: "older"}}}}, reason: v1alpha1.ReasonProgrammed},
		{name: "a sidecar is silent", servers: server("r"), routers: router("r"), states: map[string]stateRead{"s1": runs(hash), "r1": silent},
			reason: v1alpha1.ReasonUnreachable, message: "sidecar of r1"},
		{name: "a pod being deleted is not asked", servers: append(server("r"), aPod("s2", "10.0.0.2", "rd")), routers: router("r"),
			states: map[string]stateRead{"s1": runs(hash), "r1": runs(hash)}, reason: v1alpha1.ReasonProgrammed},
		{name: "a pending pod is not asked", servers: append(server("r"), aPod("s2", "", "")), routers: router("r"),
			states: map[string]stateRead{"s1": runs(hash), "r1": runs(hash)}, reason: v1alpha1.ReasonProgrammed},
		{name: "no server", servers: server(""), routers: router("r"), states: map[string]stateRead{"r1": runs(hash)}, reason: v1alpha1.ReasonNoPods, message: "no server"},
		{name: "no router", servers: server("r"), routers: router(""), states: map[string]stateRead{"s1": runs(hash)}, reason: v1alpha1.ReasonNoPods, message: "no router"},
		{name: "scaled to zero", routers: router("r"), states: map[string]stateRead{"r1": runs(hash)}, reason: v1alpha1.ReasonProgrammed,
			change: func(s *v1alpha1.RpcService) { s.Spec.Replicas = new(int32) }},
		{name: "without a router", servers: server("r"), states: map[string]stateRead{"s1": runs(hash)}, reason: v1alpha1.ReasonProgrammed,
			change: func(s *v1alpha1.RpcService) { s.Spec.Router.Placement = v1alpha1.PlacementNone }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &snapshot{service: aService(), servers: c.servers, routers: c.routers, states: c.states}
			if c.change != nil {
				c.change(s.service)
			}
			v := decideProgrammed(s, desired{hash: hash, sameGeneration: []string{"same"}})
			if v.Reason != c.reason || v.OK() != (c.reason == v1alpha1.ReasonProgrammed) || !strings.Contains(v.Message, c.message) {
				t.Errorf("got %v %s: %q; want %s: %q", v.OK(), v.Reason, v.Message, c.reason, c.message)
			}
		})
	}
}

// readiness is that the routers have the workers.
func TestDecideJoined(t *testing.T) {
	const ip = "10.0.0.1"
	for _, c := range []struct {
		name    string
		pod     string
		routers string // one description per router, by space
		states  []stateRead
		want    bool
	}{
		{"all routers have it", "r", "rR rR", []stateRead{runs(hash, ip), runs(hash, ip)}, true},
		{"one has not", "r", "rR rR", []stateRead{runs(hash, ip), runs(hash)}, false},
		{"one has not, but it was joined", "rJ", "rR rR", []stateRead{runs(hash, ip), runs(hash)}, true},
		{"no router has it any more", "rJ", "rR rR", []stateRead{runs(hash), runs(hash)}, false},
		{"no router answers, it was joined", "rJ", "rR rR", []stateRead{silent, silent}, true},
		{"no router answers, it is new", "r", "rR rR", []stateRead{silent, silent}, false},
		{"a silent router holds a new pod back", "r", "rR rR", []stateRead{runs(hash, ip), silent}, false},
		{"a starting router does not", "r", "rR r", []stateRead{runs(hash, ip), runs("")}, true},
		{"a draining router does not", "r", "rR rRd", []stateRead{runs(hash, ip), runs(hash)}, true},
		{"a starting router is no proof", "r", "r", []stateRead{runs(hash, ip)}, false},
		{"the only router restarts", "rJ", "r", []stateRead{runs("")}, true},
		{"half the workers", "r", "rR", []stateRead{{Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{
			Members: []dataplane.WorkerState{{Address: ip, Port: 8000, Joined: true}, {Address: ip, Port: 8001}}}}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &snapshot{service: aService(), servers: []*corev1.Pod{aPod("s1", ip, c.pod)}, states: map[string]stateRead{"s1": runs(hash)}}
			for i, how := range strings.Fields(c.routers) {
				name := fmt.Sprintf("r%d", i)
				s.routers = append(s.routers, aPod(name, "10.0.1."+fmt.Sprint(i), how))
				s.states[name] = c.states[i]
			}
			if v := decideJoined(s, desired{hash: hash})["s1"]; v.OK() != c.want {
				t.Errorf("joined %v (%s), want %v", v.OK(), v.Message, c.want)
			}
		})
	}
}

func TestDecideJoinedWithoutRouter(t *testing.T) {
	for _, c := range []struct {
		name, pod string
		answer    stateRead
		want      bool
	}{
		{"runs the configuration", "r", runs(hash), true},
		{"has none", "r", runs(""), false},
		{"another one, new", "r", runs("old"), false},
		{"another one, was joined", "rJ", runs("old"), true},
		{"silent, was joined", "rJ", silent, true},
		{"silent, new", "r", silent, false},
	} {
		s := &snapshot{service: aService(), servers: []*corev1.Pod{aPod("s1", "10.0.0.1", c.pod)}, states: map[string]stateRead{"s1": c.answer}}
		s.service.Spec.Router.Placement = v1alpha1.PlacementNone
		if v := decideJoined(s, desired{hash: hash})["s1"]; v.OK() != c.want {
			t.Errorf("%s: joined %v (%s), want %v", c.name, v.OK(), v.Message, c.want)
		}
	}
}

func TestDecideReady(t *testing.T) {
	yes, no := verdict.Yes("", ""), verdict.No("", "why not")
	for _, c := range []struct {
		name                 string
		servers, routers     string
		replicas             int32
		accepted, programmed verdict.Verdict
		reason               string
	}{
		{"all there", "rR rR", "rR rR", 2, yes, yes, v1alpha1.ReasonReady},
		{"a worker short", "rR r", "rR rR", 2, yes, yes, v1alpha1.ReasonWorkersNotReady},
		{"one being deleted does not count", "rR rRd", "rR rR", 2, yes, yes, v1alpha1.ReasonWorkersNotReady},
		{"a router short", "rR rR", "rR r", 2, yes, yes, v1alpha1.ReasonRoutersNotReady},
		{"not programmed", "rR rR", "rR rR", 2, yes, no, v1alpha1.ReasonNotProgrammed},
		{"not accepted", "rR rR", "rR rR", 2, no, no, v1alpha1.ReasonNotAccepted},
		{"zero", "", "rR rR", 0, yes, yes, v1alpha1.ReasonScaledToZero},
		{"more than asked for, in a rollout", "rR rR rR", "rR rR rR", 2, yes, yes, v1alpha1.ReasonReady},
	} {
		s := &snapshot{service: aService(), servers: pods(c.servers), routers: pods(c.routers)}
		s.service.Spec.Replicas = &c.replicas
		if v := decideReady(s, c.accepted, c.programmed, ""); v.Reason != c.reason || v.OK() != (c.reason == v1alpha1.ReasonReady) {
			t.Errorf("%s: %v %s (%s), want %s", c.name, v.OK(), v.Reason, v.Message, c.reason)
		}
	}
}

func pods(descriptions string) (out []*corev1.Pod) {
	for i, how := range strings.Fields(descriptions) {
		out = append(out, aPod(fmt.Sprintf("p%d", i), fmt.Sprintf("10.0.0.%d", i+1), how))
	}
	return out
}

// R-140 and the bounds of a document: who is named, and who waits.
func TestChoosePeers(t *testing.T) {
	peers := choosePeers(&snapshot{service: aService(), servers: pods("r rd - f r r"), routers: pods("rd r rd f -")}, []int{1})
	if got := names(peers.Servers); got != "p0 p4 p5" {
		t.Errorf("servers %s", got)
	}
	if got := names(peers.Routers); got != "p1 p0 p2" {
		t.Errorf("routers %s: live ones first, then those that drain", got)
	}
	many := pods(strings.Repeat("r ", 600)) // 2 workers each
	if n := len(choosePeers(&snapshot{service: aService(), servers: many}, nil).Servers); n != maxWorkers/2 {
		t.Errorf("%d servers of 2 workers are named, want %d", n, maxWorkers/2)
	}
	if n := len(choosePeers(&snapshot{service: aService(), routers: pods(strings.Repeat("r ", 20))}, nil).Routers); n != maxRouters {
		t.Errorf("%d routers are named, want %d", n, maxRouters)
	}
	onSwitch := &snapshot{service: aService(), routers: pods(strings.Repeat("r ", 20))}
	onSwitch.service.Spec.Router.Placement = v1alpha1.PlacementSwitch
	if n := len(choosePeers(onSwitch, nil).Routers); n != maxRouters-1 {
		t.Errorf("%d routers beside a switch, which is one, too", n)
	}
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestIntervalSlowsDownAfterAWhile(t *testing.T) {
	s := &snapshot{service: aService(), now: start}
	s.service.CreationTimestamp = metav1.NewTime(start)
	done := verdicts{programmed: verdict.Yes("", ""), ready: verdict.Yes("", "")}
	for _, c := range []struct {
		name  string
		out   verdicts
		after time.Duration
		want  time.Duration
	}{
		{"finished", done, 0, steady},
		{"converging", verdicts{}, time.Second, converging},
		{"a pod has not joined", verdicts{programmed: done.programmed, ready: done.ready, joined: map[string]verdict.Verdict{"s": {}}}, time.Second, converging},
		{"converging for long", verdicts{}, patience + time.Second, steady},
	} {
		s.now = start.Add(c.after)
		if got := interval(s.now, s.service, c.out); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
