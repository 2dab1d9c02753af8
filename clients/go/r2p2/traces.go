// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"net/netip"
	"sync"
	"time"
)

// Trace is what became of one request that carried a trace id.
type Trace struct {
	ID      uint64
	Start   time.Duration // its first packet arrived; since the server's start, as the next two
	Handed  time.Duration // a worker took it
	End     time.Duration // the last packet of the answer left
	Client  netip.AddrPort
	Worker  netip.AddrPort
	Request uint16
	Routed  bool // it came through a router
	Dropped bool // no reply was sent
}

// traceRing keeps the newest traces.
type traceRing struct {
	mu      sync.Mutex
	written uint64
	trace   [1024]Trace
}

func (r *traceRing) note(t Trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace[r.written%uint64(len(r.trace))] = t
	r.written++
}

// read returns at most n traces behind the first `after`, what to give as `after`
// the next time, and how many the ring no longer held. An `after` from another life
// of the program counts as 0.
func (r *traceRing) read(after uint64, n int) (out []Trace, next, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if after > r.written {
		after = 0
	}
	if held := uint64(len(r.trace)); r.written > held && after < r.written-held {
		lost = r.written - held - after
		after += lost
	}
	for ; after < r.written && len(out) < n; after++ {
		out = append(out, r.trace[after%uint64(len(r.trace))])
	}
	return out, after, lost
}

// Traces returns at most n of the traced requests behind the first `after`,
// oldest first, what to give as `after` the next time, and how many were lost
// because nobody asked in time.
func (s *Server) Traces(after uint64, n int) (traces []Trace, next, lost uint64) {
	return s.traces.read(after, n)
}

// noteTrace keeps a request that carried a trace id, once it is over.
func (s *Server) noteTrace(p *serverPair, worker netip.AddrPort, handed time.Time, dropped bool) {
	if p.trace == 0 {
		return
	}
	s.traces.note(Trace{
		ID: p.trace, Start: p.begun.Sub(s.started), Handed: handed.Sub(s.started), End: time.Since(s.started),
		Client: p.key.client, Worker: worker, Request: p.key.id, Routed: p.router != nil, Dropped: dropped,
	})
}
