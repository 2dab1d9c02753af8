// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/sven"
)

// busyPlane counts for one service whenever it is asked: as many requests as are enough, all of one latency. Its clock
// goes on with what is asked, not with time.
type busyPlane struct {
	mu    sync.Mutex
	info  *switches.Info
	cells map[switches.Cell]switches.Seen
	clock map[switches.Cell]int
	asked map[switches.Cell]uint64
	now   int
	slow  bool
}

func (p *busyPlane) Load(*p4.ForwardingPipelineConfig) error { return nil }
func (p *busyPlane) Unload()                                 {}
func (p *busyPlane) Put(*p4.Entity) error                    { return nil }
func (p *busyPlane) Remove(*p4.Entity) error                 { return nil }

const (
	objectiveTicks = 2000
	fastTicks      = 100
	slowTicks      = 9000
)

func (p *busyPlane) Count(id uint32, index int64) (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := switches.Cell{ID: id, Index: index}
	if n, is := p.clock[c]; is {
		if n == 0 { // a whole reading of the clock
			p.now++
		}
		digit := p.now % 64
		if n < 64 {
			digit = p.now / 64 % 64
		}
		if n%64 == digit {
			p.asked[c]++
		}
		return p.asked[c], true
	}
	lo, hi := switches.Objective{}.Range(p.cells[c].Number)
	latency := uint32(fastTicks)
	if p.slow {
		latency = slowTicks
	}
	switch of := p.cells[c]; {
	case of.Kind == switches.Admitted && of.Number == 0, of.Kind == switches.Timed,
		of.Kind == switches.InBucket && lo <= latency && latency <= hi:
		p.asked[c] += 5000
	}
	return p.asked[c], true
}

func (p *busyPlane) set(slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = slow
}

// steered is a keeper of a service with an objective, on a plane that is as busy as is asked.
func steered(t *testing.T) (*Keeper, *switchpeer.Peer, *busyPlane) {
	t.Helper()
	info := routerInfo(t)
	plane := &busyPlane{info: info, cells: info.MeasuredCells(switches.Place{ID: 1}), clock: map[switches.Cell]int{}, asked: map[switches.Cell]uint64{}}
	for n, c := range info.ClockCells() {
		plane.clock[c] = n
	}
	p, err := switchpeer.Start(switchpeer.Options{Device: 1, Dataplane: plane})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	s := switches.Service{Name: "demo/echo", Version: "one", Address: netip.MustParseAddrPort("192.0.2.1:8000"), Reports: netip.MustParseAddrPort("192.0.2.1:9000"),
		Choice: switches.ByCredit, Depth: 3, Held: 100, Patience: 1000, Loss: 1000, OwnMAC: 0x0200000000ff,
		Workers: []switches.Worker{{Address: netip.MustParseAddrPort("198.18.0.2:8000"), NextHop: switches.NextHop{MAC: 0x020000000001, Port: 1}}}}
	s.Objective = switches.Objective{Latency: objectiveTicks, Per100k: 99000}
	s.Objective.Droppable[0], s.Objective.Droppable[4] = true, true
	k, _ := start(t, always)
	k.Set("leaf", Desired{Generation: 1, Target: link.Target{Endpoint: p.Address(), DeviceID: 1}, Identity: "steer", Revision: "a",
		Pipeline: Pipeline{Info: info, Cookie: 5, Push: true}, Ranks: switches.Ranks, Tag: tag, Services: []switches.Service{s}})
	until(t, k, "leaf", "a switch that is programmed", settled(1))
	return k, p, plane
}

// rates are those that stand on the switch: the number of entries that refuse, and until when.
func rates(p *switchpeer.Peer, info *switches.Info) (refusing int, until uint64) {
	admit := info.TableID("admit")
	for _, e := range p.Held() {
		t := e.GetTableEntry()
		if t.GetTableId() != admit {
			continue
		}
		value := func(n int) (v uint64) {
			for _, b := range t.GetAction().GetAction().GetParams()[n].GetValue() {
				v = v<<8 | uint64(b)
			}
			return v
		}
		if value(2) > 0 {
			refusing++
			until = value(3)
		}
	}
	return refusing, until
}

// What is slower than the objective has the switch refuse, until a time of the switch's that is never far; what
// is faster has it let everybody in again. Reading back finds nothing to repair in it.
func TestSteering(t *testing.T) {
	k, p, plane := steered(t)
	info := plane.info
	plane.set(true)
	until(t, k, "leaf", "a switch that refuses", func(State) bool { n, _ := rates(p, info); return n > 0 })
	n, last := rates(p, info)
	plane.mu.Lock()
	now := uint64(plane.now % 4096)
	plane.mu.Unlock()
	if n != 1 && n != 2 { // class 0 is one label; class 4 follows when all of it is refused
		t.Errorf("%d entries refuse", n)
	}
	if moment := last >> switches.MomentBits; last&(1<<switches.MomentBits-1) != 0 || moment > now+3 || moment+4000 < now {
		t.Errorf("at moment %d of the switch rates count until %d", now, moment)
	}
	until(t, k, "leaf", "its shares for people", func(State) bool { return k.Measured("leaf")["demo/echo"].Shares[0] > 0 })
	plane.set(false)
	until(t, k, "leaf", "a switch that lets everybody in", func(State) bool { n, _ := rates(p, info); return n == 0 })
	if s, _ := k.State("leaf"); s.Repaired != 0 || s.Fault != nil {
		t.Errorf("%d entries were repaired, fault %v", s.Repaired, s.Fault)
	}
}

// What was measured is told by window, and as far back as it goes.
func TestMeasuredWindow(t *testing.T) {
	begin := time.Unix(1000, 0)
	info := routerInfo(t)
	place := switches.Place{ID: 1}
	d := Desired{Pipeline: Pipeline{Info: info}, Services: []switches.Service{{Name: "a", Objective: switches.Objective{Latency: objectiveTicks, Per100k: 99000}}}}
	seen := map[string]map[switches.Cell]switches.Seen{"a": info.LatencyCells(place)}
	cell := func(ticks uint32) (found switches.Cell) {
		for c, of := range seen["a"] {
			if lo, hi := (switches.Objective{}).Range(of.Number); lo <= ticks && ticks <= hi {
				found = c
			}
		}
		return found
	}
	read := map[switches.Cell]uint64{}
	for c := range seen["a"] {
		read[c] = 0
	}
	var g gauge
	counts := func(placed, shed uint64) map[string]Counted {
		return map[string]Counted{"a": {By: map[switches.Fate]uint64{switches.Placed: placed, switches.Shed: shed}}}
	}
	g.add(d, seen, counts(7, 0), read, begin)
	first := g.add(d, seen, counts(7, 0), read, begin.Add(5*time.Second))["a"]
	read[cell(100)] += 90
	g.add(d, seen, counts(97, 5), read, begin.Add(10*time.Second))
	read[cell(9000)] += 10
	m := g.add(d, seen, counts(107, 5), read, begin.Add(65*time.Second))["a"]
	w := m.Window(begin.Add(66*time.Second), time.Minute, 6)
	if w.Latency.Total() != 100 || w.Requests != 105 || w.Refused != 5 || w.Covered != time.Minute {
		t.Errorf("%d samples, %d requests, %d refused in %v", w.Latency.Total(), w.Requests, w.Refused, w.Covered)
	}
	if len(w.Parts) != 6 || w.Parts[0].Total() != 10 || w.Parts[5].Total() != 90 {
		t.Errorf("%d parts", len(w.Parts))
	}
	if p, _ := w.Latency.Percentile("50"); p.Nanoseconds < 101_000 || p.Nanoseconds > 106_000 {
		t.Errorf("the median is %d ns", p.Nanoseconds)
	}
	if w := m.Window(begin.Add(66*time.Second), 10*time.Second, 1); w.Latency.Total() != 10 || w.Refused != 0 {
		t.Errorf("of ten seconds %d samples", w.Latency.Total())
	}
	if first.Latency.Total() != 0 || len(first.slices) != 2 {
		t.Error("what was published changes")
	}
	if m.Latency.Total() != 100 || m.Since != begin {
		t.Errorf("%d samples since %v", m.Latency.Total(), m.Since)
	}
	old := g.add(d, seen, counts(107, 5), read, begin.Add(time.Hour))["a"]
	if w := old.Window(begin.Add(time.Hour), time.Minute, 1); w.Latency.Total() != 0 || len(old.slices) != 1 {
		t.Errorf("of an hour ago %d samples and %d slices are remembered", w.Latency.Total(), len(old.slices))
	}
	beyond := &ll7.Histogram{}
	record(beyond, edgesOf(d)["a"], 511, 3)
	if v, _ := beyond.Percentile("50"); v.Bound != ll7.AtLeast {
		t.Errorf("what is in no bucket is %+v", v)
	}
}

// What the latencies of a window say: how many were measured, how many were within the objective, and in which
// bucket the percentile lies, whatever the order in which they are read.
func TestJudge(t *testing.T) {
	o := switches.Objective{Latency: objectiveTicks, Per100k: 99000}
	bucket := func(ticks uint32) int {
		for b := range 512 {
			if lo, hi := o.Range(b); lo <= ticks && ticks <= hi {
				return b
			}
		}
		t.Fatalf("no bucket counts %d ticks", ticks)
		return 0
	}
	fast, own, slow := bucket(fastTicks), bucket(objectiveTicks), bucket(slowTicks)
	const tick, beyond = time.Microsecond, 511
	edge := func(b int) time.Duration { at, _ := o.Edge(b, tick); return at }
	for name, c := range map[string]struct {
		by     map[int]uint64
		within uint64
		at     time.Duration
	}{
		"nothing":                       {nil, 0, 0},
		"all within":                    {map[int]uint64{fast: 900, own: 100}, 1000, edge(own)},
		"all but the slowest hundredth": {map[int]uint64{fast: 989, own: 1, slow: 10}, 990, edge(own)},
		"one above it":                  {map[int]uint64{fast: 989, own: 0, slow: 11}, 989, edge(slow)},
		"a rank that is rounded up":     {map[int]uint64{fast: 1, slow: 1}, 1, edge(slow)},
		"more than is measured":         {map[int]uint64{fast: 80, beyond: 20}, 80, sven.Never},
	} {
		var report sven.Report
		judge(&report, o, c.by, tick)
		var all uint64
		for _, n := range c.by {
			all += n
		}
		if report.Samples != all || report.Within != c.within || report.Percentile != c.at {
			t.Errorf("%s: %d samples, %d within, percentile %v; want %d, %d, %v", name, report.Samples, report.Within, report.Percentile, all, c.within, c.at)
		}
	}
}
