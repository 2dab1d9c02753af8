// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

func keyOf(port uint16) redirect.VIPKey {
	return redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1"), Port: port}
}

// What stands in the status is acknowledged: an entry that could not be written is
// left out. Why loads are not heard is said where nothing worse is.
func TestStatusOfVIPs(t *testing.T) {
	var mine share.Share
	for port, why := range []string{"", "refused", "no server is up", ""} {
		mine.VIPs = append(mine.VIPs, redirect.VIP{VIPKey: keyOf(uint16(port))})
		mine.Status = append(mine.Status, v1alpha1.NodeVIP{Port: int32(port), FallBack: why})
	}
	silent := map[netip.AddrPort]loads.Silent{}
	for _, port := range []uint16{2, 3} {
		silent[netip.AddrPortFrom(keyOf(port).Addr, port)] = loads.Silent{Nodes: []string{"node-b"}}
	}
	got := vipStatuses(mine, desired.Result{VIPs: map[redirect.VIPKey]error{keyOf(1): errors.New("refused")}}, silent, nil)
	if len(got) != 3 || got[0] != (v1alpha1.NodeVIP{}) || got[1].FallBack != "no server is up" || !strings.Contains(got[2].FallBack, "node-b") {
		t.Errorf("%+v", got)
	}
	for i := range v1alpha1.MaxNodeVIPs + 1 {
		mine.VIPs = append(mine.VIPs, redirect.VIP{VIPKey: keyOf(uint16(100 + i))})
		mine.Status = append(mine.Status, v1alpha1.NodeVIP{FallBack: strings.Repeat("x", v1alpha1.MaxNodeMessage+1)})
	}
	got = vipStatuses(mine, desired.Result{}, nil, nil)
	if long := []rune(got[len(got)-1].FallBack); len(got) != v1alpha1.MaxNodeVIPs || len(long) != v1alpha1.MaxNodeMessage || long[len(long)-1] != '…' {
		t.Errorf("%d entries, the last says %d characters", len(got), len(long))
	}
}

func TestStatusOfPeers(t *testing.T) {
	nodes := map[string]netip.Addr{"a": {}, "b": {}, "c": {}}
	got := peerStatuses(nodes, "b", map[string]bool{"b": true, "c": true})
	if want := []v1alpha1.NodePeer{{Node: "a", State: v1alpha1.PeerSilent}, {Node: "c", State: v1alpha1.PeerAlive}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i := range v1alpha1.MaxNodePeers {
		nodes[fmt.Sprintf("n%d", i)] = netip.Addr{}
	}
	if got = peerStatuses(nodes, "b", nil); len(got) != v1alpha1.MaxNodePeers {
		t.Errorf("%d peers", len(got))
	}
}

// The uplink comes first, then what failed; only the uplink balances, in some mode.
func TestStatusOfDevices(t *testing.T) {
	all := []desired.Device{{Name: "veth1", Index: 4}, {Name: "veth2", Index: 5}, {Name: "eth0", Index: 2}}
	attached := func(index int) (redirect.Attachment, bool) {
		return redirect.Attachment{XDP: redirect.XDPGeneric, XDPReason: "veth"}, index != 7
	}
	got := nodeDevices(all, 2, attached, desired.Result{Devices: map[string]error{"veth2": errors.New("gone")}})
	want := []v1alpha1.NodeDevice{
		{Name: "eth0", Placement: v1alpha1.PlacementUplink, Mode: v1alpha1.DeviceModeGeneric, Reason: "veth"},
		{Name: "veth2", Placement: v1alpha1.PlacementPod, Mode: v1alpha1.DeviceModeNone, Reason: "gone"},
		{Name: "veth1", Placement: v1alpha1.PlacementPod, Mode: v1alpha1.DeviceModeNone},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got = nodeDevices([]desired.Device{{Name: "eth0", Index: 7}}, 7, attached, desired.Result{}); got[0].Mode != v1alpha1.DeviceModeNone || got[0].Placement != v1alpha1.PlacementUplink {
		t.Errorf("an uplink that balances nothing yet: %+v", got)
	}
	if got = nodeDevices(slices.Repeat(all, v1alpha1.MaxNodeDevices), 2, attached, desired.Result{}); len(got) != v1alpha1.MaxNodeDevices {
		t.Errorf("%d devices", len(got))
	}
	for x, want := range map[redirect.XDPMode]v1alpha1.DeviceMode{
		redirect.XDPNative: v1alpha1.DeviceModeNative, redirect.XDPGeneric: v1alpha1.DeviceModeGeneric, redirect.XDPNone: v1alpha1.DeviceModeTC,
	} {
		if mode(x) != want {
			t.Errorf("XDP %v: %s", x, mode(x))
		}
	}
}

// A snapshot holds the nodes that have an agent by the address of the agents' family,
// the UIDs of the Services that concern CRAB, and this node's own.
func TestSnapshot(t *testing.T) {
	node := func(name, addr string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
		return n
	}
	class := v1alpha1.LoadBalancerClass
	service := func(name string, class *string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
	}
	agentOf := func(name string) *v1alpha1.NodeDataplane {
		return &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	c := &cluster{family: corev1.IPv4Protocol, cache: fakeClient(t, node("a", "10.0.0.1"), node("b", "10.0.0.2"), node("c", "10.0.0.3"),
		service("web", &class), service("plain", nil), agentOf("a"), agentOf("b"), agentOf("gone"))}
	seen, err := c.look(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]netip.Addr{"a": netip.MustParseAddr("10.0.0.1"), "b": netip.MustParseAddr("10.0.0.2")}
	services := map[types.NamespacedName]types.UID{{Namespace: "shop", Name: "web"}: "uid-web"}
	if !reflect.DeepEqual(seen.nodes, nodes) || !reflect.DeepEqual(seen.services, services) || seen.uid != "uid-a" {
		t.Errorf("%+v", seen)
	}
	if seen, err = c.look(t.Context(), "new"); err != nil || seen.uid != "" {
		t.Errorf("a node that the cluster does not know: %q, %v", seen.uid, err)
	}
	a := &agent{options: Options{Node: "a", Heartbeat: 9440}}
	if got := a.peers(seen); !reflect.DeepEqual(got, []heartbeat.Peer{{Name: "b", Addr: netip.MustParseAddrPort("10.0.0.2:9440")}}) {
		t.Errorf("peers %+v", got)
	}
}

// Agents are woken by what they look at, and by nothing else.
func TestVersions(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "7", Labels: map[string]string{"a": "b"}}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	later := n.DeepCopy()
	later.ResourceVersion, later.Status.Phase = "8", corev1.NodeRunning
	moved := later.DeepCopy()
	moved.Status.Addresses[0].Address = "10.0.0.2"
	d := &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "7"}}
	reported, other := d.DeepCopy(), d.DeepCopy()
	reported.ResourceVersion, other.UID = "8", "2"
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	changed := s.DeepCopy()
	changed.ResourceVersion = "8"
	for i, c := range []struct {
		before, after any
		same          bool
	}{{n, later, true}, {n, moved, false}, {d, reported, true}, {d, other, false}, {s, s.DeepCopy(), true}, {s, changed, false}} {
		if (version(c.before) == version(c.after)) != c.same {
			t.Errorf("%d: %q and %q", i, version(c.before), version(c.after))
		}
	}
	woken := 0
	handler := onChange(func() { woken++ })
	for i, happens := range []func(){
		func() { handler.OnAdd(s, false) }, func() { handler.OnUpdate(s, changed) }, func() { handler.OnDelete(s) },
		func() { handler.OnUpdate(s, s.DeepCopy()) },
	} {
		if happens(); woken != min(i+1, 3) {
			t.Errorf("what came, changed, went, and did not change: woken %d times after %d of them", woken, i+1)
		}
	}
	thin, err := slim(n.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if got := thin.(*corev1.Node); got.Labels != nil || len(got.Status.Addresses) != 1 || got.UID != "1" {
		t.Errorf("%+v", got)
	}
}

func TestRefused(t *testing.T) {
	r := desired.Result{VIPs: map[redirect.VIPKey]error{keyOf(80): errors.New("full")}}
	if !refused(keyOf(80).Addr, r) || refused(netip.MustParseAddr("192.0.2.2"), r) {
		t.Error("refused is who has an entry that could not be written")
	}
}
