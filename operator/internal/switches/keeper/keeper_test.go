// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

const device = 3

var (
	tag   = []byte("ours")
	ranks = map[string]int{"port_role": 0, "next_hop": 1, "worker": 2, switches.Groups: 3, "service": 4}
)

func pipeline(t testing.TB, cookie uint64) Pipeline {
	t.Helper()
	text, err := os.ReadFile("../testdata/pipeline.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	info, err := switches.ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return Pipeline{Info: info, Device: fmt.Appendf(nil, "program %d", cookie), Cookie: cookie, Push: true}
}

// entries are services of one worker each; `version` changes what they say.
func entries(t testing.TB, info *switches.Info, services []uint64, version uint64) (out []switches.Entry) {
	t.Helper()
	for _, n := range services {
		for _, r := range []switches.Row{
			{Table: "next_hop", Match: []switches.Match{{Field: "address", Value: n}}, Action: "forward", Args: []switches.Arg{{Name: "port", Value: version}, {Name: "mac", Value: 1}}},
			{Table: "worker", Match: []switches.Match{{Field: "slot", Value: n}}, Action: "to_worker", Args: []switches.Arg{{Name: "address", Value: n}, {Name: "udp_port", Value: 8000}}},
			{Table: "service", Match: []switches.Match{{Field: "address", Value: n}, {Field: "udp_port", Value: 8000}},
				Action: "place", Args: []switches.Arg{{Name: "first", Value: n}, {Name: "groups", Value: 1}, {Name: "depth", Value: version}}},
		} {
			r.Rank = ranks[r.Table]
			e, err := info.Bind(r)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
		g, err := info.Group(uint32(n)+1, []uint32{1, 2}, ranks[switches.Groups])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, g)
	}
	return out
}

// complete is what the test pipeline points at: a service at a worker, that at a next hop.
func complete(e *p4.Entity, there func(*p4.Entity) bool) bool {
	at := func(table, value uint32) *p4.Entity {
		v := []byte{byte(value)}
		return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: table, Match: []*p4.FieldMatch{
			{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: v}}}}}}}
	}
	params := e.GetTableEntry().GetAction().GetAction().GetParams()
	switch e.GetTableEntry().GetTableId() {
	case 0x2000003:
		return there(at(0x2000002, uint32(params[0].Value[0])))
	case 0x2000005:
		return there(at(0x2000003, uint32(params[0].Value[0])))
	}
	return true
}

func peer(t testing.TB) *switchpeer.Peer {
	t.Helper()
	p, err := switchpeer.Start(switchpeer.Options{Device: device, Complete: complete})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func target(p *switchpeer.Peer) link.Target {
	return link.Target{Endpoint: p.Address(), DeviceID: device}
}

var quick = link.Patience{Hello: 400 * time.Millisecond, Call: 400 * time.Millisecond, Push: 400 * time.Millisecond}

// start runs a keeper in a term; the function that it returns ends it.
func start(t testing.TB, term func() Term) (*Keeper, func()) {
	t.Helper()
	k := &Keeper{Term: func(context.Context) (Term, error) { return term(), nil }, Now: time.Now, Patience: quick,
		Period: 30 * time.Millisecond, First: 5 * time.Millisecond, Longest: 50 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = k.Start(ctx) }()
	end := func() { cancel(); <-done }
	t.Cleanup(end)
	return k, end
}

func always() Term { return Term{Number: 1} }

// until waits for a state.
func until(t testing.TB, k *Keeper, name, what string, ok func(State) bool) State {
	t.Helper()
	for range 12000 {
		if s, there := k.State(name); there && ok(s) {
			return s
		}
		time.Sleep(5 * time.Millisecond)
	}
	s, _ := k.State(name)
	t.Fatalf("waited for %s, have %+v, fault %v", what, s, s.Fault)
	return s
}

func settled(generation int64) func(State) bool {
	return func(s State) bool { return s.Settled && s.Generation == generation && s.Fault == nil }
}

func faulty(kind link.Kind, text string) func(State) bool {
	return func(s State) bool {
		return s.Fault != nil && s.Fault.Kind == kind && strings.Contains(s.Fault.Text, text)
	}
}

// holds fails unless the switch holds exactly what is wanted.
func holds(t testing.TB, p *switchpeer.Peer, info *switches.Info, wanted []switches.Entry) {
	t.Helper()
	var held []switches.Entry
	for _, e := range p.Held() {
		c, err := info.Canonical(e)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if d := switches.Compare(wanted, held, switches.Owner{Tag: tag}, ranks); !d.Settled() || len(held) != len(wanted) {
		t.Errorf("the switch holds %d entries, wanted %d; missing %d, changed %d, stale %d", len(held), len(wanted), d.Missing, d.Changed, d.Stale)
	}
}

// The whole way: pushed once, written in order, read back; a restart of the operator
// pushes nothing and writes nothing; what is lost is repaired and counted; what is not
// wanted any more goes, and after Clear nothing of ours is left (W-20 to W-23).
func TestKeeper(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	info := one.Info
	k, end := start(t, always)
	d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, info, []uint64{1, 2}, 1), Ranks: ranks, Tag: tag}
	k.Set("leaf", d)
	s := until(t, k, "leaf", "the first entries", settled(1))
	holds(t, p, info, d.Wanted)
	if !s.Role.Primary || s.Cookie == nil || *s.Cookie != 42 || s.Pushes != 1 || s.Repaired != 0 || s.Used["worker"] != 2 {
		t.Errorf("state %+v", s)
	}

	end()
	writes := p.Counts().Writes
	k, _ = start(t, func() Term { return Term{Number: 2} })
	k.Set("leaf", d)
	until(t, k, "leaf", "the next leader", settled(1))
	if c := p.Counts(); c.Writes != writes || c.Pushes != 1 {
		t.Errorf("a new leader wrote %d batches and pushed %d pipelines", c.Writes-writes, c.Pushes-1)
	}

	p.Lose(3)
	s = until(t, k, "leaf", "repair", func(s State) bool { return s.Settled && s.Repaired > 0 })
	if holds(t, p, info, d.Wanted); s.Repaired != 3 {
		t.Errorf("repaired %d of 3", s.Repaired)
	}

	d.Generation, d.Wanted = 2, entries(t, info, []uint64{2, 3}, 2)
	k.Set("leaf", d)
	until(t, k, "leaf", "a change", settled(2))
	holds(t, p, info, d.Wanted)
	d.Generation, d.Clear = 3, true
	k.Set("leaf", d)
	until(t, k, "leaf", "clearing", func(s State) bool { return s.Cleared && s.Generation == 3 })
	if c := p.Counts(); len(p.Held()) != 0 || c.PushesWithoutNeed != 0 || c.Dangling != 0 || c.FromOldLeader != 0 {
		t.Errorf("switch_entries_after_delete %d, switch_pushes_without_need %d, %d entries pointed at nothing", len(p.Held()), c.PushesWithoutNeed, c.Dangling)
	}
}

// W-21: after a restart of the switch, the pipeline and all entries are there again.
func TestSwitchRestartsEmpty(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	k, _ := start(t, always)
	d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag}
	k.Set("leaf", d)
	until(t, k, "leaf", "the first entries", settled(1))
	p.Restart()
	until(t, k, "leaf", "a second push", func(s State) bool { return s.Settled && s.Pushes == 2 })
	holds(t, p, one.Info, d.Wanted)
	if n := p.Counts().PushesWithoutNeed; n != 0 {
		t.Errorf("%d pushes without need", n)
	}
}

// W-20: an election id that the switch remembers is outdone, a living primary is not, and
// when that one leaves, its place is taken.
func TestAnotherPrimary(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	leave := p.Crowd(1000)
	k, _ := start(t, always)
	d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag}
	k.Set("leaf", d)
	s := until(t, k, "leaf", "to be backup", faulty(link.Backup, "another controller is primary, with election id 1000.0"))
	if !s.Connected || p.Counts().Updates != 0 || p.Counts().Refused != 0 {
		t.Errorf("a backup tried to write: %+v", p.Counts())
	}
	leave()
	s = until(t, k, "leaf", "to be primary", settled(1))
	if s.Role.Election.High != 1000 || s.Role.Election.Low != 1 {
		t.Errorf("election id %s", s.Role.Election)
	}
}

// W-20: a connection's election id is above the one before it in a term, and begins anew with the next term.
func TestElectionsOfATerm(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	var number atomic.Int64
	number.Store(1)
	k, _ := start(t, func() Term { return Term{Number: number.Load()} })
	k.Set("leaf", Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag})
	primaryAs := func(want link.Election) {
		t.Helper()
		until(t, k, "leaf", "election id "+want.String(), func(s State) bool { return settled(1)(s) && s.Role.Primary && s.Role.Election == want })
	}
	primaryAs(link.ElectionOf(1, 1))
	p.Cut()
	primaryAs(link.ElectionOf(1, 2))
	number.Store(2)
	primaryAs(link.ElectionOf(2, 1))
	p.Cut()
	primaryAs(link.ElectionOf(2, 2))
}

// W-20: when a later leader comes, an earlier one that does not know it writes nothing
// any more; and one whose lease is over does not even try, where a switch would let it.
func TestOldLeaderIsFenced(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	var over atomic.Bool
	old, _ := start(t, func() Term {
		if over.Load() {
			return Term{Number: 1, Until: time.Now().Add(-time.Second)}
		}
		return Term{Number: 1, Until: time.Now().Add(time.Hour)}
	})
	d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag}
	old.Set("leaf", d)
	until(t, old, "leaf", "the old leader", settled(1))
	next, _ := start(t, func() Term { return Term{Number: 2} })
	theirs := d
	theirs.Generation, theirs.Wanted = 2, entries(t, one.Info, []uint64{2}, 2)
	next.Set("leaf", theirs)
	until(t, next, "leaf", "the new leader", settled(2))
	d.Generation = 3
	old.Set("leaf", d)
	until(t, old, "leaf", "the old leader to be backup", func(s State) bool { return s.Generation == 3 && faulty(link.Backup, "another controller")(s) })
	over.Store(true)
	p.Misbehave(func(f *switchpeer.Faults) { f.Lax = true })
	until(t, old, "leaf", "the old leader to know", faulty(link.Fenced, "does not lead"))
	until(t, next, "leaf", "the new leader", settled(2))
	holds(t, p, one.Info, theirs.Wanted)
	if n := p.Counts().FromOldLeader; n != 0 {
		t.Errorf("switch_writes_from_old_leader %d", n)
	}
}

// What stands in the way is named; where a pipeline works, it stays.
func TestFaults(t *testing.T) {
	for _, row := range []struct {
		name   string
		faults func(*switchpeer.Faults)
		alter  func(*Desired)
		kind   link.Kind
		text   string
	}{
		{"nobody there", nil, func(d *Desired) { d.Target.Endpoint = "127.0.0.1:1" }, link.Unreachable, "refused"},
		{"wrong device id", nil, func(d *Desired) { d.Target.DeviceID = 4 }, link.Device, "knows no such device"},
		{"mute", func(f *switchpeer.Faults) { f.Mute = true }, nil, link.Unreachable, "did not answer to arbitration within"},
		{"slow", func(f *switchpeer.Faults) { f.Delay = time.Second }, nil, link.Unreachable, "did not answer to arbitration within"},
		{"arbitration refused", func(f *switchpeer.Faults) { f.RefuseArbitration = true }, nil, link.Broken, "refuses arbitration"},
		{"fixed pipeline", func(f *switchpeer.Faults) { f.FixedPipeline = true }, nil, link.Fixed, "fixed one"},
		{"pipeline refused", func(f *switchpeer.Faults) { f.RefusePipeline = true }, nil, link.Refused, "12 stages are not enough"},
		{"nothing to verify", nil, func(d *Desired) { d.Pipeline.Push = false }, link.Empty, "runs no pipeline"},
		{"writes are lost", func(f *switchpeer.Faults) { f.LoseWrites = true }, nil, link.Broken, "still not as they were written"},
		{"updates are refused", func(f *switchpeer.Faults) { f.RefuseEvery = 1 }, nil, link.Broken, "Aborted: not now"},
		{"details that cannot be", func(f *switchpeer.Faults) { f.RefuseEvery, f.WrongDetails = 1, true }, nil, link.Unreachable, "write: Unknown"},
		{"no groups", func(f *switchpeer.Faults) { f.NoGroups = true }, nil, link.Refused, "knows no multicast groups"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, one := peer(t), pipeline(t, 42)
			k, _ := start(t, always)
			d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag}
			if row.alter != nil {
				row.alter(&d)
			}
			if row.faults != nil {
				p.Misbehave(row.faults)
			}
			k.Set("leaf", d)
			until(t, k, "leaf", row.text, faulty(row.kind, row.text))
			if row.faults == nil {
				return
			}
			p.Misbehave(func(f *switchpeer.Faults) { *f = switchpeer.Faults{} })
			if row.kind == link.Refused || row.kind == link.Fixed { // not tried again within a minute, unless it is another one
				d.Generation, d.Pipeline = 2, pipeline(t, 43)
				k.Set("leaf", d)
			}
			until(t, k, "leaf", "recovery", settled(d.Generation))
			holds(t, p, one.Info, d.Wanted)
		})
	}
}

// A pipeline that works stays when the next one is refused; its entries, too.
func TestWorkingPipelineStays(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	k, _ := start(t, always)
	d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag}
	k.Set("leaf", d)
	until(t, k, "leaf", "the first pipeline", settled(1))
	p.Misbehave(func(f *switchpeer.Faults) { f.RefusePipeline = true })
	d.Generation, d.Pipeline = 2, pipeline(t, 43)
	k.Set("leaf", d)
	s := until(t, k, "leaf", "the refusal", func(s State) bool { return s.Generation == 2 && faulty(link.Refused, "keeps the one it has")(s) })
	holds(t, p, one.Info, d.Wanted)
	if s.Cookie == nil || *s.Cookie != 42 {
		t.Errorf("cookie %v", s.Cookie)
	}
	time.Sleep(300 * time.Millisecond) // ten rounds
	if n := p.Counts().PushesRefused; n != 1 {
		t.Errorf("a pipeline that was refused was pushed %d times", n)
	}
}

// Servers that lack what is optional, or write values their own way, are served all the
// same, and pushed to once.
func TestOptionalFeatures(t *testing.T) {
	for _, row := range []struct {
		name   string
		faults func(*switchpeer.Faults)
	}{
		{"no cookie", func(f *switchpeer.Faults) { f.NoCookie = true }},
		{"no metadata", func(f *switchpeer.Faults) { f.NoMetadata = true }},
		{"padded values", func(f *switchpeer.Faults) { f.Padded = true }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, one := peer(t), pipeline(t, 42)
			p.Misbehave(row.faults)
			k, _ := start(t, always)
			d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1, 2}, 1), Ranks: ranks, Tag: tag}
			k.Set("leaf", d)
			until(t, k, "leaf", "entries", settled(1))
			p.Cut()
			d.Generation, d.Wanted = 2, entries(t, one.Info, []uint64{2, 3}, 2)
			k.Set("leaf", d)
			until(t, k, "leaf", "other entries", settled(2))
			held := len(p.Held())
			d.Generation, d.Clear = 3, true
			k.Set("leaf", d)
			until(t, k, "leaf", "clearing", func(s State) bool { return s.Cleared && s.Generation == 3 })
			if c := p.Counts(); held != len(d.Wanted) || len(p.Held()) != 0 || c.Pushes != 1 {
				t.Errorf("held %d of %d, after Clear %d; %d pushes", held, len(d.Wanted), len(p.Held()), c.Pushes)
			}
		})
	}
}

// Clear leaves a switch alone that runs somebody else's pipeline by now: what was ours
// went with the one before.
func TestClearedByAnotherPipeline(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	other := proto.CloneOf(one.Info.P4)
	other.Tables = other.Tables[:1]
	p.Load(other, 7)
	k, _ := start(t, always)
	k.Set("leaf", Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Ranks: ranks, Tag: tag, Clear: true})
	until(t, k, "leaf", "clearing", func(s State) bool { return s.Cleared })
	if c := p.Counts(); c.Pushes+c.Updates != 0 {
		t.Errorf("%+v", c)
	}
}

// W-20: a lease that ends while the switch is being read ends the round before it writes,
// even where a switch would let it.
func TestLeaseEndsInTheMiddle(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	p.Load(one.Info.P4, 42)
	began := time.Now()
	var read atomic.Bool
	p.Misbehave(func(f *switchpeer.Faults) {
		f.Lax, f.Garble = true, func(*p4.ReadResponse) { read.Store(true) }
	})
	k := &Keeper{Term: func(context.Context) (Term, error) { return Term{Number: 1, Until: began.Add(time.Minute)}, nil }, Patience: quick,
		Period: time.Hour, First: time.Hour, Longest: time.Hour,
		Now: func() time.Time {
			if read.Load() {
				return began.Add(time.Hour)
			}
			return began
		}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = k.Start(ctx) }()
	k.Set("leaf", Desired{Generation: 1, Target: target(p), Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag})
	until(t, k, "leaf", "the fault", faulty(link.Fenced, "does not lead"))
	if n := p.Counts().Updates; n != 0 {
		t.Errorf("%d updates were written without a lease", n)
	}
}

// Somebody else's entries are reported and stay, whatever ours do (W-23).
func TestStrangersStay(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	p.Load(one.Info.P4, 42)
	foreign := entries(t, one.Info, []uint64{9}, 1)[0].Entity()
	foreign.GetTableEntry().Metadata = []byte("theirs")
	p.Put(foreign)
	k, _ := start(t, always)
	d := Desired{Generation: 1, Target: target(p), Identity: "a", Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag}
	k.Set("leaf", d)
	s := until(t, k, "leaf", "entries", settled(1))
	if s.Strange != 1 || !slices.Equal(s.Strangers, []string{"next_hop address=0x09"}) {
		t.Errorf("strangers %d %v", s.Strange, s.Strangers)
	}
	d.Generation, d.Wanted = 2, entries(t, one.Info, []uint64{9}, 5)
	k.Set("leaf", d)
	s = until(t, k, "leaf", "a contest", func(s State) bool { return s.Generation == 2 && len(s.Contested) == 1 })
	if s.Settled || len(p.Held()) != 4 {
		t.Errorf("settled %v, held %d", s.Settled, len(p.Held()))
	}
	d.Generation, d.Clear = 3, true
	k.Set("leaf", d)
	until(t, k, "leaf", "clearing", func(s State) bool { return s.Cleared && s.Generation == 3 })
	if held := p.Held(); len(held) != 1 || string(held[0].GetTableEntry().GetMetadata()) != "theirs" {
		t.Errorf("held %v", held)
	}
}

// A mute, a slow and a lying switch hold up no other.
func TestOneSwitchHoldsUpNoOther(t *testing.T) {
	one := pipeline(t, 42)
	k, _ := start(t, always)
	for n, faults := range []switchpeer.Faults{{Mute: true}, {Delay: time.Hour}, {LoseWrites: true}, {Garble: func(r *p4.ReadResponse) { r.Entities = append(r.Entities, nil, &p4.Entity{}) }}} {
		p := peer(t)
		p.Misbehave(func(f *switchpeer.Faults) { *f = faults })
		k.Set(fmt.Sprint("bad-", n), Desired{Generation: 1, Target: target(p), Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag})
	}
	p := peer(t)
	k.Set("good", Desired{Generation: 1, Target: target(p), Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag})
	until(t, k, "good", "the good one", settled(1))
	holds(t, p, one.Info, entries(t, one.Info, []uint64{1}, 1))
}

// Without a lease nothing is even connected to.
func TestWithoutLease(t *testing.T) {
	p, one := peer(t), pipeline(t, 42)
	k := &Keeper{Term: func(context.Context) (Term, error) { return Term{}, errors.New("no lease") }, Now: time.Now, Patience: quick,
		Period: time.Millisecond, First: time.Millisecond, Longest: time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = k.Start(ctx) }()
	k.Set("leaf", Desired{Generation: 1, Target: target(p), Pipeline: one, Wanted: entries(t, one.Info, []uint64{1}, 1), Ranks: ranks, Tag: tag})
	until(t, k, "leaf", "the fault", faulty(link.Fenced, "no lease"))
	if c := p.Counts(); c.Writes+c.Pushes+c.Refused != 0 {
		t.Errorf("%+v", c)
	}
}

// losses are mishaps after which an entry may point at what is gone, whatever the order.
var losses = []func(p *switchpeer.Peer, r *rand.Rand){
	func(p *switchpeer.Peer, r *rand.Rand) { p.Lose(1 + r.IntN(4)) },
	func(p *switchpeer.Peer, _ *rand.Rand) { p.Restart() },
	func(p *switchpeer.Peer, _ *rand.Rand) {
		p.Misbehave(func(f *switchpeer.Faults) { f.LoseWrites = true })
	},
	func(p *switchpeer.Peer, r *rand.Rand) {
		p.Change(func(e *p4.Entity) {
			if a := e.GetTableEntry().GetAction().GetAction(); a != nil && len(a.Params) > 0 {
				a.Params[len(a.Params)-1].Value = []byte{byte(1 + r.IntN(7))}
			}
		})
	},
}

// mishaps are others.
var mishaps = []func(p *switchpeer.Peer, r *rand.Rand){
	func(p *switchpeer.Peer, _ *rand.Rand) { p.Cut() },
	func(p *switchpeer.Peer, r *rand.Rand) {
		p.Misbehave(func(f *switchpeer.Faults) { f.RefuseEvery = 1 + r.IntN(3) })
	},
	func(p *switchpeer.Peer, r *rand.Rand) {
		p.Misbehave(func(f *switchpeer.Faults) { f.Delay = time.Duration(r.IntN(30)) * time.Millisecond })
	},
	func(p *switchpeer.Peer, _ *rand.Rand) {
		p.Misbehave(func(f *switchpeer.Faults) { f.RefuseEvery, f.WrongDetails = 2, true })
	},
	func(p *switchpeer.Peer, _ *rand.Rand) { p.Crowd(5)() },
	func(p *switchpeer.Peer, _ *rand.Rand) {
		p.Misbehave(func(f *switchpeer.Faults) { f.RefuseArbitration = true })
		p.Cut()
	},
}

// Whatever happened, when it is over the switch holds exactly what is wanted; leaders
// change meanwhile, and none writes after the next one came.
func TestFaultSweep(t *testing.T) {
	rounds, seed := 12, rand.Uint64()
	if testing.Short() {
		rounds = 3
	}
	var oldLeader, needless, left int
	for n := range rounds {
		seed := seed + uint64(n)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c, after := sweep(t, seed)
			oldLeader, needless, left = oldLeader+c.FromOldLeader, needless+c.PushesWithoutNeed, left+after
			if seed%2 == 0 && c.Dangling != 0 {
				t.Errorf("%d entries pointed at what was not there", c.Dangling)
			}
		})
	}
	t.Logf("switch_writes_from_old_leader %d, switch_pushes_without_need %d, switch_entries_after_delete %d", oldLeader, needless, left)
	if oldLeader+needless+left != 0 {
		t.Errorf("seed %d: all must be 0", seed)
	}
}

func sweep(t *testing.T, seed uint64) (counts switchpeer.Counts, left int) {
	r := rand.New(rand.NewPCG(seed, 2))
	p, one := peer(t), pipeline(t, 42)
	d := Desired{Target: target(p), Identity: "a", Pipeline: one, Ranks: ranks, Tag: tag}
	happens := mishaps
	if seed%2 == 1 {
		happens = append(slices.Clone(mishaps), losses...)
	}
	term := int64(1)
	k, end := start(t, func() Term { return Term{Number: 1} })
	for n := range 15 {
		d.Generation = int64(n)
		var services []uint64
		for s := range uint64(5) {
			if r.IntN(2) == 0 {
				services = append(services, s+1)
			}
		}
		d.Wanted = entries(t, one.Info, services, 1+r.Uint64N(3))
		k.Set("leaf", d)
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		if r.IntN(5) == 0 { // another leader; the one before may go on for a while
			before, number := end, term+1
			term = number
			k, end = start(t, func() Term { return Term{Number: number} })
			k.Set("leaf", d)
			time.AfterFunc(time.Duration(r.IntN(60))*time.Millisecond, before)
		}
		happens[r.IntN(len(happens))](p, r)
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		if r.IntN(3) == 0 {
			p.Misbehave(func(f *switchpeer.Faults) { *f = switchpeer.Faults{} })
		}
	}
	p.Misbehave(func(f *switchpeer.Faults) { *f = switchpeer.Faults{} })
	d.Generation = 100
	k.Set("leaf", d)
	until(t, k, "leaf", "what is wanted", settled(100))
	holds(t, p, one.Info, d.Wanted)
	d.Generation, d.Clear = 101, true
	k.Set("leaf", d)
	until(t, k, "leaf", "clearing", func(s State) bool { return s.Cleared && s.Generation == 101 })
	return p.Counts(), len(p.Held())
}
