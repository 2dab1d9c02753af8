// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// routerNumber is an address of a router that nobody is at.
func routerNumber(i int) Router {
	return Router{Request: netip.AddrPortFrom(loopback, uint16(1000+2*i)), Feedback: netip.AddrPortFrom(loopback, uint16(1001+2*i))}
}

// Settings are taken up to their bounds, whole or not at all.
func TestSettingsAtTheirBounds(t *testing.T) {
	s := newServer(t, ServerConfig{QueueDepth: 7})
	for _, c := range []struct {
		routers, depth int
		says           string
	}{
		{0, 0, "QueueDepth must be 1..64; got 0"}, {0, 65, "QueueDepth must be 1..64; got 65"}, {maxRouters + 1, 1, "at most 16 routers; got 17"},
		{0, 1, ""}, {0, 64, ""}, {maxRouters, 1, ""},
	} {
		set := Settings{QueueDepth: c.depth}
		for i := range c.routers {
			set.Routers = append(set.Routers, routerNumber(i))
		}
		before := s.workers[0].depth
		err := s.Apply(set)
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || s.workers[0].depth != before || len(s.Routers(0)) != 0) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if n := len(s.Routers(0)); n != maxRouters {
		t.Errorf("%d routers", n)
	}
}

// of as many routers as are remembered, the one that is not configured and was heard longest ago gives way to another.
func TestRoutersGiveWay(t *testing.T) {
	s := newServer(t, ServerConfig{})
	w, now := s.workers[0], time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range routerSlots {
		r := w.addRouter(routerNumber(i), i < 3)
		r.heard = now.Add(time.Duration((i+routerSlots-20)%routerSlots-routerSlots) * time.Minute) // number 20 longest ago, but for the first three
		if i < 3 {
			r.heard = now.Add(-time.Hour * 24)
		}
	}
	if len(w.routers) != routerSlots {
		t.Fatalf("%d routers", len(w.routers))
	}
	for i, gone := range []int{20, 21} {
		w.addRouter(routerNumber(100+i), false).heard = now
		if len(w.routers) != routerSlots || w.routerAt(routerNumber(gone).Request) != nil || w.routerAt(routerNumber(100+i).Request) == nil || w.routerAt(routerNumber(0).Request) == nil {
			t.Errorf("number %d did not give way", gone)
		}
	}
}

// A router was heard of within a time that is not over yet, if ever.
func TestHeardWithin(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		heard time.Time
		want  bool
	}{{now.Add(1 - time.Second), true}, {now.Add(-time.Second), false}, {time.Time{}, false}} {
		if (&routerState{heard: c.heard}).heardWithin(time.Second, now) != c.want {
			t.Errorf("%v: %v", c.heard, !c.want)
		}
	}
}

// Ids are given in their order, each once until it is given back and has rested.
func TestIDsInOrder(t *testing.T) {
	a, now := newIDs(time.Second), time.Unix(1000, 0)
	a.next = 65534
	got := ""
	for range 4 {
		id, _ := a.take(now)
		got += fmt.Sprint(id, " ")
	}
	if got != "65534 65535 0 1 " {
		t.Error(got)
	}
	a.next = 0
	a.release(0, now)
	if id, ok := a.take(now.Add(time.Second - 1)); !ok || id != 2 {
		t.Errorf("%d, which rests", id)
	}
	a.next = 0
	if id, ok := a.take(now.Add(time.Second)); !ok || id != 0 {
		t.Errorf("%d, want 0 again", id)
	}
}

// of more sources than are remembered, one that is in no debt is forgotten first; a source is proven by its eighth
// request in a row.
func TestWhoIsForgotten(t *testing.T) {
	var p patience
	now := time.Unix(1000, 0)
	who := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	for i := range patienceSources {
		if i == 77 {
			p.becameWhole(who(i), now)
		} else {
			p.heldInVain(who(i), now, time.Second)
		}
	}
	if p.of(who(1000), now); len(p.source) != patienceSources || p.source[who(77)] != nil {
		t.Errorf("%d sources; the one without a debt is there still: %v", len(p.source), p.source[who(77)] != nil)
	}
	for row, proven := range map[int]bool{patienceProven - 1: false, patienceProven: true} {
		var p patience
		for range row {
			p.becameWhole(who(1), now)
		}
		if p.heldInVain(who(1), now, time.Second); p.until.After(now) == proven {
			t.Errorf("after %d requests strangers are in debt until %v", row, p.until)
		}
	}
}

// What waits is kept as memory up to its bound, and sent at the latest when so many packets wait.
func TestOutboxBounds(t *testing.T) {
	for size, kept := range map[int]bool{outboxKeep: true, outboxKeep + 4096: false} {
		b := batch{bytes: make([]byte, 10, size), packets: make([]outgoing, 3)}
		if b.empty(); (cap(b.bytes) == size) != kept || len(b.bytes)+len(b.packets) != 0 {
			t.Errorf("%d bytes: %d are kept", size, cap(b.bytes))
		}
	}
	sock, to := bound(t, "127.0.0.1:0"), bound(t, "127.0.0.1:0")
	o := newOutbox(sock, func(err error) { t.Error(err) })
	arrive := received(t, to)
	for i := range outboxFull {
		if n := len(o.waiting.packets); n != i {
			t.Fatalf("%d wait behind %d", n, i)
		}
		o.postPacket([]byte{byte(i), byte(i >> 8)}, to.local)
	}
	if o.waits() {
		t.Error("a full outbox waits")
	}
	for i := range outboxFull {
		if p := next(t, arrive).packet; len(p) != 2 || p[0] != byte(i) || p[1] != byte(i>>8) {
			t.Fatalf("packet %d: % x", i, p)
		}
	}
}

// A request leaves room for what a router adds to its first packet, besides its own options.
func TestRoomInTheFirstPacket(t *testing.T) {
	for _, c := range []struct {
		cfg  ClientConfig
		r    Request
		try  bool
		room int
	}{
		{ClientConfig{MTU: 1500}, Request{}, false, 1464 - 32}, {ClientConfig{MTU: 1500, NoExtensions: true}, Request{}, false, 1464},
		{ClientConfig{MTU: 1500}, Request{Trace: 1}, false, 1464 - 32 - 12}, {ClientConfig{MTU: 1500}, Request{WithClass: true}, true, 1464 - 32 - 8},
		{ClientConfig{MTU: 1500}, Request{Session: 1}, false, 1464 - 32 - 20},
	} {
		client := dial(t, c.cfg, netip.MustParseAddrPort("127.0.0.1:9"))
		for over, packets := range map[int]int{0: 1, 1: 2} {
			c.r.Payload = make([]byte, c.room+over)
			if s := client.ports[0].cut(&c.r, c.try); s.Count != packets {
				t.Errorf("%+v with %d bytes: %d packets", c.cfg, len(c.r.Payload), s.Count)
			}
		}
	}
}

// A move to where a port is already is none.
func TestMovesAreCounted(t *testing.T) {
	c := dial(t, ClientConfig{}, netip.MustParseAddrPort("127.0.0.1:9"))
	p := c.ports[0]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timeouts = 2
	if p.move(p.router); total(c.Counters(), "client_router_changes_total", "") != 0 || p.timeouts != 0 {
		t.Errorf("%v", c.Counters())
	}
	if p.move(netip.MustParseAddrPort("127.0.0.1:10")); total(c.Counters(), "client_router_changes_total", "") != 1 {
		t.Errorf("%v", c.Counters())
	}
}
