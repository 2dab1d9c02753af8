// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"net/netip"
	"testing"
	"time"
)

// happen does one random thing to the world.
func (w *world) happen() {
	i := w.r.IntN(len(w.nodes))
	n := w.nodes[i]
	w.fault = w.now
	switch w.r.IntN(8) {
	case 0: // crash
		n.m = nil
	case 1: // leave
		if n.m != nil && n.gone == 0 {
			n.m.Leave()
			w.think(i)
			w.say(i)
			n.gone = w.now + 100*time.Millisecond
		}
	case 2, 3: // come back, or start again at once
		w.start(i)
	case 4: // link
		n.link = !n.link
		if n.m != nil {
			n.m.SetLink(w.now, n.link)
			w.think(i)
		}
	case 5: // the network is cut in two
		for _, n := range w.nodes {
			n.side = w.r.IntN(2)
		}
	case 6: // a pair
		if j := w.r.IntN(len(w.nodes)); j != i {
			w.cut[pair(i, j)] = !w.cut[pair(i, j)]
		}
	case 7: // whole again
		for _, n := range w.nodes {
			n.side = 0
		}
		w.cut = map[[2]int]bool{}
	}
}

func TestFaults(t *testing.T) {
	var overlap, without time.Duration
	for _, seed := range seeds(t, 24) {
		w := newWorld(t, seed, 2+int(seed)%5, 6)
		w.loss = float64(seed%4) * 0.02
		next := 3 * time.Second
		w.run(90*time.Second, func() {
			if w.now >= next {
				w.happen()
				next = w.now + time.Duration(w.r.Int64N(int64(6*time.Second)))
			}
		})
		if !t.Failed() {
			w.settle()
		}
		if t.Failed() {
			return
		}
		overlap, without = max(overlap, w.overlap), max(without, w.without)
		if w.moves < 20 {
			t.Errorf("seed %d: only %d moves: this proves nothing", seed, w.moves)
		}
	}
	t.Logf("longest without owner after a fault %v, longest with two that heard each other %v", without, overlap)
}

// owner of a VIP, by index; -1 when not exactly one.
func (w *world) owner(v netip.Addr) int {
	found := -1
	for i, n := range w.nodes {
		if n.m != nil && n.m.vips[v].owned {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// The figure of the fail-over: from cutting the owner's link to the next owner.
func TestFailOver(t *testing.T) {
	for name, cut := range map[string]func(w *world, i int){
		"carrier": func(w *world, i int) { w.nodes[i].link = false; w.nodes[i].m.SetLink(w.now, false) },
		"silent":  func(w *world, i int) { w.nodes[i].side = 1 },
		"crash":   func(w *world, i int) { w.nodes[i].m = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var worst time.Duration
			for _, seed := range seeds(t, 40) {
				w := newWorld(t, seed, 3, 1)
				w.loss = 0.02
				w.run(15*time.Second+time.Duration(w.r.Int64N(int64(time.Second))), nil)
				first := w.owner(w.vips[0])
				if first < 0 {
					t.Fatalf("seed %d: no single owner to begin with", seed)
				}
				w.fault = w.now
				cut(w, first)
				start, took := w.now, time.Duration(0)
				w.run(3*time.Second, func() {
					for i, n := range w.nodes {
						if i != first && n.m.vips[w.vips[0]].owned && took == 0 {
							took = w.now - start
						}
					}
				})
				if took == 0 || took > 1500*time.Millisecond {
					w.fail("the VIP moved after %v", took)
				}
				if n := w.nodes[first]; n.m != nil && n.m.vips[w.vips[0]].owned {
					w.fail("%s is cut off and still owns the VIP", n.name)
				}
				worst = max(worst, took)
			}
			t.Logf("worst of all seeds: %v", worst)
		})
	}
}

// An agent that leaves hands its VIPs over without the wait for the dead.
func TestLeaving(t *testing.T) {
	w := newWorld(t, 1, 3, 1)
	w.run(15*time.Second, nil)
	first := w.owner(w.vips[0])
	w.nodes[first].m.Leave()
	w.think(first)
	w.say(first)
	w.run(3*maxDelay, nil)
	if second := w.owner(w.vips[0]); second < 0 || second == first {
		t.Errorf("the VIP is at %d after %d left", second, first)
	}
}

// A node that comes back gets its VIPs again, but not before Hold.
func TestHold(t *testing.T) {
	w := newWorld(t, 3, 4, 8)
	w.run(15*time.Second, nil)
	v := w.vips[0]
	first := w.owner(v)
	w.fault = w.now
	w.nodes[first].m = nil
	w.run(3*time.Second, nil)
	second := w.owner(v)
	w.fault = w.now
	w.start(first)
	w.run(DefaultHold, nil)
	if got := w.owner(v); got != second {
		t.Errorf("the VIP moved from %d to %d within the hold", second, got)
	}
	w.run(3*time.Second, nil)
	if got := w.owner(v); got != first {
		t.Errorf("the VIP is at %d, want %d again", got, first)
	}
}

// A flapping agent never gets anything: each start begins the hold anew.
func TestFlapping(t *testing.T) {
	w := newWorld(t, 5, 3, 4)
	w.run(15*time.Second, nil)
	v := w.vips[0]
	first := w.owner(v)
	for range 10 {
		w.fault = w.now
		w.nodes[first].m = nil
		w.run(3*time.Second, nil)
		w.start(first)
		w.run(4*time.Second, nil)
		if w.owner(v) == first {
			t.Fatal("a VIP moved to an agent that restarts every few seconds")
		}
	}
}

// A VIP that the best agent does not know yet goes to the best that does.
func TestUnknownVIP(t *testing.T) {
	w := newWorld(t, 2, 3, 1)
	w.run(15*time.Second, nil)
	best := w.owner(w.vips[0])
	w.nodes[best].m.SetVIPs(nil)
	for range 40 { // without judge: one machine has no entry
		w.now += stepping
		for i, n := range w.nodes {
			n.m.Wire(w.now)
			for j, o := range w.nodes {
				if i != j {
					n.m.Hear(w.now, o.m.Say())
				}
			}
			n.m.Step(w.now)
		}
	}
	owners := 0
	for i, n := range w.nodes {
		if i != best && n.m.vips[w.vips[0]].owned {
			owners++
		}
	}
	if owners != 1 {
		t.Errorf("%d owners among those that know the VIP", owners)
	}
}

// One agent alone, with no other configured, needs nobody on the wire.
func TestSingle(t *testing.T) {
	m := New(Config{Self: "only"}, 0)
	v := netip.MustParseAddr("192.0.2.1")
	m.SetVIPs([]netip.Addr{v})
	if c := m.Step(900 * time.Millisecond); len(c) != 0 {
		t.Errorf("it took %v before it had listened", c)
	}
	if c := m.Step(time.Second); len(c) != 0 || !m.Say().Able {
		t.Errorf("changes %v, %+v: want to be able, and to tell so first", c, m.Say())
	}
	if c := m.Step(1250 * time.Millisecond); len(c) != 1 || c[0].Action != Take {
		t.Errorf("changes %v, want to take", c)
	}
	if c := m.Step(time.Hour); len(c) != 0 || m.Owner(v) != "only" {
		t.Errorf("changes %v on a quiet wire", c)
	}
	m.SetLink(time.Hour, false)
	if c := m.Step(time.Hour); len(c) != 1 || c[0].Action != Yield {
		t.Errorf("changes %v without carrier", c)
	}
}

// K-12: where nobody but agents is on the wire, the last one keeps what it owns, however quiet it is; in a network that
// is cut each side has an owner, and soon after one that is whole again has a single one.
func TestNobodyButAgents(t *testing.T) {
	for _, seed := range seeds(t, 20) {
		w := newWorld(t, seed, 2, 2)
		w.agentsOnly = true
		for i := range w.nodes {
			w.start(i)
		}
		w.run(15*time.Second, nil)
		gone := int(seed) % 2
		w.fault = w.now
		w.nodes[gone].m = nil
		w.run(3*time.Second, nil)
		w.run(time.Minute, func() {
			if len(w.nodes[1-gone].m.Owned()) != 2 {
				w.fail("the only agent owns %v", w.nodes[1-gone].m.Owned())
			}
		})
		w.start(gone)
		w.run(15*time.Second, nil)
		w.nodes[gone].side, w.fault = 1, w.now
		w.run(time.Minute, nil)
		for _, n := range w.nodes {
			if len(n.m.Owned()) != 2 {
				w.fail("%s, on one side of the cut, owns %v", n.name, n.m.Owned())
			}
		}
		w.nodes[gone].side, w.fault = 0, w.now
		w.run(15*time.Second, nil)
		for _, v := range w.vips {
			if w.owner(v) < 0 {
				w.fail("%s has not exactly one owner", v)
			}
		}
	}
}

// An agent that did not run for a while must not conclude that the others died.
func TestPause(t *testing.T) {
	m := New(Config{Self: "slow"}, 0)
	m.Expect(true)
	v := netip.MustParseAddr("192.0.2.1")
	m.SetVIPs([]netip.Addr{v})
	owner := Message{From: "other", Able: true, VIPs: []Claim{{v, true}}}
	now := time.Duration(0)
	for ; now < 3*time.Second; now += 50 * time.Millisecond {
		m.Hear(now, owner)
		m.Step(now)
	}
	now += 5 * time.Second
	if c := m.Step(now); len(c) != 0 || len(m.Alive()) != 1 {
		t.Errorf("after a pause: changes %v, alive %v", c, m.Alive())
	}
	for end := now + 2*time.Second; now < end; now += 50 * time.Millisecond {
		m.Wire(now)
		m.Step(now)
	}
	if m.Owner(v) != "slow" {
		t.Errorf("the other is silent, and %q owns the VIP", m.Owner(v))
	}
}

// The order of agents is part of the protocol: versions of the agent side by
// side must agree.
func TestRankIsFixed(t *testing.T) {
	if got := score(netip.MustParseAddr("192.0.2.1"), "node-a"); got != wantScore {
		t.Errorf("score is %#x, want %#x", got, uint64(wantScore))
	}
}

const wantScore = 0x58f1e383c79f5800

// C-9: VIPs of IPv6 are dealt out like others; an IPv4 address and its IPv6 form are two.
func TestRankOfIPv6(t *testing.T) {
	mine := 0
	const n = 400
	for i := range n {
		vip := netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)})
		if before(vip, "node-a", "node-b") == before(vip, "node-b", "node-a") {
			t.Fatalf("%s: both come first, or neither", vip)
		}
		if before(vip, "node-a", "node-b") {
			mine++
		}
	}
	if mine < n/3 || mine > 2*n/3 {
		t.Errorf("one of two agents comes first for %d of %d VIPs", mine, n)
	}
	four := netip.MustParseAddr("192.0.2.1")
	if score(four, "a") == score(netip.AddrFrom16(four.As16()), "a") {
		t.Error("the family does not count")
	}
}
