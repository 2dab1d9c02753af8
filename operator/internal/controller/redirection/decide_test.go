// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

func ptr[T any](v T) *T { return &v }

// service is one of CRAB's class, made at that second, with an address or "".
func service(name string, second int64, address string, change func(*corev1.Service)) corev1.Service {
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.Unix(second, 0), Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr(v1alpha1.LoadBalancerClass), Selector: map[string]string{"a": "b"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80), NodePort: 30080}},
		},
	}
	if address != "" {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address, IPMode: ptr(corev1.LoadBalancerIPModeProxy)}}
	}
	if change != nil {
		change(&s)
	}
	return s
}

// selecting selects the servers of an RpcService by its recommended label.
func selecting(name string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app.kubernetes.io/instance": name} }
}

func onA(name, device string) v1alpha1.RpcService {
	return v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: v1alpha1.RpcServiceStatus{Device: device}}
}

func wish(address string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationVIP] = address }
}

func pool(t *testing.T, text string) crabplan.Pool {
	t.Helper()
	p, err := crabplan.ParsePool(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func addressOf(s *corev1.Service) string {
	var out []string
	for _, a := range crabplan.Addresses(s) {
		out = append(out, a.String())
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, "+")
}

// stacks gives a Service families, by "4", "6", "46" or "64", and a policy.
func stacks(families string, policy corev1.IPFamilyPolicy) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, f := range families {
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPFamily("IPv"+string(f)))
		}
		s.Spec.IPFamilyPolicy = &policy
	}
}

const (
	single   = corev1.IPFamilyPolicySingleStack
	prefer   = corev1.IPFamilyPolicyPreferDualStack
	required = corev1.IPFamilyPolicyRequireDualStack
)

// twoAddresses are 192.0.2.1 and 192.0.2.2, and a third one that a node has.
func twoAddresses(t *testing.T, services []corev1.Service) snapshot {
	t.Helper()
	return snapshot{services: services, rpc: []v1alpha1.RpcService{onA("far", "AFXDP"), onA("near", "Kernel")}, pool: pool(t, "192.0.2.1-192.0.2.2,192.0.2.9/32"), nodes: []corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.9"}}},
	}}}
}

// whoGets is name=address of each Service, with the reason when it is not accepted, whether decide says that it gave
// one, and whether it did.
func whoGets(s snapshot) (said string, given, changed bool) {
	out, given := decide(s)
	var got []string
	for i, d := range out {
		text := d.service.Name + "=" + addressOf(d.service)
		if d.accepted.Reason != v1alpha1.ReasonAccepted {
			text += "(" + d.accepted.Reason + ")"
		}
		got = append(got, text)
		is := addressOf(d.service)
		changed = changed || is != "none" && is != addressOf(&s.services[i])
	}
	return strings.Join(got, " "), given, changed
}

// Two addresses, 192.0.2.1 and 192.0.2.2, and who gets which.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		name     string
		services []corev1.Service
		want     string // name=address, with the reason when it is not accepted
	}{
		{"kept over restarts", []corev1.Service{service("a", 1, "192.0.2.2", nil), service("b", 2, "192.0.2.1", nil)}, "a=192.0.2.2 b=192.0.2.1"},
		{"a younger one keeps its own against an older one without", []corev1.Service{service("a", 1, "", nil), service("b", 2, "192.0.2.1", nil)},
			"a=192.0.2.2 b=192.0.2.1"},
		{"asked for", []corev1.Service{service("a", 1, "", wish("192.0.2.2"))}, "a=192.0.2.2"},
		{"asked for by the field", []corev1.Service{service("a", 1, "", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.2" })}, "a=192.0.2.2"},
		{"moves to the one asked for", []corev1.Service{service("a", 1, "192.0.2.1", wish("192.0.2.2"))}, "a=192.0.2.2"},
		{"asked for and taken", []corev1.Service{service("a", 1, "", wish("192.0.2.2")), service("b", 2, "192.0.2.2", nil)}, "a=none(AddressTaken) b=192.0.2.2"},
		{"asked for and taken keeps what it has", []corev1.Service{service("a", 1, "192.0.2.1", wish("192.0.2.2")), service("b", 2, "192.0.2.2", nil)},
			"a=192.0.2.1(AddressTaken) b=192.0.2.2"},
		{"both ask for one", []corev1.Service{service("b", 2, "", wish("192.0.2.2")), service("a", 1, "", wish("192.0.2.2"))}, "b=none(AddressTaken) a=192.0.2.2"},
		{"a move makes room", []corev1.Service{service("a", 1, "192.0.2.1", wish("192.0.2.2")), service("b", 2, "", wish("192.0.2.1"))}, "a=192.0.2.2 b=192.0.2.1"},
		{"outside of the pool", []corev1.Service{service("a", 1, "", wish("192.0.2.3"))}, "a=none(OutsidePool)"},
		{"no address", []corev1.Service{service("a", 1, "", wish("web"))}, "a=none(InvalidAnnotation)"},
		{"of a family it does not have", []corev1.Service{service("a", 1, "192.0.2.1", wish("fd00::1"))}, "a=192.0.2.1(InvalidAnnotation)"},
		{"two of one family", []corev1.Service{service("a", 1, "", wish("192.0.2.1, 192.0.2.2"))}, "a=none(InvalidAnnotation)"},
		{"a node's", []corev1.Service{service("a", 1, "", wish("192.0.2.9"))}, "a=none(AddressTaken)"},
		{"exhausted", []corev1.Service{service("a", 1, "192.0.2.1", nil), service("b", 2, "192.0.2.2", nil), service("c", 3, "", nil)},
			"a=192.0.2.1 b=192.0.2.2 c=none(PoolExhausted)"},
		{"the pool has changed", []corev1.Service{service("a", 1, "203.0.113.1", nil), service("b", 2, "192.0.2.1", nil)}, "a=192.0.2.2 b=192.0.2.1"},
		{"two have one by somebody's hand", []corev1.Service{service("b", 2, "192.0.2.1", nil), service("a", 1, "192.0.2.1", nil)}, "b=192.0.2.2 a=192.0.2.1"},
		{"a refused Service has none, and frees it", []corev1.Service{
			service("a", 1, "192.0.2.1", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) }), service("b", 2, "192.0.2.2", nil), service("c", 3, "", nil)},
			"a=none(PortTranslation) b=192.0.2.2 c=192.0.2.1"},
		{"refused node ports leave the address", []corev1.Service{service("a", 1, "192.0.2.1", func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationRedirect] = "enabled" })},
			"a=192.0.2.1(ExternalTrafficPolicy)"},
		{"dual-stack is preferred, and the pool has one family", []corev1.Service{service("a", 1, "192.0.2.1", stacks("46", prefer))}, "a=192.0.2.1(FamilyMissing)"},
		{"dual-stack is preferred, and there is nothing at all", []corev1.Service{service("a", 1, "192.0.2.1", nil), service("b", 2, "192.0.2.2", nil),
			service("c", 3, "", stacks("64", prefer))}, "a=192.0.2.1 b=192.0.2.2 c=none(PoolExhausted)"},
		{"dual-stack is required, and the pool has one family", []corev1.Service{service("a", 1, "", stacks("46", required))}, "a=none(PoolExhausted)"},
		{"dual-stack is required of who is served by one", []corev1.Service{service("a", 1, "192.0.2.1", stacks("46", required))}, "a=192.0.2.1(FamilyMissing)"},
		{"dual-stack is required of who is served by the second", []corev1.Service{service("a", 1, "192.0.2.1", stacks("64", required))}, "a=192.0.2.1(FamilyMissing)"},
		{"dual-stack is required of who has an address of a former pool", []corev1.Service{service("a", 1, "203.0.113.1", stacks("46", required))}, "a=none(PoolExhausted)"},
		{"IPv6 alone, and the pool has none", []corev1.Service{service("a", 1, "192.0.2.1", stacks("6", single))}, "a=none(PoolExhausted)"},
		{"of servers on a device", []corev1.Service{service("a", 1, "192.0.2.1", selecting("far")), service("b", 2, "192.0.2.2", nil), service("c", 3, "", selecting("near"))},
			"a=none(ServersOnDevice) b=192.0.2.2 c=192.0.2.1"},
	} {
		got, given, changed := whoGets(twoAddresses(t, c.services))
		if got != c.want || given != changed {
			t.Errorf("%s: %s (given %v), want %s", c.name, got, given, c.want)
		}
	}
}

// C-9: one address of each family, in the order of the Service's families. The pool
// has 192.0.2.1 and fd00::1, fd00::2.
func TestAddressesOfBothFamilies(t *testing.T) {
	both := func(address string, families string, policy corev1.IPFamilyPolicy, wish string) corev1.Service {
		return service("a", 1, address, func(s *corev1.Service) {
			stacks(families, policy)(s)
			s.Annotations[v1alpha1.AnnotationVIP] = wish
		})
	}
	also := func(s corev1.Service, address string) corev1.Service {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address, IPMode: ptr(corev1.LoadBalancerIPModeProxy)})
		return s
	}
	for _, c := range []struct {
		name    string
		service corev1.Service
		want    string // what it gets, and the reason when that is not Accepted
	}{
		{"IPv6 alone", both("", "6", single, "fd00::2"), "fd00::2"},
		{"preferred", both("", "46", prefer, "fd00::2"), "192.0.2.1+fd00::2"},
		{"required, IPv6 first", both("", "64", required, "192.0.2.1,fd00::1"), "fd00::1+192.0.2.1"},
		{"one more than before", both("192.0.2.1", "46", prefer, "fd00::1"), "192.0.2.1+fd00::1"},
		{"kept", also(both("192.0.2.1", "46", required, ""), "fd00::2"), "192.0.2.1+fd00::2"},
		{"one is moved", also(both("192.0.2.1", "46", required, "fd00::1"), "fd00::2"), "192.0.2.1+fd00::1"},
		{"one may not be had, and none is given", both("", "46", required, "fd00::9"), "none OutsidePool"},
		{"one may not be had", both("", "46", prefer, "fd00::9"), "192.0.2.1 OutsidePool"},
		{"one may not be had, and the other one stays", both("192.0.2.1", "46", required, "fd00::9"), "192.0.2.1 OutsidePool"},
		{"a family less", also(both("192.0.2.1", "6", single, ""), "fd00::2"), "fd00::2"},
		{"kube-proxy's", func() corev1.Service {
			s := also(both("192.0.2.1", "46", required, "fd00::1"), "fd00::2")
			s.Status.LoadBalancer.Ingress[1].IPMode = ptr(corev1.LoadBalancerIPModeVIP)
			return s
		}(), "192.0.2.1+fd00::1"},
	} {
		out, given := decide(snapshot{services: []corev1.Service{c.service}, pool: pool(t, "192.0.2.1/32,fd00::1-fd00::2")})
		got := addressOf(out[0].service)
		if given != (got != addressOf(&c.service) && c.name != "a family less") {
			t.Errorf("%s: given %v", c.name, given)
		}
		if out[0].accepted.Reason != v1alpha1.ReasonAccepted {
			got += " " + out[0].accepted.Reason
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s (%s)", c.name, got, c.want, out[0].accepted.Message)
		}
		for _, i := range out[0].service.Status.LoadBalancer.Ingress {
			if i.IPMode == nil || *i.IPMode != corev1.LoadBalancerIPModeProxy {
				t.Errorf("%s: %s has mode %v", c.name, i.IP, i.IPMode)
			}
		}
	}
}

// C-9: a family that cannot be had is warned of by name, with the policy and what to
// do: of who prefers both, and of who requires both and was served before.
func TestMissingFamilyIsWarnedOf(t *testing.T) {
	for policy, want := range map[corev1.IPFamilyPolicy][]string{
		prefer:   {"has no IPv6 addresses: add some to crab.vipPool", "PreferDualStack"},
		required: {"has no IPv6 addresses: add some to crab.vipPool", "RequireDualStack", "goes on being served by 192.0.2.1"},
	} {
		s := service("a", 1, "192.0.2.1", stacks("64", policy))
		out, _ := decide(snapshot{pool: pool(t, "192.0.2.1-192.0.2.2"), services: []corev1.Service{s}, agents: []v1alpha1.NodeDataplane{agent("x", crabplan.Revision(&s))}})
		a := out[0].accepted
		for _, text := range want {
			if a.Status != metav1.ConditionTrue || a.Reason != v1alpha1.ReasonFamilyMissing || !strings.Contains(a.Message, text) {
				t.Errorf("%s: %+v, want %q", policy, a, text)
			}
		}
		if p := out[0].programmed; p.Status != metav1.ConditionTrue {
			t.Errorf("%s: the nodes serve it, and Programmed is %+v", policy, p)
		}
		if got := level(&metav1.Condition{Status: a.Status, Reason: a.Reason}); got != corev1.EventTypeWarning {
			t.Errorf("%s: the event is %s", policy, got)
		}
	}
}

func TestPoolMessagesSayWhatToDo(t *testing.T) {
	out, _ := decide(snapshot{services: []corev1.Service{service("a", 1, "", nil)}})
	if a := out[0].accepted; a.Reason != v1alpha1.ReasonPoolExhausted || !strings.Contains(a.Message, "the pool (empty) has no IPv4 addresses") || !strings.Contains(a.Message, "crab.vipPool") {
		t.Errorf("%+v", a)
	}
}

// Whatever happens, no address is given twice, and who has one that he may have keeps it.
func TestNoAddressTwice(t *testing.T) {
	const size, rounds = 8, 400
	r := rand.New(rand.NewPCG(7, 9))
	p := pool(t, "192.0.2.1-192.0.2.8")
	var services []corev1.Service
	for round := range rounds {
		switch {
		case len(services) > 0 && r.IntN(3) == 0:
			i := r.IntN(len(services))
			services = append(services[:i], services[i+1:]...)
		case len(services) > 0 && r.IntN(4) == 0:
			services[r.IntN(len(services))].Annotations[v1alpha1.AnnotationVIP] = fmt.Sprintf("192.0.2.%d", r.IntN(size)+1)
		default:
			services = append(services, service(fmt.Sprint("s", round), int64(r.IntN(5)), "", nil))
		}
		r.Shuffle(len(services), func(i, j int) { services[i], services[j] = services[j], services[i] })
		out, _ := decide(snapshot{services: services, pool: p})
		owner, refused := map[string]string{}, 0
		for i, d := range out {
			is, was := addressOf(d.service), addressOf(&services[i])
			if is != "none" && owner[is] != "" {
				t.Fatalf("round %d: %s belongs to %s and %s", round, is, owner[is], d.service.Name)
			}
			if was != "none" && is != was && is != d.service.Annotations[v1alpha1.AnnotationVIP] {
				t.Fatalf("round %d: %s loses %s for %s", round, d.service.Name, was, is)
			}
			if is == "none" {
				refused++
			} else {
				owner[is] = d.service.Name
			}
			services[i].Status = d.service.Status
		}
		if len(services) <= size && refused > 0 && !anyWish(services) {
			t.Fatalf("round %d: %d of %d Services have no address", round, refused, len(services))
		}
	}
}

func anyWish(services []corev1.Service) bool {
	for _, s := range services {
		if s.Annotations[v1alpha1.AnnotationVIP] != "" {
			return true
		}
	}
	return false
}

// An exhausted pool says of which family.
func TestExhaustedFamily(t *testing.T) {
	services := []corev1.Service{service("a", 1, "fd00::1", stacks("6", single)), service("b", 2, "", stacks("6", single))}
	out, _ := decide(snapshot{pool: pool(t, "192.0.2.0/24,fd00::1/128"), services: services})
	if a := out[1].accepted; a.Reason != v1alpha1.ReasonPoolExhausted || !strings.Contains(a.Message, "all 1 IPv6 addresses of the pool") {
		t.Errorf("%+v", a)
	}
}

// agent acknowledges these revisions for port 80 of shop/a.
func agent(name string, revisions ...string) v1alpha1.NodeDataplane {
	n := v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, r := range revisions {
		n.Status.VIPs = append(n.Status.VIPs, v1alpha1.NodeVIP{Address: fmt.Sprintf("192.0.2.%d", i+1), Port: 80, Namespace: "shop", Service: "a", Revision: r})
	}
	return n
}

func TestProgrammed(t *testing.T) {
	s := service("a", 1, "192.0.2.1", nil)
	now := crabplan.Revision(&s)
	refusing := agent("refusing")
	refusing.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRejected, Message: "port: is 0"}}
	falling := agent("falling", now)
	falling.Status.VIPs[0].FallBack = "no server takes redirects"
	six := service("a", 1, "192.0.2.1", stacks("46", prefer))
	six.Status.LoadBalancer.Ingress = append(six.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "fd00::1", IPMode: ptr(corev1.LoadBalancerIPModeProxy)})
	for _, addresses := range [][]string{{"192.0.2.1"}, {"192.0.2.1", "fd00::1"}} {
		n := agent("half")
		for _, a := range addresses {
			n.Status.VIPs = append(n.Status.VIPs, v1alpha1.NodeVIP{Address: a, Port: 80, Namespace: "shop", Service: "a", Revision: crabplan.Revision(&six)})
		}
		if got := decideProgrammed(&six, verdict.Yes("", ""), []v1alpha1.NodeDataplane{n}, nil); (got.Status == metav1.ConditionTrue) != (len(addresses) == 2) {
			t.Errorf("a node that holds %v: %+v", addresses, got)
		}
	}
	other := agent("other", now)
	other.Status.VIPs[0].Service = "b"
	var many []v1alpha1.NodeDataplane
	for i := range 9 {
		many = append(many, agent(fmt.Sprint("n", i)))
	}
	ok := verdict.Yes("", "")
	for _, c := range []struct {
		name     string
		accepted verdict.Verdict
		agents   []v1alpha1.NodeDataplane
		want     verdict.Verdict
	}{
		{"all", ok, []v1alpha1.NodeDataplane{agent("x", now), agent("y", now)}, verdict.Yes(v1alpha1.ReasonProgrammed, "2 nodes")},
		{"not accepted", verdict.No("X", "because"), []v1alpha1.NodeDataplane{agent("x", now)}, verdict.No(v1alpha1.ReasonNotAccepted, "because")},
		{"nobody", ok, nil, verdict.No(v1alpha1.ReasonNoAgents, "bobtail-agent")},
		{"an old revision", ok, []v1alpha1.NodeDataplane{agent("x", "old"), agent("y", now)}, verdict.No(v1alpha1.ReasonReconciling, "1 of 2 nodes have yet to acknowledge: x")},
		{"an old address beside the new one", ok, []v1alpha1.NodeDataplane{agent("x", now, "old")}, verdict.No(v1alpha1.ReasonReconciling, "x")},
		{"somebody else's", ok, []v1alpha1.NodeDataplane{other}, verdict.No(v1alpha1.ReasonReconciling, "other")},
		{"a node that cannot", ok, []v1alpha1.NodeDataplane{agent("x"), refusing}, verdict.No(v1alpha1.ReasonRejected, "refusing: port: is 0")},
		{"fall-back", ok, []v1alpha1.NodeDataplane{falling}, verdict.Yes(v1alpha1.ReasonFallingBack, "192.0.2.1:80 on falling: no server takes redirects")},
		{"many", ok, many, verdict.No(v1alpha1.ReasonReconciling, "n0, n1, n2, n3, n4 and 4 more")},
	} {
		got := decideProgrammed(&s, c.accepted, c.agents, nil)
		if got.Status != c.want.Status || got.Reason != c.want.Reason || !strings.Contains(got.Message, c.want.Message) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestAcceptedTellsOfExcludedEndpoints(t *testing.T) {
	s := service("a", 1, "192.0.2.1", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
	in := func(port int32, addresses ...string) discoveryv1.EndpointSlice {
		e := discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "a"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		}
		for _, a := range addresses {
			e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
		}
		return e
	}
	for _, c := range []struct {
		slices []discoveryv1.EndpointSlice
		want   verdict.Verdict
	}{
		{[]discoveryv1.EndpointSlice{in(80, "10.0.0.1")}, verdict.Yes(v1alpha1.ReasonAccepted, "")},
		{[]discoveryv1.EndpointSlice{in(80, "10.0.0.1"), in(81, "10.0.0.2", "10.0.0.3")}, verdict.Yes(v1alpha1.ReasonEndpointsExcluded, "2 endpoints")},
		{[]discoveryv1.EndpointSlice{in(81, "10.0.0.2")}, verdict.No(v1alpha1.ReasonPortTranslation, "listen on 80")},
	} {
		out, _ := decide(snapshot{services: []corev1.Service{s}, slices: c.slices, pool: pool(t, "192.0.2.0/24")})
		if got := out[0].accepted; got.Status != c.want.Status || got.Reason != c.want.Reason || !strings.Contains(got.Message, c.want.Message) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
		if addressOf(out[0].service) != "192.0.2.1" {
			t.Error("the address went with the endpoints")
		}
	}
}

// What was written is not written again a second later.
func TestStatusSettles(t *testing.T) {
	s := service("a", 1, "", nil)
	for round, at := range []int64{10, 20} {
		before := s.DeepCopy()
		out, _ := decide(snapshot{services: []corev1.Service{s}, pool: pool(t, "192.0.2.0/24"), agents: []v1alpha1.NodeDataplane{agent("x")}})
		writeStatus(&s, out[0], time.Unix(at, 0))
		if same := equality.Semantic.DeepEqual(before.Status, s.Status); same != (round == 1) {
			t.Errorf("round %d: the same is %v: %+v", round, same, s.Status)
		}
	}
	s.Spec.LoadBalancerClass = ptr("other")
	out, _ := decide(snapshot{services: []corev1.Service{s}, pool: pool(t, "192.0.2.0/24")})
	writeStatus(&s, out[0], time.Unix(30, 0))
	if marked(&s) || relevant(&s) || addressOf(&s) == "none" {
		t.Errorf("released: %+v", s.Status)
	}
}
