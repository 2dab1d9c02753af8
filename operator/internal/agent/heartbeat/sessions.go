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

	ReportWithoutSession Reason = "report_without_session" // of an agent whose heartbeats are not heard just now
	ReportReplayed       Reason = "report_replayed"        // or overtaken by a later one
)

// reasons are all of them, for counters that are there from the start.
var reasons = []Reason{TooShort, BadTag, Malformed, OtherVersion, OwnName, Replayed, OtherSession, Hello, ReportWithoutSession, ReportReplayed}

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
	reports      uint64 // sequence number of the last report
	confirmed    bool
	takesReports bool
	readsSix     bool
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

// readsSix says whether a peer reads version 2, as far as it has said.
func (s *sessions) readsSix(peer string) bool {
	p := s.peers[peer]
	return p != nil && p.readsSix
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
	if !same {
		p.reports = 0
	}
	p.theirs, p.sequence, p.takesReports, p.readsSix = d.Nonce, d.Sequence, d.TakesReports, d.ReadsSix
	if d.Echo != p.mine {
		return Hello
	}
	p.confirmed, p.heard = true, now
	return ""
}

// live is the session with a peer that is heard just now; nil when there is none.
func (s *sessions) live(now time.Duration, peer string) *session {
	if p := s.peers[peer]; p != nil && p.confirmed && now-p.heard < s.life {
		return p
	}
	return nil
}

// report gives the nonces for a report to a peer, and whether it takes any now.
func (s *sessions) report(now time.Duration, peer string) (nonce, echo uint64, takes bool) {
	p := s.live(now, peer)
	if p == nil || !p.takesReports {
		return 0, 0, false
	}
	return p.mine, p.theirs, true
}

// acceptReport judges a report whose tag is good. It is no sign of life.
func (s *sessions) acceptReport(now time.Duration, r Report) Reason {
	p := s.live(now, r.From)
	switch {
	case r.From == s.self:
		return OwnName
	case p == nil || r.Nonce != p.theirs || r.Echo != p.mine:
		return ReportWithoutSession
	case r.Sequence <= p.reports:
		return ReportReplayed
	}
	p.reports = r.Sequence
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
