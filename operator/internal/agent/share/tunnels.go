// SPDX-License-Identifier: Apache-2.0

package share

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// TunnelMode says whether SYNs go from node to node in a tunnel, because the network
// lets nobody send with another's address (C-80).
type TunnelMode string

const (
	TunnelOff TunnelMode = "Off"
	// TunnelOpen opens tunnels of other nodes and sends none: for the time in which
	// not every node opens them yet, or some still send them.
	TunnelOpen TunnelMode = "Open"
	TunnelOn   TunnelMode = "On"
)

// TunnelModes are all of them, in the order in which they are gone through.
var TunnelModes = []TunnelMode{TunnelOff, TunnelOpen, TunnelOn}

// opens tells whether this node lets out what others send.
func (m TunnelMode) opens() bool { return m == TunnelOpen || m == TunnelOn }

// tunnels are this node's: whose are opened here, and the ways to servers elsewhere.
func (in *Input) tunnels() redirect.Tunnels {
	if !in.Tunnel.opens() {
		return redirect.Tunnels{}
	}
	t := redirect.Tunnels{Ways: in.ways(), Servers: in.serversHere()}
	for name, addrs := range in.Nodes {
		for _, a := range addrs {
			if name == in.Node {
				t.Own = append(t.Own, a)
			} else {
				t.Peers = append(t.Peers, a)
			}
		}
	}
	slices.SortFunc(t.Own, netip.Addr.Compare)
	slices.SortFunc(t.Peers, netip.Addr.Compare)
	return t
}

func (in *Input) serversHere() []netip.Addr {
	here := map[netip.Addr]bool{}
	for _, v := range in.Plan.VIPs {
		for _, b := range v.Backends {
			if b.Node == in.Node {
				here[b.Addr] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(here), netip.Addr.Compare)
}

// ways lead to the servers of all VIPs, also of those this node does not balance: it may
// have to tomorrow.
func (in *Input) ways() map[netip.Addr]redirect.Tunnel {
	if in.Tunnel != TunnelOn {
		return nil
	}
	all := map[netip.Addr]redirect.Tunnel{}
	for _, v := range in.Plan.VIPs {
		family := crabplan.FamilyOf(v.Addr)
		from, known := in.Nodes[in.Node][family]
		for _, b := range v.Backends {
			if to, there := in.Nodes[b.Node][family]; known && there && b.Node != in.Node {
				all[b.Addr] = redirect.Tunnel{From: from, To: to}
			}
		}
	}
	return all
}
