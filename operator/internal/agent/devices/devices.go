// SPDX-License-Identifier: Apache-2.0

// Package devices finds the uplink of a node and its pods' devices, whatever the
// CNI calls them.
package devices

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Device is one that programs may be attached to.
type Device struct {
	Name    string
	Index   int
	Address string // of Ethernet; empty when it has none
}

func deviceOf(l netlink.Link) Device {
	a := l.Attrs()
	return Device{a.Name, a.Index, a.HardwareAddr.String()}
}

// Link is what the wire of a device looks like just now.
type Link struct {
	Up bool // it is set up and has a carrier
	// Received counts packets; it moves when somebody else is on the wire.
	Received uint64
}

// Uplink finds the device by its name, or, when name is empty, the one of the
// default route with the lowest metric: of IPv4, or of IPv6 when there is none.
func Uplink(name string) (Device, error) {
	if name != "" {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return Device{}, fmt.Errorf("uplink %s: %w; name one of this node's devices (chart value crab.uplink)", name, err)
		}
		return deviceOf(l), nil
	}
	index, err := defaultDevice(netlink.FAMILY_V4)
	if index == 0 && err == nil {
		index, err = defaultDevice(netlink.FAMILY_V6)
	}
	if err != nil {
		return Device{}, err
	}
	if index == 0 {
		return Device{}, fmt.Errorf("this node has no default route to find its uplink by: name the device (chart value crab.uplink)")
	}
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return Device{}, fmt.Errorf("device of the default route: %w", err)
	}
	return deviceOf(l), nil
}

// defaultDevice of a family; 0 when it has no default route.
func defaultDevice(family int) (int, error) {
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return 0, fmt.Errorf("routes: %w", err)
	}
	best := -1
	for i, r := range routes {
		if isDefault(r.Dst) && r.LinkIndex > 0 && (best < 0 || r.Priority < routes[best].Priority) {
			best = i
		}
	}
	if best < 0 {
		return 0, nil
	}
	return routes[best].LinkIndex, nil
}

func isDefault(dst *net.IPNet) bool {
	if dst == nil {
		return true
	}
	ones, _ := dst.Mask.Size()
	return ones == 0
}

// Pods are the host's ends of veths whose other end lies in another network
// namespace; the uplink is none even if it looks like one.
func Pods(uplink int) ([]Device, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	var all []Device
	for _, l := range links {
		a := l.Attrs()
		if l.Type() == "veth" && a.NetNsID >= 0 && a.Index != uplink {
			all = append(all, deviceOf(l))
		}
	}
	slices.SortFunc(all, func(a, b Device) int { return a.Index - b.Index })
	return all, nil
}

// State looks at a device's wire.
func State(index int) (Link, error) {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return Link{}, err
	}
	a := l.Attrs()
	s := Link{Up: a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0}
	if a.Statistics != nil {
		s.Received = a.Statistics.RxPackets
	}
	return s, nil
}

// Networks are those that a device reaches without a router; of IPv6 the
// link-local one is left out, because no VIP can be of it.
func Networks(index int) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, family := range families {
		filter := &netlink.Route{LinkIndex: index, Table: unix.RT_TABLE_MAIN}
		routes, err := netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		if err != nil {
			return nil, fmt.Errorf("routes: %w", err)
		}
		for _, r := range routes {
			if r.Gw != nil || r.Via != nil || isDefault(r.Dst) || r.Protocol == routeProtocol {
				continue
			}
			ones, _ := r.Dst.Mask.Size()
			if addr, ok := netip.AddrFromSlice(r.Dst.IP); ok && !addr.Unmap().IsLinkLocalUnicast() {
				all = append(all, netip.PrefixFrom(addr.Unmap(), ones))
			}
		}
	}
	return all, nil
}

// Address is the device's first address of a family, of IPv6 its link-local one
// if it has no other.
func Address(index int, six bool) (netip.Addr, error) {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return netip.Addr{}, err
	}
	addrs, err := netlink.AddrList(l, familyOf(six))
	if err != nil {
		return netip.Addr{}, err
	}
	var local netip.Addr
	for _, a := range addrs {
		addr, ok := netip.AddrFromSlice(a.IP)
		if addr = addr.Unmap(); !ok || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
			continue
		}
		if !six || !addr.IsLinkLocalUnicast() {
			return addr, nil
		}
		local = addr
	}
	if !local.IsValid() {
		return netip.Addr{}, fmt.Errorf("device %s has no %s address", l.Attrs().Name, map[bool]string{false: "IPv4", true: "IPv6"}[six])
	}
	return local, nil
}

// Has tells whether a device leads anywhere by a family: of IPv6 a link-local
// address is no sign of it, every device has one where the kernel knows IPv6 at all.
func Has(index int, six bool) bool {
	addr, err := Address(index, six)
	return err == nil && !(six && addr.IsLinkLocalUnicast())
}

var families = []int{netlink.FAMILY_V4, netlink.FAMILY_V6}

func familyOf(six bool) int {
	if six {
		return netlink.FAMILY_V6
	}
	return netlink.FAMILY_V4
}

// Gateway is the next hop of the device's default route of a family; invalid when
// there is none.
func Gateway(index int, six bool) netip.Addr {
	routes, err := netlink.RouteListFiltered(familyOf(six), &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF)
	if err != nil {
		return netip.Addr{}
	}
	for _, r := range routes {
		if addr, ok := netip.AddrFromSlice(r.Gw); ok && isDefault(r.Dst) {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}

// Watch sends on the returned channel when devices come, go or change, until stop
// is closed. Several changes may be one message.
func Watch(stop <-chan struct{}) (<-chan struct{}, error) {
	updates := make(chan netlink.LinkUpdate)
	if err := netlink.LinkSubscribe(updates, stop); err != nil {
		return nil, fmt.Errorf("watch devices: %w", err)
	}
	changed := make(chan struct{}, 1)
	go func() {
		for range updates {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed, nil
}
