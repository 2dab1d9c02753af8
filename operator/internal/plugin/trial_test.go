// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/connectivity"
)

// The load image is that of the first pod that shows one, routers before servers, beside its sidecar.
func TestLoadImageOfAService(t *testing.T) {
	pod := func(name, component, first, main string) *corev1.Pod {
		p := aPod(name, component)
		p.Spec.InitContainers[0].Image, p.Spec.Containers[0].Image = first, main
		return p
	}
	const other = "registry.example/other:1"
	for _, c := range []struct {
		name string
		pods []client.Object
		want string
	}{
		{"nobody", nil, ""},
		{"none of ours", []client.Object{pod("a", v1alpha1.ComponentRouter, other, other), pod("b", v1alpha1.ComponentServer, other, "bobtail/sidecar:1")}, ""},
		{"a router's", []client.Object{pod("a", v1alpha1.ComponentRouter, "r/bobtail/sidecar:2", other), pod("b", v1alpha1.ComponentServer, "s/bobtail/sidecar:3", other)}, "r/bobtail/load:2"},
		{"a server's", []client.Object{pod("a", v1alpha1.ComponentRouter, other, other), pod("b", v1alpha1.ComponentServer, other, "s/bobtail/sidecar:3")}, "s/bobtail/load:3"},
		{"the second router's", []client.Object{pod("a", v1alpha1.ComponentRouter, other, other), pod("b", v1alpha1.ComponentRouter, other, "/bobtail/sidecar:4")}, "/bobtail/load:4"},
	} {
		got, err := clusterOf(t, c.pods...).loadImage(t.Context(), aService())
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// The Job ends by itself a minute after the load should have, and asks for what was said.
func TestJobOfALoad(t *testing.T) {
	l := load{rate: 1.5, duration: 90 * time.Second, timeout: 2500 * time.Millisecond, connections: 3, requestBytes: 5, output: "json", image: "i"}
	job := l.job(aService())
	if got := *job.Spec.ActiveDeadlineSeconds; got != 152 || *job.Spec.BackoffLimit != 0 || job.GenerateName != "cart-bench-" || job.Namespace != ns {
		t.Errorf("%d s, %+v", got, job.ObjectMeta)
	}
	want := "--target=cart.shop.svc:8000 --rate=1.5 --duration=90s --timeout=2500ms --connections=3 --request-bytes=5 --progress=0s --output=json"
	if c := job.Spec.Template.Spec.Containers[0]; strings.Join(c.Args, " ") != want || c.Image != "i" {
		t.Errorf("%s: %v", c.Image, c.Args)
	}
}

func TestSingleUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Second: "1s", time.Hour: "3600s", 1500 * time.Millisecond: "1500ms", time.Millisecond: "1ms", 1001 * time.Microsecond: "1001us", 1: "1ns", time.Second + 1: "1000000001ns"} {
		if got := singleUnit(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// The sidecar's image stands beside the operator's, without its digest.
func TestSidecarImageBesideTheOperators(t *testing.T) {
	for image, want := range map[string]string{
		"r/bobtail/operator:1@sha256:00": "r/bobtail/sidecar:1", "r/bobtail/operator:1": "r/bobtail/sidecar:1", "/bobtail/operator:2": "/bobtail/sidecar:2",
		"r/bobtail/operator@sha256:00": "", "r/other:1": "",
	} {
		got, err := clusterOf(t, operatorDeployment(image)).sidecarImage(t.Context())
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", image, got, err)
		}
	}
}

// Pods of a role stand at their node's place; those of another test, role or number do not.
func TestPodsOfARole(t *testing.T) {
	pod := func(name, run, role string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{labelTrial: run, labelRole: role}}}
	}
	c := clusterOf(t, pod("r-server-1", "r", "server"), pod("r-server-2", "r", "server"), pod("r-server-x", "r", "server"), pod("r-client-0", "r", "client"), pod("q-server-0", "q", "server"))
	tr := &trial{cluster: c, run: "r", nodes: []string{"a", "b"}}
	pods, err := tr.podsOf(t.Context(), "server")
	if err != nil || len(pods) != 2 || pods[0].Name != "" || pods[1].Name != "r-server-1" {
		t.Errorf("%+v, %v", pods, err)
	}
}

// The paths are one for each address, and the family that no pod has is named.
func TestFamiliesOfThePods(t *testing.T) {
	pod := func(node string, ips ...string) (p corev1.Pod) {
		p.Spec.NodeName = node
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		return p
	}
	for _, c := range []struct {
		name    string
		servers []corev1.Pod
		ways    int
		lacks   string
	}{
		{"both", []corev1.Pod{pod("a", "10.0.0.1", "fd00::1"), pod("b", "10.0.0.2", "fd00::2")}, 4, ""}, {"IPv4", []corev1.Pod{pod("a", "10.0.0.1")}, 1, "ipv6"},
		{"IPv6", []corev1.Pod{pod("a", "fd00::1")}, 1, "ipv4"}, {"each another", []corev1.Pod{pod("a", "fd00::1"), pod("b", "10.0.0.2")}, 2, ""},
	} {
		lacks := ""
		for _, v := range families(c.servers) {
			lacks += v.Subject
		}
		if ways := direct(c.servers); len(ways) != c.ways || lacks != c.lacks {
			t.Errorf("%s: %+v, lacks %q", c.name, ways, lacks)
		}
	}
	if got := familyOf("no address"); got != "ipv4" {
		t.Error(got)
	}
}

// The first container that ended tells; one that runs does not.
func TestWhatEndedContainersTell(t *testing.T) {
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "m"}}}
	for name, c := range map[string]struct {
		all  []corev1.ContainerStatus
		want bool
	}{"none": {nil, false}, "one that runs": {[]corev1.ContainerStatus{{}}, false}, "the second": {[]corev1.ContainerStatus{{}, ended}, true}} {
		if got := terminated(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: c.all}}); (got != nil) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A way that is cut says what to do by its kind; a lost packet, and a server that is never chosen, say so.
func TestNextStepOfAWay(t *testing.T) {
	for _, c := range []struct {
		kind     string
		servers  int
		answered int
		nodes    map[string]int
		err      string
		next     string
	}{
		{connectivity.R2P2, 1, 0, nil, "timeout", "let UDP from pod to pod pass"}, {connectivity.TCP, 1, 0, nil, "refused", "kubectl get ndp"},
		{connectivity.R2P2, 1, 7, map[string]int{"a": 7}, "", "packets are lost: let UDP"}, {connectivity.TCP, 2, 8, map[string]int{"a": 8}, "", "the others are never chosen"},
		{connectivity.TCP, 2, 8, map[string]int{"a": 4, "b": 4}, "", ""},
	} {
		w := way{"s", "there", c.servers, connectivity.Path{Kind: c.kind, Tries: 8}}
		v := w.verdict("here", connectivity.Result{Answered: c.answered, Nodes: c.nodes, Error: c.err})
		if !strings.HasPrefix(v.Next, c.next) || (v.Next == "") != (c.next == "") || c.err != "" && !strings.HasSuffix(v.Says, ": "+c.err) || strings.Contains(v.Says, ", by ") != (c.servers > 1) {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// What an API server says decides what the reader is told to do.
func TestRefusalsOfATrial(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	kind := schema.GroupKind{Kind: "Pod"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {errors.New("exceeded quota: x"), "because of its ResourceQuota"}, {errors.New("failed quota: x"), "because of its ResourceQuota"},
		{errors.New("violates PodSecurity: x"), "because of its Pod Security labels"}, {apierrors.NewForbidden(pods, "x", errors.New("y")), "ask for the right to create"},
		{apierrors.NewInvalid(kind, "x", nil), "use images and a plugin of one release"}, {apierrors.NewBadRequest("x"), "use images and a plugin of one release"}, {errors.New("x"), "does not take Pod p: x"},
	} {
		w := &world{refuse: func(client.Object) error { return c.err }, service: nil}
		tr := &trial{cluster: w.in(t), run: "r", nodes: []string{"a"}}
		got := text(tr.put(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p", Labels: map[string]string{labelRole: "server"}}}))
		if !strings.Contains(got, c.want) || (got == "") != (c.err == nil) || strings.Contains(got, "ask for the right") && c.want != "ask for the right to create" {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}

// Whose a pod is, each of its labels tells alone.
func TestPodsOfBobtail(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       bool
	}{
		{v1alpha1.LabelService, "x", true}, {v1alpha1.LabelExperiment, "x", true}, {"app.kubernetes.io/part-of", "bobtail", true}, {"app.kubernetes.io/name", "bobtail", true},
		{"app.kubernetes.io/part-of", "x", false}, {"app.kubernetes.io/name", "x", false}, {v1alpha1.LabelService, "", false}, {"x", "bobtail", false},
	} {
		if got := belongs(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{c.key: c.value}}}); got != c.want {
			t.Errorf("%s=%s: %v", c.key, c.value, got)
		}
	}
}
