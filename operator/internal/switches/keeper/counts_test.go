// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"net/netip"
	"os"
	"sync"
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

// What the switch counts of a service is read with everything else. A server without such
// reads is served all the same, and one that answers nonsense is said to be broken.
func TestCounts(t *testing.T) {
	plane := &countingPlane{cells: map[switches.Cell]uint64{}}
	p, err := switchpeer.Start(switchpeer.Options{Device: 1, Dataplane: plane})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	text, err := os.ReadFile("../testdata/router.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	info, err := switches.ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	k, _ := start(t, always)
	worker := netip.MustParseAddrPort("198.18.0.2:8000")
	d := Desired{Generation: 1, Target: link.Target{Endpoint: p.Address(), DeviceID: 1}, Identity: "counts", Revision: "a",
		Pipeline: Pipeline{Info: info, Cookie: 5, Push: true}, Ranks: switches.Ranks, Tag: tag,
		Services: []switches.Service{{Name: "echo", Version: "one", Address: netip.MustParseAddrPort("192.0.2.1:8000"), Reports: netip.MustParseAddrPort("192.0.2.1:9000"),
			Choice: switches.ByCredit, Depth: 3, Held: 100, Patience: 1000, Loss: 1000, OwnMAC: 0x0200000000ff,
			Workers: []switches.Worker{{Address: worker, NextHop: switches.NextHop{MAC: 0x020000000001, Port: 1}}}}}}
	k.Set("leaf", d)
	until(t, k, "leaf", "a switch that is programmed", settled(1))
	if c, had := k.Counts("leaf")["echo"]; !had || c.By[switches.Placed] != 0 {
		t.Errorf("counted from the beginning: %+v, %v", c, had)
	}
	place := switches.Place{ID: 0, Base: 0, Rows: 1, Slots: []netip.AddrPort{worker}}
	for cell, fate := range info.CellsOf(place) {
		switch fate {
		case switches.Placed:
			plane.set(cell, 900)
		case switches.Late:
			plane.set(cell, 7)
		}
	}
	counted := func(State) bool {
		c := k.Counts("leaf")["echo"]
		return c.By[switches.Placed] == 900 && c.By[switches.Late] == 7 && c.Refused() == 7
	}
	until(t, k, "leaf", "what the switch has counted", counted)

	p.Misbehave(func(f *switchpeer.Faults) {
		f.Garble = func(r *p4.ReadResponse) {
			for _, e := range r.GetEntities() {
				if c := e.GetCounterEntry(); c != nil {
					c.Data.PacketCount = -5
					c.Index.Index += 1 << 40
				}
			}
		}
	})
	for range 3 { // the session goes on, and nothing is added
		s := until(t, k, "leaf", "a round", settled(1))
		if !counted(s) {
			t.Fatalf("nonsense was counted: %+v", k.Counts("leaf"))
		}
	}
	p.Misbehave(func(f *switchpeer.Faults) {
		f.Garble = func(r *p4.ReadResponse) {
			for _, e := range r.GetEntities() {
				if e.GetCounterEntry() != nil {
					r.Entities = append(r.Entities, r.Entities...)
					return
				}
			}
		}
	})
	until(t, k, "leaf", "a server that answers too much", faulty(link.Broken, "answers for more counters"))
	p.Misbehave(func(f *switchpeer.Faults) { f.Garble, f.NoCounters = nil, true })
	until(t, k, "leaf", "a server without counters", settled(1))
	k.Forget("leaf")
	if c := k.Counts("leaf"); c != nil {
		t.Errorf("a switch that is forgotten has counts: %+v", c)
	}
}
