// SPDX-License-Identifier: Apache-2.0

package crabplan

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// What is left out of a list has something behind it here: that still counts.
var skippedCases = []struct {
	name    string
	service corev1.Service
	slices  []discoveryv1.EndpointSlice
	want    []string
}{
	{"an endpoint without an address, one of the other family and one that is none", service(nil), []discoveryv1.EndpointSlice{func() discoveryv1.EndpointSlice {
		s := slice(80, "10.0.0.9@node-a", "10.0.0.8@node-a", "x@node-a", "10.0.0.1@node-a")
		s.Endpoints[0].Addresses, s.Endpoints[1].Addresses = nil, []string{"fd00::1"}
		return s
	}()}, []string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1"}},
	{"a slice without the port", service(nil), []discoveryv1.EndpointSlice{withoutPorts(), slice(80, "10.0.0.1@node-a")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1"}},
	{"a slice of another port", service(nil), []discoveryv1.EndpointSlice{slice(8080, "10.0.0.2@node-a"), slice(80, "10.0.0.1@node-a")},
		[]string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1 excluded 1 cut 0"}},
	{"a slice without the node port, pods of nodes that are gone", nodePortService(nil), []discoveryv1.EndpointSlice{
		withoutPorts(), slice(8080, "10.0.0.1@gone-a", "10.0.0.2@gone-b", "10.0.0.3@gone-c", "10.0.0.4@node-b")},
		[]string{"10.1.0.1:30080 RoundRobin on node-a 10.1.0.2@node-b*1", "10.1.0.2:30080 RoundRobin on node-b local"}},
	{"the node's own pods before those of another node", nodePortService(nil), []discoveryv1.EndpointSlice{slice(8080, "10.0.0.1@node-a", "10.0.0.2@node-b")},
		[]string{"10.1.0.1:30080 RoundRobin on node-a local 10.1.0.2@node-b*1", "10.1.0.2:30080 RoundRobin on node-b local 10.1.0.1@node-a*1"}},
	{"a pod in two slices, one of a node port", nodePortService(nil), []discoveryv1.EndpointSlice{
		slice(8080, "10.0.0.1@node-a"), slice(8080, "10.0.0.1@node-a unready")},
		[]string{"10.1.0.1:30080 RoundRobin on node-a local", "10.1.0.2:30080 RoundRobin on node-b 10.1.0.1@node-a*1"}},
	{"a port that has no node port", service(func(s *corev1.Service) {
		s.Annotations[v1alpha1.AnnotationRedirect] = "enabled"
		s.Spec.ExternalTrafficPolicy, s.Status = corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceStatus{}
		second := s.Spec.Ports[0]
		s.Spec.Ports[0].NodePort, second.Port, second.TargetPort = 0, 81, intstr.FromInt32(81)
		s.Spec.Ports = append(s.Spec.Ports, second)
	}), nil, []string{"10.1.0.1:30080 RoundRobin on node-a", "10.1.0.2:30080 RoundRobin on node-b"}},
	{"an address outside of the pool before one that is not", service(func(s *corev1.Service) {
		of(corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		s.Status.LoadBalancer.Ingress = ingress("192.0.3.1", "fd00:1::1")
	}), nil, []string{"[fd00:1::1]:80 RoundRobin", "OutsidePool: address 192.0.3.1"}},
	{"an address that is taken before one that is not", service(func(s *corev1.Service) {
		of(corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		s.Status.LoadBalancer.Ingress = ingress("10.1.0.2", "fd00:1::1")
	}), nil, []string{"[fd00:1::1]:80 RoundRobin", "AddressTaken: address 10.1.0.2"}},
	{"the lightest and the heaviest node", service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationNodeWeights] = "node-a=1,node-b=100" }),
		[]discoveryv1.EndpointSlice{slice(80, "10.0.0.1@node-a", "10.0.0.2@node-b")}, []string{"192.0.2.1:80 RoundRobin 10.0.0.1@node-a*1 10.0.0.2@node-b*100"}},
	{"weights that are none", service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationNodeWeights] = "=7,node-a=x,node-b=101" }), nil,
		[]string{`InvalidAnnotation: "=7" must be`, `InvalidAnnotation: "node-a=x" must be`, `InvalidAnnotation: "node-b=101" must be`}},
	{"a switch whose name is none", service(func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationSwitch] = "A_B" }), nil,
		[]string{`InvalidAnnotation: "A_B" is no name`}},
}

func withoutPorts() discoveryv1.EndpointSlice {
	s := slice(80, "10.0.0.7@node-a")
	s.Ports = nil
	return s
}

func TestWhatIsSkippedEndsNothing(t *testing.T) {
	nodes := []corev1.Node{node("node-a", "10.1.0.1"), node("node-b", "10.1.0.2")}
	for _, c := range skippedCases {
		t.Run(c.name, func(t *testing.T) {
			check(t, Make(Input{Services: []corev1.Service{c.service}, Slices: c.slices, Nodes: nodes, Pool: mustPool(t, "192.0.2.0/24,10.1.0.0/24,fd00:1::/120")}), c.want)
		})
	}
	// Before the first node is known there is nothing to blame a Service for.
	check(t, Make(Input{Services: []corev1.Service{nodePortService(nil)}}), nil)
}

// A switch redirects to addresses of the pool: node ports never name it.
func TestSwitchIsOfAddresses(t *testing.T) {
	s := service(func(s *corev1.Service) {
		s.Annotations[v1alpha1.AnnotationRedirect], s.Annotations[v1alpha1.AnnotationSwitch] = "enabled", "tor"
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	p := Make(Input{Services: []corev1.Service{s}, Nodes: []corev1.Node{node("node-a", "10.1.0.1")}, Pool: mustPool(t, "192.0.2.0/24")})
	got := map[string]string{}
	for _, v := range p.VIPs {
		got[written(v)] = v.Switch
	}
	if len(got) != 2 || got["192.0.2.1:80 RoundRobin"] != "tor" || got["10.1.0.1:30080 RoundRobin on node-a"] != "" {
		t.Errorf("%v, refused %+v", got, p.Refusals)
	}
}

func TestStateOf(t *testing.T) {
	for _, c := range []struct {
		ready, serving, terminating *bool
		want                        State
	}{
		{nil, nil, nil, Ready},
		{ptr(true), ptr(false), ptr(true), Ready},
		{ptr(false), nil, ptr(true), NotReady},
		{ptr(false), ptr(true), nil, NotReady},
		{ptr(false), ptr(true), ptr(false), NotReady},
		{ptr(false), ptr(false), nil, NotReady},
		{ptr(false), ptr(false), ptr(true), NotReady},
		{ptr(false), ptr(true), ptr(true), Draining},
	} {
		if got := stateOf(discoveryv1.EndpointConditions{Ready: c.ready, Serving: c.serving, Terminating: c.terminating}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestPortOf(t *testing.T) {
	tcp, udp := ptr(corev1.ProtocolTCP), ptr(corev1.ProtocolUDP)
	for _, c := range []struct {
		name  string
		ports []discoveryv1.EndpointPort
		want  int32
	}{
		{"of the name, behind another one", []discoveryv1.EndpointPort{{Name: ptr("b"), Port: ptr[int32](2), Protocol: tcp}, {Name: ptr("a"), Port: ptr[int32](1), Protocol: tcp}}, 1},
		{"protocol left out", []discoveryv1.EndpointPort{{Name: ptr("a"), Port: ptr[int32](1)}}, 1},
		{"any port", []discoveryv1.EndpointPort{{Name: ptr("a"), Protocol: tcp}}, 0},
		{"UDP", []discoveryv1.EndpointPort{{Name: ptr("a"), Port: ptr[int32](1), Protocol: udp}}, 0},
		{"no name", []discoveryv1.EndpointPort{{Port: ptr[int32](1), Protocol: tcp}}, 0},
		{"another name, any port", []discoveryv1.EndpointPort{{Name: ptr("b")}}, 0},
	} {
		if got := portOf(&discoveryv1.EndpointSlice{Ports: c.ports}, corev1.ServicePort{Name: "a"}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := portOf(&discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Port: ptr[int32](7)}}}, corev1.ServicePort{}); got != 7 {
		t.Errorf("neither has a name: %d", got)
	}
}

func TestByLoad(t *testing.T) {
	for policy, want := range map[string]bool{"RoundRobin": false, "Random": false, "PowerOfTwo": true, "Least": true} {
		if got := (VIP{Policy: policy}).ByLoad(); got != want {
			t.Errorf("%s: %v", policy, got)
		}
	}
}

func TestWantsVIP(t *testing.T) {
	ours, other := v1alpha1.LoadBalancerClass, "other"
	for _, c := range []struct {
		kind  corev1.ServiceType
		class *string
		want  bool
	}{
		{corev1.ServiceTypeLoadBalancer, &ours, true},
		{corev1.ServiceTypeLoadBalancer, &other, false},
		{corev1.ServiceTypeLoadBalancer, nil, false},
		{corev1.ServiceTypeNodePort, &ours, false},
		{corev1.ServiceTypeNodePort, nil, false},
	} {
		if got := WantsVIP(&corev1.Service{Spec: corev1.ServiceSpec{Type: c.kind, LoadBalancerClass: c.class}}); got != c.want {
			t.Errorf("%s, class %v: %v", c.kind, c.class, got)
		}
	}
}

// Which ports a node's table should have, and when it lacks one.
func TestPortsAndMissing(t *testing.T) {
	both := func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationRedirect] = "enabled" }
	noNodePort := func(s *corev1.Service) { both(s); s.Spec.Ports[0].NodePort = 0 }
	for _, c := range []struct {
		name    string
		service corev1.Service
		ports   []int32
		held    []string
		missing bool
	}{
		{"an address, held", service(nil), []int32{80}, []string{"192.0.2.1:80"}, false},
		{"an address, nothing held", service(nil), []int32{80}, nil, true},
		{"another address holds the port", service(nil), []int32{80}, []string{"192.0.2.9:80"}, true},
		{"another port of the address", service(nil), []int32{80}, []string{"192.0.2.1:81"}, true},
		{"no address yet, the port held", service(func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }), []int32{80}, []string{"192.0.2.9:80"}, false},
		{"no address yet, another port held", service(func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }), []int32{80}, []string{"192.0.2.9:81"}, true},
		{"a node port, held", nodePortService(nil), []int32{30080}, []string{"10.1.0.1:30080"}, false},
		{"a node port, not held", nodePortService(nil), []int32{30080}, []string{"10.1.0.1:80"}, true},
		{"a node port that is an address's port", nodePortService(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = ingress("192.0.2.1") }), []int32{30080}, []string{"10.1.0.1:30080"}, false},
		{"both, held", service(both), []int32{80, 30080}, []string{"192.0.2.1:80", "10.1.0.1:30080"}, false},
		{"both, the node port lacks", service(both), []int32{80, 30080}, []string{"192.0.2.1:80"}, true},
		{"both, the address lacks", service(both), []int32{80, 30080}, []string{"10.1.0.1:30080"}, true},
		{"no node port to redirect", service(noNodePort), []int32{80}, []string{"192.0.2.1:80"}, false},
		{"nothing asked for", service(func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }), nil, nil, false},
	} {
		held := map[netip.AddrPort]bool{}
		for _, at := range c.held {
			held[netip.MustParseAddrPort(at)] = true
		}
		if got := Ports(&c.service); !slices.Equal(got, c.ports) {
			t.Errorf("%s: ports %v, want %v", c.name, got, c.ports)
		}
		if got := Missing(&c.service, held); got != c.missing {
			t.Errorf("%s: missing %v", c.name, got)
		}
	}
}
