// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Entries of this package are known by these: a route's protocol, which no
// routing daemon uses, and a neighbour's address, which no device has.
const routeProtocol = 0xcb

var neighbour = net.HardwareAddr{0x02, 'c', 'r', 'a', 'b', 0x01}

// Reach lets clients of this node dial the VIPs: their SYNs must get as far as
// the uplink, where the programs are. Every VIP is reached directly, without a
// router; one that is owned here is answered for by nobody on the wire, so its
// neighbour entry is written. One that is owned no more keeps an entry that has
// gone stale: packets of live connections, which the programs address
// themselves, go on at once, the next owner's announcement overwrites it, and
// without one the kernel asks again after some seconds. What is not asked for
// any more is taken away.
func Reach(uplink int, vips, owned []netip.Addr) error {
	return errors.Join(reach(netlink.FAMILY_V4, uplink, vips, owned), reach(netlink.FAMILY_V6, uplink, vips, owned))
}

func reach(family, uplink int, vips, owned []netip.Addr) error {
	vips, owned = only(family, vips), only(family, owned)
	err := errors.Join(setRoutes(family, uplink, vips), setNeighbours(family, uplink, vips, owned))
	if len(vips)+len(owned) == 0 && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)) {
		return nil // a kernel without IPv6
	}
	return err
}

// only the addresses of one family.
func only(family int, all []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		if a.Is4() == (family == netlink.FAMILY_V4) {
			out = append(out, a)
		}
	}
	return out
}

func setRoutes(family, uplink int, vips []netip.Addr) error {
	have, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	wanted, old := set(vips), map[netip.Addr]bool{}
	var failed []error
	for _, r := range have {
		addr, ok := prefixAddr(r.Dst)
		if !ok || !wanted[addr] || r.LinkIndex != uplink {
			failed = append(failed, netlink.RouteDel(&r))
			continue
		}
		old[addr] = true
	}
	for _, vip := range vips {
		if old[vip] || direct(uplink, vip) {
			continue
		}
		r := &netlink.Route{LinkIndex: uplink, Dst: host(vip), Scope: netlink.SCOPE_LINK, Protocol: routeProtocol}
		if err := netlink.RouteAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			failed = append(failed, fmt.Errorf("route to %s: %w", vip, err))
		}
	}
	return errors.Join(failed...)
}

// direct tells whether packets to an address leave by the uplink without a router.
func direct(uplink int, addr netip.Addr) bool {
	routes, err := netlink.RouteGet(addr.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].LinkIndex == uplink && routes[0].Gw == nil
}

func setNeighbours(family, uplink int, vips, owned []netip.Addr) error {
	have, err := netlink.NeighList(0, family)
	if err != nil {
		return fmt.Errorf("neighbours: %w", err)
	}
	known, wanted := set(vips), set(owned)
	var failed []error
	for _, n := range have {
		addr, ok := netip.AddrFromSlice(n.IP)
		addr = addr.Unmap()
		here := n.LinkIndex == uplink
		if !ok || n.HardwareAddr.String() != neighbour.String() || here && wanted[addr] {
			continue
		}
		if !here || !known[addr] { // another device was the uplink before
			failed = append(failed, netlink.NeighDel(&n))
		} else if n.State&netlink.NUD_PERMANENT != 0 {
			failed = append(failed, setNeighbour(family, uplink, addr, netlink.NUD_STALE))
		}
	}
	for _, vip := range owned {
		failed = append(failed, setNeighbour(family, uplink, vip, netlink.NUD_PERMANENT))
	}
	return errors.Join(failed...)
}

func setNeighbour(family, uplink int, vip netip.Addr, state int) error {
	n := &netlink.Neigh{LinkIndex: uplink, Family: family, State: state, IP: vip.AsSlice(), HardwareAddr: neighbour}
	if err := netlink.NeighSet(n); err != nil {
		return fmt.Errorf("neighbour %s: %w", vip, err)
	}
	return nil
}

// Forget takes all entries away, on every device.
func Forget() error { return Reach(0, nil, nil) }

func set(addrs []netip.Addr) map[netip.Addr]bool {
	s := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		s[a] = true
	}
	return s
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

func prefixAddr(n *net.IPNet) (netip.Addr, bool) {
	if n == nil {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	return addr.Unmap(), ok
}
