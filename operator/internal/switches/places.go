// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"net/netip"
	"slices"
)

// nobody is the number of no service: the program counts under it what is of none.
const nobody = 0

// Places is where each service stands, by name.
type Places map[string]Place

// Allocate finds places for services, in the order given, and says what does not fit,
// with the number that would (W-24). What has a place keeps it, and each worker its slot:
// registers belong to slots. A service that outgrows its range moves onto a second one,
// which shares no row with any range of before (W-22). A slot that became free is given
// to nobody in the same step, so that its entries go before others come.
func Allocate(before Places, services []Service, i *Info) (Places, []string) {
	now, why, _ := i.allocate(before, services, 0)
	var refused []string
	for _, s := range services {
		if text, is := why[s.Name]; is {
			refused = append(refused, fmt.Sprintf("service %s: %s", s.Name, text))
		}
	}
	return now, refused
}

// allocate looks for fresh rows from a row on, and says from where the next ones are best
// looked for: rows are used again as late as can be. Their registers remember the last
// worker's incarnation, and refuse one that began before it.
func (i *Info) allocate(before Places, services []Service, from int) (now Places, refused map[string]string, next int) {
	a := allocation{before: before, now: Places{}, info: i, used: map[string]int{}, from: from}
	refused = map[string]string{}
	for _, s := range services {
		if why := a.place(s); why != "" {
			refused[s.Name] = why
		}
	}
	return a.now, refused, a.from
}

// allocation is under way.
type allocation struct {
	before, now Places
	info        *Info
	used        map[string]int // entries by table
	from        int            // row
}

func (a *allocation) place(s Service) string {
	if why := s.fault(); why != "" {
		return why
	}
	if why := a.room(s.entries()); why != "" {
		return why
	}
	p, had := a.before[s.Name]
	if p.ID == nobody { // where a switch counts what is of no service: such a one moves
		p, had = Place{}, false
	}
	if p.Rows > 0 {
		p = p.with(s.Workers)
	}
	if p.Slots == nil {
		var why string
		if p, why = a.fresh(s, p.ID, had); why != "" {
			return why
		}
	}
	if why := a.measured(s, p); why != "" {
		return why
	}
	a.now[s.Name] = p
	for table, n := range s.entries() {
		a.used[table] += n
	}
	return ""
}

// measured: whoever has an objective to be enforced must be.
func (a *allocation) measured(s Service, p Place) string {
	enforced := s.Objective.Per100k > 0
	switch {
	case enforced && (!a.info.Measures() || a.info.ClockCells() == nil):
		return "the pipeline has no tables of admission control, or tells no time: its objective cannot be enforced there"
	case enforced && p.measure() == 0:
		return fmt.Sprintf("it is service %d of the switch, which measures %d: its objective cannot be enforced there", p.ID, Measures-1)
	case !a.info.Measured(p):
		return ""
	}
	if why := a.room(s.measuredEntries()); why != "" {
		return why
	}
	for table, n := range s.measuredEntries() {
		a.used[table] += n
	}
	return ""
}

// fault is what no switch with this program could do.
func (s Service) fault() string {
	most := MaxServiceRows * Slots
	if s.Choice != ByCredit {
		most = MaxServiceRows
	}
	switch {
	case !s.Address.Addr().Is4() || !s.Reports.Addr().Is4():
		return "the switch knows IPv4 alone"
	case s.Depth < 1 || s.Depth > MaxDepth:
		return fmt.Sprintf("n is %d, and must be 1 to %d", s.Depth, MaxDepth)
	case len(s.Workers) > most:
		return fmt.Sprintf("%d workers, and at most %d fit into one service", len(s.Workers), most)
	}
	if o := s.Objective; o.Per100k > 0 && bucketOf(o.Latency) == beyond {
		return fmt.Sprintf("its objective is %d ticks, and the switch tells latencies apart up to %d", o.Latency, 1<<endBits-1)
	}
	seen := map[netip.AddrPort]bool{}
	for _, w := range s.Workers {
		if !w.Address.Addr().Is4() {
			return fmt.Sprintf("worker %s: the switch knows IPv4 alone", w.Address)
		}
		if seen[w.Address] {
			return fmt.Sprintf("worker %s stands twice", w.Address)
		}
		seen[w.Address] = true
	}
	return ""
}

// entries is how many a service needs of each table.
func (s Service) entries() map[string]int {
	out := map[string]int{tableService: 1, tableTarget: len(s.Workers), tableMember: len(s.Workers)}
	if s.Choice != ByCredit {
		out[tableRing] = s.ringSize()
	}
	return out
}

// measuredEntries is how many it needs besides when it is measured.
func (s Service) measuredEntries() map[string]int {
	return map[string]int{tableAdmit: len(labels), tableObjective: 1, tableBucket: len(s.splitRows(0))}
}

// room: the tables have some left. What a service needs twice while it moves are entries of
// its rows, and the table of targets has as many as there are slots.
func (a *allocation) room(want map[string]int) string {
	for _, table := range []string{tableService, tableTarget, tableMember, tableRing, tableAdmit, tableObjective, tableBucket} {
		left := int(a.info.Size(table)) - a.used[table]
		if table == tableBucket {
			left -= lastBucket // everybody's
		}
		if want[table] > left {
			return fmt.Sprintf("%d entries in table %s, which has room for %d", want[table], table, left)
		}
	}
	return ""
}

// with keeps workers in their slots and gives free ones to new workers; no slots: the
// range is too small.
func (p Place) with(workers []Worker) Place {
	out := Place{ID: p.ID, Base: p.Base, Rows: p.Rows, Slots: make([]netip.AddrPort, len(p.Slots))}
	for _, w := range workers {
		if n := slices.Index(p.Slots, w.Address); n >= 0 {
			out.Slots[n] = w.Address
		}
	}
	free := 0
	for _, w := range workers {
		if slices.Contains(p.Slots, w.Address) {
			continue
		}
		for free < len(p.Slots) && p.Slots[free].IsValid() {
			free++
		}
		if free == len(p.Slots) {
			return Place{ID: p.ID}
		}
		out.Slots[free] = w.Address
		free++
	}
	return out
}

// fresh is a place in rows that nobody has, nor had before.
func (a *allocation) fresh(s Service, id int, had bool) (Place, string) {
	if !had {
		if id = a.freeID(); id < 0 {
			return Place{}, fmt.Sprintf("the switch has room for %d services", a.info.Size(tableService))
		}
	}
	need := max((len(s.Workers)+Slots-1)/Slots, 1)
	base, largest := a.freeRows(need)
	if base < 0 {
		return Place{}, fmt.Sprintf("%d workers need %d rows of %d in one range; %d workers would fit", len(s.Workers), need, Slots, largest*Slots)
	}
	a.from = (base + need) % Rows
	p := Place{ID: id, Base: base, Rows: need, Slots: make([]netip.AddrPort, need*Slots)}
	for n, w := range s.Workers {
		p.Slots[n] = w.Address
	}
	return p, ""
}

func (a *allocation) freeID() int {
	taken := map[int]bool{}
	for _, all := range []Places{a.before, a.now} {
		for _, p := range all {
			taken[p.ID] = true
		}
	}
	for id := nobody + 1; id <= int(a.info.Size(tableService)); id++ {
		if !taken[id] {
			return id
		}
	}
	return -1
}

// freeRows is where that many rows are free side by side, -1 if nowhere, and how many
// are at most.
func (a *allocation) freeRows(need int) (base, largest int) {
	taken := make([]bool, Rows)
	for _, all := range []Places{a.before, a.now} {
		for _, p := range all {
			for row := p.Base; row < p.Base+p.Rows; row++ {
				taken[row] = true
			}
		}
	}
	for _, from := range []int{a.from, 0} {
		run := 0
		for row := from; row < Rows; row++ {
			if taken[row] {
				run = 0
				continue
			}
			if run++; run == need {
				return row - need + 1, need
			}
			largest = max(largest, run)
		}
	}
	return -1, largest
}
