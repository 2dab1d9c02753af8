// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// six gives the node's uplink the address 2001:db8::1/64.
func six(t *testing.T) (uplink int) {
	t.Helper()
	addr, err := netlink.ParseAddr("2001:db8::1/64")
	must(t, err)
	addr.Flags = unix.IFA_F_NODAD
	must(t, netlink.AddrAdd(link(t, "eth0"), addr))
	return index(t, "eth0")
}

// linkLocal gives a device an address that says nothing of whether IPv6 leads anywhere.
func linkLocal(t *testing.T, index int) netip.Addr {
	t.Helper()
	l, err := netlink.LinkByIndex(index)
	must(t, err)
	all, err := netlink.AddrList(l, netlink.FAMILY_V6)
	must(t, err)
	for _, a := range all { // the kernel's own, of which it does not know yet that it is free
		must(t, netlink.AddrDel(l, &a))
	}
	addr, err := netlink.ParseAddr("fe80::1/64")
	must(t, err)
	addr.Flags = unix.IFA_F_NODAD
	must(t, netlink.AddrAdd(l, addr))
	return netip.MustParseAddr("fe80::1")
}

// C-9: IPv6 has routes and neighbours of its own.
func TestReachSix(t *testing.T) {
	node(t)
	up := six(t)
	near, foreign, four := netip.MustParseAddr("2001:db8::100"), netip.MustParseAddr("2001:db8:1::7"), netip.MustParseAddr("192.0.2.100")
	check := func(step string, routes, neighbours int) {
		t.Helper()
		r, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		must(t, err)
		all, err := netlink.NeighList(up, netlink.FAMILY_V6)
		must(t, err)
		all = slices.DeleteFunc(all, func(n netlink.Neigh) bool { return n.HardwareAddr.String() != neighbour.String() })
		if len(r) != routes || len(all) != neighbours {
			t.Errorf("%s: routes %v, neighbours %v", step, r, all)
		}
	}
	for range 2 { // the second time changes nothing
		must(t, Reach(up, []netip.Addr{four, near, foreign}, []netip.Addr{four, near}))
		check("one is owned, one of another network", 1, 1)
	}
	if !direct(up, foreign) || !direct(up, near) {
		t.Error("a VIP is not reached directly")
	}
	if n := entry(t, up, near); n.State != netlink.NUD_PERMANENT {
		t.Errorf("an owned VIP has a neighbour entry in state %#x", n.State)
	}
	must(t, Reach(up, []netip.Addr{near, foreign}, nil))
	check("given away: live connections go on", 1, 1)
	if n := entry(t, up, near); n.State != netlink.NUD_STALE {
		t.Errorf("a VIP that was given away has a neighbour entry in state %#x", n.State)
	}
	must(t, Reach(up, nil, nil))
	check("no VIP any more", 0, 0)
	must(t, Reach(up, []netip.Addr{foreign}, []netip.Addr{foreign}))
	must(t, Forget())
	check("forgotten", 0, 0)
}

func TestNetworksAndAddresses(t *testing.T) {
	node(t)
	up := index(t, "eth0")
	veth(t, "eth1", "eth1p", 0)
	must(t, netlink.LinkSetUp(link(t, "eth1p")))
	if !Has(up, false) || Has(index(t, "eth1"), false) {
		t.Error("eth0 has IPv4 and eth1 has none")
	}
	local := linkLocal(t, up)
	if a, err := Address(up, true); err != nil || a != local || Has(up, true) {
		t.Errorf("with %s alone: %s, %v, and it counts as IPv6: %v", local, a, err, Has(up, true))
	}
	if _, err := Uplink(""); err == nil || !strings.Contains(err.Error(), "crab.uplink") {
		t.Errorf("without a default route: %v", err)
	}
	six(t)
	if a, err := Address(up, true); err != nil || a.String() != "2001:db8::1" || !Has(up, true) {
		t.Errorf("IPv6 address %v, %v", a, err)
	}
	for file, value := range map[string]string{"accept_dad": "1", "dad_transmits": "100"} { // it is asked for until the test is over
		must(t, os.WriteFile("/proc/sys/net/ipv6/conf/eth0/"+file, []byte(value), 0o600))
	}
	later, err := netlink.ParseAddr("2001:db8::2/64")
	must(t, err)
	must(t, netlink.AddrAdd(link(t, "eth0"), later))
	if a, err := Address(up, true); err != nil || a.String() != "2001:db8::1" {
		t.Errorf("beside an address that may be somebody else's: %v, %v", a, err)
	}
	if a, err := Address(up, false); err != nil || a.String() != "192.0.2.1" {
		t.Errorf("IPv4 address %v, %v", a, err)
	}
	route(t, "eth0", "::/0", "2001:db8::fe", 100)
	if d, err := Uplink(""); err != nil || d.Name != "eth0" {
		t.Errorf("by the IPv6 default route: %+v, %v", d, err)
	}
	if gw := Gateway(up, true); gw.String() != "2001:db8::fe" {
		t.Errorf("gateway %v", gw)
	}
	route(t, "eth0", "2001:db8:5::/64", "2001:db8::fe", 0)
	foreign := netip.MustParseAddr("2001:db8:6::1")
	must(t, Reach(up, []netip.Addr{foreign}, nil))
	all, err := Networks(up)
	slices.SortFunc(all, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	if want := "[192.0.2.0/24 2001:db8::/64]"; err != nil || fmt.Sprint(all) != want {
		t.Errorf("networks %v, %v, want %s", all, err, want)
	}
	must(t, netlink.LinkSetUp(link(t, "eth1")))
	must(t, os.WriteFile("/proc/sys/net/ipv6/conf/eth1/disable_ipv6", []byte("1"), 0o600))
	if a, err := Address(index(t, "eth1"), true); err == nil || Has(index(t, "eth1"), true) {
		t.Errorf("a device without IPv6 has %s", a)
	}
}
