// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// The offered rate counts the rejected requests in, unless all were rejected.
func TestOfferedRate(t *testing.T) {
	for _, c := range []struct {
		requests, rejected uint64
		want               float64
	}{{0, 0, 30}, {4, 0, 30}, {4, 1, 40}, {4, 3, 120}, {4, 4, 30}, {4, 5, 30}} {
		o := observation{perSecond: 30, requests: c.requests, rejected: c.rejected}
		if got := o.offered(); got != c.want {
			t.Errorf("%d of %d rejected: %v, want %v", c.rejected, c.requests, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1ns", 999: "999ns", 1000: "1µs", 1234: "1.23µs", 1235: "1.24µs", 999_499: "999µs",
		1_234_567: "1.23ms", 12_345_678: "12.3ms", 999_999_999: "1s", 61_234_000_000: "1m1.2s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}

// What has no value, or no finite one, is told apart.
func TestPercentilesForPeople(t *testing.T) {
	huge, lost := &ll7.Histogram{}, &ll7.Histogram{}
	huge.Record(math.MaxUint64)
	lost.RecordInf()
	for _, c := range []struct {
		name, p, want string
		h             *ll7.Histogram
		value         time.Duration
	}{
		{"nothing", "99", "-", &ll7.Histogram{}, 0},
		{"no percentile", "x", "-", steps(map[time.Duration]int{10: 5}), 0},
		{"lost", "99", "+Inf", lost, 0},
		{"more than is counted", "99", ">" + short(time.Duration(ll7.OverflowEdge)), huge, time.Duration(ll7.OverflowEdge)},
		{"a value", "50", "2.05µs", steps(map[time.Duration]int{2047: 5}), 2047},
	} {
		if got := percentile(c.h, c.p); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := value(c.h, c.p); got != c.value {
			t.Errorf("%s: value %s, want %s", c.name, got, c.value)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		part, whole uint64
		want        string
	}{{0, 0, "0.0%"}, {3, 0, "0.0%"}, {0, 8, "0.0%"}, {1, 8, "12.5%"}, {8, 8, "100.0%"}} {
		if got := share(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.part, c.whole, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	for p, want := range map[string]float64{"99.9": 0.999, "50": 0.5, "0.1": 0.001, "99.99": 0.9999, "0": 0, "-1": 0, "100": 0, "101": 0, "x": 0, "": 0} {
		if got, err := quantile(p); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v %v, want %v", p, got, err, want)
		}
	}
}

// All that pods say is added up; of judgements the worst counts.
func TestObservationsAddUp(t *testing.T) {
	o := &observation{drops: map[string]float64{"a": 1}}
	for _, one := range []observation{
		{latency: *steps(map[time.Duration]int{1: 1}), hold: *steps(map[time.Duration]int{1: 2}), service: *steps(map[time.Duration]int{1: 3}),
			requests: 1, rejected: 2, perSecond: 3, held: 4, suspect: 2, ejected: 1, unread: []string{"x"}, drops: map[string]float64{"a": 1}},
		{latency: *steps(map[time.Duration]int{1: 10}), hold: *steps(map[time.Duration]int{1: 20}), service: *steps(map[time.Duration]int{1: 30}),
			requests: 10, rejected: 20, perSecond: 30, held: 40, suspect: 1, ejected: 3, unread: []string{"y"}, drops: map[string]float64{"a": 5, "b": 7}},
	} {
		o.merge(&one)
	}
	if o.latency.Total() != 11 || o.hold.Total() != 22 || o.service.Total() != 33 || o.requests != 11 || o.rejected != 22 || o.perSecond != 33 || o.held != 44 ||
		o.suspect != 2 || o.ejected != 3 || strings.Join(o.unread, " ") != "x y" || o.drops["a"] != 7 || o.drops["b"] != 7 {
		t.Errorf("%+v", o)
	}
}

// Each part of a component's pods counts once, and each lack has its own finding.
func TestGapsOfAComponent(t *testing.T) {
	pod := func(name string, change func(*corev1.Pod)) corev1.Pod {
		p := aPod(name, v1alpha1.ComponentServer)
		if change != nil {
			change(p)
		}
		return *p
	}
	ending := pod("z", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
	pending := pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
	nowhere := pod("n", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "full"}}
	})
	for _, c := range []struct {
		name string
		all  []corev1.Pod
		want []string
	}{
		{"as many as wanted", []corev1.Pod{pod("a", nil), pod("b", nil)}, nil},
		{"more than wanted", []corev1.Pod{pod("a", nil), pod("b", nil), pod("c", nil)}, nil},
		{"one ends", []corev1.Pod{ending, pod("b", nil), pod("c", nil)}, nil},
		{"one that ends runs no more", []corev1.Pod{ending, pod("b", nil)}, []string{causeNoServers + " 1 of 2 servers run"}},
		{"one waits", []corev1.Pod{pod("a", nil), pending}, []string{causeNoServers + " 1 of 2 servers run", causeNotStarted + " p: pending"}},
		{"one has no node, besides", []corev1.Pod{pod("a", nil), pod("b", nil), nowhere}, []string{causeUnscheduled + " n: full"}},
		{"none", nil, []string{causeNoServers + " 0 of 2 servers run"}},
	} {
		service := aService()
		service.Spec.Replicas = new(int32(2))
		var got []string
		for _, f := range gaps(service, v1alpha1.ComponentServer, c.all) {
			got = append(got, f.Cause+" "+f.Evidence)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	// A service without routers lacks none.
	service := aService()
	service.Spec.Router.Replicas = 2
	if found := gaps(service, v1alpha1.ComponentRouter, nil); len(found) != 1 || found[0].Cause != causeNoRouters {
		t.Errorf("%+v", found)
	}
	service.Spec.Router.Placement = v1alpha1.PlacementNone
	if found := gaps(service, v1alpha1.ComponentRouter, nil); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// The first container that waits for something of its own says so; a condition that holds does not.
func TestWhatAPodWaitsFor(t *testing.T) {
	waiting := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	for _, c := range []struct {
		name          string
		conditions    []corev1.PodCondition
		first, second []corev1.ContainerStatus
		want          string
	}{
		{"scheduled", []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, Message: "m"}}, nil, nil, "pending"},
		{"another condition", []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "m"}}, nil, nil, "pending"},
		{"only behind the others", nil, []corev1.ContainerStatus{{Name: "i"}}, []corev1.ContainerStatus{waiting("m", "PodInitializing", "")}, "pending"},
		{"the first to wait", nil, []corev1.ContainerStatus{waiting("i", "CrashLoopBackOff", "again")}, []corev1.ContainerStatus{waiting("m", "PodInitializing", "")}, "i CrashLoopBackOff: again"},
		{"without a message", nil, nil, []corev1.ContainerStatus{waiting("m", "ContainerCreating", "")}, "m ContainerCreating"},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: c.conditions, InitContainerStatuses: c.first, ContainerStatuses: c.second}}
		if why, placed := waitingFor(pod); why != c.want || !placed {
			t.Errorf("%s: %q %v, want %q", c.name, why, placed, c.want)
		}
	}
}

// The least range of ports that admits clients is theirs; a narrower one, another protocol, and one port do not do.
func TestPortsThatAdmitReplies(t *testing.T) {
	udp, tcp := corev1.ProtocolUDP, corev1.ProtocolTCP
	port := func(n int) *intstr.IntOrString { return new(intstr.FromInt(n)) }
	for _, c := range []struct {
		name string
		p    networkingv1.NetworkPolicyPort
		want bool
	}{
		{"every port of UDP", networkingv1.NetworkPolicyPort{Protocol: &udp}, true},
		{"no protocol, which is TCP", networkingv1.NetworkPolicyPort{}, false},
		{"TCP", networkingv1.NetworkPolicyPort{Protocol: &tcp}, false},
		{"one port", networkingv1.NetworkPolicyPort{Protocol: &udp, Port: port(32768)}, false},
		{"just the range", networkingv1.NetworkPolicyPort{Protocol: &udp, Port: port(32768), EndPort: new(int32(60999))}, true},
		{"from one above", networkingv1.NetworkPolicyPort{Protocol: &udp, Port: port(32769), EndPort: new(int32(60999))}, false},
		{"up to one below", networkingv1.NetworkPolicyPort{Protocol: &udp, Port: port(32768), EndPort: new(int32(60998))}, false},
		{"the range of TCP", networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: port(1), EndPort: new(int32(65535))}, false},
	} {
		if got := admitsEphemeral(c.p); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A rule admits when its ports do and any of its peers does; one that cannot be read is an error.
func TestRulesThatAdmitTheServer(t *testing.T) {
	server := aPod("cart-server-a", v1alpha1.ComponentServer)
	of := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	servers, others := of(v1alpha1.LabelComponent, v1alpha1.ComponentServer), of(v1alpha1.LabelComponent, "x")
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	type peers = []networkingv1.NetworkPolicyPeer
	for _, c := range []struct {
		name, namespace string
		from            peers
		want, fails     bool
	}{
		{"pods of its namespace", ns, peers{{PodSelector: servers}}, true, false},
		{"other pods of its namespace", ns, peers{{PodSelector: others}}, false, false},
		{"others, then it", ns, peers{{PodSelector: others}, {PodSelector: servers}}, true, false},
		{"such pods of another namespace", "web", peers{{PodSelector: servers}}, false, false},
		{"its whole namespace", "web", peers{{NamespaceSelector: of("team", "y")}}, true, false},
		{"another whole namespace", ns, peers{{NamespaceSelector: of("team", "x")}}, false, false},
		{"such pods in its namespace", "web", peers{{NamespaceSelector: of("team", "y"), PodSelector: servers}}, true, false},
		{"other pods in its namespace", "web", peers{{NamespaceSelector: of("team", "y"), PodSelector: others}}, false, false},
		{"a namespace that cannot be read", "web", peers{{NamespaceSelector: wrong}, {PodSelector: servers}}, false, true},
		{"pods that cannot be read", ns, peers{{PodSelector: wrong}}, false, true},
		{"a block, whatever it is", "web", peers{{IPBlock: &networkingv1.IPBlock{}}}, true, false},
	} {
		got, err := admits(networkingv1.NetworkPolicyIngressRule{From: c.from}, c.namespace, server, map[string]string{"team": "y"})
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v %v", c.name, got, err)
		}
	}
}

// Pods of services, of the host's network and those that have ended wait for no reply; a policy is named once.
func TestPodsThatNoReplyReaches(t *testing.T) {
	own, host, failed := aPod("cart-x", v1alpha1.ComponentServer), aPod("host", ""), aPod("failed", "")
	host.Spec.HostNetwork, failed.Status.Phase = true, corev1.PodFailed
	policies := []networkingv1.NetworkPolicy{*isolating()}
	servers := []corev1.Pod{*aPod("cart-server-a", v1alpha1.ComponentServer)}
	for _, c := range []struct {
		name    string
		pods    []corev1.Pod
		servers []corev1.Pod
		want    int
	}{
		{"none of them", []corev1.Pod{*own, *host, *failed}, servers, 0},
		{"the last one", []corev1.Pod{*own, *host, *failed, *aPod("web", "")}, servers, 1},
		{"two of one policy", []corev1.Pod{*aPod("web", ""), *aPod("web-2", "")}, servers, 1},
		{"nobody to reply", []corev1.Pod{*aPod("web", "")}, nil, 0},
	} {
		if found, err := blocked(aService(), c.pods, policies, c.servers, nil); err != nil || len(found) != c.want {
			t.Errorf("%s: %+v %v", c.name, found, err)
		}
	}
	// Two policies that isolate different pods are two findings, whatever lies between.
	first, second := isolating(), isolating()
	first.Spec.PodSelector.MatchLabels, second.Spec.PodSelector.MatchLabels = map[string]string{"a": "1"}, map[string]string{"a": "2"}
	second.Name = "closed too"
	one, two := aPod("web-1", ""), aPod("web-2", "")
	one.Labels, two.Labels = map[string]string{"a": "1"}, map[string]string{"a": "2"}
	if found, err := blocked(aService(), []corev1.Pod{*one, *one, *aPod("open", ""), *two}, []networkingv1.NetworkPolicy{*first, *second}, servers, nil); err != nil || len(found) != 2 {
		t.Errorf("%+v %v", found, err)
	}
}
