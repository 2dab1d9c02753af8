// SPDX-License-Identifier: Apache-2.0

package command

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/reports"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// newReporter counts this host's servers and hears of those of its peers (C-62).
func (s *share) newReporter(p redirect.Plane) *reports.Reporter {
	start := time.Now()
	return reports.New(reports.Options{
		Node: s.config.Name, Connections: p.Connections, Write: p.Report,
		Tell:  func(node string, all []loads.Load) { s.keeper.Tell(node, all) },
		Owner: func(vip netip.Addr) string { return s.keeper.Owner(vip) },
		Now:   func() time.Duration { return time.Since(start) },
	})
}

// report says what there is to count and to tell, and what is balanced by load.
func (s *share) report(c Config, vips []redirect.VIP) {
	served, nodes := hosted(c)
	s.reports.Set(served, byLoad(vips, nodes, s.keeper.Owned()))
}

// hosted are this host's servers, whose loads all balancers are told, and which
// host runs each server.
func hosted(c Config) ([]loads.Served, map[netip.Addr]string) {
	self := c.Announce.Name
	nodes, everybody := map[netip.Addr]string{}, []string{self}
	for _, p := range c.Announce.Peers {
		everybody = append(everybody, p.Name)
		for _, server := range p.Servers {
			nodes[server] = p.Name
		}
	}
	here := loads.Served{Balancers: everybody}
	for _, w := range c.Watch {
		nodes[w.Addr()] = self
		here.Servers = append(here.Servers, loads.Server{Addr: w, Node: self, Weight: 1})
	}
	if len(here.Servers) == 0 {
		return nil, nodes
	}
	return []loads.Served{here}, nodes
}

// byLoad are the VIPs that are balanced here by the loads of their servers; one
// that another host owns is about to leave.
func byLoad(vips []redirect.VIP, nodes map[netip.Addr]string, owned []netip.Addr) []loads.Pool {
	var balanced []loads.Pool
	for _, v := range vips {
		if v.Roles&redirect.RoleBalance != 0 && (v.Policy == redirect.PowerOfTwo || v.Policy == redirect.Least) {
			pool := poolOf(v, nodes)
			pool.Leaving = shared(v) && !slices.Contains(owned, v.Addr)
			balanced = append(balanced, pool)
		}
	}
	return balanced
}

func poolOf(v redirect.VIP, nodes map[netip.Addr]string) loads.Pool {
	pool := loads.Pool{VIP: netip.AddrPortFrom(v.Addr, v.Port)}
	for _, b := range v.Backends {
		if b.State == redirect.UpCRAB {
			pool.Servers = append(pool.Servers, loads.Server{Addr: netip.AddrPortFrom(b.Addr, v.Port), Node: nodes[b.Addr], Weight: b.Weight})
		}
	}
	return pool
}

// inOrder is what desired.State wants.
func inOrder(servers []netip.AddrPort) []netip.AddrPort {
	out := slices.Clone(servers)
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}
