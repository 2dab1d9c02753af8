// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/connectivity"
)

// world is what the objects of a test meet: it stands in for kubelets, operator, CRAB
// and the network.
type world struct {
	refuse  func(client.Object) error              // admission
	server  func(*corev1.Pod)                      // what becomes of a server
	through func(from, target string) int          // of 8 tries, how many are answered
	service func(*v1alpha1.RpcService)             // what the operator makes of it
	message func(paths []connectivity.Path) string // nil: the results
	made    sync.Map
}

func nodeThatIs(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux"}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func operatorDeployment(image string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-operator", Labels: installed("operator")},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}}}
}

func agentSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-agent", Labels: installed("agent")}}
}

// in puts a cluster of two nodes into the world.
func (w *world) in(t *testing.T, more ...client.Object) *cluster {
	t.Helper()
	c, _ := aCluster(t, false, append([]client.Object{nodeThatIs("a", corev1.ConditionTrue), nodeThatIs("b", corev1.ConditionTrue), nodeThatIs("c", corev1.ConditionFalse),
		operatorDeployment("registry.example/team/bobtail/operator:1.2.3@sha256:" + strings.Repeat("0", 64))}, more...)...)
	c.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if w.refuse != nil {
				if err := w.refuse(o); err != nil {
					return err
				}
			}
			w.made.Store(o.GetName(), o.DeepCopyObject())
			w.meet(o)
			return inner.Create(ctx, o, options...)
		},
	})
	return c
}

func (w *world) meet(o client.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		w.pod(o)
	case *v1alpha1.RpcService:
		o.Status.Address = o.Name + ".shop.svc:8000"
		o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"}}
		if w.service != nil {
			w.service(o)
		}
	case *corev1.Service:
		o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}}
	}
}

func (w *world) pod(p *corev1.Pod) {
	if p.Labels[labelRole] == "server" {
		last := map[string]string{"a": "1", "b": "2"}[p.Spec.NodeName]
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0." + last}, {IP: "fd00::" + last}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if w.server != nil {
			w.server(p)
		}
		return
	}
	var paths []connectivity.Path
	for _, arg := range p.Spec.Containers[0].Args {
		if text, ok := strings.CutPrefix(arg, "--paths="); ok {
			if err := json.Unmarshal([]byte(text), &paths); err != nil {
				panic(err)
			}
		}
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: w.results(p.Spec.NodeName, paths)}}}}}
}

func (w *world) results(from string, paths []connectivity.Path) string {
	if w.message != nil {
		return w.message(paths)
	}
	var results []connectivity.Result
	for _, p := range paths {
		r := connectivity.Result{Answered: p.Tries, Nodes: map[string]int{"x": p.Tries}}
		if p.Tries > tries { // several could answer
			r.Nodes = map[string]int{"x": tries, "y": p.Tries - tries}
		}
		if w.through != nil {
			if got := w.through(from, p.Target); got < tries {
				r = connectivity.Result{Answered: got, Error: "timeout"}
				if got > 0 {
					r.Nodes = map[string]int{"x": got}
				}
			}
		}
		results = append(results, r)
	}
	text, err := connectivity.Marshal(results)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// test runs the command line without waiting long for anything.
func (w *world) test(t *testing.T, c *cluster, timeout time.Duration) ([]verdict, error) {
	t.Helper()
	var said strings.Builder
	verdicts, err := c.connectivity(t.Context(), streams{&said, &said}, paths{most: mostNodes, timeout: timeout, every: time.Millisecond})
	list := &corev1.PodList{}
	if failed := c.List(t.Context(), list, client.HasLabels{labelTrial}); failed != nil || len(list.Items) != 0 {
		t.Errorf("%d pods are left, %v", len(list.Items), failed)
	}
	for _, kind := range []client.ObjectList{&corev1.ServiceList{}, &v1alpha1.RpcServiceList{}} {
		if failed := c.List(t.Context(), kind, client.HasLabels{labelTrial}); failed != nil {
			t.Error(failed)
		}
	}
	services, routed := &corev1.ServiceList{}, &v1alpha1.RpcServiceList{}
	if failed := errors.Join(c.List(t.Context(), services, client.HasLabels{labelTrial}), c.List(t.Context(), routed, client.HasLabels{labelTrial})); failed != nil ||
		len(services.Items)+len(routed.Items) != 0 {
		t.Errorf("%d Services and %d RpcServices are left, %v", len(services.Items), len(routed.Items), failed)
	}
	return verdicts, err
}

func says(verdicts []verdict) (all []string) {
	for _, v := range verdicts {
		all = append(all, fmt.Sprintf("%s %s: %s", v.Outcome, v.Subject, v.Says))
	}
	return all
}

// Every pair of nodes in both families, the routers and CRAB's addresses get a verdict;
// nothing is left.
func TestConnectivityOfEveryPath(t *testing.T) {
	w := &world{}
	c := w.in(t, agentSet())
	out, errs, err := execute(t, c, "connectivity", "test", "-o", "json")
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	var got struct{ Verdicts []verdict }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	want := map[string]bool{"WARNING nodes: not tried: c": true}
	for _, from := range []string{"a", "b"} {
		for _, to := range []string{"a", "b"} {
			for _, family := range []string{"ipv4", "ipv6"} {
				want[fmt.Sprintf("OK r2p2-%s: %s to %s: 8 of 8 answered", family, from, to)] = true
			}
		}
		want["OK r2p2: "+from+" to the routers: 16 of 16 answered, by 2 of 2 servers"] = true
		want["OK crab-ipv4: "+from+" to CRAB's address 192.0.2.1: 16 of 16 answered, by 2 of 2 servers"] = true
		want["OK crab-ipv6: "+from+" to CRAB's address 2001:db8::1: 16 of 16 answered, by 2 of 2 servers"] = true
	}
	seen := map[string]bool{}
	for _, s := range says(got.Verdicts) {
		seen[s] = true
	}
	if !maps.Equal(seen, want) {
		t.Errorf("got %v\nwant %v", seen, want)
	}
	w.made.Range(func(_, o any) bool {
		if pod, ok := o.(*corev1.Pod); ok {
			container := pod.Spec.Containers[0]
			if container.Image != "registry.example/team/bobtail/sidecar:1.2.3" || len(container.Resources.Limits) != 3 || !*container.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: %+v", pod.Name, container)
			}
		}
		return true
	})
}

// What does not get through is named with its two ends, and makes the exit status 1;
// what is lost now and then is a warning.
func TestConnectivityNamesThePathThatIsCut(t *testing.T) {
	w := &world{through: func(from, target string) int {
		switch {
		case from == "a" && strings.HasPrefix(target, "10.0.0.2:"):
			return 0
		case from == "b" && target == "192.0.2.1:80":
			return 5
		}
		return tries
	}}
	c := w.in(t, agentSet())
	out, _, err := execute(t, c, "connectivity", "test")
	if !errors.Is(err, errFailed) {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"FAILED   r2p2-ipv4    a to b: 0 of 8 answered: timeout\n", "next: let UDP from pod to pod pass", "WARNING  crab-ipv4    b to CRAB's address 192.0.2.1: 5 of 16 answered, by 1 of 2 servers: timeout\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "FAILED"); n != 1 {
		t.Errorf("%d failed:\n%s", n, out)
	}
}

// A service that does not come up and an address that is not given are verdicts; the
// direct paths are tried all the same. Without agents CRAB is not asked for.
func TestConnectivityTriesWhatIsThere(t *testing.T) {
	w := &world{service: func(s *v1alpha1.RpcService) {
		s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoPods", Message: "pods \"x\" is forbidden: exceeded quota"}}
	}, server: func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[:1] }}
	verdicts, err := w.test(t, w.in(t), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(says(verdicts), "\n")
	for _, want := range []string{"FAILED r2p2: the routers: the service did not become ready: Ready=False NoPods: pods \"x\" is forbidden: exceeded quota",
		"OK crab: CRAB is off", "OK ipv6: the pods have no such address", "OK r2p2-ipv4: b to a: 8 of 8 answered"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

// A namespace that forbids the test: the error says who forbids what, and what to do;
// what was made before is gone.
func TestConnectivityWhereItIsForbidden(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	second := func(text string) func(client.Object) error {
		return func(o client.Object) error {
			if _, pod := o.(*corev1.Pod); pod && strings.HasSuffix(o.GetName(), "-1") {
				return apierrors.NewForbidden(pods, o.GetName(), errors.New(text))
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		*world
		want []string
	}{
		"quota": {&world{refuse: second("exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1")},
			[]string{"namespace shop does not take Pod connectivity-", "because of its ResourceQuota", "exceeded quota: small", "requests of 20m CPU and 32Mi memory, limits of 500m and 128Mi", "describe quota, or -n ANOTHER"}},
		"pod security": {&world{refuse: second(`violates PodSecurity "restricted:latest": host namespaces`)},
			[]string{"because of its Pod Security labels", "restricted standard", "-n ANOTHER"}},
		"rights":         {&world{refuse: second("User \"eve\" cannot create resource")}, []string{"ask for the right to create pods, services and rpcservices"}},
		"no image":       {&world{server: func(p *corev1.Pod) { waits(p, "ErrImagePull", "not found") }}, []string{"wait for the servers: pod connectivity-", "on a: ErrImagePull of image registry.example/team/bobtail/sidecar:1.2.3: not found"}},
		"never ready":    {&world{server: func(p *corev1.Pod) { p.Status.Conditions = nil }}, []string{"after 50ms: pod connectivity-", "--timeout waits longer"}},
		"killed clients": {&world{message: func([]connectivity.Path) string { return "OOMKilled" }}, []string{"client on a: no results", "OOMKilled"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.test(t, c.in(t), 50*time.Millisecond)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
		})
	}
}

func waits(p *corev1.Pod, reason, message string) {
	p.Status.Conditions = nil
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
}

// What cannot work is said before anything is made.
func TestConnectivityRefusesWhatCannotWork(t *testing.T) {
	c, _ := aCluster(t, false, nodeThatIs("a", corev1.ConditionTrue))
	with := (&world{}).in(t)
	nowhere := (&world{}).in(t)
	nowhere.namespace = "nosuch"
	for args, one := range map[string]struct {
		*cluster
		want string
	}{
		"--most-nodes=0":   {with, "--most-nodes: must be 1 to 20; got 0"},
		"--timeout=1ms":    {with, "--timeout: must be 1s to 1h"},
		"-o table":         {with, "--output: must be json or yaml"},
		"--node=elsewhere": {with, `--node: there is no node "elsewhere"`},
		"":                 {c, "--image: must be given: no operator is installed"},
		"--most-nodes=3":   {nowhere, `namespace "nosuch" does not exist: kubectl create namespace nosuch`},
	} {
		if _, _, err := execute(t, one.cluster, append([]string{"connectivity", "test"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
