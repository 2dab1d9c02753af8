// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// halfOpen begins a request of three packets in the name of client.
func (r *fakeRouter) halfOpen(worker, client netip.AddrPort, id uint16) {
	r.forward(worker, client, id, func(h *wire.Header) { h.Last, h.Count = false, 3 })
}

// paid is a FEEDBACK that says that so many requests were received and served.
func paid(received, served uint64) func(f *wire.FeedbackMsg) bool {
	return func(f *wire.FeedbackMsg) bool { return f.Received == received && f.Served == served }
}

// withTimers makes a server whose collection is far away, so that a busy
// machine keeps the order of what happens before it.
func withTimers(t *testing.T, patience time.Duration, c ServerConfig) *Server {
	s := newServer(t, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.Patience, s.timers.RTO, s.timers.GC = patience, time.Hour, time.Hour
	return s
}

// patience changes how long a request may hold its credit from now on.
func (s *Server) patience(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.Patience = d
}

// K-15, R-63: of three credits two may be held by requests that are not whole, for as
// long as their patience lasts; the third comes back at once.
func TestOneCreditIsLeftToOthers(t *testing.T) {
	r := newFakeRouter(t)
	s := withTimers(t, time.Hour, ServerConfig{Routers: []Router{r.router()}, QueueDepth: 3})
	c, w := client(t), s.Addrs()[0]
	for id := range uint16(2) {
		r.halfOpen(w, at(c), id)
	}
	r.next(paid(2, 0))
	r.halfOpen(w, at(c), 2)
	r.next(paid(3, 1))
}

// K-15, R-63, R-64: a stranger's request that never becomes whole gives its
// credit back early, its next one at once, and so does every other stranger's.
func TestHalfOpenRequestsGiveTheirCreditBack(t *testing.T) {
	r := newFakeRouter(t)
	s := withTimers(t, time.Second, ServerConfig{Routers: []Router{r.router()}, QueueDepth: 3})
	c, w := client(t), s.Addrs()[0]
	other := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), 999)
	r.halfOpen(w, at(c), 1)
	r.next(paid(1, 0))
	r.next(paid(1, 1))
	s.patience(time.Hour) // who gives back now does so for its debt
	r.halfOpen(w, at(c), 2)
	r.next(paid(2, 2))
	r.halfOpen(w, other, 3)
	r.next(paid(3, 3))
	if got := s.Backlog(); got != 3 {
		t.Errorf("%d requests are kept, want 3: their rest may come", got)
	}
}

// K-15, R-63: what comes late runs and is answered, its FEEDBACK names it and
// counts nothing, and n is lowered while it runs.
func TestRestThatComesLateIsServed(t *testing.T) {
	r, run := newFakeRouter(t), make(chan struct{})
	s := withTimers(t, time.Millisecond, ServerConfig{Routers: []Router{r.router()}, QueueDepth: 3, Handler: HandlerFunc(
		func(_ context.Context, q *ServerRequest) ([]byte, error) {
			<-run
			return q.Payload, nil
		})})
	c, w := client(t), s.Addrs()[0]
	r.halfOpen(w, at(c), 1)
	r.next(paid(1, 1))
	for i := range 2 {
		h := wire.Header{Type: wire.Request, Ext: true, ReqID: 1, Count: uint16(i + 1), Last: i == 1}
		b, _ := h.Append(nil)
		if _, err := c.WriteToUDPAddrPort(append(b, "rest"...), w); err != nil {
			t.Fatal(err)
		}
	}
	r.next(func(f *wire.FeedbackMsg) bool { return f.N == 2 })
	close(run)
	if f, _, _ := r.next(ofPair(1)); f.N != 3 || f.Received != 1 || f.Served != 1 || f.Flags&wire.FeedbackDropped != 0 {
		t.Errorf("%+v", f)
	}
	for {
		if h, _ := receive(t, c); h.Type == wire.Reply {
			if string(h.Payload) != "hellorestrest" {
				t.Errorf("reply %q", h.Payload)
			}
			return
		}
	}
}

// K-15, R-64: who had eight whole requests in a row holds a credit although
// strangers are in debt, and is in debt after the first that it holds in vain.
func TestPatienceOfProvenSources(t *testing.T) {
	var p patience
	now := time.Unix(1000, 0)
	good, bad := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for range patienceProven {
		p.becameWhole(good, now)
	}
	p.heldInVain(bad, now, time.Second)
	if p.allows(bad, now) || !p.allows(good, now) || p.allows(netip.MustParseAddr("10.0.0.3"), now) {
		t.Error("a stranger's debt is that of all strangers, and of nobody else")
	}
	if now = now.Add((patienceAll + 1) * time.Second); p.allows(bad, now) || !p.allows(netip.MustParseAddr("10.0.0.3"), now) {
		t.Error("strangers are out of debt before the one that made it")
	}
	p.heldInVain(good, now, time.Second)
	if p.allows(good, now.Add(time.Second)) || !p.allows(bad, now.Add(patienceSource*time.Second)) {
		t.Error("a proven source has its own debt alone")
	}
	for i := range 2000 {
		p.heldInVain(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), now, time.Second)
	}
	if len(p.source) > patienceSources {
		t.Errorf("%d sources are remembered", len(p.source))
	}
}

// K-15, R-65: a table full of requests that are not whole takes the next one,
// and who gives way is told.
func TestFullTableOfHalfOpenRequests(t *testing.T) {
	r := newFakeRouter(t)
	s := withTimers(t, time.Millisecond, ServerConfig{Routers: []Router{r.router()}, MaxPending: 2})
	c, w := client(t), s.Addrs()[0]
	r.halfOpen(w, at(c), 1)
	r.halfOpen(w, at(c), 2)
	r.next(paid(2, 2))
	h := wire.Header{Type: wire.Request, Ext: true, ReqID: 1, Count: 1}
	b, _ := h.Append(nil)
	if _, err := c.WriteToUDPAddrPort(append(b, "rest"...), w); err != nil {
		t.Fatal(err)
	}
	for begun := 0; begun != 1; time.Sleep(time.Millisecond) { // the test's own timeout ends it
		s.workers[0].mu.Lock()
		begun = s.workers[0].holds.loose[1].Len()
		s.workers[0].mu.Unlock()
	}
	r.forward(w, at(c), 3, nil)
	if f, _, _ := r.next(ofPair(2)); f.Flags&wire.FeedbackDropped == 0 { // 1 is older, but has a part of its rest
		t.Errorf("%+v", f)
	}
	r.next(ofPair(3))
	if total(s.Counters(), "server_dropped_total", "displaced") != 1 {
		t.Errorf("%v", s.Counters())
	}
}

// K-15, R-38: the same first packet again, and one in the worker's own name,
// give back the credit that they came with.
func TestUnwantedFirstPacketsHoldNoCredit(t *testing.T) {
	r := newFakeRouter(t)
	s := withTimers(t, time.Hour, ServerConfig{Routers: []Router{r.router()}, QueueDepth: 4})
	c, w := client(t), s.Addrs()[0]
	r.halfOpen(w, at(c), 1)
	r.halfOpen(w, at(c), 1)
	r.next(paid(2, 1))
	r.forward(w, w, 2, nil)
	r.next(paid(3, 2))
}
