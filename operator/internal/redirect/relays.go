// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// relayOver says whether a relayed connection is remembered for long enough: after its end, without one, or when its
// handshake never ended.
func relayOver(r programs.Relay, now uint64, l Lives) bool {
	idle, ended, both := since(now, r.LastNs), FlowEnded(r.Ended), ClientFIN|ServerFIN
	switch {
	case ended&Reset != 0, ended&both == both:
		return idle > l.Ended
	case r.Opened == 0:
		return idle > l.Pending
	}
	return l.silent(idle)
}

// expireRelays forgets connections to servers without agent, in both directions.
func (n *Node) expireRelays(f family, l Lives, e *Expired) error {
	relayed := func(k programs.Tuple) { n.relayed[k.Server.Addr()] = true }
	// The first of the two: the port is free for others only then.
	drop := func(k programs.Tuple, r programs.Relay) { n.dropBack(f, k, r, e) }
	s, early, err := expireEnding(n.m(f, "crab_relays"), l, relayOver, relayed, drop)
	e.add("relays", s)
	e.add("relays_early", swept{removed: early})
	return err
}

// dropBack removes the way back of a relayed connection, unless that is not there any more: pushed out, or taken over.
func (n *Node) dropBack(f family, k programs.Tuple, relay programs.Relay, e *Expired) {
	key := programs.Tuple{
		Client: netip.AddrPortFrom(k.Server.Addr(), relay.Port), Server: netip.AddrPortFrom(relay.DIP, k.Server.Port()),
	}
	var back programs.RelayBack
	ways := n.m(f, "crab_relays_back")
	if ways.Lookup(key, &back) == nil && back.Client == k.Client && ways.Delete(key) == nil {
		e.add("ports", swept{removed: 1})
	}
}
