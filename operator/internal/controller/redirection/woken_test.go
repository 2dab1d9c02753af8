// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func nobodys(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }

func withOurs(s *corev1.Service) {
	nobodys(s)
	s.Status.Conditions = []metav1.Condition{{Type: "other.dev/Told"}, {Type: v1alpha1.ServiceConditionProgrammed}}
}

func withOthers(s *corev1.Service) {
	nobodys(s)
	s.Status.Conditions = []metav1.Condition{{Type: "other.dev/Told"}}
}

// A Service wakes the controller that is CRAB's, was so before the change, or still has a condition to be taken away. One that is
// gone left an address only if it was decided about.
func TestWhichServicesWake(t *testing.T) {
	made := func(change func(*corev1.Service)) *corev1.Service { s := service("a", 1, "", change); return &s }
	ours, others, marked, told := made(nil), made(nobodys), made(withOurs), made(withOthers)
	p := whenRelevant()
	for name, c := range map[string]struct{ got, want bool }{
		"one of ours comes":     {p.Create(event.CreateEvent{Object: ours}), true},
		"another's":             {p.Create(event.CreateEvent{Object: others}), false},
		"with our condition":    {p.Create(event.CreateEvent{Object: marked}), true},
		"with another's":        {p.Create(event.CreateEvent{Object: told}), false},
		"a pod":                 {p.Create(event.CreateEvent{Object: &corev1.Pod{}}), false},
		"it becomes ours":       {p.Update(event.UpdateEvent{ObjectOld: others, ObjectNew: ours}), true},
		"it was ours":           {p.Update(event.UpdateEvent{ObjectOld: ours, ObjectNew: others}), true},
		"it is another's still": {p.Update(event.UpdateEvent{ObjectOld: others, ObjectNew: told}), false},
		"a decided one goes":    {p.Delete(event.DeleteEvent{Object: marked}), true},
		"an undecided one goes": {p.Delete(event.DeleteEvent{Object: ours}), false},
		"a pod goes":            {p.Delete(event.DeleteEvent{Object: &corev1.Pod{}}), false},
		"nobody asked":          {p.Generic(event.GenericEvent{Object: ours}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: woken %t", name, c.got)
		}
	}
}

// Of slices only those of such Services wake.
func TestWhichSlicesWake(t *testing.T) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	ours, others := service("a", 1, "", nil), service("b", 1, "", nobodys)
	r := &Reconciler{Cluster: fake.NewClientBuilder().WithScheme(s).WithObjects(&ours, &others).Build()}
	of := func(namespace, name string) client.Object {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: name}}}
	}
	for want, slices := range map[bool][]client.Object{
		true:  {of("shop", "a")},
		false: {of("shop", "b"), of("shop", "gone"), of("elsewhere", "a"), of("shop", ""), &discoveryv1.EndpointSlice{}},
	} {
		for i, slice := range slices {
			if got := r.whenOfOurs().Create(event.CreateEvent{Object: slice}); got != want {
				t.Errorf("%d of %t: woken %t", i, want, got)
			}
		}
	}
}

// What of other objects concerns Services wakes, and nothing else does: numbers of servers change with every pod.
func TestWhichChangesWake(t *testing.T) {
	agent := func(change func(*v1alpha1.NodeDataplane)) client.Object {
		n := agent("n", "r1", "r2")
		n.Status.AgentVersion, n.Status.Host = "1", &v1alpha1.NodeHost{}
		n.Status.Conditions = []metav1.Condition{{Type: "A", Status: "True", Reason: "R", Message: "m"}, {Type: "B"}}
		change(&n)
		return &n
	}
	rpc := func(change func(*v1alpha1.RpcService)) client.Object {
		s := onA("echo", "Kernel")
		change(&s)
		return &s
	}
	node := func(change func(*corev1.Node)) client.Object {
		n := &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		change(n)
		return n
	}
	label := func(value v1alpha1.LabelValue) func(*v1alpha1.RpcService) {
		return func(s *v1alpha1.RpcService) {
			s.Spec.Server.PodTemplate = &v1alpha1.PodTemplate{}
			s.Spec.Server.PodTemplate.Metadata.Labels = map[string]v1alpha1.LabelValue{"a": value}
		}
	}
	as, same, first := func(*v1alpha1.NodeDataplane) {}, func(*v1alpha1.RpcService) {}, func(*corev1.Node) {}
	for name, c := range map[string]struct {
		part          func(client.Object) any
		before, after client.Object
		wakes         bool
	}{
		"an agent says the same":   {acknowledged, agent(as), agent(as), false},
		"its numbers of servers":   {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.OwnedVIPs, n.Status.VIPs[0].UpCRAB = 7, 9 }), false},
		"its conditions' order":    {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { c := n.Status.Conditions; c[0], c[1] = c[1], c[0] }), false},
		"a revision":               {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[1].Revision = "r3" }), true},
		"an address":               {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[1].Address = "192.0.2.9" }), true},
		"a port":                   {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[1].Port = 81 }), true},
		"a namespace":              {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[1].Namespace = "x" }), true},
		"a service":                {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[1].Service = "x" }), true},
		"it falls back":            {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[1].FallBack = "x" }), true},
		"a condition's status":     {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.Conditions[0].Status = "False" }), true},
		"a condition's reason":     {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.Conditions[0].Reason = "S" }), true},
		"a condition's message":    {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.Conditions[0].Message = "n" }), true},
		"the agent goes":           {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.AgentVersion = "" }), true},
		"another version":          {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.AgentVersion = "2" }), false},
		"who writes of the host":   {acknowledged, agent(as), agent(func(n *v1alpha1.NodeDataplane) { n.Status.Host = nil }), true},
		"a service says the same":  {device, rpc(same), rpc(func(s *v1alpha1.RpcService) { s.Status.Policy = "Random" }), false},
		"its device":               {device, rpc(same), rpc(func(s *v1alpha1.RpcService) { s.Status.Device = "SRIOV" }), true},
		"labels of its pods":       {device, rpc(label("b")), rpc(label("c")), true},
		"the same labels":          {device, rpc(label("b")), rpc(label("b")), false},
		"a node says the same":     {ofNode, node(first), node(func(n *corev1.Node) { n.Status.NodeInfo.KernelVersion = "7" }), false},
		"an address of a node":     {ofNode, node(first), node(func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.2" }), true},
		"a node that is not ready": {ofNode, node(first), node(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }), true},
	} {
		if got := whenDifferent(c.part).Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.wakes {
			t.Errorf("%s: woken %t", name, got)
		}
	}
}
