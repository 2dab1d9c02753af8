// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/reports"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

func (a *agent) newReporter() *reports.Reporter {
	return reports.New(reports.Options{
		Node: a.options.Node, Connections: a.plane.Connections, Write: a.plane.Report,
		Tell:  func(node string, all []loads.Load) { a.keeper.Tell(node, all) },
		Owner: func(vip netip.Addr) string { return a.keeper.Owner(vip) },
		Now:   sinceStart(),
	})
}

// servedHere are the VIPs by load that have ready servers on a node, with those
// servers. Who balances an address of the pool is its owner; a node port is
// balanced by the node that has the address.
func servedHere(p crabplan.Plan, node string) []loads.Served {
	var out []loads.Served
	for i := range p.VIPs {
		v := &p.VIPs[i]
		if !v.ByLoad() || v.Local {
			continue
		}
		s := loads.Served{Pool: loads.Pool{VIP: netip.AddrPortFrom(v.Addr, v.Port)}}
		for _, b := range v.Backends {
			if b.Node == node && b.State == crabplan.Ready {
				s.Servers = append(s.Servers, server(v, b))
			}
		}
		if len(s.Servers) == 0 {
			continue
		}
		if v.Kind == crabplan.NodePort {
			s.Balancers = []string{v.Node}
		}
		out = append(out, s)
	}
	return out
}

func server(v *crabplan.VIP, b crabplan.Backend) loads.Server {
	return loads.Server{Addr: netip.AddrPortFrom(b.Addr, v.Port), Node: b.Node, Weight: b.Weight}
}

// balancedHere are the VIPs by load among a node's share, with the servers that
// may be chosen; a share is in the order of its plan. An address that is owned no
// more is balanced for a while.
func balancedHere(p crabplan.Plan, mine share.Share, owned []netip.Addr) []loads.Pool {
	var out []loads.Pool
	for i := range p.VIPs {
		v, entry := &p.VIPs[i], &mine.VIPs[i]
		if !v.ByLoad() || entry.Roles&redirect.RoleBalance == 0 {
			continue
		}
		pool := loads.Pool{VIP: netip.AddrPortFrom(v.Addr, v.Port), Leaving: v.Kind == crabplan.LoadBalancer && !slices.Contains(owned, v.Addr)}
		for j, b := range entry.Backends {
			if b.State == redirect.UpCRAB {
				pool.Servers = append(pool.Servers, server(v, v.Backends[j]))
			}
		}
		out = append(out, pool)
	}
	return out
}

// withoutLoads says why a VIP by load is balanced at random in part (C-62).
func withoutLoads(s loads.Silent, alive map[string]bool) string {
	var silent, mute []string
	for _, n := range s.Nodes {
		if alive[n] {
			mute = append(mute, n)
		} else {
			silent = append(silent, n)
		}
	}
	var why []string
	if len(silent) > 0 {
		why = append(why, fmt.Sprintf("the agents of %s are not heard", share.Names(silent)))
	}
	if len(mute) > 0 {
		why = append(why, fmt.Sprintf("those of %s are heard and tell nothing of these servers (an older version, or one that cannot count: see its log)", share.Names(mute)))
	}
	return fmt.Sprintf("the load of %d of %d servers is not known, so that choices among them are random (C-62): %s", s.Servers, s.Of, strings.Join(why, "; "))
}

// serversHere are all ready servers on a node, whatever their VIPs' policies: a
// balancer outside has policies of its own.
func serversHere(p crabplan.Plan, node string) (all []netip.AddrPort) {
	for i := range p.VIPs {
		v := &p.VIPs[i]
		for _, b := range v.Backends {
			if b.Node == node && b.State == crabplan.Ready {
				all = append(all, netip.AddrPortFrom(b.Addr, v.Port))
			}
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

// watched bounds what is counted on one node; what its own balancers need comes first.
func watched(needed, told []netip.AddrPort) []netip.AddrPort {
	all := slices.Clone(needed[:min(len(needed), redirect.MaxWatched)])
	for _, s := range told {
		if _, there := slices.BinarySearchFunc(needed, s, netip.AddrPort.Compare); !there && len(all) < redirect.MaxWatched {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Clip(all)
}
