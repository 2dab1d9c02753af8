// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

// exchange writes and judges datagrams. It is pure: time comes in with every
// call, and what it writes somebody else sends.
type exchange struct {
	self     string
	sessions *sessions
	ring     *keyring
	sequence uint64
	counters map[string]uint64
}

func newExchange(self string, keys [][]byte, life time.Duration, nonce func() uint64) *exchange {
	e := &exchange{self: self, sessions: newSessions(self, life, nonce), ring: newKeyring(keys), counters: map[string]uint64{}}
	for _, name := range Results() {
		e.counters[name] = 0
	}
	return e
}

// Results are the names of all counters, which are there from the start.
func Results() []string {
	all := []string{accepted, sent, sendFailed, reportsAccepted, reportsSent}
	for _, r := range reasons {
		all = append(all, string(r))
	}
	return all
}

// Counters that are no Reason.
const (
	accepted        = "accepted"
	sent            = "sent"
	sendFailed      = "send_failed"
	reportsAccepted = "report_accepted"
	reportsSent     = "report_sent"
)

// keep forgets peers that are no longer there.
func (e *exchange) keep(names map[string]bool) {
	e.sessions.keep(names)
	e.ring.keep(names)
}

// heartbeat writes a message for one peer.
func (e *exchange) heartbeat(now time.Duration, to string, m ownership.Message) ([]byte, error) {
	nonce, echo := e.sessions.address(now, to)
	key, newer := e.ring.sign(to)
	e.sequence++
	if !e.sessions.readsSix(to) {
		m.VIPs, _ = byFamily(m.VIPs)
	}
	return seal(key, Packet{Nonce: nonce, Echo: echo, Sequence: e.sequence, TakesReports: true, ReadsSix: true, NewerKey: newer, Message: m})
}

// reports writes loads for one peer, in order, as many datagrams as it takes; none
// when the peer has not been heard, or is of a version that knows no reports.
func (e *exchange) reports(now time.Duration, to string, all []loads.Load) ([][]byte, error) {
	nonce, echo, takes := e.sessions.report(now, to)
	if !takes {
		return nil, nil
	}
	key, newer := e.ring.sign(to)
	at := slices.IndexFunc(all, func(l loads.Load) bool { return l.Server.Addr().Is6() })
	if at < 0 {
		at = len(all)
	}
	chunks := slices.Collect(slices.Chunk(all[:at], MaxLoads))
	if e.sessions.readsSix(to) {
		chunks = slices.AppendSeq(chunks, slices.Chunk(all[at:], MaxLoadsSix))
	}
	var out [][]byte
	for _, some := range chunks {
		e.sequence++
		b, err := sealReport(key, Report{Nonce: nonce, Echo: echo, Sequence: e.sequence, From: e.self, NewerKey: newer, Loads: some})
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// heard is what a datagram brought: a sign of life, or loads of the sender's node.
type heard struct {
	message *ownership.Message
	from    string
	loads   []loads.Load
}

// take judges a datagram; nil when it is good for nothing. hello names a sender
// that should not wait for our next heartbeat.
func (e *exchange) take(now time.Duration, b []byte) (got *heard, hello string) {
	body, sum, reason := split(b)
	at := 0
	if reason == "" {
		if at = e.ring.opens(now, body, sum); at < 0 {
			reason = BadTag
		}
	}
	switch {
	case reason != "":
	case binary.BigEndian.Uint32(body) == reportMagic:
		got, reason = e.takeReport(now, body, at)
	default:
		got, reason, hello = e.takeHeartbeat(now, body, at)
	}
	if reason != "" {
		e.counters[string(reason)]++
	}
	return got, hello
}

func (e *exchange) takeHeartbeat(now time.Duration, body []byte, at int) (*heard, Reason, string) {
	p, reason := parse(body)
	if reason == "" {
		reason = e.sessions.accept(now, p)
	}
	switch reason {
	case "":
		e.ring.learn(p.Message.From, at, p.NewerKey)
		e.counters[accepted]++
		return &heard{message: &p.Message, from: p.Message.From}, "", ""
	case Hello:
		e.ring.learn(p.Message.From, at, p.NewerKey)
		return nil, Hello, p.Message.From
	}
	return nil, reason, ""
}

func (e *exchange) takeReport(now time.Duration, body []byte, at int) (*heard, Reason) {
	r, reason := parseReport(body)
	if reason == "" {
		reason = e.sessions.acceptReport(now, r)
	}
	if reason != "" {
		return nil, reason
	}
	e.ring.learn(r.From, at, r.NewerKey)
	e.counters[reportsAccepted]++
	return &heard{from: r.From, loads: r.Loads}, ""
}
