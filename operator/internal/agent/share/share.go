// SPDX-License-Identifier: Apache-2.0

// Package share works out one node's share of the cluster's plan: what its VIP
// table holds, whom its servers may answer, which servers it asks whether they
// are up, and what its NodeDataplane says of all that. It is pure.
package share

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Input is what a node knows.
type Input struct {
	Plan crabplan.Plan
	// Node is this one's name.
	Node string
	// Balances says for which addresses of the pool this node chooses servers:
	// those it announces, and those it gave away a moment ago.
	Balances func(netip.Addr) bool
	// Probers are the addresses from which nodes ask servers (C-51).
	Probers []netip.Addr
	// HasAgent says whether servers on a node echo, as far as is known. It counts
	// until the first probe is answered: a node that takes an address over must
	// not send everybody away until it has asked all servers twice.
	HasAgent func(node string) bool
	// Health is what probes say of a server; false when they say nothing yet.
	Health func(netip.AddrPort) (redirect.State, bool)
	// Tunnel says how SYNs go to servers of other nodes, whose addresses are in Nodes.
	Tunnel TunnelMode
	Nodes  crabplan.Nodes
}

// Share is this node's part.
type Share struct {
	VIPs      []redirect.VIP
	AllowEcho []netip.Addr
	Tunnels   redirect.Tunnels
	// Probe are the servers to ask, in order.
	Probe []netip.AddrPort
	// Over are those that terminate: what probes said of them last holds.
	Over []netip.AddrPort
	// Status are the entries of NodeDataplane.
	Status []v1alpha1.NodeVIP
}

// Make makes the share.
func Make(in Input) (Share, error) {
	var out Share
	echo, probe, over := map[netip.Addr]bool{}, map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	for _, a := range in.Probers {
		// Where nothing is IPv6 the node should not pay for it.
		if a.Is4() || slices.ContainsFunc(in.Plan.VIPs, func(v crabplan.VIP) bool { return v.Addr.Is6() }) {
			echo[a] = true
		}
	}
	for i := range in.Plan.VIPs {
		v := &in.Plan.VIPs[i]
		entry, err := in.entry(v)
		if err != nil {
			return Share{}, fmt.Errorf("%s of Service %s: %w", netip.AddrPortFrom(v.Addr, v.Port), v.Service, err)
		}
		out.VIPs = append(out.VIPs, entry)
		out.Status = append(out.Status, in.status(v, &entry))
		for _, b := range v.Backends {
			if b.Node == in.Node {
				echo[v.Addr] = true
			}
			switch server := netip.AddrPortFrom(b.Addr, v.Port); {
			case entry.Roles&redirect.RoleBalance == 0:
			case b.State == crabplan.Ready:
				probe[server] = true
			case b.State == crabplan.Draining:
				over[server] = true
			}
		}
	}
	out.Tunnels = in.tunnels()
	out.AllowEcho = slices.SortedFunc(maps.Keys(echo), netip.Addr.Compare)
	out.Probe = slices.SortedFunc(maps.Keys(probe), netip.AddrPort.Compare)
	out.Over = slices.SortedFunc(maps.Keys(over), netip.AddrPort.Compare)
	return out, nil
}

// entry is what the VIP table holds.
func (in *Input) entry(v *crabplan.VIP) (redirect.VIP, error) {
	entry := redirect.VIP{
		VIPKey: redirect.VIPKey{Addr: v.Addr, Port: v.Port}, Roles: in.roles(v), Prefixes: v.Prefixes(),
	}
	if err := entry.Policy.UnmarshalText([]byte(v.Policy)); err != nil {
		return entry, err
	}
	if entry.Roles&redirect.RoleBalance == 0 {
		return entry, nil
	}
	for _, b := range v.Backends {
		entry.Backends = append(entry.Backends, redirect.Backend{Addr: b.Addr, Weight: b.Weight, State: in.state(v, b)})
	}
	return entry, nil
}

// roles: clients are everywhere. A node's own address is balanced there, unless
// the node has a pod itself; who does not know redirects is kube-proxy's business.
// The node is no client of such an address: its probes of the port bear that very
// address, and their answers would be taken for forged redirects.
func (in *Input) roles(v *crabplan.VIP) redirect.Role {
	var tunnel redirect.Role
	if in.Tunnel == TunnelOn {
		tunnel = redirect.RoleTunnel
	}
	var keep redirect.Role
	if v.KeepsClients {
		keep = redirect.RoleKeepClient
	}
	switch {
	case v.Kind == crabplan.LoadBalancer && in.Balances(v.Addr):
		return redirect.RoleClient | redirect.RoleBalance | tunnel | keep
	case v.Kind == crabplan.NodePort && v.Node == in.Node && !v.Local:
		return redirect.RoleBalance | redirect.RoleStackFallback | tunnel
	}
	return redirect.RoleClient
}

func (in *Input) state(v *crabplan.VIP, b crabplan.Backend) redirect.State {
	s := in.health(v, b)
	if s == redirect.UpPlain && v.KeepsClients {
		return redirect.Down // its connections would be relayed, and a hash that leads there must lead elsewhere
	}
	return s
}

// health is what a server could serve, if the Service asked for nothing else.
func (in *Input) health(v *crabplan.VIP, b crabplan.Backend) redirect.State {
	if b.State == crabplan.NotReady {
		return redirect.Down
	}
	s, known := in.Health(netip.AddrPortFrom(b.Addr, v.Port))
	switch {
	case known:
	case in.HasAgent(b.Node):
		s = redirect.UpCRAB
	default:
		s = redirect.UpPlain
	}
	if b.State == crabplan.Ready {
		return s
	}
	// What the balancer relays goes on whatever the pool says; only where servers answer themselves must packets of
	// connections still find them by hash.
	if s == redirect.UpCRAB && in.Tunnel != TunnelOn {
		return redirect.Draining
	}
	return redirect.Down
}

func (in *Input) status(v *crabplan.VIP, entry *redirect.VIP) v1alpha1.NodeVIP {
	out := v1alpha1.NodeVIP{
		Address: v.Addr.String(), Port: int32(v.Port), Namespace: v.Service.Namespace, Service: v.Service.Name,
		Revision: v.Revision, Role: v1alpha1.VIPRoleClient,
	}
	if entry.Roles&redirect.RoleBalance == 0 {
		return out
	}
	out.Role = v1alpha1.VIPRoleBalancer
	for _, b := range v.Backends {
		switch s := in.health(v, b); {
		case b.State == crabplan.Draining:
			out.Draining++
		case s == redirect.UpCRAB:
			out.UpCRAB++
		case s == redirect.UpPlain:
			out.UpPlain++
		default:
			out.Down++
		}
	}
	if text := []rune(in.fallBack(v, &out)); len(text) > v1alpha1.MaxNodeMessage {
		out.FallBack = string(text[:v1alpha1.MaxNodeMessage])
	} else {
		out.FallBack = string(text)
	}
	return out
}

// keptClients is the rule by which some connections are not served at all.
const keptClients = "with externalTrafficPolicy: Local clients keep their addresses, which a relay would hide (C-42)"

// fallBack says why connections stay with the balancer, or end there.
func (in *Input) fallBack(v *crabplan.VIP, n *v1alpha1.NodeVIP) string {
	var silent []string
	switch {
	case n.UpCRAB > 0 && n.UpPlain == 0 && v.KeepsClients && in.Tunnel == TunnelOn:
		return "clients without agent get no connections: " + keptClients
	case n.UpCRAB > 0 && n.UpPlain == 0:
		return ""
	case n.UpCRAB+n.UpPlain == 0 && len(v.Backends) == 0:
		return "the Service has no endpoints"
	case n.UpCRAB+n.UpPlain == 0:
		return fmt.Sprintf("none of %d servers takes connections: they are not ready, or answer no probe", len(v.Backends))
	}
	for _, b := range v.Backends {
		if b.State == crabplan.Ready && !slices.Contains(silent, b.Node) {
			silent = append(silent, b.Node)
		}
	}
	if v.KeepsClients {
		return keepingOnly(n, Names(silent))
	}
	if n.UpCRAB == 0 {
		return fmt.Sprintf("none of %d servers knows redirects: is the agent running on %s?", n.UpPlain, Names(silent))
	}
	return fmt.Sprintf("%d of %d servers do not know redirects and get no redirected connection: is the agent running on all of %s?", n.UpPlain, n.UpPlain+n.UpCRAB, Names(silent))
}

// keepingOnly says who gets no connections where nothing is relayed.
func keepingOnly(n *v1alpha1.NodeVIP, nodes string) string {
	if n.UpCRAB == 0 {
		return fmt.Sprintf("none of %d servers knows redirects, and none gets connections: %s; is the agent running on %s?", n.UpPlain, keptClients, nodes)
	}
	return fmt.Sprintf("%d of %d servers do not know redirects and get no connections: %s; is the agent running on all of %s?", n.UpPlain, n.UpPlain+n.UpCRAB, keptClients, nodes)
}

// Names lists nodes for people, a few of them by name.
func Names(nodes []string) string {
	const most = 5
	slices.Sort(nodes)
	if len(nodes) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:most], ", "), len(nodes)-most)
	}
	return strings.Join(nodes, ", ")
}
