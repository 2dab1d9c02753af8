// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"net/netip"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// said is an entry of a table as its names say it.
type said struct {
	entry       Entry
	match, args map[string]uint64
}

// read turns an entry of a table into what its names say; false: it is not of the form that
// this package writes.
func (i *Info) read(e Entry) (said, bool) {
	t := e.Entity().GetTableEntry()
	known := i.tables[t.GetTableId()]
	if t == nil || known == nil {
		return said{}, false
	}
	out := said{entry: e, match: map[string]uint64{}, args: map[string]uint64{}}
	for _, f := range t.GetMatch() {
		octets := f.GetExact().GetValue()
		if t := f.GetTernary(); t != nil {
			octets = t.GetValue()
		} else if f.GetExact() == nil {
			return said{}, false
		}
		v, ok := value(octets)
		if !ok {
			return said{}, false
		}
		out.match[known.fieldName(f.GetFieldId())] = v
	}
	direct := t.GetAction().GetAction()
	action := i.actions[direct.GetActionId()]
	if action == nil {
		return said{}, false
	}
	for _, p := range direct.GetParams() {
		name, v, ok := param(action.GetParams(), p)
		if !ok {
			return said{}, false
		}
		out.args[name] = v
	}
	return out, true
}

func param[P interface {
	GetId() uint32
	GetName() string
}](known []P, p *p4.Action_Param) (name string, v uint64, ok bool) {
	n := slices.IndexFunc(known, func(k P) bool { return k.GetId() == p.GetParamId() })
	if n < 0 {
		return "", 0, false
	}
	v, ok = value(p.GetValue())
	return known[n].GetName(), v, ok
}

// value is a number in P4Runtime's octets; false: it is longer than any of ours.
func value(octets []byte) (v uint64, ok bool) {
	octets = trimmed(octets)
	if len(octets) > 8 {
		return 0, false
	}
	for _, o := range octets {
		v = v<<8 | uint64(o)
	}
	return v, true
}

// endpoint is an address and a port.
func endpoint(address, port uint64) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), uint16(port))
}

// numbers is how many services the registers have.
const numbers = 2048

// PlacesOf is where services stand by what a switch holds, so that one who has just begun
// to look after it goes on with the registers in use. A service is known by the address it
// takes requests at, and by that of its FEEDBACK. What is of none of them is there under
// another name: its rows are taken as long as its entries are. A service in the midst of a
// move keeps its number alone, and moves on to rows that nobody has.
func (i *Info) PlacesOf(held []Entry, services []Service) Places {
	f := finding{places: map[int]*Place{}, names: map[int]string{}, exact: map[int]bool{}, strayed: map[int]bool{}}
	var members []said
	for _, e := range held {
		s, ok := i.read(e)
		switch {
		case !ok:
		case e.table == tableService:
			f.service(s, services)
		case e.table == tableMember:
			members = append(members, s)
		}
	}
	for _, s := range members {
		f.member(s, services)
	}
	return f.all()
}

// finding is under way.
type finding struct {
	places  map[int]*Place // by the service's number
	names   map[int]string
	exact   map[int]bool // its entry says how many rows it has
	strayed map[int]bool // a worker of it stands outside its range
	rows    []int        // those of strays
}

func (f *finding) service(s said, services []Service) {
	if s.args["service"] >= numbers || s.args["base"] >= Rows || s.args["last_group"] >= MaxServiceRows {
		return // nothing that a register has
	}
	id := int(s.args["service"])
	at := endpoint(s.match["hdr.ipv4.dst"], s.match["hdr.udp.dst"])
	rows := int(s.args["last_group"]) + 1
	if Choice(s.args["choose"]) != ByCredit { // it counts workers
		rows = (rows + Slots - 1) / Slots
	}
	f.places[id] = &Place{ID: id, Base: int(s.args["base"]), Rows: rows}
	f.exact[id] = Choice(s.args["choose"]) == ByCredit
	f.name(id, services, func(v Service) bool { return v.Address == at })
}

func (f *finding) name(id int, services []Service, is func(Service) bool) {
	if n := slices.IndexFunc(services, is); n >= 0 {
		f.names[id] = services[n].Name
	}
}

// member stands in a row of its service. A service without an entry of its own has lost it,
// or is not complete: its workers say where it stands.
func (f *finding) member(s said, services []Service) {
	if s.args["service"] >= numbers || s.args["row"] >= Rows {
		return
	}
	id, row, slot := int(s.args["service"]), int(s.args["row"]), int(s.args["slot"])
	p := f.places[id]
	if p == nil {
		reports := endpoint(s.match["hdr.ipv4.dst"], s.match["hdr.udp.dst"])
		f.name(id, services, func(v Service) bool { return v.Reports == reports })
		f.strayed[id] = true
	}
	if p == nil || row < p.Base || slot < 1 || slot > Slots || row-p.Base >= MaxServiceRows || f.exact[id] && row-p.Base >= p.Rows {
		f.strayed[id] = true
		f.rows = append(f.rows, row)
		return
	}
	p.Rows = max(p.Rows, row-p.Base+1)
	for len(p.Slots) < p.Rows*Slots {
		p.Slots = append(p.Slots, netip.AddrPort{})
	}
	p.Slots[(row-p.Base)*Slots+slot-1] = endpoint(s.match["hdr.ipv4.src"], s.match["hdr.udp.src"])
}

// overlaps are ranges that have a row in common: a switch that says so of two services is
// wrong of one of them at least, and both move.
func (f *finding) overlaps() {
	owner := map[int]int{}
	for id, p := range f.places {
		p.Rows = min(p.Rows, Rows-p.Base)
		for row := p.Base; row < p.Base+p.Rows; row++ {
			if other, taken := owner[row]; taken {
				f.strayed[id], f.strayed[other] = true, true
			}
			owner[row] = id
		}
	}
}

func (f *finding) all() Places {
	f.overlaps()
	out := Places{}
	for id, p := range f.places {
		p.Slots = append(p.Slots, make([]netip.AddrPort, max(p.Rows*Slots-len(p.Slots), 0))...)[:p.Rows*Slots]
		name := f.names[id]
		switch {
		case name == "" || out[name].Slots != nil:
			out[fmt.Sprintf("gone/%d", id)] = *p
		case f.strayed[id]:
			out[fmt.Sprintf("left/%d", id)] = *p
			out[name] = Place{ID: id}
		default:
			out[name] = *p
		}
	}
	for id := range f.strayed {
		if name := f.names[id]; name != "" && f.places[id] == nil {
			out[name] = Place{ID: id}
		} else if f.places[id] == nil {
			out[fmt.Sprintf("gone/%d", id)] = Place{ID: id}
		}
	}
	for _, row := range f.rows {
		out[fmt.Sprintf("row/%d", row)] = Place{ID: -1, Base: row, Rows: 1, Slots: make([]netip.AddrPort, Slots)}
	}
	return out
}

// EntriesAt are those that a switch holds of a service at a place: what stays as it is while
// something else is asked that cannot be.
func (i *Info) EntriesAt(held []Entry, p Place) (out []Entry) {
	within := func(row uint64) bool { return row >= uint64(p.Base) && row < uint64(p.Base+p.Rows) }
	for _, e := range held {
		s, ok := i.read(e)
		if !ok {
			continue
		}
		its := false
		switch e.table {
		case tableService, tableMember:
			its = s.args["service"] == uint64(p.ID)
		case tableTarget:
			its = within(s.match["meta.row"])
		case tableRing:
			its = s.match["meta.service"] == uint64(p.ID)
		case tableObjective:
			its = s.match["meta.member_service"] == uint64(p.ID)
		case tableAdmit:
			its = p.measure() > 0 && s.args["measure"] == uint64(p.measure())
		case tableBucket:
			its = p.measure() > 0 && s.match["meta.measure"] == uint64(p.measure())
		}
		if its {
			e.rank = Ranks[e.table]
			out = append(out, e)
		}
	}
	return out
}

// Plan is what a switch that holds something is to hold of services.
type Plan struct {
	Places  Places
	Entries []Entry
	// Refused says why a service is not as it should be, by name; what it has had stays.
	Refused map[string]string
	// Next is where the next plan looks for fresh rows.
	Next int
}

// PlanServices places services. What is known of the places goes before what is read: a
// switch that has lost entries has the registers still.
// Fresh rows are those behind `next`, and behind all that are taken, as far as there are some.
func (i *Info) PlanServices(known Places, held []Entry, services []Service, next int) Plan {
	before := Places{}
	for name, p := range known {
		before[name] = p
	}
	for name, p := range i.PlacesOf(held, services) {
		if was, is := known[name]; !is {
			before[name] = p
		} else if p.Base != was.Base && p.Rows > 0 {
			before["was/"+name] = p
		}
	}
	if known == nil { // nobody remembers which rows were used before
		for _, p := range before {
			next = max(next, p.Base+p.Rows)
		}
	}
	now, refused, next := i.allocate(before, services, next%Rows)
	out := Plan{Places: now, Refused: refused, Next: next}
	for _, s := range services {
		p, placed := now[s.Name]
		if !placed {
			if p, placed = before[s.Name]; placed && p.Rows > 0 {
				now[s.Name] = p
				out.Entries = append(out.Entries, i.EntriesAt(held, p)...)
			}
			continue
		}
		all, err := i.ServiceEntries(s, p)
		if err != nil {
			out.Refused[s.Name] = err.Error()
			continue
		}
		out.Entries = append(out.Entries, all...)
	}
	return out
}
