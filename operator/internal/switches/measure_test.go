// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Every latency is in the bucket that says so, buckets follow one another without a gap, and each is one block.
func TestBuckets(t *testing.T) {
	next := uint32(0)
	for b := range lastBucket {
		lo, hi := bucketRange(b)
		if lo != next || hi < lo || bucketOf(lo) != b || bucketOf(hi) != b {
			t.Fatalf("bucket %d is %d to %d, after %d; its ends are in %d and %d", b, lo, hi, next, bucketOf(lo), bucketOf(hi))
		}
		if n := len(blocks(uint64(lo), uint64(hi), 32)); n != 1 {
			t.Errorf("bucket %d is %d blocks", b, n)
		}
		if width := hi - lo + 1; lo >= 64 && width*16 > lo || lo >= 64 && lo < 1<<15 && width*32 > lo {
			t.Errorf("bucket %d of %d to %d is too wide", b, lo, hi)
		}
		next = hi + 1
	}
	if next != 1<<endBits || bucketOf(next) != beyond || lastBucket >= aboveObjective {
		t.Errorf("%d buckets end at %d", lastBucket, next)
	}
}

// What an objective cuts is told apart for its service, and for no other.
func TestObjectiveCutsItsBucket(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		prog, err := model.Load("../../../dataplane/p4/router/"+shell+".p4", nil)
		if err != nil {
			t.Fatal(err)
		}
		i, err := NewInfo(prog.P4Info())
		if err != nil {
			t.Fatal(err)
		}
		s := service("a", ByCredit, 3, workers(1, 2))
		s.Objective = Objective{Latency: 2000, Per100k: 99000}
		p := Place{ID: 5}
		rows := s.splitRows(p.measure())
		bound, err := i.bindAll(rows)
		if err != nil || len(bound) == 0 || len(bound) != s.measuredEntries()[tableBucket] {
			t.Fatalf("%s: %d entries, %v", shell, len(bound), err)
		}
		lo, hi := bucketRange(bucketOf(2000))
		for v := lo; v <= hi; v++ {
			want := bucketOf(2000)
			if v > 2000 {
				want = aboveObjective
			}
			found := -1
			for _, r := range rows {
				if m := r.Match[1]; uint64(v)&m.Mask == m.Value {
					found = int(r.Args[0].Value)
				}
			}
			if found != want {
				t.Fatalf("%d ticks are in bucket %d, want %d", v, found, want)
			}
		}
		if s.Objective.Within(aboveObjective) || !s.Objective.Within(bucketOf(2000)) || s.Objective.Within(bucketOf(2000)+1) || s.Objective.Within(beyond) {
			t.Error("buckets are on the wrong side of the objective")
		}
		tick := i.Tick()
		if edge, _ := s.Objective.Edge(bucketOf(2000), tick); edge != 2001*tick-1 {
			t.Errorf("the objective's bucket ends at %v", edge)
		}
		if edge, _ := s.Objective.Edge(aboveObjective, tick); edge != time.Duration(hi+1)*tick-1 {
			t.Errorf("the one above it ends at %v, want %d ticks", edge, hi+1)
		}
		if _, finite := s.Objective.Edge(beyond, tick); finite {
			t.Error("what is in no bucket has an end")
		}
	}
}

// Rates stand with the classes that may be refused, and never with who asks not to be.
func TestAdmitRows(t *testing.T) {
	s := service("a", ByCredit, 3, workers(1, 1))
	s.Objective = Objective{Latency: 2000, Per100k: 99000, Until: 77}
	s.Objective.Shares[0], s.Objective.Shares[7] = 1000, 65000
	classOf := func(class, flags uint64) (rate, until, number uint64, n int) {
		for _, r := range s.admitRows(Place{ID: 3}) {
			if m := r.Match[2]; (class<<8|flags)&m.Mask == m.Value {
				number, rate, until, n = r.Args[0].Value, r.Args[2].Value, r.Args[3].Value, n+1
			}
		}
		return
	}
	want := map[uint64]uint64{0: 0, 1: 0, 3: 0, 4: 4, 5: 5, 6: 6, 7: 7, 8: 7, 200: 7, 255: 7}
	for label, class := range want {
		for flags := range uint64(4) {
			rate, until, number, n := classOf(label, flags)
			share, time := uint64(s.Objective.Shares[class]), uint64(77)
			if flags&1 == 1 || share == 0 {
				share, time = 0, 0
			}
			if n != 1 || number != 3<<3|class || rate != share || until != time {
				t.Errorf("class %d with flags %d: %d entries, number %d, rate %d until %d", label, flags, n, number, rate, until)
			}
		}
	}
}

// A service is refused by name where its objective could not be enforced.
func TestObjectiveThatCannotBeEnforced(t *testing.T) {
	s := service("a", ByCredit, 1, workers(1, 1))
	s.Objective = Objective{Latency: 2000, Per100k: 99000}
	var before []Service
	for n := range Measures - 1 {
		before = append(before, service(fmt.Sprint("s", n), ByCredit, 1, nil))
	}
	i := routerInfo(t)
	if now, refused := Allocate(nil, append(before, s), i); len(now) != Measures-1 || !strings.Contains(strings.Join(refused, ""), "service a: it is service 128 of the switch, which measures 127") {
		t.Errorf("%v", refused)
	}
	if now, refused := Allocate(nil, append(before[1:], s), i); len(refused) > 0 || now["a"].measure() != 127 {
		t.Errorf("%v", refused)
	}
	old := routerInfo(t)
	delete(old.byName, tableAdmit)
	if _, refused := Allocate(nil, []Service{s}, old); len(refused) != 1 || !strings.Contains(refused[0], "no tables of admission control") {
		t.Errorf("%v", refused)
	}
	timeless := routerInfo(t)
	timeless.P4.Counters = slices.DeleteFunc(timeless.P4.Counters, func(c *p4config.Counter) bool { return c.GetPreamble().GetAlias() == "moments" })
	if _, refused := Allocate(nil, []Service{s}, timeless); len(refused) != 1 {
		t.Errorf("a program that tells no time: %v", refused)
	}
	s.Objective.Latency = 1 << endBits
	if _, refused := Allocate(nil, []Service{s}, i); len(refused) != 1 || !strings.Contains(refused[0], "16777216 ticks, and the switch tells latencies apart up to 16777215") {
		t.Errorf("an objective beyond all buckets: %v", refused)
	}
	s.Objective = Objective{}
	if _, refused := Allocate(nil, []Service{s}, old); len(refused) > 0 {
		t.Errorf("an older pipeline: %v", refused)
	}
}

// The program counts under number 0 what is of no service: nobody gets it, and who has it moves.
func TestNobodysNumber(t *testing.T) {
	i := routerInfo(t)
	s := service("a", ByCredit, 3, workers(1, 2))
	had := Places{"a": {ID: nobody, Base: 0, Rows: 1, Slots: make([]netip.AddrPort, Slots)}}
	for name, before := range map[string]Places{"fresh": nil, "had it": had} {
		now, refused := Allocate(before, []Service{s}, i)
		if len(refused) > 0 || now["a"].ID == nobody || before != nil && now["a"].Base == 0 {
			t.Errorf("%s: %+v, %v", name, now["a"], refused)
		}
	}
}

// The last digit that counted is the time, across both wraps; an idle switch tells nothing.
func TestClock(t *testing.T) {
	i := routerInfo(t)
	cells := i.ClockCells()
	counts := map[Cell]uint64{}
	tick := func(m int) {
		counts[cells[m/digits%digits]]++
		counts[cells[digits+m%digits]]++
	}
	read := func() map[Cell]uint64 {
		out := map[Cell]uint64{}
		for _, c := range cells {
			out[c] = counts[c]
		}
		return out
	}
	var c Clock
	tick(70)
	if _, ok := c.Read(i, read()); ok {
		t.Error("a first reading tells the time")
	}
	if _, ok := c.Read(i, read()); ok {
		t.Error("nothing came, and the time is known")
	}
	for _, row := range [][]int{{70}, {70, 71}, {126, 127, 128}, {4094, 4095, 4096, 4097}} {
		for _, m := range row {
			tick(m)
		}
		want := Moment(row[len(row)-1] % moments)
		if got, ok := c.Read(i, read()); !ok || got != want {
			t.Errorf("after %v it is %d, %v", row, got, ok)
		}
	}
	for m := range 70 {
		tick(m)
	}
	if _, ok := c.Read(i, read()); ok {
		t.Error("digits that all counted tell the time")
	}
	tick(3)
	tick(5)
	if _, ok := c.Read(i, read()); ok {
		t.Error("two runs tell the time")
	}
	counts = map[Cell]uint64{}
	if _, ok := c.Read(i, read()); ok {
		t.Error("counters that began anew tell the time")
	}
	if Moment(4095).After(2) != 1 || Moment(3).Ticks() != 3<<20 {
		t.Error("moments are not what the switch makes of its clock")
	}
}

// What is counted of a service is told apart by what it means.
func TestMeasuredCells(t *testing.T) {
	i := routerInfo(t)
	all := i.MeasuredCells(Place{ID: 5})
	if len(all) != 2*5+4+lastBucket+2 {
		t.Errorf("%d cells", len(all))
	}
	at := func(name string, index int64) Seen { return all[Cell{i.counter(name).GetPreamble().GetId(), index}] }
	for _, row := range []struct {
		got, want Seen
	}{
		{at(counterClasses, (5<<3|4)<<1|1), Seen{Refused, 4}}, {at(counterClasses, 5<<4), Seen{Admitted, 0}},
		{at(counterNotes, 5<<3|4), Seen{Kind: Timed}}, {at(counterNotes, 5<<3|6), Seen{Kind: Done}},
		{at(counterLatencies, 5<<9|511), Seen{InBucket, beyond}}, {at(counterLatencies, 5<<9|17), Seen{InBucket, 17}},
	} {
		if row.got != row.want {
			t.Errorf("%+v, want %+v", row.got, row.want)
		}
	}
	if len(i.MeasuredCells(Place{ID: 128})) != 0 || len(testInfo(t).MeasuredCells(Place{ID: 5})) != 0 {
		t.Error("a service without a histogram has cells")
	}
}
