// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/hack/test/netns"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// aNode is a node with the address of up0.
func aNode(name, addr string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
	return n
}

// webService is a Service with the address 192.0.2.1 and one server, on this node.
func webService() (*corev1.Service, *discoveryv1.EndpointSlice) {
	class, mode, ready, node, port, tcp := v1alpha1.LoadBalancerClass, corev1.LoadBalancerIPModeProxy, true, "node-a", int32(80), corev1.ProtocolTCP
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web"}
	s := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "web"},
		Ports: []corev1.ServicePort{{Port: 80, Protocol: tcp, TargetPort: intstr.FromInt32(80), NodePort: 30080}},
	}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &mode}}
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	return s, &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Ports:     []discoveryv1.EndpointPort{{Port: &port, Protocol: &tcp}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}
}

// newAgent makes an agent of the node node-a whose cluster is a fake one, and whose
// kernel is real.
func newAgent(t *testing.T, c client.Client) *agent {
	t.Helper()
	pool, err := crabplan.ParsePool("192.0.2.0/28")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{
		options: Options{Node: "node-a", NodeIP: netip.MustParseAddr("10.0.0.1"), Uplink: "up0", Root: filepath.Join(netns.BPF(t), "node"), Heartbeat: 9440,
			XDP: redirect.XDPAuto, Metrics: "127.0.0.1:9441", KeyDir: t.TempDir(), Version: "1.2"},
		cluster: &cluster{cache: c, changed: make(chan struct{}, 1), pool: pool, family: corev1.IPv4Protocol},
		prober:  newProber(netip.MustParseAddr("10.0.0.1"), redirect.Wire{}),
	}
	a.report = newReporter("node-a", c, events.NewFakeRecorder(100), func() (map[string]uint64, error) { return a.plane.Counters() })
	a.report.fellBack = func() ([]redirect.FellBack, error) { return a.plane.FellBack() }
	if err := a.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.plane.Close() })
	if err := a.assemble([][]byte{[]byte(strings.Repeat("k", 32))}); err != nil {
		t.Fatal(err)
	}
	return a
}

// get reads a page of the agent's metrics; empty when it does not answer with 200.
func get(path string) string {
	r, err := http.Get("http://127.0.0.1:9441" + path)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// checkFirstReport holds what an agent tells that owns one address, on the first of two nodes.
func checkFirstReport(t *testing.T, a *agent, n v1alpha1.NodeDataplaneStatus, page string) {
	t.Helper()
	if v := n.VIPs[0]; v.Address != "192.0.2.1" || v.Port != 80 || v.Service != "web" || n.AgentVersion != "1.2" {
		t.Errorf("%+v", n)
	}
	if len(n.Peers) != 1 || n.Peers[0] != (v1alpha1.NodePeer{Node: "node-b", State: v1alpha1.PeerSilent}) || n.Devices[0].Name != "up0" || n.Devices[0].Placement != v1alpha1.PlacementUplink {
		t.Errorf("peers %+v, devices %+v", n.Peers, n.Devices)
	}
	for _, line := range []string{`bobtail_crab_owned_vips{family="IPv4"} 1`, `bobtail_crab_owned_vips{family="IPv6"} 0`, `bobtail_crab_unowned_vips{family="IPv4"} 0`} {
		if !strings.Contains(page, line) {
			t.Errorf("%s is missing in\n%s", line, page)
		}
	}
	vips, err := a.plane.VIPs()
	if err != nil || len(vips) != 1 || vips[0].Roles&redirect.RoleBalance == 0 {
		t.Errorf("%+v, %v", vips, err)
	}
}

// An agent takes over what the cluster asks for, tells of it in its NodeDataplane and
// its metrics, lets go of what is asked for no more, and leaves all at work when it
// is stopped.
func TestAgentAtWork(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	netns.Uplink(t)
	server, err := net.Listen("tcp", "10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	service, slice := webService()
	c := fakeClient(t, aNode("node-a", "10.0.0.1"), aNode("node-b", "10.0.0.2"), &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}, service, slice)
	a := newAgent(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.work(ctx, cancel) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	defer func() { _ = stop() }()
	said := func() *v1alpha1.NodeDataplane {
		n := &v1alpha1.NodeDataplane{}
		_ = c.Get(ctx, types.NamespacedName{Name: "node-a"}, n)
		return n
	}
	why := func() string { return fmt.Sprintf("%+v\n%s", said().Status, get("/metrics")) }
	netns.Until(t, func() bool {
		return get("/readyz") != "" && said().Status.OwnedVIPs == 1 && len(said().Status.VIPs) == 1
	}, why)
	checkFirstReport(t, a, said().Status, get("/metrics"))
	if err := c.Delete(ctx, service); err != nil {
		t.Fatal(err)
	}
	a.cluster.changed <- struct{}{}
	netns.Until(t, func() bool { return said().Status.OwnedVIPs == 0 && len(said().Status.VIPs) == 0 }, why)
	if service.ResourceVersion = ""; c.Create(ctx, service) != nil {
		t.Fatal("the Service is not made again")
	}
	a.cluster.changed <- struct{}{}
	netns.Until(t, func() bool { return said().Status.OwnedVIPs == 1 }, why)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if vips, err := a.plane.VIPs(); err != nil || len(vips) != 1 {
		t.Errorf("gone with the agent: %+v, %v", vips, err)
	}
	if get("/metrics") != "" {
		t.Error("metrics of an agent that has ended")
	}
	if inherited, err := a.inherit(); err != nil || len(inherited) != 1 {
		t.Errorf("the next agent inherits %v, %v", inherited, err)
	}
	if err := Remove([]string{"--root=" + a.options.Root}); err != nil {
		t.Error(err)
	}
}
