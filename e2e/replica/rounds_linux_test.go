// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/e2e/faults/shim"
)

// tally is what all tests of a run found together.
var tally struct {
	histories, bad, lost, executed int
	operations, unsure             int64
	failovers                      []float64 // ms
	soaked                         time.Duration
}

type play struct {
	t *testing.T
	g *Group
	c *Clients
	r *rand.Rand
}

// begin makes a group and its clients.
func begin(t *testing.T, voters, places int, kind Kind) *play {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("needs root: it makes network namespaces")
	}
	dir, err := os.MkdirTemp("", "bobtail-replica-")
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGroup(dir, voters, places, kind)
	p := &play{t: t, g: g, r: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))}
	t.Cleanup(func() {
		if p.c != nil {
			p.c.Close()
		}
		if g != nil {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			p.logs()
		}
		_ = os.RemoveAll(dir)
	})
	p.must(err)
	p.must(g.AwaitReady(g.Members[:voters]...))
	p.c, err = g.Dial(6, 100*time.Millisecond)
	p.must(err)
	return p
}

func (p *play) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *play) logs() {
	for _, m := range p.g.All() {
		if m.proc != nil {
			p.t.Logf("%s:\n%s", m.Name, bed.Tail(m.proc.Log, 12))
		}
	}
}

// up are the members that run.
func (p *play) up() (list []*Member) {
	for _, m := range p.g.Members {
		if m.Running() {
			list = append(list, m)
		}
	}
	return list
}

func (p *play) leader() *Member {
	p.t.Helper()
	l, err := p.g.AwaitLeader()
	p.must(err)
	return l
}

// round is one load with something happening in it, and its verdict.
func (p *play) round(name string, event func()) {
	p.t.Helper()
	before := p.c.acks.Load()
	l := p.c.Load(name)
	p.must(until("writes of "+name, func() bool { return p.c.acks.Load() >= before+10 }))
	event()
	now := p.c.acks.Load()
	p.must(until("writes after "+name, func() bool { return p.c.acks.Load() >= now+10 }))
	v, err := p.c.finish(l)
	p.must(err)
	tally.histories += v.Checked
	tally.bad += v.Bad
	tally.lost += v.Lost
	tally.executed += v.Executed
	tally.operations += l.ops.Load()
	tally.unsure += l.unsure.Load()
	if len(v.Says) > 0 {
		p.t.Fatalf("%s: %s", name, strings.Join(v.Says, "\n"))
	}
}

// same: every member's state is the same, byte by byte.
func (p *play) same(members ...*Member) {
	p.t.Helper()
	p.must(p.g.AwaitSame(members...))
	first := ""
	for i, m := range members {
		s, err := p.c.state(m)
		p.must(err)
		if i == 0 {
			first = s
		} else if s != first {
			p.t.Fatalf("%s holds another state than %s", m.Name, members[0].Name)
		}
	}
}

func rounds(short, long int) int {
	if testing.Short() {
		return short
	}
	return long
}

// The leader is killed again and again; it comes back with its disk.
func TestKills(t *testing.T) { kills(t, Kind{}, 4, 200) }

type event struct {
	name string
	do   func(p *play)
}

func (p *play) hosts(except *Member) (others []int) {
	for _, m := range p.g.Members {
		if m != except {
			others = append(others, m.Host)
		}
	}
	return others
}

// around are all by whom a member is heard and hears the others: an aggregator carries what a leader says, too.
func (p *play) around(m *Member) []int {
	if p.g.Aggregator == nil {
		return p.hosts(m)
	}
	return append(p.hosts(m), p.g.Aggregator.Host)
}

// Whatever can happen to a member that keeps its disk.
var events = []event{
	{"follower killed", func(p *play) {
		m := p.g.Members[p.leader().ID%len(p.g.Members)]
		m.Kill()
		time.Sleep(time.Duration(p.r.IntN(200)) * time.Millisecond)
		p.must(p.g.Start(m))
	}},
	{"leader stopped", func(p *play) {
		m := p.leader()
		m.Signal(syscall.SIGSTOP)
		_, err := p.g.AwaitLeader(m)
		m.Signal(syscall.SIGCONT)
		p.must(err)
	}},
	{"follower stopped", func(p *play) {
		m := p.g.Members[p.leader().ID%len(p.g.Members)]
		m.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(200+p.r.IntN(400)) * time.Millisecond)
		m.Signal(syscall.SIGCONT)
	}},
	{"leader cut off", func(p *play) {
		m := p.leader()
		for _, o := range p.around(m) {
			p.g.Net.Shim.Cut(m.Host, o, true)
			p.g.Net.Shim.Cut(o, m.Host, true)
		}
		_, err := p.g.AwaitLeader(m)
		p.g.Net.Shim.Heal()
		p.must(err)
	}},
	{"leader heard, not hearing", func(p *play) {
		m := p.leader()
		for _, o := range p.around(m) {
			p.g.Net.Shim.Cut(o, m.Host, true)
		}
		_, err := p.g.AwaitLeader(m)
		p.g.Net.Shim.Heal()
		p.must(err)
	}},
	{"leader hearing, not heard", func(p *play) {
		m := p.leader()
		for _, o := range p.around(m) {
			p.g.Net.Shim.Cut(m.Host, o, true)
		}
		_, err := p.g.AwaitLeader(m)
		p.g.Net.Shim.Heal()
		p.must(err)
	}},
	{"no quorum for a while", func(p *play) {
		for _, a := range p.g.Members {
			for _, o := range p.around(a) {
				p.g.Net.Shim.Cut(a.Host, o, true)
			}
		}
		p.must(until("no leader", func() bool { return p.g.Leader() == nil }))
		p.g.Net.Shim.Heal()
		p.leader()
	}},
	{"bad network", func(p *play) {
		// Between members a tag finds what is mangled; a client's request has nothing that could tell.
		bad := shim.Rule{From: shim.Any, To: shim.Any, DelayMax: 20 * time.Millisecond, CopyMax: 30 * time.Millisecond}.
			With(shim.Lost, 0.03).With(shim.Duplicated, 0.05).With(shim.Reordered, 0.05).With(shim.Corrupted, 0.01)
		var rules []shim.Rule
		for _, a := range p.g.Members {
			for _, o := range p.hosts(a) {
				r := bad.With(shim.Mangled, 0.03)
				r.From, r.To = a.Host, o
				rules = append(rules, r)
			}
		}
		p.g.Net.Shim.SetRules(append(rules, bad)...)
		time.Sleep(500 * time.Millisecond)
		p.g.Net.Shim.Heal()
	}},
	{"all killed", func(p *play) {
		for _, m := range p.g.Members {
			m.Kill()
		}
		for _, m := range p.g.Members {
			p.must(p.g.Start(m))
		}
		p.must(p.g.AwaitReady(p.g.Members...))
	}},
	{"leadership handed over", func(p *play) {
		l := p.leader()
		to := p.g.Members[l.ID%len(p.g.Members)]
		// Whoever is asked may have lost the leadership meanwhile, or be busy with the same.
		if err := p.g.Order(l, "transfer", map[string]any{"id": to.ID}); err == nil {
			p.must(until("another leader", func() bool { n := p.g.Leader(); return n != nil }))
		}
	}},
	{"leader told to end", func(p *play) {
		l := p.leader()
		p.must(l.proc.Stop(patience))
		p.must(p.g.Start(l))
	}},
	{"snapshots everywhere", func(p *play) {
		for _, m := range p.g.Members {
			_ = p.g.Order(m, "snapshot", nil) // one that is busy with another is fine
		}
	}},
}

func TestFaults(t *testing.T) {
	p := begin(t, 3, 3, Kind{})
	n := rounds(5, 5*len(events))
	from := 0
	if testing.Short() {
		from = p.r.IntN(2)
	}
	for i := range n {
		e := events[i%len(events)]
		if testing.Short() {
			e = events[(2*i+from)%len(events)]
		}
		t.Log(e.name)
		p.round(fmt.Sprintf("fault%d", i), func() { e.do(p) })
		p.must(p.g.AwaitReady(p.g.Members...))
	}
	p.same(p.g.Members...)
}
