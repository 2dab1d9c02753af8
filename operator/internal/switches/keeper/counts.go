// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// Counted is what a switch counted of a service since Since. Cells of a switch belong to
// places, which services have one after the other, and begin anew with the pipeline: so what
// is kept here are sums of differences.
type Counted struct {
	Since time.Time
	By    map[switches.Fate]uint64
}

// Nobody is the name under which packets are counted that are of no service.
const Nobody = ""

// Requests are all that came, as far as it is known what became of them.
func (c Counted) Requests() uint64 { return c.By[switches.Placed] + c.Refused() }

// Refused are requests that were answered with DROP.
func (c Counted) Refused() (n uint64) {
	for fate, more := range c.By {
		if fate.Refused() {
			n += more
		}
	}
	return n
}

// Counts are what a switch has counted of its services, by name: since this process began to
// look after it, so that they begin anew with every leader.
func (k *Keeper) Counts(name string) map[string]Counted {
	k.mu.Lock()
	c := k.all[name]
	k.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// tally adds up what cells say.
type tally struct {
	last   map[switches.Cell]uint64
	counts map[string]Counted
}

// advance says how far a cell went on since the last reading, and remembers it among the new ones.
func advance(last, now, read map[switches.Cell]uint64, cell switches.Cell) uint64 {
	n, answered := read[cell]
	was, known := last[cell]
	switch {
	case !answered && known:
		now[cell] = was
	case answered:
		now[cell] = n
	}
	switch {
	case !answered || !known:
		return 0
	case n < was:
		return n
	}
	return n - was
}

// add takes what was read of the cells of each service. A cell that nobody has read before
// begins there: whoever had the place counted it. One that fell began anew.
func (t *tally) add(cells map[string]map[switches.Cell]switches.Fate, read map[switches.Cell]uint64, now time.Time) map[string]Counted {
	last, counts := map[switches.Cell]uint64{}, map[string]Counted{}
	for name, of := range cells {
		sum := Counted{Since: now, By: map[switches.Fate]uint64{}}
		if before, had := t.counts[name]; had {
			sum = Counted{Since: before.Since, By: maps.Clone(before.By)}
		}
		for cell, fate := range of {
			sum.By[fate] += advance(t.last, last, read, cell) // it is shown from the beginning
		}
		counts[name] = sum
	}
	t.last, t.counts = last, counts
	return counts
}

// count reads the counters of the services that the switch holds.
func (r *round) count(ctx context.Context, d Desired) *link.Fault {
	if d.Clear || r.uncounted {
		return nil
	}
	cells := map[string]map[switches.Cell]switches.Fate{Nobody: d.Pipeline.Info.StrayCells()}
	all := slices.Collect(maps.Keys(cells[Nobody]))
	seen := map[string]map[switches.Cell]switches.Seen{}
	for _, s := range d.Services {
		if place, placed := r.places[s.Name]; placed {
			cells[s.Name] = d.Pipeline.Info.CellsOf(place)
			seen[s.Name] = d.Pipeline.Info.LatencyCells(place)
			all = slices.AppendSeq(slices.AppendSeq(all, maps.Keys(cells[s.Name])), maps.Keys(seen[s.Name]))
		}
	}
	for _, v := range d.VIPs {
		of := d.Pipeline.Info.VIPCells(r.numbers[v.At.String()])
		if cells[v.Name] == nil {
			cells[v.Name] = map[switches.Cell]switches.Fate{}
		}
		maps.Copy(cells[v.Name], of)
		all = slices.AppendSeq(all, maps.Keys(of))
	}
	for _, g := range d.Groups {
		if number, has := g.NumberIn(r.numbers); has {
			cells[g.Name] = d.Pipeline.Info.GroupCells(number)
			all = slices.AppendSeq(all, maps.Keys(cells[g.Name]))
		}
	}
	for _, b := range d.Boxes {
		if number, has := b.NumberIn(r.numbers); has {
			cells[b.Name] = d.Pipeline.Info.BoxCells(number)
			all = slices.AppendSeq(all, maps.Keys(cells[b.Name]))
		}
	}
	if len(d.Runs) > 0 {
		first := d.Runs[0]
		cells[first.Name] = d.Pipeline.Info.RunCells(first)
		seen[first.Name] = d.Pipeline.Info.RunLatencies()
		all = slices.AppendSeq(slices.AppendSeq(all, maps.Keys(cells[first.Name])), maps.Keys(seen[first.Name]))
	}
	read, known, err := r.session.Counters(ctx, all)
	if err != nil {
		return link.FaultOf(err)
	}
	if !known {
		r.uncounted = true
		return nil
	}
	now := r.keeper.Now()
	counts := r.tally.add(cells, read, now)
	measured := r.gauge.add(d, seen, counts, read, now)
	for name, m := range measured {
		m.Shares = r.sharesOf(name)
		measured[name] = m
	}
	r.charge.mu.Lock()
	r.charge.counts, r.charge.measured = counts, measured
	r.charge.mu.Unlock()
	return nil
}
