// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/sven"
)

// helms steer the admission of services by what the switch counts. They are of the goroutine that writes
// to the switch, so that nothing else writes meanwhile.
type helms struct {
	by    map[string]*helm
	clock switches.Clock
	// moment was the switch's time at a time of ours.
	moment switches.Moment
	at     time.Time
}

// helm is of one service.
type helm struct {
	loop  *sven.Loop
	place int // number of the service at the switch
	next  time.Time
	// begun is when the window began, and what the cells said then.
	begun         time.Time
	flow, latency map[switches.Cell]uint64
	// shares and until are what was written last.
	shares [sven.Classes]uint16
	until  uint32
}

// steered are services with the rates that were written last, so that reading back finds them right.
func (h *helms) steered(services []switches.Service) []switches.Service {
	out := slices.Clone(services)
	for n := range out {
		if one := h.by[out[n].Name]; one != nil {
			out[n].Objective.Shares, out[n].Objective.Until = one.shares, one.until
		}
	}
	return out
}

func (r *round) sharesOf(name string) (out [sven.Classes]uint16) {
	if h := r.helms.by[name]; h != nil {
		return h.shares
	}
	return out
}

func configOf(o switches.Objective, tick time.Duration) sven.Config {
	return sven.Config{Latency: time.Duration(o.Latency) * tick, Per100k: o.Per100k, Published: o.Published, Droppable: o.Droppable}
}

// held are the enforced services that the switch holds, each with its helm. Whoever asks for something else begins anew.
func (r *round) held(d Desired) (out []switches.Service) {
	by := map[string]*helm{}
	for _, s := range d.Services {
		p, placed := r.places[s.Name]
		if !placed || s.Objective.Per100k == 0 || r.state.Services[s.Name].Version == "" || !d.Pipeline.Info.Measured(p) {
			continue
		}
		config := configOf(s.Objective, d.Pipeline.Info.Tick())
		h := r.helms.by[s.Name]
		if h == nil || h.loop.Config() != config || h.place != p.ID {
			fresh := &helm{loop: sven.New(config), place: p.ID}
			if h != nil { // what stands on the switch stays until it is written
				fresh.shares, fresh.until = h.shares, h.until
			}
			h = fresh
		}
		by[s.Name] = h
		out = append(out, s)
	}
	r.helms.by = by
	return out
}

// steerAgain tells when to steer next; never where there is nothing to steer.
func (r *round) steerAgain(fault *link.Fault) (when <-chan time.Time, stop func()) {
	d := r.charge.wanted()
	if r.session == nil || fault != nil || r.uncounted || !r.state.Settled || d.Clear || len(r.held(d)) == 0 {
		return nil, func() {}
	}
	next := time.Time{}
	for _, h := range r.helms.by {
		if next.IsZero() || h.next.Before(next) {
			next = h.next
		}
	}
	t := time.NewTimer(max(next.Sub(r.keeper.Now()), breath))
	return t.C, func() { t.Stop() }
}

// steer looks at all services once. false: the switch does not answer as it should, and the next round says why.
func (r *round) steer(ctx context.Context) bool {
	d := r.charge.wanted()
	services := r.held(d)
	if r.term.Over(r.keeper.Now()) {
		return false
	}
	if fault := r.look(ctx, d, services); fault != nil {
		r.close()
		r.failures++
		return false
	}
	return true
}

func (r *round) look(ctx context.Context, d Desired, services []switches.Service) *link.Fault {
	i, now := d.Pipeline.Info, r.keeper.Now()
	cells := i.ClockCells()
	for _, s := range services {
		cells = slices.AppendSeq(cells, maps.Keys(i.FlowCells(r.places[s.Name])))
	}
	read, _, err := r.session.Counters(ctx, cells)
	if err != nil {
		return link.FaultOf(err)
	}
	r.helms.tell(i, read, now)
	for _, s := range services {
		h := r.helms.by[s.Name]
		if now.Before(h.next) {
			continue
		}
		h.next = now.Add(h.loop.Config().Period())
		if fault := r.window(ctx, d, s, h, read); fault != nil {
			return fault
		}
		if fault := r.rate(ctx, d, s, h); fault != nil {
			return fault
		}
	}
	return nil
}

// tell keeps the switch's time.
func (h *helms) tell(i *switches.Info, read map[switches.Cell]uint64, now time.Time) {
	clock := map[switches.Cell]uint64{}
	for _, c := range i.ClockCells() {
		if n, answered := read[c]; answered {
			clock[c] = n
		}
	}
	if m, known := h.clock.Read(i, clock); known {
		h.moment, h.at = m, now
	}
}

// lasts is for how many moments a rate counts beyond the one in which it is written: at least a second.
const lasts = 2

// until is to when a rate may count; false: nobody knows the switch's time, and nobody is refused.
func (h *helms) untilWhen(now time.Time, tick time.Duration) (uint32, bool) {
	if h.at.IsZero() {
		return 0, false
	}
	gone := int(now.Sub(h.at) / (tick << switches.MomentBits))
	return h.moment.After(gone + lasts).Ticks(), true
}

// window judges what was counted since it began, if that is enough.
func (r *round) window(ctx context.Context, d Desired, s switches.Service, h *helm, read map[switches.Cell]uint64) *link.Fault {
	i, now := d.Pipeline.Info, r.keeper.Now()
	flow := i.FlowCells(r.places[s.Name])
	report := sven.Report{Span: now.Sub(h.begun)}
	at := map[switches.Cell]uint64{}
	for cell, of := range flow {
		n := advance(h.flow, at, read, cell)
		switch of.Kind {
		case switches.Admitted:
			report.Admitted[of.Number] += n
		case switches.Refused:
			report.Refused[of.Number] += n
		case switches.Done:
			report.Completed += n
		case switches.Timed:
			report.Completed, report.Samples = report.Completed+n, report.Samples+n
		}
	}
	if !h.begun.IsZero() && !h.loop.Config().Ready(report.Samples, report.Span) {
		return nil
	}
	cells := i.LatencyCells(r.places[s.Name])
	latencies, _, err := r.session.Counters(ctx, slices.Collect(maps.Keys(cells)))
	if err != nil {
		return link.FaultOf(err)
	}
	last := map[switches.Cell]uint64{}
	if report.Samples = 0; !h.begun.IsZero() {
		by := map[int]uint64{}
		for cell, of := range cells {
			by[of.Number] = advance(h.latency, last, latencies, cell)
		}
		judge(&report, s.Objective, by, i.Tick())
		h.loop.Look(report)
	} else {
		last = latencies
	}
	h.begun, h.flow, h.latency = now, at, last
	return nil
}

// judge adds to a report what its latencies say.
func judge(report *sven.Report, o switches.Objective, by map[int]uint64, tick time.Duration) {
	for b, n := range by {
		report.Samples += n
		if o.Within(b) {
			report.Within += n
		}
	}
	rank := (report.Samples*uint64(o.Per100k) + 99_999) / 100_000
	edge := func(b int) time.Duration {
		if at, finite := o.Edge(b, tick); finite {
			return at
		}
		return sven.Never
	}
	order := slices.SortedFunc(maps.Keys(by), func(a, b int) int { return int(min(max(edge(a)-edge(b), -1), 1)) })
	for _, b := range order {
		if n := by[b]; n > 0 && n >= rank {
			report.Percentile = edge(b)
			return
		} else if n > 0 {
			rank -= n
		}
	}
}

// rate writes the rates of a service, where they or the time they count to are others.
func (r *round) rate(ctx context.Context, d Desired, s switches.Service, h *helm) *link.Fault {
	i := d.Pipeline.Info
	shares := h.loop.Shares()
	until, known := r.helms.untilWhen(r.keeper.Now(), i.Tick())
	if !known || shares == ([sven.Classes]uint16{}) {
		shares, until = [sven.Classes]uint16{}, 0
	}
	if shares == h.shares && until == h.until {
		return nil
	}
	before, after := s, s
	before.Objective.Shares, before.Objective.Until = h.shares, h.until
	after.Objective.Shares, after.Objective.Until = shares, until
	old, err := i.AdmitEntries(before, r.places[s.Name])
	if err != nil {
		return link.Faultf(link.Broken, "%v", err)
	}
	now, err := i.AdmitEntries(after, r.places[s.Name])
	if err != nil {
		return link.Faultf(link.Broken, "%v", err)
	}
	var step []switches.Write
	for n := range now {
		if !now[n].Says(old[n]) {
			step = append(step, switches.Modify(now[n], d.Tag))
		}
	}
	h.shares, h.until = shares, until
	return r.write(ctx, step)
}
