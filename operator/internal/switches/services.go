// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/switches/sven"
)

// The router program's tables of services.
const (
	tableTarget  = "target"
	tableMember  = "member"
	tableRing    = "ring"
	tableService = "service"
)

// Bounds of the router program (dataplane/p4/router/router.p4).
const (
	// Slots is how many workers one pass compares: a row.
	Slots = 16
	// Rows is how many rows the registers have.
	Rows = 1024
	// MaxServiceRows is how many of them one service may have: the number of its last
	// group has eight bits, as has that of its last turn.
	MaxServiceRows = 256
	// MaxDepth is the highest n that FEEDBACK may grant.
	MaxDepth = 64
	// spread is how many entries of the ring each worker of a service with random choice
	// has at least: none is drawn more often than another by more than one part in it.
	spread = 16
)

// Choice is how a service places requests.
type Choice uint8

// The choices of the router program, with its numbers.
const (
	ByCredit Choice = iota // JBSQ
	ByTurn
	AtRandom
)

// Service is what one service asks of a switch.
type Service struct {
	Name string
	// Version is of what it was made from, and is told back once the switch holds it.
	Version string
	// Address takes requests, and Reports takes FEEDBACK.
	Address, Reports netip.AddrPort
	Choice           Choice
	// Depth is n of JBSQ(n).
	Depth int
	// Held is how many requests may wait in the loop, and Patience for how long.
	Held, Patience uint32
	// Loss is after how long a request counts as lost; both in ticks of the switch.
	Loss uint32
	// Router is the id of this router.
	Router uint32
	// OwnMAC is the switch's in frames to workers.
	OwnMAC  uint64
	Workers []Worker
	// Objective is enforced when its percentile is not 0.
	Objective Objective
}

// Objective is what admission control keeps: a latency at a percentile.
type Objective struct {
	// Latency in ticks of the switch, and the percentile × 1,000: 99000 is p99.
	Latency, Per100k uint32
	// Published has the loop be as the paper prints it, else ours steers.
	Published bool
	// Droppable says which classes may be refused.
	Droppable [sven.Classes]bool
	// Shares of the classes are refused, in units of 2^-16, until a time of the switch's (W-10). They are not the
	// specification's, but of who steers.
	Shares [sven.Classes]uint16
	Until  uint32
}

// Worker is one of a service, and the way to it.
type Worker struct {
	Address netip.AddrPort
	NextHop
}

// Place is where a service stands in the registers.
type Place struct {
	// ID is the service's number, Base its first row, Rows how many it has.
	ID, Base, Rows int
	// Slots holds the worker of each slot; the zero address where there is none.
	Slots []netip.AddrPort
}

// slot is row and number (1 to 16) of a worker.
func (p Place) slot(w netip.AddrPort) (row, slot int) {
	n := slices.Index(p.Slots, w)
	return p.Base + n/Slots, n%Slots + 1
}

// lastGroup is what turns go up to: rows by credit, workers otherwise.
func (s Service) lastGroup(p Place) int {
	if s.Choice == ByCredit {
		return p.Rows - 1
	}
	return max(len(s.Workers)-1, 0)
}

// ringSize is how many entries of the ring a service has.
func (s Service) ringSize() int {
	if s.Choice != AtRandom || len(s.Workers) == 0 {
		return len(s.Workers)
	}
	n := 1
	for n < spread*len(s.Workers) {
		n *= 2
	}
	return n
}

// ServiceEntries are what a switch holds of a service at its place. A worker is known,
// and can be reached, before the service's own entry makes it take part.
func (i *Info) ServiceEntries(s Service, p Place) ([]Entry, error) {
	rows := []Row{{Table: tableService, Match: []Match{{Field: "hdr.ipv4.dst", Value: number(s.Address.Addr())}, {Field: "hdr.udp.dst", Value: uint64(s.Address.Port())}},
		Action: "serve", Args: []Arg{
			{"service", uint64(p.ID)}, {"choose", uint64(s.Choice)}, {"base", uint64(p.Base)}, {"last_group", uint64(s.lastGroup(p))},
			{"top", uint64(s.Depth - 1)}, {"mask", uint64(max(s.ringSize()-1, 0))}, {"limit", uint64(s.Held)}, {"patience", uint64(s.Patience)}, {"router", uint64(s.Router)},
		}}}
	for _, w := range s.Workers {
		rows = append(rows, s.workerRows(w, p)...)
	}
	rows = append(rows, s.emptySlots(p)...)
	if s.Choice != ByCredit {
		for n := range s.ringSize() {
			row, slot := p.slot(s.Workers[n%len(s.Workers)].Address)
			rows = append(rows, Row{Table: tableRing, Match: []Match{{Field: "meta.service", Value: uint64(p.ID)}, {Field: "meta.turn", Value: uint64(n)}},
				Action: "pick", Args: append(at(row, slot), lessOne(slot)...)})
		}
	}
	if i.Measures() && p.measure() > 0 {
		rows = append(rows, s.measuredRows(p)...)
	}
	out, err := i.bindAll(rows)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", s.Name, err)
	}
	return out, nil
}

// bindAll binds rows, each with the rank of its table.
func (i *Info) bindAll(rows []Row) (out []Entry, err error) {
	for _, r := range rows {
		r.Rank = Ranks[r.Table]
		e, err := i.Bind(r)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// emptySlots: a register keeps the credits of who was there before, and a request may take
// one. It goes to a worker that is there, which then has one more than its bound.
func (s Service) emptySlots(p Place) (rows []Row) {
	if s.Choice != ByCredit || len(s.Workers) == 0 {
		return nil
	}
	for n, worker := range p.Slots {
		if worker == (netip.AddrPort{}) {
			rows = append(rows, s.target(s.Workers[n%len(s.Workers)], p.Base+n/Slots, n%Slots+1))
		}
	}
	return rows
}

// target is where a request goes that took a credit of a slot.
func (s Service) target(w Worker, row, slot int) Row {
	return Row{Table: tableTarget, Match: []Match{{Field: "meta.row", Value: uint64(row)}, {Field: "meta.found", Value: uint64(slot)}},
		Action: "to_worker", Args: []Arg{{"port", uint64(w.Port)}, {"own_mac", s.OwnMAC}, {"mac", w.MAC},
			{"address", number(w.Address.Addr())}, {"udp_port", uint64(w.Address.Port())}}}
}

func (s Service) workerRows(w Worker, p Place) []Row {
	row, slot := p.slot(w.Address)
	address, port := number(w.Address.Addr()), uint64(w.Address.Port())
	half := uint64(slot-1) % 2
	return []Row{
		s.target(w, row, slot),
		{Table: tableMember, Match: []Match{
			{Field: "hdr.ipv4.src", Value: address}, {Field: "hdr.udp.src", Value: port}, {Field: "in_port", Value: uint64(w.Port)},
			{Field: "hdr.ipv4.dst", Value: number(s.Reports.Addr())}, {Field: "hdr.udp.dst", Value: uint64(s.Reports.Port())}},
			Action: "report", Args: append(at(row, slot), Arg{"service", uint64(p.ID)}, Arg{"half", half}, Arg{"loss", uint64(s.Loss)})},
	}
}

// at names a register: two slots share one.
func at(row, slot int) []Arg {
	return []Arg{{"row", uint64(row)}, {"slot", uint64(slot)}, {"pair", uint64(slot-1) / 2}}
}

// lessOne takes one request off a worker's half of its register.
func lessOne(slot int) []Arg {
	out := []Arg{{"delta_lo", 0}, {"delta_hi", 0}}
	out[(slot-1)%2].Value = 1<<32 - 1
	return out
}
