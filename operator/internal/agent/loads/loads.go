// SPDX-License-Identifier: Apache-2.0

// Package loads is what the policies by load live on: agents tell the balancers
// of a VIP how many connections its servers on their nodes have open, and a
// balancer knows of which servers it has heard lately. It is pure: time comes in
// with every call.
package loads

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

const (
	// Interval is how often loads are told.
	Interval = time.Second
	// Life is how long a report counts (C-62). The programs are told the same;
	// they choose at random among servers whose report is older.
	Life = 3 * Interval
	// Patience is how long a server may be without a report before that is told:
	// who takes a VIP over has none at first, and a new pod is seen by its own
	// node and by the balancer at different times.
	Patience = 5 * Interval
	// Linger is how long who owned a VIP is told: it balances on for clients that
	// do not know yet, and for those on its own node (keeper.Grace).
	Linger = time.Minute
)

// Load is one server's: it and its port are as they stand in the pools.
type Load struct {
	Server netip.AddrPort
	Open   uint32 // connections
}

// Server is one server of a pool.
type Server struct {
	Addr   netip.AddrPort
	Node   string
	Weight uint16
}

// Pool is one VIP that this node balances by load.
type Pool struct {
	VIP     netip.AddrPort
	Servers []Server // those that may get connections
	// Leaving: the VIP has another owner already, which alone is owed reports.
	Leaving bool
}

// Update is one load for the programs.
type Update struct {
	VIP    netip.AddrPort
	Server netip.Addr
	Open   uint32 // for each unit of the server's weight
}

// Counters say what became of the loads other agents told.
type Counters struct {
	Taken uint64
	// Foreign servers run on another node than the one that told of them.
	Foreign uint64
	// Unasked servers are in no pool that is balanced here: ownership has moved,
	// or one of both has an older plan.
	Unasked uint64
}

type heard struct {
	at time.Duration // of the last report, or when waiting for the first one began
	// ever says that there was one.
	ever bool
}

type place struct {
	vip     netip.AddrPort
	node    string
	weight  uint16
	leaving bool
}

// Table is a balancer's view.
type Table struct {
	places   map[netip.AddrPort][]place
	heard    map[netip.AddrPort]heard
	counters Counters
}

// NewTable knows of nothing.
func NewTable() *Table {
	return &Table{places: map[netip.AddrPort][]place{}, heard: map[netip.AddrPort]heard{}}
}

// Set replaces the pools. What was told of a server that stays stays known.
func (t *Table) Set(now time.Duration, pools []Pool) {
	places := map[netip.AddrPort][]place{}
	for _, p := range pools {
		for _, s := range p.Servers {
			places[s.Addr] = append(places[s.Addr], place{p.VIP, s.Node, max(s.Weight, 1), p.Leaving})
		}
	}
	for s := range places {
		if _, known := t.heard[s]; !known {
			t.heard[s] = heard{at: now}
		}
	}
	for s := range t.heard {
		if places[s] == nil {
			delete(t.heard, s)
		}
	}
	t.places = places
}

// Hear takes what an agent tells of its node, and gives what the programs should
// know. Nobody is believed about the servers of another node.
func (t *Table) Hear(now time.Duration, node string, told []Load) []Update {
	var out []Update
	for _, l := range told {
		places := t.places[l.Server]
		switch {
		case len(places) == 0:
			t.counters.Unasked++
			continue
		case places[0].node != node:
			t.counters.Foreign++
			continue
		}
		t.counters.Taken++
		t.heard[l.Server] = heard{at: now, ever: true}
		for _, p := range places {
			w := uint32(p.weight)
			out = append(out, Update{p.vip, l.Server.Addr(), l.Open/w + min(l.Open%w, 1)})
		}
	}
	return out
}

// Silent is a VIP some of whose servers nobody has told of lately.
type Silent struct {
	Servers, Of int
	Nodes       []string // where they run, in order
}

// Silence says which VIPs are balanced without the reports they need, by address
// and port.
func (t *Table) Silence(now time.Duration) map[netip.AddrPort]Silent {
	out, of := map[netip.AddrPort]Silent{}, map[netip.AddrPort]int{}
	for server, places := range t.places {
		silent := now-t.heard[server].at > Patience
		for _, p := range places {
			of[p.vip]++
			if !silent || p.leaving {
				continue
			}
			s := out[p.vip]
			s.Servers++
			if !slices.Contains(s.Nodes, p.node) {
				s.Nodes = append(s.Nodes, p.node)
			}
			out[p.vip] = s
		}
	}
	for vip, s := range out {
		s.Of = of[vip]
		slices.Sort(s.Nodes)
		out[vip] = s
	}
	return out
}

// Stale counts the servers without a report that still counts.
func (t *Table) Stale(now time.Duration) int {
	n := 0
	for server, h := range t.heard {
		owed := slices.ContainsFunc(t.places[server], func(p place) bool { return !p.leaving })
		if owed && (!h.ever || now-h.at > Life) {
			n++
		}
	}
	return n
}

// Counters so far.
func (t *Table) Counters() Counters { return t.counters }

// Served is a VIP that is balanced by load, as an agent with servers of it sees it.
type Served struct {
	Pool
	// Balancers are the nodes that choose among its servers.
	Balancers []string
}

// ByBalancer sorts what this node has counted by the nodes that should know, each
// server once and in order. A server that nobody counts is left out.
func ByBalancer(node string, vips []Served, open map[netip.AddrPort]uint32) map[string][]Load {
	out := map[string][]Load{}
	for _, v := range vips {
		for _, s := range v.Servers {
			n, counted := open[s.Addr]
			if !counted || s.Node != node {
				continue
			}
			for _, b := range v.Balancers {
				out[b] = append(out[b], Load{s.Addr, n})
			}
		}
	}
	for b, all := range out {
		slices.SortFunc(all, func(x, y Load) int { return x.Server.Compare(y.Server) })
		out[b] = slices.Compact(all)
	}
	return out
}

// Local are the servers of a node, in order: those whose connections it counts.
func Local(node string, vips []Served) []netip.AddrPort {
	var out []netip.AddrPort
	for _, v := range vips {
		for _, s := range v.Servers {
			if s.Node == node {
				out = append(out, s.Addr)
			}
		}
	}
	slices.SortFunc(out, func(a, b netip.AddrPort) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Port(), b.Port()))
	})
	return slices.Compact(out)
}
