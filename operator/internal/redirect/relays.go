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
	return idle > l.Idle
}

// expireRelays forgets connections to servers without agent, in both directions.
func (n *Node) expireRelays(f family, l Lives, e *Expired) error {
	var key programs.Tuple
	var relay programs.Relay
	var old []programs.Tuple
	now, s, relays, soonest := monotonic(), swept{}, n.m(f, "crab_relays"), l.crowded()
	it := relays.Iterate()
	for it.Next(&key, &relay) {
		s.left++
		n.relayed[key.Server.Addr()] = true
		if relayOver(relay, now, soonest) {
			old = append(old, key)
		}
	}
	lives := l.of(relays, s.left)
	for _, k := range old {
		if relays.Lookup(k, &relay) != nil || !relayOver(relay, now, lives) {
			continue
		}
		n.dropBack(f, k, relay, e) // the first of the two: the port is free for others only then
		if relays.Delete(k) == nil {
			s.removed, s.left = s.removed+1, s.left-1
			if !relayOver(relay, now, l) {
				e.add("relays_early", swept{removed: 1})
			}
		}
	}
	e.add("relays", s)
	return aborted(it.Err())
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
