// SPDX-License-Identifier: Apache-2.0

package switches

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
)

// Cell is one counter of a switch: a place in an indirect counter (W-12).
type Cell struct {
	ID    uint32
	Index int64
}

// Fate is what became of a packet of a service.
type Fate string

// The fates that are told. Placed requests were given to a worker, Waited ones went round
// the loop first. The others but OldReport were answered with DROP.
const (
	Placed    Fate = "placed"
	Waited    Fate = "waited"
	BadOption Fate = "option"
	BadPolicy Fate = "policy"
	NoRoom    Fate = "no-room"
	Full      Fate = "full"
	Late      Fate = "late"
	Nobody    Fate = "no-worker"
	Shed      Fate = "admission"
	// Malformed packets were discarded.
	Malformed Fate = "malformed"
	// OldReport is FEEDBACK that was not believed: older than what was known.
	OldReport Fate = "old-feedback"
	// Astray requests were placed in a slot whose worker the switch does not know.
	Astray Fate = "astray"
)

// Refused says that a client was told DROP.
func (f Fate) Refused() bool {
	switch f {
	case BadOption, BadPolicy, NoRoom, Full, Late, Nobody, Shed:
		return true
	}
	return false
}

// Names of the program's counters, and how they are numbered (headers.p4).
const (
	counterOutcomes  = "outcomes"
	counterWaits     = "waits"
	counterForwarded = "forwarded"
	outcomesEach     = 32
	slotsEach        = 32
	// astraySlot is where a row counts requests of slots without a target (router.p4).
	astraySlot = 0
	// lastMalformed is the highest of the reasons that mean a packet was discarded unread.
	lastMalformed = 19
)

// reasons are numbers of headers.p4.
var reasons = map[int64]Fate{21: BadOption, 22: BadPolicy, 23: NoRoom, 24: Full, 25: Late, 26: OldReport, 29: Nobody, 30: Shed}

// counter of the P4Info; nil: there is none of that name.
func (i *Info) counter(name string) *p4config.Counter {
	for _, c := range i.P4.GetCounters() {
		if plainName(c.GetPreamble().GetName()) == name {
			return c
		}
	}
	return nil
}

// CellsOf are the counters of a service at its place, and what each counts. What the P4Info
// does not have, or has too small, is left out.
func (i *Info) CellsOf(p Place) map[Cell]Fate {
	out := map[Cell]Fate{}
	add := func(name string, at int64, fate Fate) {
		if c := i.counter(name); c != nil && at >= 0 && at < c.GetSize() {
			out[Cell{c.GetPreamble().GetId(), at}] = fate
		}
	}
	add(counterWaits, int64(p.ID), Waited)
	for reason := int64(1); reason <= lastMalformed; reason++ {
		add(counterOutcomes, int64(p.ID)*outcomesEach+reason, Malformed)
	}
	for reason, fate := range reasons {
		add(counterOutcomes, int64(p.ID)*outcomesEach+reason, fate)
	}
	for n, w := range p.Slots {
		if n%Slots == 0 {
			add(counterForwarded, int64(p.Base+n/Slots)*slotsEach+astraySlot, Astray)
		}
		if w.IsValid() {
			add(counterForwarded, int64(p.Base+n/Slots)*slotsEach+int64(n%Slots)+1, Placed)
		}
	}
	return out
}
