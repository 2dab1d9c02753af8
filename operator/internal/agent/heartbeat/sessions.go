// SPDX-License-Identifier: Apache-2.0

package heartbeat

import "time"

// Reason why a datagram was not taken for a sign of life. Each has a counter.
type Reason string

const (
	TooShort     Reason = "too_short"
	BadTag       Reason = "bad_tag"       // another key, or damaged
	Malformed    Reason = "malformed"     // a good tag on what no agent writes
	OtherVersion Reason = "other_version" // of the datagram's layout
	OwnName      Reason = "own_name"      // two nodes with one name, or our own datagram come back
	Replayed     Reason = "replayed"
	OtherSession Reason = "other_session" // of a sender that is alive: it was started again, or an old datagram
	Hello        Reason = "hello"         // the sender has not heard us yet
)

// reasons are all of them, for counters that are there from the start.
var reasons = []Reason{TooShort, BadTag, Malformed, OtherVersion, OwnName, Replayed, OtherSession, Hello}

// sessions tell fresh datagrams from old ones. Each side makes a nonce for the
// other; a datagram that names ours was made after we made it. Ours changes when
// a session ends, so nothing of it can be played again.
type sessions struct {
	self  string
	life  time.Duration
	nonce func() uint64 // random, never 0
	peers map[string]*session
}

type session struct {
	mine, theirs uint64
	sequence     uint64
	confirmed    bool
	heard        time.Duration
}

func newSessions(self string, life time.Duration, nonce func() uint64) *sessions {
	return &sessions{self: self, life: life, nonce: nonce, peers: map[string]*session{}}
}

// of finds the session with a peer; one that fell silent has ended.
func (s *sessions) of(now time.Duration, peer string) *session {
	p := s.peers[peer]
	if p == nil || p.confirmed && now-p.heard >= s.life {
		p = &session{mine: s.nonce()}
		s.peers[peer] = p
	}
	return p
}

// address gives the nonces for a datagram to a peer.
func (s *sessions) address(now time.Duration, peer string) (nonce, echo uint64) {
	p := s.of(now, peer)
	return p.mine, p.theirs
}

// accept judges a datagram whose tag is good; empty when it is a sign of life.
func (s *sessions) accept(now time.Duration, d Packet) Reason {
	if d.Message.From == s.self {
		return OwnName
	}
	p := s.of(now, d.Message.From)
	same := d.Nonce == p.theirs
	switch {
	case p.confirmed && !same:
		return OtherSession
	case same && d.Sequence <= p.sequence:
		return Replayed
	}
	p.theirs, p.sequence = d.Nonce, d.Sequence
	if d.Echo != p.mine {
		return Hello
	}
	p.confirmed, p.heard = true, now
	return ""
}

// keep forgets peers that are no longer there.
func (s *sessions) keep(names map[string]bool) {
	for name := range s.peers {
		if !names[name] {
			delete(s.peers, name)
		}
	}
}
