// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// node puts the test into a network namespace of its own, with the uplink eth0
// (192.0.2.1/24) and another namespace at its other end.
func node(t *testing.T) (elsewhere netns.NsHandle) {
	t.Helper()
	privileged.Need(t, "makes network namespaces")
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	elsewhere, err := netns.New()
	must(t, err)
	home, err := netns.New()
	must(t, err)
	t.Cleanup(func() { elsewhere.Close(); home.Close() })
	veth(t, "eth0", "peer0", elsewhere)
	addr, err := netlink.ParseAddr("192.0.2.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(link(t, "eth0"), addr))
	return elsewhere
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l
}

func index(t *testing.T, name string) int { return link(t, name).Attrs().Index }

// veth with its other end in another namespace, or here when that is 0.
func veth(t *testing.T, name, peer string, other netns.NsHandle) {
	t.Helper()
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: peer}
	v.Name = name
	if other != 0 {
		v.PeerNamespace = netlink.NsFd(other)
	}
	must(t, netlink.LinkAdd(v))
	must(t, netlink.LinkSetUp(link(t, name)))
}

func route(t *testing.T, device, dst, via string, metric int) {
	t.Helper()
	_, to, err := net.ParseCIDR(dst)
	must(t, err)
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: index(t, device), Dst: to, Gw: net.ParseIP(via), Priority: metric}))
}

func TestUplink(t *testing.T) {
	node(t)
	if _, err := Uplink(""); err == nil || !strings.Contains(err.Error(), "crab.uplink") {
		t.Errorf("without a default route: %v", err)
	}
	veth(t, "eth1", "eth1p", 0)
	route(t, "eth0", "0.0.0.0/0", "192.0.2.254", 200)
	if d, err := Uplink(""); err != nil || d.Name != "eth0" || d.Index != index(t, "eth0") {
		t.Errorf("%+v, %v", d, err)
	}
	if gw := Gateway(index(t, "eth0"), false); gw != netip.MustParseAddr("192.0.2.254") {
		t.Errorf("gateway %v", gw)
	}
	addr, err := netlink.ParseAddr("198.51.100.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(link(t, "eth1"), addr))
	must(t, netlink.LinkSetUp(link(t, "eth1p")))
	route(t, "eth1", "0.0.0.0/0", "198.51.100.254", 100)
	if d, err := Uplink(""); err != nil || d.Name != "eth1" {
		t.Errorf("the better metric: %+v, %v", d, err)
	}
	if d, err := Uplink("eth0"); err != nil || d.Name != "eth0" {
		t.Errorf("by name: %+v, %v", d, err)
	}
	if _, err := Uplink("none"); err == nil {
		t.Error("a device that is not there was found")
	}
}

// Pods are known by where the other end of a veth is, not by their names.
func TestPods(t *testing.T) {
	elsewhere := node(t)
	veth(t, "calico1", "eth0", elsewhere)
	veth(t, "lxc_health", "eth9", elsewhere)
	veth(t, "near", "near2", 0) // both ends here: no pod
	pods, err := Pods(index(t, "eth0"))
	must(t, err)
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"calico1", "lxc_health"}) {
		t.Errorf("pods %q", names)
	}
}

func TestState(t *testing.T) {
	node(t)
	veth(t, "a", "b", 0)
	if s, err := State(index(t, "a")); err != nil || s.Up {
		t.Errorf("with the other end down: %+v, %v", s, err)
	}
	must(t, netlink.LinkSetUp(link(t, "b")))
	if s, err := State(index(t, "a")); err != nil || !s.Up {
		t.Errorf("up: %+v, %v", s, err)
	}
	if _, err := State(9999); err == nil {
		t.Error("a device that is not there has a state")
	}
}

func TestReach(t *testing.T) {
	node(t)
	veth(t, "far", "far2", 0)
	must(t, netlink.LinkSetUp(link(t, "far2")))
	up, near, foreign := index(t, "eth0"), netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("203.0.113.7")
	// What others wrote is not ours to remove.
	must(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: up, State: netlink.NUD_PERMANENT, IP: net.ParseIP("192.0.2.50"), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}))
	check := func(step string, routes, neighbours int) {
		t.Helper()
		r, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		must(t, err)
		all, err := netlink.NeighList(up, netlink.FAMILY_V4)
		must(t, err)
		ours := 0
		for _, n := range all {
			if n.HardwareAddr.String() == neighbour.String() {
				ours++
			}
		}
		if len(r) != routes || ours != neighbours || len(all) != ours+1 {
			t.Errorf("%s: routes %v, neighbours %v", step, r, all)
		}
	}
	for range 2 { // the second time changes nothing
		must(t, Reach(up, []netip.Addr{near, foreign}, []netip.Addr{near}))
		check("one is owned, one of another network", 1, 1)
	}
	if !direct(up, foreign) {
		t.Error("the foreign VIP is not reached directly")
	}
	must(t, Reach(up, []netip.Addr{near, foreign}, nil))
	check("given away: live connections go on", 1, 1)
	if n := entry(t, up, near); n.State != netlink.NUD_STALE {
		t.Errorf("a VIP that was given away has a neighbour entry in state %#x", n.State)
	}
	must(t, Reach(up, []netip.Addr{near}, []netip.Addr{near}))
	check("taken back", 0, 1)
	if n := entry(t, up, near); n.State != netlink.NUD_PERMANENT {
		t.Errorf("a VIP that was taken back has a neighbour entry in state %#x", n.State)
	}
	must(t, Reach(up, []netip.Addr{near}, nil))
	must(t, Reach(up, nil, nil))
	check("no VIP any more", 0, 0)
	must(t, Reach(up, []netip.Addr{foreign}, []netip.Addr{foreign}))
	must(t, Forget())
	check("forgotten", 0, 0)
}

// A VIP is reached by the uplink and without a router, whatever other devices and
// routers there are; another uplink takes the way over.
func TestReachGoesByTheUplinkAlone(t *testing.T) {
	node(t)
	veth(t, "far", "far2", 0)
	must(t, netlink.LinkSetUp(link(t, "far")))
	must(t, netlink.LinkSetUp(link(t, "far2")))
	theirs, err := netlink.ParseAddr("198.51.100.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(link(t, "far"), theirs))
	up, far := index(t, "eth0"), index(t, "far")
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: up, Gw: net.ParseIP("192.0.2.254")}))
	routed, elsewhere := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("198.51.100.9")
	by := func(step string, uplink, want int) {
		t.Helper()
		all, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		must(t, err)
		if len(all) != want || slices.ContainsFunc(all, func(r netlink.Route) bool { return r.LinkIndex != uplink || r.Gw != nil }) {
			t.Errorf("%s: %v, want %d by device %d", step, all, want, uplink)
		}
	}
	must(t, Reach(up, []netip.Addr{routed, elsewhere}, nil))
	by("behind a router, and in the network of another device", up, 2)
	must(t, Reach(far, []netip.Addr{routed, elsewhere}, nil))
	by("another uplink, which has one of them in its own network", far, 1)
	must(t, Forget())
	by("forgotten", 0, 0)
}

// The uplink is another device than before: nothing is left on the old one, where
// a permanent entry would send packets nowhere should it become the way again.
func TestReachByAnotherUplink(t *testing.T) {
	node(t)
	veth(t, "far", "far2", 0)
	veth(t, "next", "next2", 0)
	for _, name := range []string{"far2", "next", "next2"} {
		must(t, netlink.LinkSetUp(link(t, name)))
	}
	vips := []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8")}
	must(t, Reach(index(t, "eth0"), vips, vips))
	now := index(t, "next")
	must(t, Reach(now, vips, vips[:1]))
	all, err := netlink.NeighList(0, netlink.FAMILY_V4)
	must(t, err)
	ours := 0
	for _, n := range all {
		if n.HardwareAddr.String() == neighbour.String() {
			ours++
			if n.LinkIndex != now {
				t.Errorf("device %d still has an entry of %s", n.LinkIndex, n.IP)
			}
		}
	}
	if n := entry(t, now, vips[0]); ours != 1 || n.State != netlink.NUD_PERMANENT {
		t.Errorf("%d entries, that of the owned VIP in state %#x", ours, n.State)
	}
	for _, vip := range vips {
		if !direct(now, vip) {
			t.Errorf("%s is not reached by the new uplink", vip)
		}
	}
}

// entry of a neighbour.
func entry(t *testing.T, up int, addr netip.Addr) netlink.Neigh {
	t.Helper()
	all, err := netlink.NeighList(up, map[bool]int{false: netlink.FAMILY_V6, true: netlink.FAMILY_V4}[addr.Is4()])
	must(t, err)
	for _, n := range all {
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == addr {
			return n
		}
	}
	t.Fatalf("no neighbour entry for %s", addr)
	return netlink.Neigh{}
}
