// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"net/netip"

	"github.com/dchest/siphash"
)

// rankKey separates this use of the hash from others. All agents must have the
// same one: it is part of the protocol.
const rankKey0, rankKey1 = 0x626f627461696c2e, 0x637261622e766970

// score is an agent's weight for one VIP. Highest random weight: when an agent
// dies its VIPs spread over all others, and nobody else's VIP moves.
func score(vip netip.Addr, agent string) uint64 {
	return siphash.Hash(rankKey0, rankKey1, append(vip.AsSlice(), agent...))
}

// before tells whether agent a comes before agent b for a VIP.
func before(vip netip.Addr, a, b string) bool {
	x, y := score(vip, a), score(vip, b)
	return x > y || x == y && a < b
}
