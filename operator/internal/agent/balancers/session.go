// SPDX-License-Identifier: Apache-2.0

package balancers

import (
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

// session is this sender's with one balancer (C-65, C-66).
type session struct {
	head
	first    uint64 // sequence number of the round's first datagram
	answered bool   // in this round
}

// round are the datagrams with these loads.
func (s *session) round(key []byte, all []loads.Load) [][]byte {
	s.first, s.answered = s.sequence+1, false
	return s.again(key, all)
}

// again says the same within the round, for a session that has just been opened.
func (s *session) again(key []byte, all []loads.Load) (out [][]byte) {
	for part := range slices.Chunk(all, most) {
		s.sequence++
		out = append(out, seal(key, s.head, part))
	}
	return out
}

// hear an answer. Only one that names a number of this round's opens a session, and
// only one a round: an old answer would close a session that lives, and two ends
// that disagree would go on without pause.
func (s *session) hear(keys [][]byte, b []byte) bool {
	h, ok := open(keys, b)
	if !ok || s.answered || h.sender != s.sender || h.sequence < s.first || h.sequence > s.sequence {
		return false
	}
	s.run, s.session, s.answered = h.run, h.session, true
	return true
}
