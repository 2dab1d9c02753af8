// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// A pod that is passed over does not end the look at those behind it.
func TestPodsBehindOneThatIsPassedOver(t *testing.T) {
	s := &snapshot{service: aService(), servers: pods("rd - r r"), routers: pods("r rR rR"), states: map[string]stateRead{}, now: start}
	for i, p := range s.routers {
		p.Name = "router" + string(rune('a'+i))
	}
	s.states["p2"], s.states["p3"] = runs(hash), runs("old")
	s.states["routerb"], s.states["routerc"] = silent, runs(hash, "10.0.0.3")
	if v := decideProgrammed(s, desired{hash: hash}); v.Reason != v1alpha1.ReasonReconciling || !strings.Contains(v.Message, "waiting for p3") {
		t.Errorf("programmed: %+v", v)
	}
	joined := decideJoined(s, desired{hash: hash})
	if len(joined) != 2 || joined["p2"].Message != "1 of 2 routers have all workers of the pod" || joined["p3"].Message != "0 of 2 routers have all workers of the pod" {
		t.Errorf("joined: %+v", joined)
	}
	s.servers[1] = onData("p1", "r", "") // its address is on its way
	s.peers = judgedPeers(s)
	if joined = decideJoined(s, desired{hash: hash}); len(joined) != 3 || joined["p1"].OK() {
		t.Errorf("joined: %+v", joined)
	}
	s.service.Spec.Router.Placement = v1alpha1.PlacementNone
	if joined = decideJoined(s, desired{hash: hash}); !joined["p2"].OK() || joined["p3"].OK() {
		t.Errorf("joined without routers: %+v", joined)
	}
	if e := endpoints(&snapshot{service: aService(), servers: pods("- f rR")}); len(e) != 1 || e[0].Pod.Name != "p2" {
		t.Errorf("endpoints: %+v", e)
	}
	addressed := &snapshot{service: aService(), servers: pods("d - r r")}
	addressed.peers = judgedPeers(addressed)
	if v := decideAddressed(addressed); !v.OK() || !strings.HasPrefix(v.Message, "2 running pods") {
		t.Errorf("addressed: %+v", v)
	}
}

// The oldest pods are named first, those of one second by their names; a pod with more workers than there is room for does
// not keep out a smaller one.
func TestOrderOfPods(t *testing.T) {
	all := pods("r r r")
	all[0].CreationTimestamp, all[1].CreationTimestamp, all[2].CreationTimestamp = metav1.NewTime(start), metav1.NewTime(start), metav1.NewTime(start.Add(-time.Hour))
	slices.Reverse(all[:2])
	if sortByAge(all); names(all) != "p2 p0 p1" {
		t.Errorf("%s", names(all))
	}
	full := pods(strings.Repeat("r ", maxWorkers/2) + "r r")
	full[0].Annotations = map[string]string{render.AnnotationWorkers: "1"}
	full[maxWorkers/2+1].Annotations = map[string]string{render.AnnotationWorkers: "1"}
	if got := choosePeers(&snapshot{service: aService(), servers: full}, nil).Servers; len(got) != maxWorkers/2+1 || got[len(got)-1] != full[maxWorkers/2+1] {
		t.Errorf("%d servers are named, the last %s", len(got), got[len(got)-1].Name)
	}
}

// A service is looked at often while anything of it is unfinished, for so long and no longer.
func TestEachUnfinishedThingIsLookedAt(t *testing.T) {
	yes, no := verdict.Yes("R", ""), verdict.No("R", "")
	service := aService()
	service.CreationTimestamp = metav1.NewTime(start)
	for _, c := range []struct {
		programmed, ready, joined verdict.Verdict
		after                     time.Duration
		want                      time.Duration
	}{
		{yes, yes, yes, 0, steady}, {no, yes, yes, 0, converging}, {yes, no, yes, 0, converging}, {yes, yes, no, 0, converging},
		{no, no, no, patience, converging}, {no, no, no, patience + 1, steady},
	} {
		v := verdicts{programmed: c.programmed, ready: c.ready, joined: map[string]verdict.Verdict{"p": c.joined, "q": yes}}
		if got := interval(start.Add(c.after), service, v); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Peers that run another document than the ConfigMap's are remembered since they do, each of them; who goes or is silent is
// not.
func TestWhoLagsBehind(t *testing.T) {
	s := &snapshot{now: start, service: aService(), servers: pods("rd r r"), routers: []*corev1.Pod{aPod("router", "10.0.1.1", "r")}, lagged: map[string]time.Time{"p2": start.Add(-time.Hour)}}
	s.states = map[string]stateRead{"p0": runs("old"), "p1": silent, "p2": runs("old"), "router": runs("older")}
	s.live.hash = hash
	if got := lagging(s); len(got) != 2 || !got["p2"].Equal(start.Add(-time.Hour)) || !got["router"].Equal(start) {
		t.Errorf("%v", got)
	}
	s.states["router"] = runs(hash)
	if got := lagging(s); len(got) != 1 {
		t.Errorf("%v", got)
	}
	s.live.hash = ""
	if got := lagging(s); len(got) != 0 {
		t.Errorf("there is no ConfigMap: %v", got)
	}
}

// A component whose template names an account of the user's is looked after by the user; the other one is not.
func TestAccountsOfTheUsers(t *testing.T) {
	own := &v1alpha1.PodTemplate{}
	own.Spec.ServiceAccountName = "mine"
	for _, c := range []struct{ server, router *v1alpha1.PodTemplate }{{own, nil}, {nil, own}, {own, &v1alpha1.PodTemplate{}}, {nil, nil}, {own, own}} {
		service := aService()
		service.Spec.Server.PodTemplate, service.Spec.Router.PodTemplate = c.server, c.router
		if ownAccount(service, v1alpha1.ComponentServer) != (c.server == own) || ownAccount(service, v1alpha1.ComponentRouter) != (c.router == own) {
			t.Errorf("%v and %v", c.server, c.router)
		}
		s := &snapshot{service: service, account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{UID: "new", CreationTimestamp: metav1.NewTime(start)}}, servers: pods("r"), routers: pods("r")}
		renewed := renewals(s)
		if _, server := renewed[v1alpha1.ComponentServer]; server != (c.server != own) || len(renewed) != 2-truth(c.server == own)-truth(c.router == own) {
			t.Errorf("renewed: %v", renewed)
		}
	}
}

func truth(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Of the objects that are written Deployments roll out, the routers' by their own pods.
func TestWhichDeploymentRollsOut(t *testing.T) {
	deployment := func(name string, updated int32) *appsv1.Deployment {
		return &appsv1.Deployment{TypeMeta: metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 1, UpdatedReplicas: updated, Replicas: updated}}
	}
	service := aService()
	server, router := render.ServerName(service), render.RouterName(service)
	for _, c := range []struct {
		servers, routers int32
		want             string
	}{{1, 1, ""}, {0, 1, "0 of 1 pods of Deployment " + server + " are of the present specification"}, {1, 0, "0 of 1 pods of Deployment " + router + " are of the present specification"}} {
		s := &snapshot{service: service, serverDeployment: deployment(server, c.servers), routerDeployment: deployment(router, c.routers)}
		wanted := []render.Object{&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "x"}}, deployment(server, 9), deployment(router, 9)}
		if got := rollingOut(s, wanted, map[string]string{server: "g1", router: "g1"}); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// When the server of a pod began is its own container's word, and only while that runs.
func TestSinceWhenAServerRuns(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}
	other := corev1.ContainerStatus{Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start.Add(time.Hour))}}}
	for _, c := range []struct {
		all  []corev1.ContainerStatus
		want time.Time
	}{
		{[]corev1.ContainerStatus{other, {Name: "server", State: running}}, start}, {[]corev1.ContainerStatus{{Name: "server", State: running}, other}, start},
		{[]corev1.ContainerStatus{{Name: "server"}, other}, time.Time{}}, {nil, time.Time{}},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "server"}, {Name: "sidecar"}}}, Status: corev1.PodStatus{ContainerStatuses: c.all}}
		if got := runningSince(p); !got.Equal(c.want) {
			t.Errorf("%+v: %v", c.all, got)
		}
	}
	end := &corev1.ContainerStateTerminated{ExitCode: 7}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "server"}}}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		other, {Name: "server", State: corev1.ContainerState{Terminated: end}},
	}}}
	if faultyEnd(p) != end {
		t.Error("the fault of a server behind another container is not seen")
	}
	p.Status.ContainerStatuses[1].State = running // it began, and is not well yet
	p.Status.ContainerStatuses[1].LastTerminationState.Terminated = end
	if faultyEnd(p) != end {
		t.Error("the fault of a server that is not well yet is forgotten")
	}
}

// Objectives, switches and pods lead to the services that they are about.
func TestWhoseServiceItIs(t *testing.T) {
	slo := &v1alpha1.ServiceLevelObjective{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}
	slo.Spec.TargetRef.Name = "echo"
	if got := targetOf(context.Background(), slo); len(got) != 1 || got[0].NamespacedName != key {
		t.Errorf("of an objective: %v", got)
	}
	if got := serviceOf(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}); got != nil {
		t.Errorf("of a pod of nobody's: %v", got)
	}
	b := newBench(t)
	for name, change := range map[string]func(*v1alpha1.RpcService){
		"asks":  func(s *v1alpha1.RpcService) { s.Spec.Router.Switch = &v1alpha1.RouterSwitch{Name: "leaf"} },
		"had":   func(s *v1alpha1.RpcService) { s.Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: "leaf"} },
		"other": func(s *v1alpha1.RpcService) { s.Spec.Router.Switch = &v1alpha1.RouterSwitch{Name: "spine"} },
	} {
		s := aService()
		s.Name, s.UID = name, types.UID(name)
		change(s)
		status := s.Status
		if err := b.Client.Create(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		s.Status = status
		if err := b.Client.Status().Update(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	for _, one := range b.atSwitch(context.Background(), &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: "leaf"}}) {
		got += one.Name + " "
	}
	if got != "asks had " {
		t.Errorf("of a switch: %q", got)
	}
	b.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("gone")
	}})
	if got := b.atSwitch(context.Background(), &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: "leaf"}}); got != nil {
		t.Errorf("of what cannot be listed: %v", got)
	}
}

// A fast path's excuse is told in 512 bytes at most.
func TestExcusesAreBounded(t *testing.T) {
	p := aPod("r1", "10.0.0.1", "r")
	for length, want := range map[int]int{511: 511, 512: 512, 513: 512} {
		if got := excuse(p, dataplane.FastPathState{Message: strings.Repeat("x", length)}); len(got) != len("r1: ")+want {
			t.Errorf("%d bytes of %d", len(got), length)
		}
	}
}
