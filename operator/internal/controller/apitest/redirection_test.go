// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// vipPool is small, so that one test can exhaust it.
const vipPool = "192.0.2.1-192.0.2.4"

// vipPool6 is the rest of it.
const vipPool6 = "2001:db8::1-2001:db8::2"

// vipService makes a Service of CRAB's class in a namespace of its own.
func vipService(t *testing.T, change func(*corev1.Service)) *corev1.Service {
	t.Helper()
	operator(t)
	class := v1alpha1.LoadBalancerClass
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "web", Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}},
		},
	}
	if change != nil {
		change(s)
	}
	if err := direct.Create(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Delete(context.Background(), s) }) // frees its address
	return s
}

// waitService waits for a condition, and returns the Service as it is then.
func waitService(t *testing.T, s *corev1.Service, kind string, status metav1.ConditionStatus, reason string) *corev1.Service {
	t.Helper()
	got := &corev1.Service{}
	eventually(t, fmt.Sprintf("Service %s: %s=%s (%s)", s.Name, kind, status, reason), func() (bool, string) {
		if err := direct.Get(context.Background(), client.ObjectKeyFromObject(s), got); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(got.Status.Conditions, kind)
		return c != nil && c.Status == status && c.Reason == reason, fmt.Sprintf("%+v", got.Status)
	})
	return got
}

func modify(t *testing.T, s *corev1.Service, change func(*corev1.Service)) {
	t.Helper()
	current := &corev1.Service{}
	if err := direct.Get(context.Background(), client.ObjectKeyFromObject(s), current); err != nil {
		t.Fatal(err)
	}
	before := current.DeepCopy()
	change(current)
	if err := direct.Patch(context.Background(), current, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// withNode makes a Node: an agent without one counts as gone.
func withNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := direct.Get(context.Background(), types.NamespacedName{Name: name}, n); err != nil {
		if err := direct.Create(context.Background(), n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = direct.Delete(context.Background(), n) })
	}
	return n
}

// acknowledge does what the agent of a node does.
func acknowledge(t *testing.T, node string, services ...*corev1.Service) {
	t.Helper()
	withNode(t, node)
	n := &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := direct.Get(context.Background(), types.NamespacedName{Name: node}, n); err != nil {
		if err := direct.Create(context.Background(), n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = direct.Delete(context.Background(), n) })
	}
	before := n.DeepCopy()
	n.Status.VIPs = nil
	for _, s := range services {
		for _, address := range crabplan.Addresses(s) {
			for _, p := range crabplan.Ports(s) {
				n.Status.VIPs = append(n.Status.VIPs, v1alpha1.NodeVIP{
					Address: address.String(), Port: p, Namespace: s.Namespace, Service: s.Name,
					Revision: crabplan.Revision(s), Role: v1alpha1.VIPRoleBalancer,
				})
			}
		}
	}
	if err := direct.Status().Patch(context.Background(), n, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// An address comes from the pool, is left alone by kube-proxy, and is programmed
// when every agent says so; a change of the Service has to be acknowledged anew.
// Not parallel, like all of this file: the pool and the agents are the cluster's.
func TestServiceGetsAnAddress(t *testing.T) {
	s := vipService(t, nil)
	s = waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNoAgents)
	address, ok := crabplan.Address(s, corev1.IPv4Protocol)
	if !ok || !strings.HasPrefix(address.String(), "192.0.2.") {
		t.Fatalf("status %+v", s.Status)
	}
	acknowledge(t, "node-a")
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	acknowledge(t, "node-a", s)
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	modify(t, s, func(s *corev1.Service) { s.Annotations = map[string]string{v1alpha1.AnnotationPolicy: "Random"} })
	s = waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	acknowledge(t, "node-a", s)
	s = waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	if again, _ := crabplan.Address(s, corev1.IPv4Protocol); again != address {
		t.Errorf("the address changed from %s to %s", address, again)
	}
	acknowledge(t, "node-b")
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	b := withNode(t, "node-b")
	says(t, b, func(b *corev1.Node) {
		b.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Now().Add(-59 * time.Second))}}
	})
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed) // node-b is dead for a minute now
	acknowledge(t, "node-d")
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonReconciling)
	if err := direct.Delete(context.Background(), withNode(t, "node-d")); err != nil {
		t.Fatal(err)
	}
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed) // node-d is deleted
	eventually(t, "events of the address and the conditions", func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := direct.List(context.Background(), list, client.InNamespace(s.Namespace)); err != nil {
			return false, err.Error()
		}
		seen := map[string]bool{}
		for _, e := range list.Items {
			seen[e.Reason] = e.Regarding.Kind == "Service" && e.Regarding.Name == s.Name
		}
		return seen[v1alpha1.EventAddressGiven] && seen[v1alpha1.ReasonAccepted] && seen[v1alpha1.ReasonProgrammed], fmt.Sprint(seen)
	})
}

// Conditions of others are not touched, neither while ours come nor when they go.
func TestServiceOfAnotherTypeIsReleased(t *testing.T) {
	s := vipService(t, nil)
	s = waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	before := s.DeepCopy()
	s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
		Type: "example.com/Watched", Status: metav1.ConditionTrue, Reason: "Yes", LastTransitionTime: metav1.Now(),
	})
	if err := direct.Status().Patch(context.Background(), s, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	modify(t, s, func(s *corev1.Service) { s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil })
	eventually(t, "only the other condition is left", func() (bool, string) {
		if err := direct.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
			return false, err.Error()
		}
		st := s.Status
		return len(st.LoadBalancer.Ingress) == 0 && len(st.Conditions) == 1 && st.Conditions[0].Type == "example.com/Watched", fmt.Sprintf("%+v", st)
	})
}

// A refused Service gets the rule's name and no address, until it is mended.
func TestServiceIsRefusedByName(t *testing.T) {
	s := vipService(t, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) })
	s = waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonPortTranslation)
	if len(s.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("published all the same: %+v", s.Status)
	}
	modify(t, s, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(80) })
	s = waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	if len(crabplan.Addresses(s)) != 1 {
		t.Errorf("mended, and has no address: %+v", s.Status)
	}
	modify(t, s, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	s = waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonSessionAffinity)
	if len(s.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("refused later, and still published: %+v", s.Status)
	}
	warned(t, s, v1alpha1.ReasonPortTranslation, v1alpha1.ReasonSessionAffinity)
}

// warned waits for Warning events about the Service, one of each reason at least.
func warned(t *testing.T, s *corev1.Service, reasons ...string) {
	t.Helper()
	eventually(t, fmt.Sprint("warnings ", reasons), func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := direct.List(context.Background(), list, client.InNamespace(s.Namespace)); err != nil {
			return false, err.Error()
		}
		seen := map[string]bool{}
		for _, e := range list.Items {
			if e.Type == corev1.EventTypeWarning && e.Regarding.Kind == "Service" && e.Regarding.Name == s.Name {
				seen[e.Reason] = true
			}
		}
		return !slices.ContainsFunc(reasons, func(r string) bool { return !seen[r] }), fmt.Sprint(seen)
	})
}

// Slices of a Service can refuse it, and bring it back.
func TestServiceIsRefusedByItsPods(t *testing.T) {
	s := vipService(t, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
	waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	port, name := int32(8080), ""
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
	if err := direct.Create(context.Background(), slice); err != nil {
		t.Fatal(err)
	}
	waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonPortTranslation)
	if err := direct.Delete(context.Background(), slice); err != nil {
		t.Fatal(err)
	}
	waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
}

// Six Services come at once for four addresses: none is given twice, two are told
// why they have none, and one of those gets the address that is freed.
func TestPoolIsShared(t *testing.T) {
	var services []*corev1.Service
	for range 6 {
		services = append(services, vipService(t, nil))
	}
	owners, without := map[string]*corev1.Service{}, []*corev1.Service{}
	eventually(t, "four have an address, two have not", func() (bool, string) {
		clear(owners)
		without = without[:0]
		for _, s := range services {
			if err := direct.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
				return false, err.Error()
			}
			c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ServiceConditionAccepted)
			if address, ok := crabplan.Address(s, corev1.IPv4Protocol); ok && c != nil && c.Status == metav1.ConditionTrue {
				if other := owners[address.String()]; other != nil {
					t.Fatalf("%s belongs to %s and %s", address, crabplan.Name(other), crabplan.Name(s))
				}
				owners[address.String()] = s
			} else if c != nil && c.Reason == v1alpha1.ReasonPoolExhausted && strings.Contains(c.Message, vipPool) {
				without = append(without, s)
			}
		}
		return len(owners) == 4 && len(without) == 2, fmt.Sprintf("%d have, %d have not", len(owners), len(without))
	})
	for _, s := range owners {
		if err := direct.Delete(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		break
	}
	eventually(t, "one that had none gets it", func() (bool, string) {
		n := 0
		for _, s := range without {
			if err := direct.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
				return false, err.Error()
			}
			if len(crabplan.Addresses(s)) > 0 {
				n++
			}
		}
		return n == 1, fmt.Sprint(n)
	})
}

// Redirected node ports are acknowledged and refused like addresses.
func TestRedirectedNodePorts(t *testing.T) {
	s := vipService(t, func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeNodePort, nil
		s.Annotations[v1alpha1.AnnotationRedirect] = "enabled"
	})
	s = waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonExternalTrafficPolicy)
	modify(t, s, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	s = waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	withNode(t, "node-c")
	n := &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: "node-c"}}
	if err := direct.Create(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Delete(context.Background(), n) })
	says(t, n, func(n *v1alpha1.NodeDataplane) {
		n.Status.VIPs = []v1alpha1.NodeVIP{{
			Address: "10.1.0.1", Port: s.Spec.Ports[0].NodePort, Namespace: s.Namespace, Service: s.Name,
			Revision: crabplan.Revision(s), Role: v1alpha1.VIPRoleBalancer, FallBack: "no node with a pod answers",
		}}
	})
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonFallingBack)
	modify(t, s, func(s *corev1.Service) { delete(s.Annotations, v1alpha1.AnnotationRedirect) })
	eventually(t, "the conditions go with the annotation", func() (bool, string) {
		if err := direct.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
			return false, err.Error()
		}
		return len(s.Status.Conditions) == 0, fmt.Sprintf("%+v", s.Status)
	})
}

// C-9, C-44: one address of each family, both left alone by kube-proxy; a family that is
// required and cannot be had is named.
func TestDualStackService(t *testing.T) {
	families := func(policy corev1.IPFamilyPolicy, all ...corev1.IPFamily) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, all }
	}
	s := vipService(t, families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol))
	s = waitService(t, s, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	in := s.Status.LoadBalancer.Ingress
	if len(in) != 2 || !strings.HasPrefix(in[0].IP, "2001:db8::") || !strings.HasPrefix(in[1].IP, "192.0.2.") || *in[0].IPMode != corev1.LoadBalancerIPModeProxy || *in[1].IPMode != corev1.LoadBalancerIPModeProxy {
		t.Fatalf("status %+v", in)
	}
	acknowledge(t, "node-a", s)
	waitService(t, s, v1alpha1.ServiceConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	other := vipService(t, families(corev1.IPFamilyPolicySingleStack, corev1.IPv6Protocol))
	other = waitService(t, other, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	if got := crabplan.Addresses(other); len(got) != 1 || !got[0].Is6() {
		t.Errorf("a Service of IPv6 alone has %v", got)
	}
	// Both addresses of IPv6 are taken now.
	required := vipService(t, families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
	required = waitService(t, required, v1alpha1.ServiceConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonPoolExhausted)
	if c := meta.FindStatusCondition(required.Status.Conditions, v1alpha1.ServiceConditionAccepted); len(required.Status.LoadBalancer.Ingress) != 0 || !strings.Contains(c.Message, "all 2 IPv6 addresses") {
		t.Errorf("%s, %+v", c.Message, required.Status.LoadBalancer)
	}
	preferred := vipService(t, families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
	preferred = waitService(t, preferred, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonFamilyMissing)
	if got := crabplan.Addresses(preferred); len(got) != 1 || !got[0].Is4() {
		t.Errorf("a Service that prefers both families has %v", got)
	}
	modify(t, s, func(s *corev1.Service) {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, []corev1.IPFamily{corev1.IPv6Protocol}
	})
	eventually(t, "the address of the family that went is free", func() (bool, string) {
		err := direct.Get(context.Background(), client.ObjectKeyFromObject(s), s)
		return err == nil && len(s.Status.LoadBalancer.Ingress) == 1 && s.Status.LoadBalancer.Ingress[0].IP == in[0].IP, fmt.Sprintf("%+v", s.Status.LoadBalancer)
	})
}

// An agent can write the longest address into its NodeDataplane.
func TestNodeDataplaneTakesIPv6(t *testing.T) {
	s := vipService(t, nil)
	acknowledge(t, "node-six", s)
	n := &v1alpha1.NodeDataplane{}
	if err := direct.Get(context.Background(), types.NamespacedName{Name: "node-six"}, n); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"2001:db8:1111:2222:3333:4444:5555:6666", "::1"} {
		if err := say(direct, n, func(n *v1alpha1.NodeDataplane) {
			n.Status.VIPs = []v1alpha1.NodeVIP{{Address: address, Port: 80, Namespace: "n", Service: "s", Role: v1alpha1.VIPRoleClient}}
		}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
