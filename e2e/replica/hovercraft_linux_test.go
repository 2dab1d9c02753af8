// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

// kinds of HovercRaft groups, each of which meets faults.
func hovercrafts() []Kind {
	return []Kind{{HovercRaft: true}, {HovercRaft: true, Multicast: true, Repliers: "Random"}}
}

// and of HovercRaft++ groups.
func plusPlus() []Kind {
	return []Kind{{HovercRaft: true, PlusPlus: true, Multicast: true, Repliers: "Random"}, {HovercRaft: true, PlusPlus: true, Registers: "switch"}}
}

func (k Kind) String() string {
	how := "one by one"
	if k.Multicast {
		how = "multicast"
	}
	if k.PlusPlus {
		how += " aggregator " + k.Registers
	}
	return fmt.Sprintf("%s %s", how, k.Repliers)
}

// The leader of a HovercRaft group is killed again and again, requests coming one
// by one or by multicast.
func TestHovercRaftKills(t *testing.T) {
	for _, kind := range append(hovercrafts(), plusPlus()...) {
		t.Run(kind.String(), func(t *testing.T) { kills(t, kind, 1, 50) })
	}
}

// kills: the leader again and again; it comes back with its disk.
func kills(t *testing.T, kind Kind, short, long int) {
	p := begin(t, 3, 3, kind)
	for i := range rounds(short, long) {
		var killed *Member
		p.round(fmt.Sprintf("kill%d", i), func() {
			killed = p.leader()
			p.c.forgetAcks()
			at := time.Now()
			killed.Kill()
			var took time.Duration
			p.must(until("a write after a kill", func() (ok bool) { took, ok = p.c.firstAckAsked(at); return ok }))
			tally.failovers = append(tally.failovers, float64(took.Microseconds())/1000)
			p.must(p.g.Start(killed))
		})
		p.must(p.g.AwaitReady(killed))
	}
	p.same(p.g.Members...)
}

// What can happen to a box, and between it and members.
var boxEvents = []event{
	{"box killed", func(p *play) {
		p.g.Box.Kill()
		time.Sleep(time.Duration(p.r.IntN(100)) * time.Millisecond)
		p.must(p.g.Start(p.g.Box))
	}},
	{"follower hears no requests", func(p *play) {
		m := p.g.Members[p.leader().ID%len(p.g.Members)]
		before := p.value(m, "replica_events_total", "recovered")
		p.g.Net.Shim.Cut(p.g.Box.Host, m.Host, true)
		// it asks for every body; also as the one that answers.
		p.must(until("bodies recovered", func() bool { return p.value(m, "replica_events_total", "recovered") > before+5 }))
		p.g.Net.Shim.Heal()
	}},
	{"leader hears no requests", func(p *play) {
		m := p.leader()
		p.g.Net.Shim.Cut(p.g.Box.Host, m.Host, true)
		time.Sleep(300 * time.Millisecond) // nothing is ordered, and what followers keep is not lost by it
		p.g.Net.Shim.Heal()
	}},
	{"box hears no FEEDBACK", func(p *play) {
		before := p.value(p.g.Box, "box_requests_total", "timed_out")
		for _, m := range p.g.Members {
			p.g.Net.Shim.Cut(m.Host, p.g.Box.Host, true)
		}
		p.must(until("pairs that time out", func() bool { return p.value(p.g.Box, "box_requests_total", "timed_out") > before }))
		p.g.Net.Shim.Heal()
	}},
	{"box stopped", func(p *play) {
		p.g.Box.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(200+p.r.IntN(400)) * time.Millisecond)
		p.g.Box.Signal(syscall.SIGCONT)
	}},
	{"box and leader killed", func(p *play) {
		l := p.leader()
		p.g.Box.Kill()
		l.Kill()
		p.must(p.g.Start(p.g.Box))
		p.must(p.g.Start(l))
	}},
}

// value of a counter or a gauge of a process; label: of its one label, "" for none.
func (p *play) value(m *Member, name, label string) uint64 {
	p.t.Helper()
	v, err := p.g.Value(m, name, label)
	p.must(err)
	return v
}

// The faults of TestFaults, and those of the box.
func TestHovercRaftFaults(t *testing.T) {
	for k, kind := range hovercrafts() {
		t.Run(kind.String(), func(t *testing.T) { faults(t, kind, k, boxEvents, events) })
	}
}

// The faults of both, and those of the aggregator.
func TestHovercRaftPlusPlusFaults(t *testing.T) {
	for k, kind := range plusPlus() {
		t.Run(kind.String(), func(t *testing.T) {
			faults(t, kind, k, aggregatorEvents, append(events[:len(events):len(events)], boxEvents...))
		})
	}
}

// faults: some of them at least, the k-th of the own ones always.
func faults(t *testing.T, kind Kind, k int, own, others []event) {
	p := begin(t, 3, 3, kind)
	all := append(own[:len(own):len(own)], others...)
	from := p.r.IntN(len(all))
	for i := range rounds(2, 3*len(all)) {
		e := all[(from+i*5+k)%len(all)]
		if i == 0 {
			e = own[k]
		}
		t.Log(e.name)
		p.round(fmt.Sprintf("fault%d", i), func() { e.do(p) })
		p.must(p.g.AwaitReady(p.g.Members...))
	}
	p.same(p.g.Members...)
}

// aggregated waits until the leader sends by way of the aggregator, or no longer.
func (p *play) aggregated(wanted bool) {
	p.t.Helper()
	p.must(until(fmt.Sprintf("a leader with an aggregator: %v", wanted), func() bool {
		l := p.g.Leader()
		if l == nil {
			return false
		}
		v, err := p.g.Value(l, "replica_aggregated", "")
		return err == nil && (v == 1) == wanted
	}))
}

// What can happen to an aggregator, and between it and members: the
// group does without, and takes it back.
var aggregatorEvents = []event{
	{"aggregator killed", func(p *play) {
		p.aggregated(true)
		p.g.Aggregator.Kill()
		p.aggregated(false)
		p.must(p.g.Start(p.g.Aggregator))
		p.aggregated(true)
	}},
	{"aggregator cut off", func(p *play) {
		p.aggregated(true)
		for _, m := range p.g.Members {
			p.g.Net.Shim.Cut(m.Host, p.g.Aggregator.Host, true)
			p.g.Net.Shim.Cut(p.g.Aggregator.Host, m.Host, true)
		}
		p.aggregated(false)
		p.g.Net.Shim.Heal()
		p.aggregated(true)
	}},
	{"aggregator killed again and again", func(p *play) {
		for range 5 {
			p.aggregated(true)
			p.g.Aggregator.Kill()
			p.must(p.g.Start(p.g.Aggregator))
		}
	}},
	{"aggregator heard, not hearing", func(p *play) {
		p.aggregated(true)
		for _, m := range p.g.Members {
			p.g.Net.Shim.Cut(m.Host, p.g.Aggregator.Host, true)
		}
		p.aggregated(false)
		p.g.Net.Shim.Heal()
	}},
	{"follower does not hear the aggregator", func(p *play) {
		p.aggregated(true)
		m := p.g.Members[p.leader().ID%len(p.g.Members)]
		p.g.Net.Shim.Cut(p.g.Aggregator.Host, m.Host, true)
		had := p.g.Status(m)
		p.must(until("a follower that the leader serves", func() bool { // else it would lag for as long as that lasts
			s := p.g.Status(m)
			return had != nil && s != nil && s.Applied > had.Applied+20
		}))
		p.g.Net.Shim.Heal()
	}},
	{"aggregator stopped", func(p *play) {
		p.aggregated(true)
		p.g.Aggregator.Signal(syscall.SIGSTOP)
		p.aggregated(false)
		p.g.Aggregator.Signal(syscall.SIGCONT)
	}},
	{"leader heard by way of the aggregator only", func(p *play) {
		p.aggregated(true)
		m := p.leader()
		for _, o := range p.hosts(m) {
			p.g.Net.Shim.Cut(m.Host, o, true)
		}
		now := p.c.acks.Load()
		p.must(until("another leader, or more answers", func() bool { return p.g.Leader(m) != nil || p.c.acks.Load() >= now+300 }))
		p.g.Net.Shim.Heal()
	}},
	{"aggregator and leader killed", func(p *play) {
		l := p.leader()
		p.g.Aggregator.Kill()
		l.Kill()
		p.must(p.g.Start(p.g.Aggregator))
		p.must(p.g.Start(l))
	}},
}

// without faults every member answers its share, a read is
// executed by the one that answers it, a write by all, and the box ends empty. A
// client that knows members only finds the box.
func TestHovercRaftShares(t *testing.T) {
	const requests = 40
	p := begin(t, 3, 3, Kind{HovercRaft: true, Multicast: true, Repliers: "Random"})
	p.must(p.c.do(history.New(), 0, history.Op{Kind: 'P', Key: "first", Value: "x"})) // the box has begun to speak
	p.emptyBox()
	p.c.Close()
	var err error
	p.c, err = p.g.Dial(1, 2*time.Second) // which knows members only
	p.must(err)
	p.must(p.c.do(history.New(), 0, history.Op{Kind: 'P', Key: "first", Value: "y"})) // its session is open
	p.emptyBox()
	p.must(p.g.AwaitSame(p.g.Members...))
	before := p.work()
	passed, copies := p.value(p.g.Box, "box_requests_total", "passed"), p.value(p.g.Box, "box_copies_sent_total", "")
	h := history.New()
	for i := range requests {
		for _, kind := range []byte("PG") {
			p.must(p.c.do(h, 0, history.Op{Kind: kind, Key: fmt.Sprint("share", i%3), Value: fmt.Sprint(i)}))
		}
	}
	if v := h.Judge(20 * time.Second); len(v.Says) > 0 {
		t.Fatal(v.Says)
	}
	p.must(p.g.AwaitSame(p.g.Members...))
	var reads, answers uint64
	for i, after := range p.work() {
		reads += after.reads - before[i].reads
		answers += after.answers - before[i].answers
		if after.answers == before[i].answers || after.taken == before[i].taken {
			t.Errorf("%s answered %d requests and took %d from the multicast group", p.g.Members[i].Name, after.answers-before[i].answers, after.taken-before[i].taken)
		}
		if n := after.writes - before[i].writes; n != requests {
			t.Errorf("%s executed %d writes, want %d", p.g.Members[i].Name, n, requests)
		}
	}
	if reads != requests || answers != 2*requests {
		t.Errorf("%d reads executed, want %d; %d answers, want %d", reads, requests, answers, 2*requests)
	}
	p.emptyBox()
	passed, copies = p.value(p.g.Box, "box_requests_total", "passed")-passed, p.value(p.g.Box, "box_copies_sent_total", "")-copies
	if passed != 2*requests || copies != passed {
		t.Errorf("%d requests passed as %d packets; to a multicast group each is one", passed, copies)
	}
}

// work of a member so far.
type work struct{ reads, writes, answers, taken uint64 }

func (p *play) work() (list []work) {
	for _, m := range p.g.Members {
		list = append(list, work{p.value(m, "replica_executed_total", "read"), p.value(m, "replica_executed_total", "write"),
			p.value(m, "replica_answers_total", "sent"), p.value(m, "replica_requests_total", "taken")})
	}
	return list
}

// I-17: a box at rest counts nothing.
func (p *play) emptyBox() {
	p.t.Helper()
	p.must(until("an empty box", func() bool { return p.value(p.g.Box, "box_requests_inside", "") == 0 }))
}

// A box that knows its address serves by a document that does not name it, as a pod
// that came again while nobody wrote another one. One that does not know it waits.
func TestBoxThatIsNotNamed(t *testing.T) {
	p := begin(t, 3, 3, Kind{HovercRaft: true})
	p.round("named", func() {
		p.g.Box.Kill()
		p.g.Box.As = "another"
		p.must(p.g.Start(p.g.Box))
	})
	p.same(p.g.Members...)
}

// What a box refuses, it names: R-314, too long for a packet between members;
// R-304, not ordered, which goes to a member.
func TestHovercRaftRefusals(t *testing.T) {
	p := begin(t, 3, 3, Kind{HovercRaft: true})
	p.must(p.c.do(history.New(), 0, history.Op{Kind: 'P', Key: "first", Value: "x"}))
	_, err := p.c.list[0].Write(context.Background(), make([]byte, 1440))
	if !errors.Is(err, replica.ErrTooLong) {
		t.Errorf("a request of 1440 bytes: %v", err)
	}
	box := netip.MustParseAddrPort(p.g.Box.Address())
	if _, err := p.c.list[0].ReadAt(context.Background(), box, []byte("G\x01x")); err == nil || p.value(p.g.Box, "box_refused_total", "unordered") != 1 {
		t.Errorf("an unordered request to the box: %v", err)
	}
}
