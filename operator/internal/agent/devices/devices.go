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
	Name  string
	Index int
}

// Link is what the wire of a device looks like just now.
type Link struct {
	Up bool // it is set up and has a carrier
	// Received counts packets; it moves when somebody else is on the wire.
	Received uint64
}

// Uplink finds the device by its name, or, when name is empty, the one of the
// IPv4 default route with the lowest metric.
func Uplink(name string) (Device, error) {
	if name != "" {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return Device{}, fmt.Errorf("uplink %s: %w; name one of this node's devices (chart value crab.uplink)", name, err)
		}
		return Device{name, l.Attrs().Index}, nil
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return Device{}, fmt.Errorf("routes: %w", err)
	}
	best := -1
	for i, r := range routes {
		if isDefault(r.Dst) && r.LinkIndex > 0 && (best < 0 || r.Priority < routes[best].Priority) {
			best = i
		}
	}
	if best < 0 {
		return Device{}, fmt.Errorf("this node has no IPv4 default route to find its uplink by: name the device (chart value crab.uplink)")
	}
	l, err := netlink.LinkByIndex(routes[best].LinkIndex)
	if err != nil {
		return Device{}, fmt.Errorf("device of the default route: %w", err)
	}
	return Device{l.Attrs().Name, l.Attrs().Index}, nil
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
			all = append(all, Device{a.Name, a.Index})
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

// Address is the device's first IPv4 address.
func Address(index int) (netip.Addr, error) {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return netip.Addr{}, err
	}
	addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addrs {
		if addr, ok := netip.AddrFromSlice(a.IP.To4()); ok {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("device %s has no IPv4 address", l.Attrs().Name)
}

// Gateway is the next hop of the device's default route; invalid when there is none.
func Gateway(index int) netip.Addr {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF)
	if err != nil {
		return netip.Addr{}
	}
	for _, r := range routes {
		if addr, ok := netip.AddrFromSlice(r.Gw.To4()); ok && isDefault(r.Dst) {
			return addr
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
