// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"
)

// A world of agents under virtual time: messages are delayed and lost, the
// network is cut in two or between pairs, agents crash, leave and come back.

const (
	tick     = 10 * time.Millisecond
	stepping = 50 * time.Millisecond // how often an agent thinks when it hears nothing
	maxDelay = 60 * time.Millisecond
)

type node struct {
	name string
	m    *Machine // nil: crashed
	side int      // of a network that is cut
	link bool
	next time.Duration // of its messages
	more int           // messages that repeat a change
	gone time.Duration // when it ends after leaving; 0: it stays
}

type flight struct {
	at       time.Duration
	from, to int
	msg      Message
}

type flights []flight

func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].at < f[j].at }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any          { o := *f; x := o[len(o)-1]; *f = o[:len(o)-1]; return x }

type world struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	now   time.Duration
	nodes []*node
	vips  []netip.Addr
	cut   map[[2]int]bool // pairs that do not hear each other
	loss  float64
	// agentsOnly: nobody else is on the wire, no router and no host that answers.
	agentsOnly bool
	air        flights
	fault      time.Duration // when the last one happened

	heard   [][]time.Duration            // [from][to] last delivery
	silent  [][]time.Duration            // [a][b] when a pair last was without word for a life
	nobody  map[netip.Addr]time.Duration // since when a VIP has no owner
	both    map[[3]string]time.Duration  // since when two own it
	overlap time.Duration                // the longest time two owned a VIP though they heard each other
	without time.Duration                // the longest time a VIP had none
	moves   int
}

func newWorld(t *testing.T, seed uint64, nodes, vips int) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]int]bool{},
		nobody: map[netip.Addr]time.Duration{}, both: map[[3]string]time.Duration{}}
	for i := range vips {
		w.vips = append(w.vips, netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}))
	}
	for i := range nodes {
		w.nodes = append(w.nodes, &node{name: fmt.Sprintf("node-%d", i), link: true})
		w.heard = append(w.heard, make([]time.Duration, nodes))
		w.silent = append(w.silent, make([]time.Duration, nodes))
		w.start(i)
	}
	return w
}

func (w *world) start(i int) {
	n := w.nodes[i]
	n.m, n.gone = New(Config{Self: n.name}, w.now), 0
	n.m.SetVIPs(w.vips)
	n.m.Expect(true)
	n.m.Company(!w.agentsOnly)
	n.m.SetLink(w.now, n.link)
	n.next = w.now + time.Duration(w.r.Int64N(int64(DefaultInterval)))
}

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

func (w *world) joined(a, b int) bool {
	x, y := w.nodes[a], w.nodes[b]
	return x.link && y.link && x.side == y.side && !w.cut[pair(a, b)]
}

// say sends an agent's message to all others.
func (w *world) say(i int) {
	msg := w.nodes[i].m.Say()
	for j := range w.nodes {
		if j != i && w.joined(i, j) && w.r.Float64() >= w.loss {
			heap.Push(&w.air, flight{w.now + time.Duration(w.r.Int64N(int64(maxDelay))), i, j, msg})
		}
	}
	w.nodes[i].next = w.now + DefaultInterval
	if w.nodes[i].more > 0 {
		w.nodes[i].more--
		w.nodes[i].next = w.now + RepeatInterval
	}
}

// think runs an agent's rule; what it changed is told at once.
func (w *world) think(i int) {
	if changes := w.nodes[i].m.Step(w.now); len(changes) > 0 {
		w.moves += len(changes)
		w.nodes[i].more = Repeats
		w.say(i)
	}
}

// run plays for a time and judges after every tick.
func (w *world) run(span time.Duration, each func()) {
	for end := w.now + span; w.now < end; w.now += tick {
		for len(w.air) > 0 && w.air[0].at <= w.now {
			f := heap.Pop(&w.air).(flight)
			if n := w.nodes[f.to]; n.m != nil && w.joined(f.from, f.to) {
				n.m.Hear(w.now, f.msg)
				w.heard[f.from][f.to] = w.now
				w.think(f.to)
			}
		}
		for i, n := range w.nodes {
			if n.m == nil {
				continue
			}
			if n.gone != 0 && w.now >= n.gone {
				n.m = nil
				continue
			}
			if n.link && n.side == 0 && !w.agentsOnly {
				n.m.Wire(w.now) // the router and other hosts are on this side
			}
			if w.now%stepping == 0 {
				w.think(i)
			}
			if w.now >= n.next {
				w.say(i)
			}
		}
		if each != nil {
			each()
		}
		w.judge()
		if w.t.Failed() {
			return
		}
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d at %v: %s (again: OWNERSHIP_SEED=%d go test -run %s)", w.seed, w.now, fmt.Sprintf(format, args...), w.seed, w.t.Name())
}

// candidate: it could announce, and nothing was in its way since the last fault.
func (w *world) candidate(n *node) bool { return n.m != nil && n.link && n.side == 0 && n.gone == 0 }

func (w *world) judge() {
	live := false
	for i, a := range w.nodes {
		live = live || w.candidate(a)
		for j, b := range w.nodes {
			if a.m == nil || b.m == nil || w.now-min(w.heard[i][j], w.heard[j][i]) >= DefaultDeadAfter-stepping {
				w.silent[i][j] = w.now
			}
		}
	}
	for _, v := range w.vips {
		var owners []int
		for i, n := range w.nodes {
			if n.m != nil && n.m.vips[v].owned {
				owners = append(owners, i)
			}
		}
		w.judgeNone(v, owners, live)
		w.judgeTwo(v, owners)
	}
}

// judgeNone: with a live candidate nobody owns a VIP for at most 2 s after the last fault.
func (w *world) judgeNone(v netip.Addr, owners []int, live bool) {
	if len(owners) > 0 || !live {
		delete(w.nobody, v)
		return
	}
	since, known := w.nobody[v]
	if !known || since < w.fault {
		w.nobody[v] = w.now
		return
	}
	w.without = max(w.without, w.now-since)
	if w.now-since > 2*time.Second {
		w.fail("%s has had no owner since %v", v, since)
	}
}

// judgeTwo: two own a VIP only while a pair did not hear each other, and for as
// long as a message may be under way or be lost a few times after.
func (w *world) judgeTwo(v netip.Addr, owners []int) {
	for x, a := range owners {
		for _, b := range owners[x+1:] {
			talk := w.now - w.silent[a][b]
			if talk <= 4*DefaultInterval {
				continue
			}
			key := [3]string{v.String(), w.nodes[a].name, w.nodes[b].name}
			if since, known := w.both[key]; !known || w.now-since > time.Second {
				w.both[key] = w.now
			}
			w.overlap = max(w.overlap, w.now-w.both[key])
			if w.now-w.both[key] > maxDelay+2*RepeatInterval {
				w.fail("%s is owned by %s and %s, which have heard each other for %v", v, w.nodes[a].name, w.nodes[b].name, talk)
			}
		}
	}
}

// seeds to play: a few, or the one that is asked for.
func seeds(t *testing.T, n int) []uint64 {
	if s := os.Getenv("OWNERSHIP_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("OWNERSHIP_SEED: %v", err)
		}
		return []uint64{seed}
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	return all
}

// settle: without faults, every VIP comes to the one agent that the rule names.
func (w *world) settle() {
	for _, n := range w.nodes {
		n.side, n.link = 0, true
		if n.m != nil {
			n.m.SetLink(w.now, true)
		}
	}
	w.cut, w.loss, w.fault = map[[2]int]bool{}, 0, w.now
	for i, n := range w.nodes {
		if n.m == nil || n.gone != 0 {
			w.start(i)
		}
	}
	w.run(DefaultHold+4*time.Second, nil)
	for _, v := range w.vips {
		best, owners := "", 0
		for _, n := range w.nodes {
			if best == "" || before(v, n.name, best) {
				best = n.name
			}
		}
		for _, n := range w.nodes {
			if n.m.vips[v].owned {
				if owners++; n.name != best {
					w.fail("%s came to rest on %s instead of %s", v, n.name, best)
				}
			}
		}
		if owners != 1 {
			w.fail("%s came to rest with %d owners", v, owners)
		}
		for _, n := range w.nodes {
			if got := n.m.Owner(v); got != best {
				w.fail("%s takes %q for the owner of %s, which is %s", n.name, got, v, best)
			}
		}
	}
}
