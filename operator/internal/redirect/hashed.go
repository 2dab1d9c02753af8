// SPDX-License-Identifier: Apache-2.0

package redirect

import "github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"

// What a server's programs note about the end of a connection on the fall-back path, beside the time of its last reply
// (dataplane/bpf/crab_layout.h).
const (
	hashedServerFIN = uint64(1) << 61
	hashedClientFIN = uint64(1) << 62
	hashedReset     = uint64(1) << 63
	hashedEnds      = hashedServerFIN | hashedClientFIN | hashedReset
)

// hashedOver says whether a connection on the fall-back path is remembered for long enough: after its end, or without one.
func hashedOver(e programs.Echo, now uint64, l Lives) bool {
	idle, both := since(now, e.LastNs&^hashedEnds), hashedServerFIN|hashedClientFIN
	if e.LastNs&hashedReset != 0 || e.LastNs&both == both {
		return idle > l.Ended
	}
	return l.silent(idle)
}

// expireHashed forgets connections of this host's servers to clients without agent.
func (n *Node) expireHashed(f family, l Lives, e *Expired) error {
	s, early, err := expireEnding(n.m(f, "crab_dsr"), l, hashedOver, func(programs.Tuple) {}, func(programs.Tuple, programs.Echo) {})
	e.add("hashed", s)
	e.add("hashed_early", swept{removed: early})
	return err
}
