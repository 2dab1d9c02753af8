// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

const balancedShift = 12

// bits is struct crab_balanced: the addresses whose packets the balancer looks at (dataplane/bpf/crab_balanced.h). A bit too many
// costs time, one that is missing connections.
type bits [1 << balancedShift / 64]uint64

// balancedBit is where the programs look for an address.
func balancedBit(a netip.Addr) uint32 {
	b := a.AsSlice()
	h := binary.NativeEndian.Uint32(b)
	for at := 4; at < len(b); at += 4 {
		h = h*31 + binary.NativeEndian.Uint32(b[at:])
	}
	return h * 0x9e3779b1 >> (32 - balancedShift)
}

func (b *bits) set(a netip.Addr) {
	at := balancedBit(a)
	b[at/64] |= 1 << (at % 64)
}

// writeBalanced puts bits in the place of those that are there. The kernel copies them while programs read; a bit that both have is
// never seen cleared.
func (n *Node) writeBalanced(next bits) error {
	if n.bits == next {
		return nil
	}
	if err := n.maps["crab_balanced"].Put(uint32(0), next); err != nil {
		return fmt.Errorf("crab_balanced: %w", err)
	}
	n.bits = next
	return nil
}

// noteBalanced is called before a VIP gets its roles: it is looked at before it is balanced.
func (n *Node) noteBalanced(v VIP) error {
	if v.Roles&RoleBalance == 0 {
		return nil
	}
	next := n.bits
	next.set(v.Addr)
	return n.writeBalanced(next)
}

// inheritBalanced finds what a former process left, which may have known no bits: before programs that ask for them come to work.
func (n *Node) inheritBalanced() error {
	if err := n.maps["crab_balanced"].Lookup(uint32(0), &n.bits); err != nil {
		return fmt.Errorf("crab_balanced: %w", err)
	}
	relayed := map[netip.Addr]bool{}
	for _, f := range n.known() {
		var key programs.Tuple
		var relay programs.Relay
		it := n.m(f, "crab_relays").Iterate()
		for it.Next(&key, &relay) {
			relayed[key.Server.Addr()] = true
		}
		if err := aborted(it.Err()); err != nil {
			return fmt.Errorf("relays: %w", err)
		}
	}
	return n.sweepBalanced(relayed)
}

// sweepBalanced takes away the bits of addresses that nobody balances any more and that no relay is left of. A program that still runs
// may begin one when it has looked at the VIP just before: the next sweep, which finds it, comes before its server has given up.
func (n *Node) sweepBalanced(relayed map[netip.Addr]bool) error {
	var next bits
	for a := range relayed {
		next.set(a)
	}
	for _, f := range n.known() {
		err := n.eachVIP(f, func(key programs.VIPKey, e programs.VIP) error {
			if Role(e.Flags)&RoleBalance != 0 {
				next.set(key.Addr)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("crab_vips: %w", err)
		}
	}
	return n.writeBalanced(next)
}
