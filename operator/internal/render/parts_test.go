// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// The network that others can join is that of the entry in effect, of the first where there is no such entry.
func TestNetworkOfTheEntryInEffect(t *testing.T) {
	s := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}
	s.Spec.Device = v1alpha1.RpcServiceDevice{Device: v1alpha1.Device{Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "one"},
		Fallback: []v1alpha1.Device{{Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "two"}, {Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "three", ResourceName: "r"}}}
	for entry, want := range map[int32]string{-1: "demo/one", 0: "demo/one", 1: "demo/two", 2: "", 3: "demo/one"} {
		s.Status.DeviceChoice = &v1alpha1.DeviceChoice{Entry: entry}
		if entry < 0 {
			s.Status.DeviceChoice = nil
		}
		if got := InterfaceNetwork(s); got != want {
			t.Errorf("entry %d: %q, want %q", entry, got, want)
		}
	}
	for name, d := range map[string]v1alpha1.Device{"": {}, "hugepages-2Mi": {Hugepages: &v1alpha1.Hugepages{PageMebibytes: 2}}, "hugepages-1Gi": {Hugepages: &v1alpha1.Hugepages{PageMebibytes: 1024}}} {
		if got := HugepagesResource(d); string(got) != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
}

// Pods are for the fast path whose container has its capability, wherever that stands.
func TestWhoseFastPath(t *testing.T) {
	with := func(all ...*corev1.SecurityContext) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		for _, s := range all {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{SecurityContext: s})
		}
		return d
	}
	capable := &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: fastPathCapabilities}}
	other := &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CHOWN"}}}
	for name, c := range map[string]struct {
		d    *appsv1.Deployment
		want bool
	}{
		"no container": {with(), false}, "nothing said": {with(nil, &corev1.SecurityContext{}), false}, "another capability": {with(other), false},
		"its own": {with(capable), true}, "behind others": {with(nil, &corev1.SecurityContext{}, other, capable), true},
	} {
		if HasFastPath(c.d) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// A group's disks carry its UID, or, of one that is none, what it hashes to: 32 hex digits in either case.
func TestClusterIDsOfAnyUID(t *testing.T) {
	ids := map[string]bool{}
	for uid, want := range map[string]string{
		"11111111-2222-4333-8444-55555555ABCD": "111111112222433384445555" + "5555abcd", "11111111-2222": "", "no hexadecimal digits, but 32 of.": "", "": "",
		"11111111-2222-4333-8444-555555555555-66": "",
	} {
		got := ClusterID(&v1alpha1.ReplicationGroup{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}})
		if len(got) != 32 || strings.Trim(got, "0123456789abcdef") != "" || want != "" && got != want || ids[got] {
			t.Errorf("%q: %q", uid, got)
		}
		ids[got] = true
	}
}

// What a template says of the server's container goes before the short fields, each for itself, and is said once; what it
// leaves out stays.
func TestShortFieldsOfATemplate(t *testing.T) {
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	for name, c := range map[string]struct {
		change func(*corev1.Container)
		check  func(s v1alpha1.RpcServiceServer) bool
	}{
		"nothing": {func(*corev1.Container) {}, func(s v1alpha1.RpcServiceServer) bool {
			return s.Image == "short" && s.Command[0] == "run" && s.Args[0] == "-v" && s.Resources.Limits != nil
		}},
		"command": {func(c *corev1.Container) { c.Command = []string{"other"} }, func(s v1alpha1.RpcServiceServer) bool { return s.Command[0] == "other" && s.Args[0] == "-v" }},
		"no args": {func(c *corev1.Container) { c.Args = []string{} }, func(s v1alpha1.RpcServiceServer) bool { return len(s.Args) == 0 && s.Command[0] == "run" }},
		"requests": {func(c *corev1.Container) { c.Resources.Requests = two }, func(s v1alpha1.RpcServiceServer) bool {
			return s.Resources.Requests.Cpu().Value() == 2 && s.Resources.Limits == nil
		}},
		"limits": {func(c *corev1.Container) { c.Resources.Limits = two }, func(s v1alpha1.RpcServiceServer) bool {
			return s.Resources.Limits.Cpu().Value() == 2 && s.Resources.Requests == nil
		}},
		"claims alone": {func(c *corev1.Container) { c.Resources.Claims = []corev1.ResourceClaim{{Name: "x"}} }, func(s v1alpha1.RpcServiceServer) bool { return s.Resources.Limits != nil }},
	} {
		s := &v1alpha1.RpcService{}
		s.Spec.Server = v1alpha1.RpcServiceServer{Image: "short", Command: []string{"run"}, Args: []string{"-v"}, Resources: v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
		s.Spec.Server.PodTemplate = &v1alpha1.PodTemplate{}
		own := corev1.Container{Name: v1alpha1.ComponentServer}
		c.change(&own)
		s.Spec.Server.PodTemplate.Spec.Containers = []corev1.Container{own}
		got, rest := serverSpec(s)
		left := rest.Container(v1alpha1.ComponentServer)
		if !c.check(got) || left.Command != nil || left.Args != nil || left.Resources.Requests != nil || left.Resources.Limits != nil || len(left.Resources.Claims) != len(own.Resources.Claims) {
			t.Errorf("%s: %+v, and %+v is left", name, got, left)
		}
	}
}

// The larger of request and limit counts.
func TestMostOfARequirement(t *testing.T) {
	of := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	for _, c := range []struct{ request, limit, want string }{{"1", "2", "2"}, {"2", "1", "2"}, {"", "1", "1"}, {"1", "", "1"}, {"1", "1", "1"}} {
		if got := most(corev1.ResourceRequirements{Requests: of(c.request), Limits: of(c.limit)}, corev1.ResourceCPU); got.Cmp(resource.MustParse(c.want)) != 0 {
			t.Errorf("%+v: %s", c, got.String())
		}
	}
}

// Agents are reached over UDP where R2P2 is spoken: by the pods of the service that is named, by anybody where none is; over
// other protocols by nobody.
func TestWhoReachesAgents(t *testing.T) {
	for _, c := range []struct {
		protocol v1alpha1.ExperimentProtocol
		named    bool
		rules    int
		from     int // peers of the last rule
	}{{v1alpha1.ExperimentR2P2, true, 2, 1}, {v1alpha1.ExperimentR2P2, false, 2, 0}, {"HTTP", true, 1, 1}, {"HTTP", false, 1, 1}} {
		in := ExperimentInput{Experiment: &v1alpha1.LatencyExperiment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "demo"}}}
		in.Experiment.Spec.Workload.Protocol = c.protocol
		if c.named {
			in.Experiment.Spec.Target.TargetRef = &v1alpha1.TargetReference{Name: "echo"}
		}
		rules := agentsPolicy(in).Spec.Ingress
		if len(rules) != c.rules || len(rules[len(rules)-1].From) != c.from {
			t.Errorf("%+v: %+v", c, rules)
		}
		if udp := slices.ContainsFunc(rules[len(rules)-1].Ports, func(p networkingv1.NetworkPolicyPort) bool { return *p.Protocol == corev1.ProtocolUDP }); udp != (c.protocol == v1alpha1.ExperimentR2P2) {
			t.Errorf("%+v: UDP %v", c, udp)
		}
	}
	for _, protocol := range []v1alpha1.Protocol{v1alpha1.ProtocolTCP, v1alpha1.ProtocolR2P2} {
		for _, tcp := range []*v1alpha1.RpcServiceTCP{nil, {Port: 80}} {
			s := &v1alpha1.RpcService{Spec: v1alpha1.RpcServiceSpec{Protocol: protocol, TCP: tcp}}
			if TCP(s) != (protocol == v1alpha1.ProtocolTCP && tcp != nil) {
				t.Errorf("%s, %v: %v", protocol, tcp, TCP(s))
			}
		}
	}
}
