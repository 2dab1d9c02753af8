// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// What is just within the bounds of a run is made, and what is just beyond them is not.
func TestBoundsOfARun(t *testing.T) {
	most := uint32(MostOfTemplates * float64(1_000_000))
	for _, c := range []struct {
		name   string
		run    Run
		change func(*Run)
		want   string
	}{
		{"as many targets as have a number", run("a", 1000, 1_000_000, MaxRunTargets), nil, ""},
		{"one more", run("a", 1000, 1_000_000, MaxRunTargets+1), nil, "targets, and at most"},
		{"no target", run("a", 1000, 1_000_000, 0), nil, "no target can be reached"},
		{"one packet a second", run("a", 1, 1_000_000, 1), nil, ""},
		{"none", run("a", 0, 1_000_000, 1), nil, "packets a second of"},
		{"the most packets", run("a", most, 1_000_000, 1), nil, ""},
		{"one more packet", run("a", most+1, 1_000_000, 1), nil, "packets a second of"},
		{"no network", run("a", 1000, 1_000_000, 1), func(r *Run) { r.Net = netip.Prefix{} }, "is no network of"},
		{"a network of IPv6", run("a", 1000, 1_000_000, 1), func(r *Run) { r.Net = netip.MustParsePrefix("fd00::/16") }, "is no network of"},
		{"a smaller network", run("a", 1000, 1_000_000, 1), func(r *Run) { r.Net = netip.MustParsePrefix("10.99.0.0/17") }, "is no network of"},
	} {
		r := c.run
		if c.change != nil {
			c.change(&r)
		}
		if got := r.fault(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The first run is made and each of the others is told whose load the switch makes, be the first one wrong or not.
func TestOneRunAtATime(t *testing.T) {
	i := infoOf(t, "slog")
	others := []Run{run("b", 1000, 1_000_000, 1), run("c", 0, 1_000_000, 1)}
	for name, wrong := range map[string]bool{"right": false, "wrong": true} {
		first := run("a", 1000, 1_000_000, 1)
		if wrong {
			first.Rate = 0
		}
		p := i.PlanRuns(append([]Run{first}, others...))
		refused := len(others)
		if wrong {
			refused++
		}
		if len(p.Refused) != refused || (len(p.Entries) == 0) != wrong {
			t.Errorf("%s: %d entries, refused %v", name, len(p.Entries), p.Refused)
		}
		for _, o := range others {
			if p.Refused[o.Name] != "the switch makes the load of demo/a" {
				t.Errorf("%s: %q", name, p.Refused[o.Name])
			}
		}
	}
	if p := i.PlanRuns(nil); len(p.Refused)+len(p.Entries) != 0 {
		t.Errorf("%+v", p)
	}
}

// Each target has its own counters, and latencies beyond the last bucket have no end.
func TestCellsOfARun(t *testing.T) {
	i := infoOf(t, "slog")
	id := i.counter(counterOutcomes).GetPreamble().GetId()
	got := i.RunCells(run("a", 1000, 1_000_000, 3))
	for at, want := range map[int64]Fate{2: Spent, 7: Unmatched, 4: Sent, 5: Received, 6: OutOfRange, 20: Sent, 21: Received, 22: OutOfRange, 36: Sent, 37: Received, 38: OutOfRange} {
		if got[Cell{id, at}] != want {
			t.Errorf("%d: %q, want %q", at, got[Cell{id, at}], want)
		}
	}
	if len(got) != 11 {
		t.Errorf("%d cells", len(got))
	}
	if _, has := i.RunEdge(runBuckets - 1); !has {
		t.Error("the last bucket has no end")
	}
	for _, bucket := range []int{runBuckets, runBeyond} {
		if d, has := i.RunEdge(bucket); has {
			t.Errorf("bucket %d ends at %v", bucket, d)
		}
	}
	for latency, want := range map[uint32]int{0: 0, 1: 1, 1<<runExactBits - 1: 1<<runExactBits - 1, 1 << runExactBits: 1 << runExactBits, 1<<runEndBits - 1: runBuckets - 1, 1 << runEndBits: runBeyond, 1<<32 - 1: runBeyond} {
		if got := runBucketOf(latency); got != want {
			t.Errorf("latency %d: bucket %d, want %d", latency, got, want)
		}
	}
	i.counter(counterOutcomes).Preamble.Name = "pipe.others"
	if got := i.RunCells(run("a", 1000, 1_000_000, 3)); len(got) != 0 {
		t.Errorf("without the counter: %v", got)
	}
}

// Packets of no service are counted for each program that has the counter, up to its last cell.
func TestCellsOfStrays(t *testing.T) {
	for _, program := range []string{"box", "aggregator"} {
		i := infoOf(t, program)
		all := strays[i.Program()]
		if got := i.StrayCells(); len(got) != len(all) || len(all) == 0 {
			t.Errorf("%s: %d cells, want %d", program, len(got), len(all))
		}
		within := 0
		for reason := range all {
			if reason < 12 {
				within++
			}
		}
		i.counter(counterOutcomes).Size = 12
		if got := i.StrayCells(); len(got) != within || within == len(all) {
			t.Errorf("%s: %d cells of a counter that ends at 12, want %d", program, len(got), within)
		}
	}
}

// How many entries a table holds is told, how many of ours are left over, and only so many are named.
func TestWhatASwitchHoldsIsCounted(t *testing.T) {
	i := testInfo(t)
	var rows []Row
	for n := range 3 {
		rows = append(rows, workerRow(uint64(n+1), uint64(n+1)))
	}
	held := bound(t, i, rows...)
	for n := range held {
		held[n].metadata = ours
	}
	table := held[0].table
	for keep, stale := range map[int]int{3: 0, 2: 1, 0: 3} {
		d := Compare(held[:keep], held, Owner{Tag: ours}, Ranks)
		if d.Used[table] != 3 || d.Stale != stale || d.Settled() != (stale == 0) || d.Strange != 0 || d.Missing != 0 {
			t.Errorf("%d kept: %+v", keep, d)
		}
	}
	if a, b := held[0], held[1]; !a.Says(a) || a.Says(b) || a.Says(Entry{key: a.key, value: "x"}) || a.Says(Entry{key: "x", value: a.value}) {
		t.Error("what two entries say")
	}
	var named []string
	for n := range maxReported + 2 {
		named = report(named, Entry{key: fmt.Sprint(n)})
	}
	if len(named) != maxReported {
		t.Errorf("%d are named, at most %d", len(named), maxReported)
	}
}

// A place takes a new worker into the first slot that is free, and refuses one more than it has.
func TestSlotsOfNewWorkers(t *testing.T) {
	w := workers(1, 4)
	p := Place{ID: 1, Slots: make([]netip.AddrPort, 3)}
	p.Slots[1] = w[0].Address
	got := p.with([]Worker{w[1], w[0], w[2]})
	if len(got.Slots) != 3 || got.Slots[0] != w[1].Address || got.Slots[1] != w[0].Address || got.Slots[2] != w[2].Address {
		t.Errorf("%v", got.Slots)
	}
	if got := p.with(w); got.Slots != nil || got.ID != 1 {
		t.Errorf("four in three slots: %+v", got)
	}
	if got := p.with(nil); len(got.Slots) != 3 || got.Slots[1].IsValid() {
		t.Errorf("of nobody: %+v", got)
	}
}
