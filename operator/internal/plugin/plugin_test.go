// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func TestTop(t *testing.T) {
	c, all := aCluster(t, true)
	out, errs, err := execute(t, c, "top")
	if err != nil || errs != "" {
		t.Fatalf("%v, %s", err, errs)
	}
	golden(t, "top", out)
	delete(all, "cart-router-b v1/histogram?latency")
	if _, errs, _ = execute(t, c, "top", "-A"); !strings.Contains(errs, "shop/cart: read pod cart-router-b") {
		t.Errorf("a router that cannot be read is passed over in silence: %q", errs)
	}
	if _, _, err := execute(t, c, "top", "--window=601"); err == nil || !strings.Contains(err.Error(), "--window") {
		t.Errorf("%v", err)
	}
}

func TestExplainOverload(t *testing.T) {
	c, _ := aCluster(t, true, isolating())
	out, _, err := execute(t, c, "explain", "slo/cart-p99")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "explain-overload", out)
}

func TestExplainLightLoad(t *testing.T) {
	c, _ := aCluster(t, false)
	out, _, err := execute(t, c, "explain", "slo/cart-p99")
	if err != nil || !strings.Contains(out, "Nothing stands out.") {
		t.Errorf("%v\n%s", err, out)
	}
}

// K-27: every node is cordoned and the routers are deleted: that is said first, by
// explain and by top, before any figure.
func TestK27WhatIsNotThereIsSaidFirst(t *testing.T) {
	service := aService()
	service.Spec.Router.Replicas = 2
	c, all := aCluster(t, false)
	if err := c.Update(t.Context(), withVersionOf(t, c, service)); err != nil {
		t.Fatal(err)
	}
	delete(all, "cart-server-b v1/histogram?service")
	for name, message := range map[string]string{"cart-router-a": "", "cart-router-b": "0/3 nodes are available: 3 node(s) were unschedulable."} {
		pod := aPod(name, v1alpha1.ComponentRouter)
		if err := c.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if message == "" {
			continue
		}
		pod = aPod(name, v1alpha1.ComponentRouter)
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		if err := c.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	out, _, err := execute(t, c, "explain", "slo/cart-p99")
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, want := range []string{causeNoRouters + "\n  evidence: 0 of 2 routers run", causeUnscheduled + "\n  evidence: cart-router-b: 0/3 nodes are available",
		causeUnread + "\n  evidence: read pod cart-server-b"} {
		i := strings.Index(out, want)
		if i <= at {
			t.Errorf("%q is missing or late in:\n%s", want, out)
		}
		at = i
	}
	if strings.Contains(out, "Nothing stands out") {
		t.Error(out)
	}
	if _, errs, _ := execute(t, c, "top"); !strings.Contains(errs, "shop/cart: RoutersAbsent: 0 of 2 routers run") {
		t.Errorf("top: %q", errs)
	}
}

// A pod that has a node and does not run says what it waits for.
func TestWaitingFor(t *testing.T) {
	pod := aPod("x", v1alpha1.ComponentServer)
	pod.Status.Phase = corev1.PodPending
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "server", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}}}
	if why, placed := waitingFor(pod); why != "server ImagePullBackOff: not found" || !placed {
		t.Errorf("%q %v", why, placed)
	}
	pod.Status.ContainerStatuses = nil
	if why, placed := waitingFor(pod); why != "pending" || !placed {
		t.Errorf("%q %v", why, placed)
	}
}

func withVersionOf(t *testing.T, c *cluster, wanted *v1alpha1.RpcService) *v1alpha1.RpcService {
	t.Helper()
	stored, err := c.service(t.Context(), wanted.Name)
	if err != nil {
		t.Fatal(err)
	}
	wanted.ResourceVersion = stored.ResourceVersion
	return wanted
}

// Each cause alone, from its own evidence.
func TestDiagnose(t *testing.T) {
	for _, c := range []struct {
		name, cause, evidence string
		change                func(o *observation, service *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective)
	}{
		{"service", causeService, "p99 of the service time alone is 20", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			o.service = *steps(map[time.Duration]int{20 * time.Millisecond: 10})
			o.perSecond = 10
		}},
		{"overhead", causeService, "p99 of the service time alone is 1ms, the objective 10ms (1000 service times); 9.5ms of overhead come on top", func(_ *observation, _ *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
			us := int64(9500)
			slo.Status.Capacity = &v1alpha1.CapacityEstimate{OverheadMicroseconds: &us, Range: "0-0"}
		}},
		{"overhead explains the rest", causeService, "9.5ms of overhead", func(o *observation, _ *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
			us := int64(9500)
			slo.Status.Capacity = &v1alpha1.CapacityEstimate{OverheadMicroseconds: &us, Range: "0-0"}
			o.latency = *steps(map[time.Duration]int{9900 * time.Microsecond: 100})
		}},
		{"load", causeWorkers, "95% busy", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) { o.perSecond = 15_200 }},
		{"above the capacity", causeWorkers, "estimated capacity under the objective 1-5 requests/s", func(_ *observation, _ *v1alpha1.RpcService, slo *v1alpha1.ServiceLevelObjective) {
			slo.Status.Capacity = &v1alpha1.CapacityEstimate{HighRequestsPerSecond: 5, Range: "1-5"}
		}},
		{"queue", causeQueueing, "p99 of the wait in the routers is 5", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			o.hold = *steps(map[time.Duration]int{5 * time.Millisecond: 10})
		}},
		{"workers' queues", causeWorkerQ, "p99 is 9.", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			o.latency = *steps(map[time.Duration]int{9 * time.Millisecond: 100})
		}},
		{"unanswered", causeLost, "1 of 1001 requests were never answered", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) { o.latency.RecordInf() }},
		{"drops", causeDrops, "7 of 1007 requests were rejected (0.7%); by reason since the routers began: queue_full 7", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			o.requests, o.rejected, o.drops = 1007, 7, map[string]float64{"queue_full": 7, "no_members": 0}
		}},
		{"ejected", causeNotServed, "1 ejected", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) { o.ejected = 1 }},
		{"not ready", causeNotServed, "12/16 workers ready", func(_ *observation, s *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			s.Status.Workers, s.Status.ReadyWorkers = "12/16", 12
		}},
		{"unread", causeUnread, "read pod x: refused", func(o *observation, _ *v1alpha1.RpcService, _ *v1alpha1.ServiceLevelObjective) {
			o.unread = []string{"read pod x: refused"}
		}},
	} {
		o := &observation{perSecond: 100, requests: 1000,
			latency: *steps(map[time.Duration]int{2 * time.Millisecond: 1000}), service: *steps(map[time.Duration]int{time.Millisecond: 1000})}
		service, slo := aService(), anSLO()
		slo.Status.Capacity = nil
		if found := diagnose(slo, service, o, nil); len(found) != 0 {
			t.Fatalf("healthy, and yet %+v", found)
		}
		c.change(o, service, slo)
		found := diagnose(slo, service, o, nil)
		if len(found) != 1 || found[0].Cause != c.cause || !strings.Contains(found[0].Evidence, c.evidence) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}

// Cores that a service asks for and has not, and how busy those are that it has.
func TestDiagnoseCores(t *testing.T) {
	condition := func(kind, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "because of " + reason}}
	}
	for _, c := range []struct {
		cause, evidence string
		status          v1alpha1.RpcServiceStatus
	}{
		{causeWorkers, "keep 4 cores 95% busy", v1alpha1.RpcServiceStatus{Scheduling: &v1alpha1.SchedulingStatus{AllowedCores: 4}}},
		{causeCores, "because of FewerProcessors", v1alpha1.RpcServiceStatus{Conditions: condition(v1alpha1.ConditionCoresAsAsked, v1alpha1.ReasonFewerProcessors)}},
		{causeCores, "because of ServerIgnoresScheduling", v1alpha1.RpcServiceStatus{Conditions: condition(v1alpha1.ConditionReady, v1alpha1.ReasonServerIgnoresScheduling)}},
	} {
		o := &observation{perSecond: 3800, requests: 1000,
			latency: *steps(map[time.Duration]int{2 * time.Millisecond: 1000}), service: *steps(map[time.Duration]int{time.Millisecond: 1000})}
		service, slo := aService(), anSLO()
		slo.Status.Capacity = nil
		service.Status.Scheduling, service.Status.Conditions = c.status.Scheduling, c.status.Conditions
		if found := diagnose(slo, service, o, nil); len(found) != 1 || found[0].Cause != c.cause || !strings.Contains(found[0].Evidence, c.evidence) {
			t.Errorf("%s: %+v", c.evidence, found)
		}
	}
}

// Of a service whose servers measured nothing yet, overhead alone blames nobody; and
// every router judges the same workers, so that two who suspect one suspect one.
func TestNothingMeasuredAndJudgedTwice(t *testing.T) {
	service, slo, us := aService(), anSLO(), int64(20_000)
	slo.Status.Capacity = &v1alpha1.CapacityEstimate{OverheadMicroseconds: &us, Range: "0-0"}
	if found := diagnose(slo, service, &observation{}, nil); len(found) != 0 {
		t.Errorf("nothing was measured, and yet %+v", found)
	}
	o := &observation{drops: map[string]float64{}}
	for _, one := range []observation{{suspect: 1, held: 3}, {suspect: 2, ejected: 1, held: 4}} {
		o.merge(&one)
	}
	if o.suspect != 2 || o.ejected != 1 || o.held != 7 {
		t.Errorf("%d suspect, %d ejected, %v waiting; want 2, 1, 7", o.suspect, o.ejected, o.held)
	}
}

// isolating is a policy that selects the client and admits nobody.
func isolating(rules ...networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "closed"},
		Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: rules}}
}

// The rule that DESIGN §4 asks client owners for: which policies lack it.
func TestBlockedClients(t *testing.T) {
	udp, tcp := corev1.ProtocolUDP, corev1.ProtocolTCP
	servers := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelService: "cart", v1alpha1.LabelComponent: v1alpha1.ComponentServer}}}
	elsewhere := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}, PodSelector: servers.PodSelector}
	port := func(p corev1.Protocol) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: &p}}
	}
	rule := func(ports []networkingv1.NetworkPolicyPort, from ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{Ports: ports, From: from}
	}
	for name, c := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		closed bool
	}{
		"no policy":                     {nil, false},
		"nothing is admitted":           {isolating(), true},
		"everything is admitted":        {isolating(networkingv1.NetworkPolicyIngressRule{}), false},
		"servers, UDP":                  {isolating(rule(port(udp), servers)), false},
		"servers, TCP":                  {isolating(rule(port(tcp), servers)), true},
		"servers of another namespace":  {isolating(rule(port(udp), elsewhere)), true},
		"an address block may cover it": {isolating(rule(port(udp), networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}})), false},
		"only outgoing is restricted": {&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns},
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}}, false},
	} {
		var policies []networkingv1.NetworkPolicy
		if c.policy != nil {
			policies = append(policies, *c.policy)
		}
		gone := aPod("a-job", "") // first in the list, but it waits for nothing
		gone.Status.Phase = corev1.PodSucceeded
		found, err := blocked(aService(), []corev1.Pod{*gone, *aPod("web", ""), *aPod("web-2", "")}, policies,
			[]corev1.Pod{*aPod("cart-server-a", v1alpha1.ComponentServer)}, map[string]string{"team": "y"})
		if err != nil || (len(found) == 1) != c.closed || len(found) > 1 || c.closed && !strings.Contains(found[0].Evidence, "pod web ") {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	c, _ := aCluster(t, false)
	for args, want := range map[string]string{
		"plan":                        "--rate: must be above 0",
		"plan --rate=Inf":             "--rate: must be above 0 requests a second, and finite",
		"plan --rate=5":               "--latency: must be given",
		"plan --rate=5 --latency=1ms": "--service: must be given",
		"plan --rate=5 --latency=1ms --service=x:1us":                           "must be deterministic, exponential or bimodal1",
		"plan --rate=5 --latency=1ms --service=exponential":                     "must be NAME:MEAN",
		"plan --rate=5 --latency=1s --service=exponential:1ms --overhead=-1s":   "--overhead",
		"plan --rate=5 --latency=1s --service=exponential:1ms --policy=Best":    "--policy: must be",
		"plan --rate=5 --latency=1s --service=exponential:1ms --percentile=100": "percentile must be",
		"plan slo/cart-p99 --rate=5 --simulator=/nowhere/x":                     "--simulator=/nowhere/x: fork/exec /nowhere/x: no such file",
		"plan rpcsvc/cart --rate=5":                                             "must be slo/NAME",
		"plan slo/none --rate=5":                                                "none",
	} {
		if _, _, err := execute(t, c, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Service times that nobody could read are not "not measured": the reason is said.
func TestPlanSaysWhatItCouldNotRead(t *testing.T) {
	c, all := aCluster(t, false)
	for pod := range all {
		delete(all, pod)
	}
	_, errs, err := execute(t, c, "plan", "slo/cart-p99", "--rate=5")
	if err == nil || !strings.Contains(errs, "read pod cart-server-a: connection refused") {
		t.Errorf("%v: %q", err, errs)
	}
}

// The page shows what the commands print.
func TestPageShowsTheOutput(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/kubectl-bobtail.md")
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(outputs) < 4 {
		t.Fatalf("%d outputs, %v", len(outputs), err)
	}
	for _, path := range outputs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), string(text)) {
			t.Errorf("docs/reference/kubectl-bobtail.md does not show %s as it is", path)
		}
	}
}

func TestFewest(t *testing.T) {
	const most = 1016
	for _, c := range []struct{ from, need, want int }{
		{0, 1, 1}, {1, 1, 1}, {3, 100, 100}, {100, 100, 100}, {5, most, most}, {5, most + 1, 0}, {most + 1, 1, 0},
	} {
		if got := fewest(c.from, most, func(k int) bool { return k >= c.need }); got != c.want {
			t.Errorf("from %d with %d needed: %d, want %d", c.from, c.need, got, c.want)
		}
	}
}

// Through the API server's pod proxy to the metrics port, with what was asked.
func TestProxy(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		if strings.Contains(asked, "bad") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"requests": 7}`))
	}))
	defer server.Close()
	set, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{sidecars: proxy{set}}
	got, err := read[dataplane.HistogramReply](t.Context(), c, aPod("cart-router-a", ""), "v1/histogram", map[string]string{"name": "latency", "windowSeconds": "30"})
	if err != nil || got.Requests != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if want := "/api/v1/namespaces/shop/pods/http:cart-router-a:9464/proxy/v1/histogram?name=latency&windowSeconds=30"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if _, err := read[dataplane.HistogramReply](t.Context(), c, aPod("bad", ""), "v1/histogram", nil); err == nil || !strings.Contains(err.Error(), "read pod bad") {
		t.Errorf("%v", err)
	}
}
