// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabwords"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

func ptr[T any](v T) *T { return &v }

// service is a Service of CRAB's class with one port and the address 192.0.2.1.
func service(change func(*corev1.Service)) corev1.Service {
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", CreationTimestamp: metav1.Unix(1000, 0), Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr(v1alpha1.LoadBalancerClass),
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80), NodePort: 30080}},
		},
	}
	s.Status.LoadBalancer.Ingress = ingress("192.0.2.1")
	if change != nil {
		change(&s)
	}
	return s
}

// nodePortService has redirected node ports and no address.
func nodePortService(change func(*corev1.Service)) corev1.Service {
	return service(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass, s.Status = corev1.ServiceTypeNodePort, nil, corev1.ServiceStatus{}
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		s.Annotations[v1alpha1.AnnotationRedirect] = "enabled"
		if change != nil {
			change(s)
		}
	})
}

func ingress(ips ...string) []corev1.LoadBalancerIngress {
	var out []corev1.LoadBalancerIngress
	for _, ip := range ips {
		out = append(out, corev1.LoadBalancerIngress{IP: ip, IPMode: ptr(corev1.LoadBalancerIPModeProxy)})
	}
	return out
}

// of gives a Service families.
func of(families ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilies = families }
}

// endpoint is "10.0.0.1@node-a" with a state: "" ready, "draining", "unready".
func endpoint(text string) discoveryv1.Endpoint {
	place, state, _ := strings.Cut(text, " ")
	addr, node, _ := strings.Cut(place, "@")
	e := discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node}
	switch state {
	case "draining":
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(true)}
	case "unready":
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(false), Terminating: ptr(false)}
	}
	return e
}

func slice(port int32, endpoints ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", port, len(endpoints)), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr(""), Port: &port, Protocol: ptr(corev1.ProtocolTCP)}},
	}
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, endpoint(e))
		if strings.Contains(e, ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
	}
	return s
}

func node(name, ip string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeExternalIP, Address: "fd00::1"}, {Type: corev1.NodeInternalIP, Address: ip},
	}}}
}

// dualNode has an address of either family.
func dualNode(name, ip, ip6 string) corev1.Node {
	n := node(name, ip)
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip6}, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00:9::9"})
	return n
}

func mustPool(t *testing.T, text string) Pool {
	t.Helper()
	p, err := ParsePool(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func written(v VIP) string {
	out := fmt.Sprintf("%s %s", netip.AddrPortFrom(v.Addr, v.Port), v.Policy)
	if v.Node != "" {
		out += " on " + v.Node
	}
	if v.Local {
		out += " local"
	}
	for _, b := range v.Backends {
		out += fmt.Sprintf(" %s@%s*%d", b.Addr, b.Node, b.Weight)
		if b.State != Ready {
			out += string(b.State)
		}
	}
	if v.Excluded+v.Cut > 0 {
		out += fmt.Sprintf(" excluded %d cut %d", v.Excluded, v.Cut)
	}
	return out
}

// The plan of one Service on two nodes.
var planCases = []struct {
	name    string
	service corev1.Service
	slices  []discoveryv1.EndpointSlice
	want    []string // entries, or "Rule: part of the message"
}{
	{"plain", service(nil), []discoveryv1.EndpointSlice{slice(80, "10.0.0.2@node-b", "10.0.0.1@node-a")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1 10.0.0.2@node-b*1"}},
	{"no endpoints yet", service(nil), nil, []string{"192.0.2.1:80 RoundRobin"}},
	{"no address yet", service(func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }), []discoveryv1.EndpointSlice{slice(80, "10.0.0.1@node-a")}, nil},
	{"an address that kube-proxy takes for its own", service(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = nil }), nil, nil},
	{"only new connections stay away from pods that are not ready or go", service(nil), []discoveryv1.EndpointSlice{
		slice(80, "10.0.0.1@node-a", "10.0.0.2@node-b draining", "10.0.0.3@node-b unready")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1 10.0.0.2@node-b*1Draining 10.0.0.3@node-b*1NotReady"}},
	{"the last ones serve while they go", service(nil), []discoveryv1.EndpointSlice{slice(80, "10.0.0.2@node-b draining", "10.0.0.3@node-b unready")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.2@node-b*1 10.0.0.3@node-b*1NotReady"}},
	{"in two slices for a moment", service(nil), []discoveryv1.EndpointSlice{
		slice(80, "10.0.0.1@node-a unready"), slice(80, "10.0.0.1@node-a"), slice(80, "10.0.0.1@node-a draining")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1"}},
	{"slices of others", service(nil), []discoveryv1.EndpointSlice{
		func() discoveryv1.EndpointSlice {
			s := slice(80, "10.0.0.1@node-a")
			s.Labels[discoveryv1.LabelServiceName] = "other"
			return s
		}(),
		slice(80, "fd00::1@node-a")},
		[]string{"192.0.2.1:80 RoundRobin"}},
	{"C-9: IPv6 alone", service(func(s *corev1.Service) {
		of(corev1.IPv6Protocol)(s)
		s.Status.LoadBalancer.Ingress = ingress("192.0.2.1", "fd00:1::1")
	}), []discoveryv1.EndpointSlice{slice(80, "10.0.0.1@node-a"), slice(80, "fd00::2@node-b", "fd00::1@node-a")},
		[]string{"[fd00:1::1]:80 RoundRobin fd00::1@node-a*1 fd00::2@node-b*1"}},
	{"C-9: both families, each with its own servers", service(func(s *corev1.Service) {
		of(corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		s.Status.LoadBalancer.Ingress = ingress("192.0.2.1", "fd00:1::1")
	}), []discoveryv1.EndpointSlice{slice(80, "10.0.0.1@node-a"), slice(80, "fd00::1@node-a unready")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1", "[fd00:1::1]:80 RoundRobin fd00::1@node-a*1NotReady"}},
	{"one address outside of the pool, the other one serves", service(func(s *corev1.Service) {
		of(corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		s.Status.LoadBalancer.Ingress = ingress("192.0.2.1", "fd00:2::1")
	}), nil, []string{"192.0.2.1:80 RoundRobin", "OutsidePool: address fd00:2::1 is not in the pool"}},
	{"the IPv6 address of a node", service(func(s *corev1.Service) {
		of(corev1.IPv6Protocol)(s)
		s.Status.LoadBalancer.Ingress = ingress("fd00:1::b")
	}), nil, []string{"AddressTaken: address fd00:1::b belongs to node node-b"}},
	{"node ports of both families", nodePortService(of(corev1.IPv6Protocol, corev1.IPv4Protocol)), []discoveryv1.EndpointSlice{slice(8080, "10.0.0.1@node-b"), slice(8080, "fd00::1@node-b")},
		[]string{"10.1.0.1:30080 RoundRobin on node-a 10.1.0.2@node-b*1", "10.1.0.2:30080 RoundRobin on node-b local", "[fd00:1::b]:30080 RoundRobin on node-b local"}},
	{"node ports of IPv6", nodePortService(of(corev1.IPv6Protocol)), []discoveryv1.EndpointSlice{slice(8080, "fd00::1@node-a")},
		[]string{"[fd00:1::b]:30080 RoundRobin on node-b"}},
	{"policy and weights", service(func(s *corev1.Service) {
		s.Annotations[v1alpha1.AnnotationPolicy] = "Least"
		s.Annotations[v1alpha1.AnnotationNodeWeights] = "node-x=2,, node-a=3"
	}), []discoveryv1.EndpointSlice{slice(80, "10.0.0.1@node-a", "10.0.0.2@node-b")},
		[]string{"192.0.2.1:80 Least 10.0.0.1@node-a*3 10.0.0.2@node-b*1"}},
	{"a named port that some pods resolve otherwise", service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") }),
		[]discoveryv1.EndpointSlice{slice(80, "10.0.0.1@node-a"), slice(8080, "10.0.0.2@node-b", "10.0.0.3@node-b")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1 excluded 2 cut 0"}},
	{"a named port that all pods resolve otherwise", service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") }),
		[]discoveryv1.EndpointSlice{slice(8080, "10.0.0.2@node-b")},
		[]string{"PortTranslation: port 80: all 1 endpoints listen on another port, 8080"}},
	{"no selector: slices count, not targetPort", service(func(s *corev1.Service) {
		s.Spec.Selector, s.Spec.Ports[0].TargetPort = nil, intstr.FromInt32(8080)
	}), []discoveryv1.EndpointSlice{slice(80, "10.0.0.1@node-a")}, []string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1"}},
	{"outside of the pool", service(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = ingress("192.0.3.1") }), nil,
		[]string{"OutsidePool: 192.0.3.1 is not in the pool 192.0.2.0/24,10.1.0.0/24,fd00:1::/120"}},
	{"the address of a node", service(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = ingress("10.1.0.2") }), nil,
		[]string{"AddressTaken: address 10.1.0.2 belongs to node node-b"}},
	{"node ports", nodePortService(nil), []discoveryv1.EndpointSlice{slice(8080, "10.0.0.1@node-b", "10.0.0.2@node-b", "10.0.0.3@node-b unready")},
		[]string{"10.1.0.1:30080 RoundRobin on node-a 10.1.0.2@node-b*2", "10.1.0.2:30080 RoundRobin on node-b local"}},
	{"node ports, nobody ready on one node", nodePortService(nil), []discoveryv1.EndpointSlice{slice(8080, "10.0.0.1@node-b", "10.0.0.3@node-a unready")},
		[]string{"10.1.0.1:30080 RoundRobin on node-a 10.1.0.2@node-b*1", "10.1.0.2:30080 RoundRobin on node-b local 10.1.0.1@node-a*1NotReady"}},
	{"address and node ports", service(func(s *corev1.Service) {
		s.Annotations[v1alpha1.AnnotationRedirect] = "enabled"
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}), nil, []string{"10.1.0.1:30080 RoundRobin on node-a", "10.1.0.2:30080 RoundRobin on node-b", "192.0.2.1:80 RoundRobin"}},
	{"the address stays when its node ports are refused", service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationRedirect] = "enabled" }), nil,
		[]string{"192.0.2.1:80 RoundRobin", "ExternalTrafficPolicy: need externalTrafficPolicy: Local"}},
	{"nothing to do with CRAB", service(func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr("other") }), nil, nil},
}

func TestPlan(t *testing.T) {
	nodes := []corev1.Node{node("node-a", "10.1.0.1"), dualNode("node-b", "10.1.0.2", "fd00:1::b")}
	for _, c := range planCases {
		t.Run(c.name, func(t *testing.T) {
			p := Make(Input{Services: []corev1.Service{c.service}, Slices: c.slices, Nodes: nodes, Pool: mustPool(t, "192.0.2.0/24,10.1.0.0/24,fd00:1::/120")})
			check(t, p, c.want)
			for _, v := range p.VIPs {
				for i, p := range v.Prefixes() {
					if !p.IsSingleIP() || p.Addr() != v.Backends[i].Addr {
						t.Errorf("C-91: %s is believed for %s", p, v.Backends[i].Addr)
					}
				}
				if v.Revision != Revision(&c.service) || v.Service != Name(&c.service) || len(v.Prefixes()) != len(v.Backends) {
					t.Errorf("%+v", v)
				}
			}
		})
	}
}

func check(t *testing.T, p Plan, want []string) {
	t.Helper()
	var got []string
	for _, v := range p.VIPs {
		got = append(got, written(v))
	}
	for i, r := range p.Refusals {
		got = append(got, r.Rule+": "+r.Message)
		if at := len(p.VIPs) + i; at < len(want) {
			rule, part, _ := strings.Cut(want[at], ": ")
			if r.Rule == rule && strings.Contains(r.Message, part) {
				got[at] = want[at]
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Each rule by itself: what is refused, and that the message says what to do.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		rule, part string
		service    corev1.Service
	}{
		{v1alpha1.ReasonPortTranslation, "let the pods listen on 80", service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) })},
		{v1alpha1.ReasonProtocolNotTCP, `port "dns" (53) is UDP`, service(func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
		})},
		{v1alpha1.ReasonProtocolNotTCP, "is SCTP", nodePortService(func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP })},
		{v1alpha1.ReasonSessionAffinity, "set None", service(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })},
		{v1alpha1.ReasonSourceRanges, "NetworkPolicy", service(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })},
		{v1alpha1.ReasonNoNodeAddress, "the Service is IPv6, and no node", nodePortService(of(corev1.IPv6Protocol))},
		{v1alpha1.ReasonNoNodePort, "type ClusterIP", nodePortService(func(s *corev1.Service) {
			s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
		})},
		{v1alpha1.ReasonNoNodePort, "type headless ClusterIP", nodePortService(func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ClusterIP, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone, 0
		})},
		{v1alpha1.ReasonNoNodePort, "type ExternalName", nodePortService(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "x"}
		})},
		{v1alpha1.ReasonExternalTrafficPolicy, "Local", nodePortService(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })},
		{v1alpha1.ReasonInvalidAnnotation, `bobtail.dev/policy: "Fair" is none of RoundRobin`, service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationPolicy] = "Fair" })},
		{v1alpha1.ReasonInvalidAnnotation, `is none of`, service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationPolicy] = "" })},
		{v1alpha1.ReasonInvalidAnnotation, `"yes" must be "enabled"`, nodePortService(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationRedirect] = "yes" })},
		{v1alpha1.ReasonInvalidAnnotation, `"a=101" must be NODE=WEIGHT`, service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationNodeWeights] = "b=1,a=101" })},
		{v1alpha1.ReasonInvalidAnnotation, `"a=0"`, service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationNodeWeights] = "a=0" })},
		{v1alpha1.ReasonInvalidAnnotation, `"a"`, service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationNodeWeights] = "a" })},
	} {
		got := Judge(&c.service)
		if c.rule == v1alpha1.ReasonNoNodeAddress { // a rule about the nodes
			got = Make(Input{Services: []corev1.Service{c.service}, Nodes: []corev1.Node{node("n", "10.1.0.1")}}).Refusals
		}
		if len(got) != 1 || got[0].Rule != c.rule || !strings.Contains(got[0].Message, c.part) {
			t.Errorf("%s, %s: %+v", c.rule, c.part, got)
		}
		p := Make(Input{Services: []corev1.Service{c.service}, Nodes: []corev1.Node{node("n", "10.1.0.1")}, Pool: mustPool(t, "192.0.2.0/24")})
		if !reflect.DeepEqual(p.Refusals, got) || len(p.VIPs) != 0 {
			t.Errorf("%s: the plan says otherwise: %+v", c.rule, p)
		}
	}
	for _, s := range []corev1.Service{
		service(nil), nodePortService(nil),
		service(func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}),
		service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") }),
		service(func(s *corev1.Service) {
			s.Spec.AllocateLoadBalancerNodePorts, s.Spec.Ports[0].NodePort = ptr(false), 0
		}),
		nodePortService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) }), // the node translates it
	} {
		if got := Judge(&s); len(got) > 0 {
			t.Errorf("%+v refused: %+v", s.Spec, got)
		}
	}
}

func TestOlderServiceKeepsTheAddress(t *testing.T) {
	older := service(func(s *corev1.Service) { s.Name = "z" })
	younger := service(func(s *corev1.Service) {
		s.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(time.Second))
	})
	check(t, Make(Input{Services: []corev1.Service{younger, older}, Pool: mustPool(t, "192.0.2.0/24")}),
		[]string{"192.0.2.1:80 RoundRobin", "AddressTaken: belongs to Service shop/z"})
}

func TestTableHasAnEnd(t *testing.T) {
	var nodes []corev1.Node
	for i := range MaxVIPs {
		nodes = append(nodes, node(fmt.Sprint("n", i), fmt.Sprintf("10.1.%d.%d", i>>8, i&255)))
	}
	younger := service(func(s *corev1.Service) { s.Name, s.CreationTimestamp = "late", metav1.Unix(2000, 0) })
	p := Make(Input{Services: []corev1.Service{younger, nodePortService(nil)}, Nodes: nodes, Pool: mustPool(t, "192.0.2.0/24")})
	if len(p.VIPs) != MaxVIPs || len(p.Refusals) != 1 || p.Refusals[0].Service.Name != "late" || p.Refusals[0].Rule != v1alpha1.ReasonTableFull {
		t.Errorf("%d entries, refusals %+v", len(p.VIPs), p.Refusals)
	}
}

// A node's IPv6 address doubles what a dual-stack Service takes: nobody is pushed out by that.
func TestSecondFamilyPushesNobodyOut(t *testing.T) {
	var four, dual []corev1.Node
	for i := range MaxVIPs - 1 {
		name, ip := fmt.Sprint("n", i), fmt.Sprintf("10.1.%d.%d", i>>8, i&255)
		four, dual = append(four, node(name, ip)), append(dual, dualNode(name, ip, fmt.Sprintf("fd00:8::%x", i+1)))
	}
	both := nodePortService(func(s *corev1.Service) {
		s.Name, s.Spec.IPFamilies = "old", []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	younger := service(func(s *corev1.Service) { s.CreationTimestamp = metav1.Unix(2000000000, 0) })
	in := Input{Services: []corev1.Service{both, younger}, Nodes: four, Pool: mustPool(t, "192.0.2.0/24")}
	before := Make(in)
	in.Nodes = dual
	after := Make(in)
	if len(before.VIPs) != MaxVIPs || !reflect.DeepEqual(before.VIPs, after.VIPs) {
		t.Errorf("%d entries over IPv4 became %d", len(before.VIPs), len(after.VIPs))
	}
	if len(after.Refusals) != 1 || after.Refusals[0].Service.Name != "old" || !strings.Contains(after.Refusals[0].Message, "IPv6") {
		t.Errorf("%+v", after.Refusals)
	}
}

func TestLargePoolKeepsReadyServers(t *testing.T) {
	var endpoints []string
	for i := range MaxBackends + 3 {
		state := ""
		if i < 2 {
			state = " unready"
		}
		endpoints = append(endpoints, fmt.Sprintf("10.2.%d.%d@n%s", i>>8, i&255, state))
	}
	s := service(nil)
	v := Make(Input{Services: []corev1.Service{s}, Slices: []discoveryv1.EndpointSlice{slice(80, endpoints...)}, Pool: mustPool(t, "192.0.2.0/24")}).VIPs[0]
	if len(v.Backends) != MaxBackends || v.Cut != 3 || v.Backends[0].State != Ready {
		t.Errorf("%d servers, %d cut, first %+v", len(v.Backends), v.Cut, v.Backends[0])
	}
}

// Whatever the order of what is seen, the plan is the same.
func TestPlanDoesNotDependOnOrder(t *testing.T) {
	in := Input{Pool: mustPool(t, "192.0.2.0/24"), Nodes: []corev1.Node{node("a", "10.1.0.1"), node("b", "10.1.0.2"), node("c", "10.1.0.3")}}
	for i := range 6 {
		in.Services = append(in.Services, service(func(s *corev1.Service) {
			s.Name, s.Status.LoadBalancer.Ingress = fmt.Sprint("s", i), ingress(fmt.Sprintf("192.0.2.%d", i/2+1))
		}), nodePortService(func(s *corev1.Service) { s.Name, s.Spec.Ports[0].NodePort = fmt.Sprint("p", i), int32(30000+i) }))
		e := slice(80, "10.0.0.1@a", "10.0.0.2@b draining", "10.0.0.3@c unready")
		e.Labels[discoveryv1.LabelServiceName] = fmt.Sprint("s", i)
		in.Slices = append(in.Slices, e)
	}
	first := Make(in)
	if len(first.VIPs) != 3+18 || len(first.Refusals) != 3 {
		t.Fatalf("%d entries, %d refusals", len(first.VIPs), len(first.Refusals))
	}
	shuffle := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		shuffle.Shuffle(len(in.Services), func(i, j int) { in.Services[i], in.Services[j] = in.Services[j], in.Services[i] })
		shuffle.Shuffle(len(in.Slices), func(i, j int) { in.Slices[i], in.Slices[j] = in.Slices[j], in.Slices[i] })
		shuffle.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
		if again := Make(in); !reflect.DeepEqual(first, again) {
			t.Fatalf("another order, another plan:\n%+v\n%+v", first, again)
		}
	}
}

func TestRevisionFollowsTheService(t *testing.T) {
	base := service(nil)
	for what, change := range map[string]func(*corev1.Service){
		"address": func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = ingress("192.0.2.9") },
		"family": func(s *corev1.Service) {
			of(corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
			s.Status.LoadBalancer.Ingress = ingress("192.0.2.1", "fd00::1")
		},
		"port":    func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 },
		"policy":  func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationPolicy] = "Random" },
		"weights": func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationNodeWeights] = "a=2" },
		"redirect": func(s *corev1.Service) {
			s.Annotations[v1alpha1.AnnotationRedirect], s.Spec.ExternalTrafficPolicy = "enabled", "Local"
		},
		"promise":   func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
		"made anew": func(s *corev1.Service) { s.UID = "v" },
	} {
		other := service(change)
		if Revision(&base) == Revision(&other) {
			t.Errorf("another %s, the same revision", what)
		}
	}
	if got := Revision(&base); got != "a79939a72403e2e7" { // or all nodes acknowledge all Services anew
		t.Errorf("the revision of a Service of IPv4 is %s, and was another one before IPv6", got)
	}
	same := service(func(s *corev1.Service) { s.Annotations["other"] = "x"; s.Labels = map[string]string{"a": "b"} })
	if Revision(&base) != Revision(&same) {
		t.Error("the revision follows what does not concern the nodes")
	}
}

// K-11: externalTrafficPolicy: Local promises that clients keep their addresses, which the nodes are told. That of node
// ports is another matter: they are never relayed.
func TestLocalKeepsClientsAddresses(t *testing.T) {
	local := service(func(s *corev1.Service) {
		s.Annotations[v1alpha1.AnnotationRedirect] = "enabled"
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	cluster := service(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
	for _, s := range []corev1.Service{local, cluster} {
		p := Make(Input{Services: []corev1.Service{s}, Slices: []discoveryv1.EndpointSlice{slice(80, "10.0.0.1@a")},
			Nodes: []corev1.Node{node("a", "10.1.0.1")}, Pool: mustPool(t, "192.0.2.0/28")})
		if len(p.VIPs) == 0 || len(p.Refusals) != 0 {
			t.Errorf("%s: %+v", s.Spec.ExternalTrafficPolicy, p)
		}
		for _, v := range p.VIPs {
			want := v.Kind == LoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
			if v.KeepsClients != want {
				t.Errorf("%s, %s: clients' addresses are kept: %v", s.Spec.ExternalTrafficPolicy, v.Kind, v.KeepsClients)
			}
		}
	}
}

// The loader knows the same policies and bounds.
func TestLoaderAgrees(t *testing.T) {
	for i, name := range crabwords.Policies {
		var p redirect.Policy
		if err := p.UnmarshalText([]byte(name)); err != nil || int(p) != i {
			t.Errorf("%s is %d, %v", name, p, err)
		}
	}
	if MaxBackends != redirect.MaxBackends {
		t.Errorf("%d servers here, %d there", MaxBackends, redirect.MaxBackends)
	}
}
