// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// fakeRouter speaks a router's two ports by hand, so that a test says exactly
// what arrives and sees exactly what is told.
type fakeRouter struct {
	t         *testing.T
	requests  *net.UDPConn
	feedbacks *net.UDPConn
	keys      Keyring
}

func newFakeRouter(t *testing.T) *fakeRouter {
	t.Helper()
	r := &fakeRouter{t: t}
	for _, c := range []**net.UDPConn{&r.requests, &r.feedbacks} {
		var err error
		if *c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*c).Close() })
	}
	return r
}

func at(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

func (r *fakeRouter) router() Router {
	return Router{Request: at(r.requests), Feedback: at(r.feedbacks)}
}

// forward sends a REQ0 on behalf of client, as an Encapsulated router does.
func (r *fakeRouter) forward(worker, client netip.AddrPort, id uint16, change func(h *wire.Header)) {
	r.t.Helper()
	h := wire.Header{Type: wire.Request, First: true, Last: true, Ext: true, ReqID: id, Count: 1}
	h.Options = wire.Options{Present: wire.HasForwarded, Forwarded: client}
	r.send(worker, h, "hello", change)
}

// send signs where there are keys; change, when there is one, makes it another
// packet before that.
func (r *fakeRouter) send(worker netip.AddrPort, h wire.Header, body string, change func(h *wire.Header)) {
	r.t.Helper()
	if len(r.keys) > 0 {
		h.Options.Present |= wire.HasTag
		h.Options.KeyID = r.keys[0].ID
	}
	if change != nil {
		change(&h)
	}
	b, _ := h.Append(nil)
	if len(r.keys) > 0 && h.Options.Present&wire.HasTag != 0 {
		h.Sign(b, &r.keys[0], at(r.requests), worker)
	}
	if _, err := r.requests.WriteToUDPAddrPort(append(b, body...), worker); err != nil {
		r.t.Fatal(err)
	}
}

// next returns the next FEEDBACK for which want is true.
func (r *fakeRouter) next(want func(f *wire.FeedbackMsg) bool) (wire.FeedbackMsg, wire.Header, netip.AddrPort) {
	r.t.Helper()
	buf := make([]byte, 2000)
	_ = r.feedbacks.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		n, from, err := r.feedbacks.ReadFromUDPAddrPort(buf)
		if err != nil {
			r.t.Fatalf("the FEEDBACK waited for did not come: %v", err)
		}
		var h wire.Header
		var f wire.FeedbackMsg
		if m := h.Decode(buf[:n], wire.RoleRouterFeedback); m != wire.OK {
			r.t.Fatalf("FEEDBACK header: %v", m)
		}
		if m := f.Decode(h.Payload); m != wire.OK {
			r.t.Fatalf("FEEDBACK: %v", m)
		}
		if len(r.keys) > 0 && h.Verify(buf[:n], r.keys, from, at(r.feedbacks)) != wire.TagValid {
			r.t.Fatal("FEEDBACK without a valid tag (R-57)")
		}
		if want(&f) {
			return f, h, from
		}
	}
}

func ofPair(id uint16) func(f *wire.FeedbackMsg) bool {
	return func(f *wire.FeedbackMsg) bool { return f.Flags&wire.FeedbackPair != 0 && f.ReqID == id }
}

var someKey = Key{ID: 5, Bytes: [16]byte{1, 2, 3}}

// client is a bare UDP port that packets can be read from.
func client(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func receive(t *testing.T, c *net.UDPConn) (wire.Header, netip.AddrPort) {
	t.Helper()
	buf := make([]byte, 2000)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	n, from, err := c.ReadFromUDPAddrPort(buf)
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Header
	if m := h.Decode(buf[:n], wire.RoleClient); m != wire.OK {
		t.Fatal(m)
	}
	return h, from
}

// a worker joins unasked, from the port it listens on,
// with a tag, and goes on saying that it lives.
func TestJoinAndPeriodic(t *testing.T) {
	r := newFakeRouter(t)
	r.keys = Keyring{someKey}
	s := newServer(t, ServerConfig{Routers: []Router{r.router()}, Keys: r.keys, QueueDepth: 6})
	f, _, from := r.next(func(f *wire.FeedbackMsg) bool { return true })
	if f.Flags&wire.FeedbackJoin == 0 || f.N != 6 || int32(f.Incarnation-s.Incarnation()) < 0 || f.Received != 0 || from != s.Addrs()[0] {
		t.Errorf("first FEEDBACK %+v from %v", f, from)
	}
	r.next(func(f *wire.FeedbackMsg) bool {
		return f.Flags&wire.FeedbackJoin == 0 && f.Flags&wire.FeedbackPeriodic != 0
	})
}

// a router that knew the last life believes the next.
func TestEveryLifeHasALaterIncarnation(t *testing.T) {
	last := newServer(t, ServerConfig{}).Incarnation()
	for range 8 {
		time.Sleep(70 * time.Millisecond)
		next := newServer(t, ServerConfig{}).Incarnation()
		if int32(next-last) <= 0 {
			t.Fatalf("incarnation %#x came before %#x", last, next)
		}
		last = next
	}
}

// R-112, W-7: a switch gives the place of a worker that left to one that may have begun
// before it. What counts is when a worker joined, and it joins anew when a router returns.
func TestJoiningLaterIsALaterIncarnation(t *testing.T) {
	a, b := newFakeRouter(t), newFakeRouter(t)
	s := newServer(t, ServerConfig{Routers: []Router{a.router()}})
	first, _, _ := a.next(func(*wire.FeedbackMsg) bool { return true })
	later := func(ticks int64) { s.started = s.started.Add(-time.Duration(ticks << incarnationShift)) }
	only, both := Settings{Routers: []Router{a.router()}, QueueDepth: 4}, Settings{Routers: []Router{a.router(), b.router()}, QueueDepth: 4}
	w := s.workers[0]
	told := func() (ofA, ofB uint32) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.routerAt(plain(a.router().Request)).incarnation, w.routerAt(plain(b.router().Request)).incarnation
	}
	later(1000)
	w.apply(both)
	ofA, ofB := told()
	if ofA != first.Incarnation || int32(ofB-ofA) < 1000 {
		t.Errorf("incarnations %d and, joined 1,000 ticks later, %d", ofA, ofB)
	}
	w.apply(only)
	later(1000)
	w.apply(both)
	again, returned := told()
	if again != ofA || int32(returned-ofB) < 1000 {
		t.Errorf("incarnations %d and, returned 1,000 ticks later, %d; they were %d and %d", again, returned, ofA, ofB)
	}
	b.next(func(f *wire.FeedbackMsg) bool { return f.Incarnation == returned && f.Flags&wire.FeedbackJoin != 0 })
}

// the reply goes to the client the router named, FEEDBACK
// follows it and pays exactly one served for each received, DROP included.
func TestEveryRequestIsPaidOnce(t *testing.T) {
	r := newFakeRouter(t)
	s := newServer(t, ServerConfig{Routers: []Router{r.router()}, QueueDepth: 4, Handler: HandlerFunc(
		func(_ context.Context, q *ServerRequest) ([]byte, error) {
			if q.ID == 3 {
				return nil, ErrDrop
			}
			return []byte(q.Client.String()), nil
		})})
	c, w := client(t), s.Addrs()[0]
	for id := uint16(1); id <= 4; id++ {
		r.forward(w, at(c), id, func(h *wire.Header) {
			if id == 4 {
				h.Policy = wire.ReplicatedRead
			}
			h.Options.Present |= wire.HasTrace
			h.Options.Trace = uint64(id) << 40
		})
		f, fh, _ := r.next(ofPair(id))
		h, from := receive(t, c)
		if h.ReqID != id || from != w {
			t.Errorf("answer to %d from %v, want %d from %v", h.ReqID, from, id, w)
		}
		dropped := id >= 3
		if (h.Type == wire.Drop) != dropped || (f.Flags&wire.FeedbackDropped != 0) != dropped {
			t.Errorf("pair %d: answer type %d, FEEDBACK %+v", id, h.Type, f)
		}
		if f.Received != uint64(id) || f.Served != uint64(id) || f.Client != at(c) {
			t.Errorf("pair %d: %+v", id, f)
		}
		if fh.Options.Trace != uint64(id)<<40 {
			t.Errorf("R-59: trace %#x in FEEDBACK", fh.Options.Trace)
		}
	}
	r.forward(w, at(c), 1, nil) // a duplicate of a finished pair
	r.forward(w, at(c), 9, nil)
	if f, _, _ := r.next(ofPair(9)); f.Received != 6 || f.Served != 6 {
		t.Errorf("R-38: a duplicate gives its credit back: %+v", f)
	}
}

// a request whose rest never comes is collected, and paid.
func TestIncompleteRequestIsCollected(t *testing.T) {
	r := newFakeRouter(t)
	s := newServer(t, ServerConfig{Routers: []Router{r.router()}})
	s.mu.Lock() // so far apart that a busy machine keeps the order
	s.timers.RTO, s.timers.GC = 20*time.Millisecond, 3*time.Second
	s.mu.Unlock()
	c := client(t)
	r.forward(s.Addrs()[0], at(c), 7, func(h *wire.Header) { h.Last, h.Count = false, 3 })
	if h, _ := receive(t, c); h.Type != wire.ReqRdy || string(h.Payload) != "ACK" {
		t.Errorf("%+v, want REQRDY", h)
	}
	h, _ := receive(t, c)
	var sack wire.SackMsg
	if h.Type != wire.Sack || sack.Decode(h.Payload) != wire.OK || len(sack.Missing()) != 2 {
		t.Errorf("R-19: %+v, want a SACK for packets 1 and 2", h)
	}
	if f, _, _ := r.next(ofPair(7)); f.Flags&wire.FeedbackDropped == 0 || f.Received != 1 || f.Served != 1 {
		t.Errorf("%+v", f)
	}
	if s.Backlog() != 0 || total(s.Counters(), "server_dropped_total", "incomplete") != 1 {
		t.Errorf("backlog %d, %v", s.Backlog(), s.Counters())
	}
}

// counters per router, n shared among the routers heard from, and none
// for requests that bypassed routers.
func TestSeveralRouters(t *testing.T) {
	a, b := newFakeRouter(t), newFakeRouter(t)
	s := newServer(t, ServerConfig{Routers: []Router{a.router(), b.router()}, QueueDepth: 5})
	s.mu.Lock()
	s.timers.RouterHeard = time.Hour
	s.mu.Unlock()
	c, w := client(t), s.Addrs()[0]
	a.forward(w, at(c), 1, nil)
	if f, _, _ := a.next(ofPair(1)); f.N != 5 || f.Served != 1 {
		t.Errorf("only router a was heard from: %+v", f)
	}
	b.forward(w, at(c), 2, nil)
	if f, _, _ := b.next(ofPair(2)); f.N != 2 || f.Served != 1 || f.Received != 1 {
		t.Errorf("two routers share n = 5: %+v", f)
	}
	direct := dial(t, ClientConfig{}, w)
	if _, err := direct.Call(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	a.forward(w, at(c), 3, nil)
	if f, _, _ := a.next(ofPair(3)); f.N != 2 || f.Served != 2 {
		t.Errorf("a's own count: %+v", f)
	}
	if err := s.Apply(Settings{Routers: []Router{a.router()}, QueueDepth: 1}); err != nil {
		t.Fatal(err)
	}
	a.forward(w, at(c), 4, nil)
	if f, _, _ := a.next(ofPair(4)); f.N != 1 || f.Served != 3 {
		t.Errorf("counters must survive a new configuration, and n is at least 1: %+v", f)
	}
	if st := s.Routers(0); len(st) != 2 || st[1].Configured {
		t.Errorf("%+v", st)
	}
}

// a stranger may not speak for a client; a router with a valid tag may,
// so that a restarted router pod needs no control plane.
func TestOnlyRoutersForward(t *testing.T) {
	stranger, tagged := newFakeRouter(t), newFakeRouter(t)
	tagged.keys = Keyring{someKey}
	s := newServer(t, ServerConfig{Keys: Keyring{{ID: 1}, someKey}, FeedbackPort: at(tagged.feedbacks).Port()})
	c, w := client(t), s.Addrs()[0]
	stranger.forward(w, at(c), 1, nil)
	stranger.keys = Keyring{{ID: 5}}
	stranger.forward(w, at(c), 2, nil)
	tagged.forward(w, at(c), 3, nil)
	h, _ := receive(t, c)
	if h.ReqID != 3 || h.Type != wire.Reply {
		t.Errorf("%+v, want the reply to 3 alone", h)
	}
	if n := total(s.Counters(), "server_rejected_total", wire.Forwarder.String()); n != 2 {
		t.Errorf("%d packets of strangers counted, want 2: %v", n, s.Counters())
	}
	tagged.keys = Keyring{{ID: 1}}
	if f, _, _ := tagged.next(ofPair(3)); f.Served != 1 {
		t.Errorf("%+v", f)
	}
}

// LEAVE goes to every router with every FEEDBACK, what still
// comes is served, and Shutdown waits for it.
func TestShutdownDrains(t *testing.T) {
	r := newFakeRouter(t)
	release := make(chan struct{})
	s := newServer(t, ServerConfig{Routers: []Router{r.router()}, Workers: 1, Handler: HandlerFunc(
		func(context.Context, *ServerRequest) ([]byte, error) { <-release; return nil, nil })})
	c, w := client(t), s.Addrs()[0]
	r.forward(w, at(c), 1, nil)
	for s.Backlog() == 0 {
		time.Sleep(time.Millisecond)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	f, _, _ := r.next(func(f *wire.FeedbackMsg) bool { return f.Flags&wire.FeedbackLeave != 0 })
	if f.N != 0 || f.Received != 1 || f.Served != 0 {
		t.Errorf("LEAVE %+v", f)
	}
	r.forward(w, at(c), 2, nil)
	select {
	case err := <-done:
		t.Fatalf("shut down with a backlog: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	for id := uint16(1); id <= 2; id++ {
		if f, _, _ := r.next(ofPair(id)); f.Flags&wire.FeedbackLeave == 0 {
			t.Errorf("FEEDBACK of pair %d without LEAVE: %+v", id, f)
		}
		if h, _ := receive(t, c); h.Type != wire.Reply || h.ReqID != id {
			t.Errorf("%+v", h)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// behind a Transparent router the option says whose credit it is.
func TestTransparentRouter(t *testing.T) {
	r := newFakeRouter(t)
	s := newServer(t, ServerConfig{Routers: []Router{r.router()}})
	c := client(t)
	h := wire.Header{Type: wire.Request, First: true, Last: true, Ext: true, ReqID: 8, Count: 1}
	h.Options = wire.Options{Present: wire.HasRouterID, RouterID: wire.RouterID(at(r.requests))}
	b, _ := h.Append(nil)
	if _, err := c.WriteToUDPAddrPort(b, s.Addrs()[0]); err != nil {
		t.Fatal(err)
	}
	if f, _, _ := r.next(ofPair(8)); f.Served != 1 || f.Client != at(c) {
		t.Errorf("%+v", f)
	}
}

// what is rejected changes nothing but its counter.
func TestHostilePackets(t *testing.T) {
	r := newFakeRouter(t)
	s := newServer(t, ServerConfig{Routers: []Router{r.router()}, MaxMessage: 4096})
	c, w := client(t), s.Addrs()[0]
	packet := func(h wire.Header, payload string) []byte { b, _ := h.Append(nil); return append(b, payload...) }
	part := wire.Header{Type: wire.Request, ReqID: 1, Count: 1, Ext: true}
	for _, x := range []struct {
		want wire.Case
		p    []byte
	}{
		{wire.M1, []byte{0xcc}},
		{wire.M2, []byte("no R2P2 at all")},
		{wire.M5, packet(wire.Header{Type: wire.Reply, First: true, Last: true, Count: 1}, "")},
		{wire.M14, make([]byte, 1600)},
		{wire.M14, packet(wire.Header{Type: wire.Request, First: true, Count: 60000, ReqID: 2}, "")},
		{wire.M15, packet(part, "x")},
		{wire.M20, packet(wire.Header{Type: wire.Sack, First: true, Last: true, Count: 1}, "\x01\x00\x00\x00\x00\x01\x80")},
		{wire.M6, []byte{0xcc, 8, 0x0f, 0xc0, 0, 3, 0, 1}},
		{wire.M26, packet(wire.Header{Type: wire.RaftRequest, First: true, Last: true, Count: 1}, "")},
	} {
		before := total(s.Counters(), "server_rejected_total", x.want.String())
		if _, err := c.WriteToUDPAddrPort(x.p, w); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(time.Minute)
		for total(s.Counters(), "server_rejected_total", x.want.String()) == before {
			if time.Now().After(deadline) {
				t.Fatalf("%v was not counted: %v", x.want, s.Counters())
			}
			time.Sleep(time.Millisecond)
		}
		if s.Backlog() != 0 {
			t.Fatalf("%v left something behind", x.want)
		}
	}
	for _, id := range []uint16{2, 3} { // M-14 and M-6 of a REQUEST are told so
		if h, _ := receive(t, c); h.Type != wire.Drop || h.ReqID != id {
			t.Errorf("%+v, want DROP of %d", h, id)
		}
	}
}

// M-10 to M-13 leave the message as it was; then the right packets complete it.
func TestAssemblyRejects(t *testing.T) {
	a := &assembly{limit: 1 << 16}
	add := func(first, last bool, n uint16, payload string) wire.Case {
		m, _ := a.add(&wire.Header{Type: wire.Reply, First: first, Last: last, Count: n, Payload: []byte(payload)})
		return m
	}
	for _, c := range []struct {
		name        string
		first, last bool
		n           uint16
		payload     string
		want        wire.Case
	}{
		{"packet 2 first", false, false, 2, "cc", wire.OK},
		{"F", true, false, 4, "aa", wire.OK},
		{"F of another count", true, false, 5, "aa", wire.M11},
		{"F of other bytes", true, false, 4, "ab", wire.M11},
		{"beyond the count", false, true, 4, "ee", wire.M9},
		{"L in the middle", false, true, 1, "bb", wire.M10},
		{"no L at the end", false, false, 3, "dd", wire.M10},
		{"same index, other bytes", false, false, 2, "cx", wire.M12},
		{"short in the middle", false, false, 1, "b", wire.M13},
		{"the same again", false, false, 2, "cc", wire.OK},
		{"last", false, true, 3, "d", wire.OK},
		{"packet 1", false, false, 1, "bb", wire.OK},
	} {
		if got := add(c.first, c.last, c.n, c.payload); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if !a.complete() || string(a.message()) != "aabbccd" {
		t.Errorf("%q", a.message())
	}
}
