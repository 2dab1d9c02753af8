// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/sven"
)

// remembered is how far back slices reach, as those of a router do.
const remembered = 10 * time.Minute

// slice is what was measured between two readings.
type slice struct {
	until             time.Time
	requests, refused uint64
	latency           ll7.Sparse
}

// Measured is what a switch measured of a service: from a request's coming to the switch to its FEEDBACK's.
type Measured struct {
	// Since is when this process began to read, and At when it did last.
	Since, At time.Time
	// Requests came since then, and Refused of them were answered with DROP.
	Requests, Refused uint64
	// Latency is of all of them.
	Latency *ll7.Histogram
	// Shares of the classes are refused now, in units of 2^-16.
	Shares [sven.Classes]uint16

	slices []slice
}

// Measured is what a switch has measured of its services, by name: since this process began to look after it.
func (k *Keeper) Measured(name string) map[string]Measured {
	k.mu.Lock()
	c := k.all[name]
	k.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.measured
}

// Window is what was measured in a stretch of time up to now.
type Window struct {
	Latency           *ll7.Histogram
	Requests, Refused uint64
	// Covered is how far back it reaches.
	Covered time.Duration
	// Parts are the same in equal stretches, the newest first, as far back as there is something.
	Parts []*ll7.Histogram
}

// Window of a length, told in so many parts.
func (m Measured) Window(now time.Time, length time.Duration, parts int) Window {
	out := Window{Latency: &ll7.Histogram{}, Covered: min(length, max(now.Sub(m.Since), 0))}
	stretch := length / time.Duration(parts)
	for _, s := range m.slices {
		age := max(now.Sub(s.until), 0)
		if age >= length {
			continue
		}
		out.Latency.MergeSparse(s.latency)
		out.Requests, out.Refused = out.Requests+s.requests, out.Refused+s.refused
		at := min(int(age/stretch), parts-1)
		for len(out.Parts) <= at {
			out.Parts = append(out.Parts, &ll7.Histogram{})
		}
		out.Parts[at].MergeSparse(s.latency)
	}
	return out
}

// gauge adds up what is measured.
type gauge struct {
	last map[switches.Cell]uint64
	by   map[string]Measured
}

// add takes what was read of latencies, and what was counted with it. What was published before is not touched.
func (g *gauge) add(d Desired, seen map[string]map[switches.Cell]switches.Seen, counts map[string]Counted, read map[switches.Cell]uint64, now time.Time) map[string]Measured {
	last, by := map[switches.Cell]uint64{}, map[string]Measured{}
	edges := edgesOf(d)
	for name, cells := range seen {
		if len(cells) == 0 {
			continue
		}
		m, had := g.by[name]
		if !had {
			m = Measured{Since: now, Latency: &ll7.Histogram{}}
		}
		fresh := &ll7.Histogram{}
		for cell, of := range cells {
			record(fresh, edges[name], of.Number, advance(g.last, last, read, cell))
		}
		next := slice{until: now, latency: fresh.Sparse(), requests: counts[name].Requests() - m.Requests, refused: counts[name].Refused() - m.Refused}
		m.At, m.Requests, m.Refused = now, counts[name].Requests(), counts[name].Refused()
		m.Latency = m.Latency.Clone()
		m.Latency.Merge(fresh)
		m.slices = append(slices.DeleteFunc(slices.Clone(m.slices), func(s slice) bool { return now.Sub(s.until) > remembered }), next)
		by[name] = m
	}
	g.last, g.by = last, by
	return by
}

// edge is the highest latency of a bucket; false: nothing is.
type edge func(bucket int) (time.Duration, bool)

// edgesOf are those of the buckets of everybody who is measured.
func edgesOf(d Desired) map[string]edge {
	out := map[string]edge{}
	tick := d.Pipeline.Info.Tick()
	for _, s := range d.Services {
		out[s.Name] = func(bucket int) (time.Duration, bool) { return s.Objective.Edge(bucket, tick) }
	}
	for _, r := range d.Runs {
		out[r.Name] = d.Pipeline.Info.RunEdge
	}
	return out
}

// record adds latencies of a bucket at its upper end: the doubt goes against the service. What lies beyond the last one
// lies beyond everything.
func record(to *ll7.Histogram, of edge, bucket int, times uint64) {
	if times == 0 {
		return
	}
	if edge, finite := of(bucket); finite {
		to.RecordMany(uint64(edge), times)
		return
	}
	to.RecordMany(ll7.OverflowEdge, times)
}
