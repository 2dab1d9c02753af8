// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// Tunnel is the way of SYNs to the host of a server (C-80).
type Tunnel struct {
	From netip.Addr `json:"from"` // of this host
	To   netip.Addr `json:"to"`   // of the server's
}

// Tunnels are for networks that let nobody send with another's address. Without
// any nothing is sent by tunnel, and none is opened here.
type Tunnels struct {
	// Ways are by server; they are taken for VIPs with RoleTunnel. A server without one
	// is reached as ever: it is on this host.
	Ways map[netip.Addr]Tunnel `json:"ways,omitempty"`
	// Peers are the hosts whose tunnels are opened here, where AttachTunnel was called,
	// when they end at an address of Own and hold a SYN for one of Servers.
	Peers   []netip.Addr `json:"peers,omitempty"`
	Own     []netip.Addr `json:"own,omitempty"`
	Servers []netip.Addr `json:"servers,omitempty"`
}

// Equal tells whether both say the same, in the same order.
func (t Tunnels) Equal(o Tunnels) bool {
	return maps.Equal(t.Ways, o.Ways) && slices.Equal(t.Peers, o.Peers) && slices.Equal(t.Own, o.Own) && slices.Equal(t.Servers, o.Servers)
}

// Bits of enum crab_tunnel_end.
const (
	tunnelPeer uint32 = 1 << iota
	tunnelOwn
	tunnelServer
)

const (
	maxTunnels    = 16384 // CRAB_MAX_TUNNELS
	maxTunnelEnds = 16384 // CRAB_MAX_TUN_ENDS
)

// ends are what addresses are to this host as one that opens tunnels.
func (t Tunnels) ends() (map[netip.Addr]uint32, error) {
	all := map[netip.Addr]uint32{}
	for _, kind := range []struct {
		field string
		addrs []netip.Addr
		bit   uint32
	}{{"peers", t.Peers, tunnelPeer}, {"own", t.Own, tunnelOwn}, {"servers", t.Servers, tunnelServer}} {
		for i, a := range kind.addrs {
			if err := usableAddr(fmt.Sprintf("tunnels.%s[%d]", kind.field, i), a); err != nil {
				return nil, err
			}
			all[a] |= kind.bit
		}
	}
	if len(all) > maxTunnelEnds {
		return nil, &FieldError{"tunnels", fmt.Sprintf("%d addresses in peers, own and servers, at most %d", len(all), maxTunnelEnds)}
	}
	return all, nil
}

// checkWays refuses a way that no packet of the server's family can take.
func (t Tunnels) checkWays() error {
	if len(t.Ways) > maxTunnels {
		return &FieldError{"tunnels.ways", fmt.Sprintf("%d given, at most %d", len(t.Ways), maxTunnels)}
	}
	for _, server := range slices.SortedFunc(maps.Keys(t.Ways), netip.Addr.Compare) {
		field, way := fmt.Sprintf("tunnels.ways[%s]", server), t.Ways[server]
		for name, a := range map[string]netip.Addr{"": server, ".from": way.From, ".to": way.To} {
			if err := usableAddr(field+name, a); err != nil {
				return err
			}
			if a.BitLen() != server.BitLen() {
				return &FieldError{field + name, fmt.Sprintf("%s is not of the server's family (C-9)", a)}
			}
		}
	}
	return nil
}

// Tunnels replaces all of them. Ends come before the ways that others learn of
// about now; what is still under way is opened as long as its end is known.
func (n *Node) Tunnels(t Tunnels) error {
	ends, err := t.ends()
	if err != nil {
		return err
	}
	if err := t.checkWays(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	isSix := func(a netip.Addr) bool { return a.Is6() }
	if slices.ContainsFunc(slices.Collect(maps.Keys(ends)), isSix) || slices.ContainsFunc(slices.Collect(maps.Keys(t.Ways)), isSix) {
		if err := n.useSix(); err != nil {
			return fmt.Errorf("IPv6: %w", err)
		}
	}
	ways := make(map[netip.Addr]programs.Tunnel, len(t.Ways))
	for server, way := range t.Ways {
		ways[server] = programs.Tunnel{From: way.From, To: way.To}
	}
	if err := replaceByAddr(n, "crab_tun_ends", ends, func() any { return new(uint32) }); err != nil {
		return err
	}
	return replaceByAddr(n, "crab_tunnels", ways, func() any { return new(programs.Tunnel) })
}

// replaceByAddr makes the maps of a name hold these entries, in both families.
func replaceByAddr[V any](n *Node, name string, all map[netip.Addr]V, value func() any) error {
	for a, v := range all {
		if err := n.m(familyOf(a), name).Update(programs.Addr{Addr: a}, v, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("%s: %s: %w", name, a, err)
		}
	}
	for _, f := range n.known() {
		err := keepOnly(n.m(f, name), value(), func(a programs.Addr) bool {
			_, wanted := all[a.Addr]
			return wanted
		})
		if err != nil {
			return fmt.Errorf("%s: %w", f.of(name), err)
		}
	}
	return nil
}

// AttachTunnel makes a device open tunnels of Peers.
func (n *Node) AttachTunnel(ifindex int) error {
	return n.attach(ifindex, DutyTunnel, Uplink)
}
