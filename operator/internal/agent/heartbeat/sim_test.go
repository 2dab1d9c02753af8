// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

// A world of agents under virtual time that exchange real datagrams: they own
// VIPs, tell loads, and learn of new keys at different times, while the network
// loses, delays and doubles what they send.

const (
	simTick  = 10 * time.Millisecond
	simDelay = 60 * time.Millisecond
)

type simAgent struct {
	name  string
	e     *exchange
	m     *ownership.Machine
	table *loads.Table
	next  time.Duration // of heartbeats
	tell  time.Duration // of reports
	open  uint32        // what its server has
	deaf  bool
}

type datagram struct {
	at       time.Duration
	to, from int
	bytes    []byte
}

type simWorld struct {
	t      *testing.T
	seed   uint64
	r      *rand.Rand
	now    time.Duration
	agents []*simAgent
	vip    netip.Addr
	air    []datagram
	loss   float64
	old    [][]byte // what arrived, to be played again
	moves  int      // changes of ownership
	told   map[netip.AddrPort]uint32
}

func newSimWorld(t *testing.T, seed uint64, agents int, keys ...[]byte) *simWorld {
	w := &simWorld{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 2)), vip: netip.MustParseAddr("192.0.2.1"), told: map[netip.AddrPort]uint32{}}
	for i := range agents {
		a := &simAgent{name: fmt.Sprintf("node-%d", i), open: uint32(10 * i)}
		a.e = newExchange(a.name, keys, ownership.DefaultDeadAfter, w.r.Uint64)
		a.m = ownership.New(ownership.Config{Self: a.name}, 0)
		a.m.SetVIPs([]netip.Addr{w.vip})
		a.m.Expect(true)
		a.table = loads.NewTable()
		a.next, a.tell = w.within(ownership.DefaultInterval), w.within(loads.Interval)
		w.agents = append(w.agents, a)
	}
	for _, a := range w.agents {
		a.table.Set(0, []loads.Pool{w.pool()})
	}
	return w
}

func (w *simWorld) within(d time.Duration) time.Duration { return time.Duration(w.r.Int64N(int64(d))) }

func server(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)
}

// pool has one server on each node.
func (w *simWorld) pool() loads.Pool {
	p := loads.Pool{VIP: netip.AddrPortFrom(w.vip, 80)}
	for i, a := range w.agents {
		p.Servers = append(p.Servers, loads.Server{Addr: server(i), Node: a.name, Weight: 1})
	}
	return p
}

func (w *simWorld) send(from, to int, b []byte) {
	for w.r.Float64() >= w.loss {
		w.air = append(w.air, datagram{w.now + w.within(simDelay), to, from, b})
		if w.r.IntN(50) != 0 { // now and then twice
			break
		}
	}
}

func (w *simWorld) say(i int) {
	a := w.agents[i]
	a.next = w.now + ownership.DefaultInterval
	for j, b := range w.agents {
		if i == j {
			continue
		}
		bytes, err := a.e.heartbeat(w.now, b.name, a.m.Say())
		if err != nil {
			w.t.Fatal(err)
		}
		w.send(i, j, bytes)
	}
}

// report tells the owner of the VIP what this node's server has.
func (w *simWorld) report(i int) {
	a := w.agents[i]
	a.tell = w.now + loads.Interval
	for j, b := range w.agents {
		if b.name != a.m.Owner(w.vip) {
			continue
		}
		told := []loads.Load{{Server: server(i), Open: a.open}}
		if i == j {
			w.hear(j, a.name, told)
			continue
		}
		all, err := a.e.reports(w.now, b.name, told)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, bytes := range all {
			w.send(i, j, bytes)
		}
	}
}

func (w *simWorld) hear(i int, from string, told []loads.Load) {
	for _, u := range w.agents[i].table.Hear(w.now, from, told) {
		w.told[netip.AddrPortFrom(u.Server, 80)] = u.Open
	}
}

func (w *simWorld) arrive(d datagram) {
	a := w.agents[d.to]
	if a.deaf || w.agents[d.from].deaf {
		return
	}
	w.old = append(w.old, d.bytes)
	got, hello := a.e.take(w.now, d.bytes)
	switch {
	case hello != "":
		w.say(d.to)
	case got == nil:
	case got.message != nil:
		a.m.Hear(w.now, *got.message)
		w.think(d.to)
	default:
		w.hear(d.to, got.from, got.loads)
	}
}

func (w *simWorld) think(i int) {
	if changes := w.agents[i].m.Step(w.now); len(changes) > 0 {
		w.moves += len(changes)
		w.say(i)
	}
}

func (w *simWorld) run(span time.Duration, each func()) {
	for end := w.now + span; w.now < end; w.now += simTick {
		var due []datagram
		w.air = slices.DeleteFunc(w.air, func(d datagram) bool {
			if d.at <= w.now {
				due = append(due, d)
			}
			return d.at <= w.now
		})
		for _, d := range due {
			w.arrive(d)
		}
		for i, a := range w.agents {
			a.m.Wire(w.now)
			if w.now%(5*simTick) == 0 {
				w.think(i)
			}
			if w.now >= a.next {
				w.say(i)
			}
			if w.now >= a.tell {
				w.report(i)
			}
		}
		if each != nil {
			each()
		}
	}
}

func (w *simWorld) owners() (all []int) {
	for i, a := range w.agents {
		if slices.Contains(a.m.Owned(), w.vip) {
			all = append(all, i)
		}
	}
	return all
}

func (w *simWorld) counted(reason string) (n uint64) {
	for _, a := range w.agents {
		n += a.e.counters[reason]
	}
	return n
}

// A key is exchanged as docs/guides/crab.md says: each agent sees the Secret with both
// keys at a time of its own, and later the Secret without the old one. Nobody
// refuses a heartbeat, and no VIP moves.
func TestKeyRotation(t *testing.T) {
	first, second := []byte("the first key..."), []byte("the second key..")
	for seed := uint64(1); seed <= 8; seed++ {
		w := newSimWorld(t, seed, 2+int(seed)%4, first)
		w.loss = float64(seed%3) * 0.01
		w.run(15*time.Second, nil) // until everybody knows everybody
		moves := w.moves
		for _, keys := range [][][]byte{{second, first}, {second}} {
			late := map[int]time.Duration{}
			for i := range w.agents {
				late[i] = w.now + w.within(20*time.Second)
			}
			w.run(25*time.Second, func() {
				for i, at := range late {
					if w.now >= at {
						w.agents[i].e.ring.set(w.now, keys)
						delete(late, i)
					}
				}
				if len(w.owners()) != 1 {
					t.Fatalf("seed %d at %v: owners %v", seed, w.now, w.owners())
				}
			})
		}
		if bad := w.counted(string(BadTag)); bad != 0 || w.moves != moves {
			t.Errorf("seed %d: %d heartbeats refused, %d changes of ownership", seed, bad, w.moves-moves)
		}
		for _, a := range w.agents {
			for peer, holds := range a.e.ring.peers {
				if string(holds) != string(second) {
					t.Errorf("seed %d: %s still signs for %s with the old key", seed, a.name, peer)
				}
			}
		}
		for _, a := range w.agents {
			a.e.ring.forget(w.now + KeyLinger)
			if len(a.e.ring.keys) != 1 {
				t.Errorf("seed %d: %s still accepts the old key", seed, a.name)
			}
		}
	}
}

// C-62: reports keep an owner's view fresh under loss, delay and doubled
// datagrams; one whose node is cut off goes stale and is told by name, and comes
// back; what was recorded and is played again changes nothing.
func TestReportsUnderLoss(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		w := newSimWorld(t, seed, 4, key)
		w.run(15*time.Second, nil)
		w.loss = 0.05 * float64(seed%4)
		vip, owner := netip.AddrPortFrom(w.vip, 80), w.owners()[0]
		table := w.agents[owner].table
		stale := 0
		w.run(60*time.Second, func() { stale = max(stale, table.Stale(w.now)) })
		if s := table.Silence(w.now); len(w.owners()) == 1 && w.owners()[0] == owner && (len(s) > 0 || stale > 1) {
			t.Errorf("seed %d: with %.0f %% loss %d servers were stale, silent %+v", seed, w.loss*100, stale, s)
		}
		w.loss = 0
		w.run(3*time.Second, nil)
		for i, a := range w.agents {
			if w.told[server(i)] != a.open {
				t.Errorf("seed %d: the owner knows %d connections of %s, which has %d", seed, w.told[server(i)], a.name, a.open)
			}
		}
		if len(w.owners()) != 1 || w.owners()[0] != owner {
			continue // heavy loss moved the VIP: the rest has been shown by other seeds
		}
		cut := (owner + 1) % len(w.agents)
		w.agents[cut].deaf = true
		w.run(loads.Patience+loads.Interval, nil)
		if s, n := table.Silence(w.now)[vip], table.Stale(w.now); s.Servers != 1 || s.Of != 4 || !slices.Equal(s.Nodes, []string{w.agents[cut].name}) || n != 1 {
			t.Errorf("seed %d: %s is cut off, and the owner says %+v, %d stale", seed, w.agents[cut].name, s, n)
		}
		before := table.Counters()
		for _, b := range slices.Clone(w.old[max(0, len(w.old)-2000):]) {
			w.arrive(datagram{w.now, owner, (owner + 2) % len(w.agents), b})
		}
		if after := table.Counters(); after != before {
			t.Errorf("seed %d: reports played again were taken: %+v, before %+v", seed, after, before)
		}
		w.agents[cut].deaf = false
		w.run(3*loads.Interval, nil)
		if s := table.Silence(w.now); len(s) != 0 {
			t.Errorf("seed %d: %s is back, and still silent: %+v", seed, w.agents[cut].name, maps.Collect(maps.All(s)))
		}
	}
}
