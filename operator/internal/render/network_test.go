// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// endpoint is one end of a flow, as network policies see it.
type endpoint struct {
	name      string
	namespace string
	labels    map[string]string
}

// flow is a packet's way and whether it must be let through.
type flow struct {
	from, to endpoint
	protocol corev1.Protocol
	port     int32
	allowed  bool
}

// allows evaluates ingress as the API defines it: a pod that no policy selects
// takes everything; one that is selected takes what some rule of some policy
// that selects it lets in.
func allows(t *testing.T, policies []*networkingv1.NetworkPolicy, f flow) bool {
	t.Helper()
	isolated := false
	for _, p := range policies {
		if p.Namespace != f.to.namespace || !matches(t, &p.Spec.PodSelector, f.to.labels) {
			continue
		}
		isolated = true
		for _, rule := range p.Spec.Ingress {
			if peerMatches(t, p.Namespace, rule.From, f.from) && portMatches(rule.Ports, f.protocol, f.port) {
				return true
			}
		}
	}
	return !isolated
}

func peerMatches(t *testing.T, namespace string, peers []networkingv1.NetworkPolicyPeer, from endpoint) bool {
	t.Helper()
	if len(peers) == 0 {
		return true
	}
	for _, peer := range peers {
		if peer.IPBlock != nil {
			t.Fatal("the evaluator knows no ipBlock: teach it before using one")
		}
		inNamespace := from.namespace == namespace
		if peer.NamespaceSelector != nil {
			inNamespace = matches(t, peer.NamespaceSelector, map[string]string{corev1.LabelMetadataName: from.namespace})
		}
		if inNamespace && (peer.PodSelector == nil || matches(t, peer.PodSelector, from.labels)) {
			return true
		}
	}
	return false
}

func portMatches(ports []networkingv1.NetworkPolicyPort, protocol corev1.Protocol, port int32) bool {
	if len(ports) == 0 {
		return true
	}
	for _, p := range ports {
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		if *p.Protocol == protocol && port >= p.Port.IntVal && port <= last {
			return true
		}
	}
	return false
}

func matches(t *testing.T, selector *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(set))
}

// TestTrafficMatrix: every pair of parties on every port, DESIGN §4. What is not
// listed as allowed must be refused.
func TestTrafficMatrix(t *testing.T) {
	shop, stock := load(t, "testdata/full.in.yaml"), load(t, "testdata/no-router.in.yaml")
	stock.Service.Namespace = shop.Service.Namespace
	policies := []*networkingv1.NetworkPolicy{serverPolicy(shop), routerPolicy(shop), serverPolicy(stock)}

	pod := func(name, namespace string, l map[string]string) endpoint { return endpoint{name, namespace, l} }
	server := pod("server", "shop", Selector("search", v1alpha1.ComponentServer))
	router := pod("router", "shop", Selector("search", v1alpha1.ComponentRouter))
	parties := []endpoint{
		server, router,
		pod("server of another service", "shop", Selector("direct", v1alpha1.ComponentServer)),
		pod("server of that name elsewhere", "other", Selector("search", v1alpha1.ComponentServer)),
		pod("client", "shop", map[string]string{"app": "web"}),
		pod("client elsewhere", "other", map[string]string{"app": "web"}),
		pod("operator", "bobtail-system", OperatorLabels),
		pod("something else beside the operator", "bobtail-system", map[string]string{"app": "x"}),
		pod("operator's labels elsewhere", "other", OperatorLabels),
	}
	everyone := func(endpoint) bool { return true }
	operator := func(e endpoint) bool { return e.name == "operator" }
	own := func(e endpoint) bool { return e.name == "server" }
	nobody := func(endpoint) bool { return false }
	var flows []flow
	for _, c := range []struct {
		to       endpoint
		protocol corev1.Protocol
		port     int32
		who      func(endpoint) bool
	}{
		{server, corev1.ProtocolUDP, 8000, everyone}, {server, corev1.ProtocolUDP, 8003, everyone},
		{server, corev1.ProtocolUDP, 8004, nobody}, {server, corev1.ProtocolUDP, 7999, nobody},
		{server, corev1.ProtocolUDP, 9000, nobody}, {server, corev1.ProtocolTCP, 8000, nobody},
		{server, corev1.ProtocolTCP, 9443, operator}, {server, corev1.ProtocolUDP, 9443, nobody},
		{server, corev1.ProtocolTCP, 9464, everyone}, {server, corev1.ProtocolTCP, 22, nobody},
		{router, corev1.ProtocolUDP, 8000, everyone}, {router, corev1.ProtocolUDP, 8001, nobody},
		{router, corev1.ProtocolUDP, 9000, own}, {router, corev1.ProtocolTCP, 9000, nobody},
		{router, corev1.ProtocolTCP, 9443, operator}, {router, corev1.ProtocolTCP, 9464, everyone},
		{router, corev1.ProtocolTCP, 22, nobody},
	} {
		for _, from := range parties {
			flows = append(flows, flow{from, c.to, c.protocol, c.port, c.who(from)})
		}
	}
	for _, f := range flows {
		name := fmt.Sprintf("%s to %s, %s %d", f.from.name, f.to.name, f.protocol, f.port)
		if got := allows(t, policies, f); got != f.allowed {
			t.Errorf("%s: let through %v, want %v", name, got, f.allowed)
		}
	}
}

// Replies come from an address the client never sent to. A policy of ours that
// selected a client's pod would cut it off, so none may.
func TestNoPolicySelectsClients(t *testing.T) {
	policies := []*networkingv1.NetworkPolicy{}
	for _, file := range []string{"minimal", "full", "transparent", "no-router"} {
		in := load(t, "testdata/"+file+".in.yaml")
		policies = append(policies, serverPolicy(in), routerPolicy(in))
	}
	policies = append(policies, tcpPolicy(load(t, "testdata/tcp.in.yaml")))
	for _, p := range policies {
		for _, l := range []map[string]string{nil, {"app": "web"}, {"app.kubernetes.io/name": "bobtail-load"}, OperatorLabels} {
			if matches(t, &p.Spec.PodSelector, l) {
				t.Errorf("policy %s selects a pod labelled %v", p.Name, l)
			}
		}
		if len(p.Spec.PodSelector.MatchLabels) != 2 {
			t.Errorf("policy %s: selector %v does not name service and component", p.Name, p.Spec.PodSelector)
		}
		if len(p.Spec.PolicyTypes) != 1 || p.Spec.PolicyTypes[0] != networkingv1.PolicyTypeIngress {
			t.Errorf("policy %s restricts %v: replies must be able to leave", p.Name, p.Spec.PolicyTypes)
		}
	}
}

// The chart labels the operator's pods so (TestOperatorIsRecognised in charts).
func TestOperatorLabels(t *testing.T) {
	if len(OperatorLabels) != 2 || OperatorLabels["app.kubernetes.io/name"] != "bobtail" || OperatorLabels["app.kubernetes.io/component"] != "operator" {
		t.Errorf("labels %v: the chart must change with them", OperatorLabels)
	}
}

// During a rollout to fewer workers, the pods that have more of them still
// serve.
func TestPolicyCoversLivingWorkers(t *testing.T) {
	in := load(t, "testdata/minimal.in.yaml")
	in.LiveWorkers = 8
	client := endpoint{name: "client", namespace: "elsewhere"}
	server := endpoint{"server", in.Service.Namespace, Selector(in.Service.Name, v1alpha1.ComponentServer)}
	for port, want := range map[int32]bool{8000: true, 8007: true, 8008: false} {
		f := flow{client, server, corev1.ProtocolUDP, port, want}
		if got := allows(t, []*networkingv1.NetworkPolicy{serverPolicy(in)}, f); got != want {
			t.Errorf("port %d: let through %v, want %v", port, got, want)
		}
	}
}

// A switch sends workers packets with the client's address, which may be anybody's, and
// takes FEEDBACK, which nothing keeps in: the policies of a service on a switch are those
// of any other, and the routers that stand by have theirs.
func TestPoliciesOnASwitch(t *testing.T) {
	policies := func(file string) map[string]networkingv1.NetworkPolicySpec {
		out := map[string]networkingv1.NetworkPolicySpec{}
		for _, o := range Objects(load(t, file)) {
			if p, is := o.(*networkingv1.NetworkPolicy); is {
				out[p.Name] = p.Spec
			}
		}
		return out
	}
	on, off := policies("testdata/switch.in.yaml"), policies("testdata/minimal.in.yaml")
	if !reflect.DeepEqual(on, off) || len(on) != 2 {
		t.Errorf("%d policies on a switch, %d off it, or others", len(on), len(off))
	}
	server := on["hello-server"]
	if rule := server.Ingress[0]; len(rule.From) != 0 || rule.Ports[0].Port.IntVal != WorkerPort || slices.Contains(server.PolicyTypes, networkingv1.PolicyTypeEgress) {
		t.Errorf("workers are reached by %+v", server)
	}
}
