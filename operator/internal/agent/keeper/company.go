// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"net/netip"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/announce"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
)

// askedAtMost bounds the peers, and the other hosts, that are asked at a time.
const askedAtMost = 8

// company are the hosts on the wire that are no agents and no VIPs, by which a node tells a wire that is quiet from one
// that it is cut off from. Agents that are silent may have died, so that their silence proves nothing.
func company(heard []announce.Host, peers []heartbeat.Peer, vips map[netip.Addr]bool) []netip.Addr {
	agents := map[netip.Addr]bool{}
	for _, p := range peers {
		agents[p.Addr.Addr()] = true
	}
	devices := map[string]bool{} // an agent's host has more addresses than the one that its peers know
	for _, h := range heard {
		if agents[h.Addr] {
			devices[string(h.MAC)] = true
		}
	}
	var all []netip.Addr
	for _, h := range heard {
		if !agents[h.Addr] && !devices[string(h.MAC)] && !vips[h.Addr] {
			all = append(all, h.Addr)
		}
	}
	return all
}

// questions are the addresses that are asked whether they are there: of one family, and the hosts of the company beside
// the router and the peers.
func questions(six bool, router netip.Addr, peers []heartbeat.Peer, hosts []netip.Addr) []netip.Addr {
	var all []netip.Addr
	if router.IsValid() {
		all = append(all, router)
	}
	for _, p := range peers[:min(len(peers), askedAtMost)] {
		all = append(all, p.Addr.Addr())
	}
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(a netip.Addr) bool { return a.Is6() != six })
	return append(all, hosts[:min(len(hosts), askedAtMost)]...)
}
