// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// Cells belong to places: what was counted there before is not a service's, and a cell that
// fell began anew with the pipeline (W-12).
func TestTally(t *testing.T) {
	a, b := switches.Cell{ID: 1, Index: 33}, switches.Cell{ID: 2, Index: 1}
	of := map[string]map[switches.Cell]switches.Fate{"echo": {a: switches.Full, b: switches.Placed}}
	var tl tally
	now := time.Unix(1000, 0)
	for n, row := range []struct {
		read         map[switches.Cell]uint64
		full, placed uint64
	}{
		{map[switches.Cell]uint64{a: 70, b: 500}, 0, 0}, // of whoever had the place
		{map[switches.Cell]uint64{a: 75, b: 1500}, 5, 1000},
		{map[switches.Cell]uint64{b: 1600}, 5, 1100}, // a was not answered
		{map[switches.Cell]uint64{a: 76, b: 1600}, 6, 1100},
		{map[switches.Cell]uint64{a: 2, b: 10}, 8, 1110}, // another pipeline
	} {
		c := tl.add(of, row.read, now.Add(time.Duration(n)*time.Second))["echo"]
		if c.By[switches.Full] != row.full || c.By[switches.Placed] != row.placed || c.Refused() != row.full || !c.Since.Equal(now) {
			t.Errorf("reading %d: %+v, want %d full and %d placed since %s", n, c, row.full, row.placed, now)
		}
	}
	if left := tl.add(nil, nil, now); len(left) != 0 || len(tl.last) != 0 {
		t.Errorf("a service that left is still counted: %+v, %+v", left, tl.last)
	}
}

// countingPlane forwards nothing, and counts what it is told.
type countingPlane struct {
	mu    sync.Mutex
	cells map[switches.Cell]uint64
}

func (*countingPlane) Load(*p4.ForwardingPipelineConfig) error { return nil }
func (*countingPlane) Unload()                                 {}
func (*countingPlane) Put(*p4.Entity) error                    { return nil }
func (*countingPlane) Remove(*p4.Entity) error                 { return nil }

func (p *countingPlane) Count(id uint32, index int64) (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cells[switches.Cell{ID: id, Index: index}], true
}

func (p *countingPlane) set(c switches.Cell, n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cells[c] = n
}

// counted is a keeper with a switch that counts for one service, which has one worker.
type counted struct {
	plane *countingPlane
	peer  *switchpeer.Peer
	k     *Keeper
	cells map[switches.Cell]switches.Fate
}

func newCounted(t *testing.T) counted {
	t.Helper()
	c := counted{plane: &countingPlane{cells: map[switches.Cell]uint64{}}}
	var err error
	if c.peer, err = switchpeer.Start(switchpeer.Options{Device: 1, Dataplane: c.plane}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.peer.Stop)
	info := routerInfo(t)
	worker := netip.MustParseAddrPort("198.18.0.2:8000")
	c.cells = info.CellsOf(switches.Place{ID: 1, Rows: 1, Slots: []netip.AddrPort{worker}})
	c.k, _ = start(t, always)
	c.k.Set("leaf", Desired{Generation: 1, Target: link.Target{Endpoint: c.peer.Address(), DeviceID: 1}, Identity: "counts", Revision: "a",
		Pipeline: Pipeline{Info: info, Cookie: 5, Push: true}, Ranks: switches.Ranks, Tag: tag,
		Services: []switches.Service{{Name: "echo", Version: "one", Address: netip.MustParseAddrPort("192.0.2.1:8000"), Reports: netip.MustParseAddrPort("192.0.2.1:9000"),
			Choice: switches.ByCredit, Depth: 3, Held: 100, Patience: 1000, Loss: 1000, OwnMAC: 0x0200000000ff,
			Workers: []switches.Worker{{Address: worker, NextHop: switches.NextHop{MAC: 0x020000000001, Port: 1}}}}}})
	until(t, c.k, "leaf", "a switch that is programmed", settled(1))
	return c
}

// routerInfo is of the router program.
func routerInfo(t *testing.T) *switches.Info {
	t.Helper()
	text, err := os.ReadFile("../testdata/router.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	info, err := switches.ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// garble has every answer changed that holds a counter.
func (c counted) garble(change func(*p4.ReadResponse, *p4.CounterEntry)) {
	c.peer.Misbehave(func(f *switchpeer.Faults) {
		f.Garble = func(r *p4.ReadResponse) {
			for _, e := range r.GetEntities() {
				if entry := e.GetCounterEntry(); entry != nil {
					change(r, entry)
				}
			}
		}
	})
}

// What the switch counts of a service is read with everything else. A server without such
// reads is served all the same, and one that answers nonsense adds nothing, or is said to be
// broken.
func TestCounts(t *testing.T) {
	c := newCounted(t)
	if got, had := c.k.Counts("leaf")["echo"]; !had || got.By[switches.Placed] != 0 {
		t.Errorf("counted from the beginning: %+v, %v", got, had)
	}
	for cell, fate := range c.cells {
		switch fate {
		case switches.Placed:
			c.plane.set(cell, 900)
		case switches.Late:
			c.plane.set(cell, 7)
		case switches.Astray:
			c.plane.set(cell, 3)
		}
	}
	for cell, fate := range routerInfo(t).StrayCells() {
		if fate == switches.Strange {
			c.plane.set(cell, 11)
		}
	}
	right := func(State) bool {
		got, nobodys := c.k.Counts("leaf")["echo"], c.k.Counts("leaf")[Nobody]
		return got.By[switches.Astray] == 3 && nobodys.By[switches.Strange] == 11 && got.By[switches.Placed] == 900 && got.By[switches.Late] == 7 && got.Refused() == 7
	}
	until(t, c.k, "leaf", "what the switch has counted", right)

	var answers atomic.Int64
	c.garble(func(_ *p4.ReadResponse, e *p4.CounterEntry) {
		e.Data.PacketCount = -5
		e.Index.Index += 1 << 40
		answers.Add(1)
	})
	until(t, c.k, "leaf", "some rounds of nonsense", func(State) bool { return answers.Load() > int64(4*len(c.cells)) })
	if s, _ := c.k.State("leaf"); !right(s) || s.Fault != nil {
		t.Errorf("nonsense was counted: %+v, %v", c.k.Counts("leaf"), s.Fault)
	}
	c.garble(func(r *p4.ReadResponse, _ *p4.CounterEntry) {
		if len(r.Entities) <= 4*len(c.cells) { // those of nobody are read as well
			r.Entities = append(r.Entities, r.Entities...)
		}
	})
	until(t, c.k, "leaf", "a server that answers too much", faulty(link.Broken, "answers for more counters"))
	c.peer.Misbehave(func(f *switchpeer.Faults) { f.Garble, f.NoCounters = nil, true })
	until(t, c.k, "leaf", "a server without counters", settled(1))
	c.k.Forget("leaf")
	if got := c.k.Counts("leaf"); got != nil {
		t.Errorf("a switch that is forgotten has counts: %+v", got)
	}
}
