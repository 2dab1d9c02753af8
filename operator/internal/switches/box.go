// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// tableBoxOf is the flow-control box's own (dataplane/p4/box); its other tables have the names of the aggregator's.
const tableBoxOf = "box_of"

// Bounds of the box.
const (
	// BoxSlots is how many requests all groups of a switch may let in together.
	BoxSlots = 1 << 16
	// BoxMembers is how many members the document of a group names at most.
	BoxMembers = 16
	// boxLongest is the longest body that goes to a group, of members whose MTU is 1500.
	boxLongest = 1320
)

// Box is a replication group whose flow-control box is a switch.
type Box struct {
	// Name and Version of what it was made from.
	Name, Version string
	// At is where clients ask, FeedbackPort where members tell what they answered.
	At           netip.AddrPort
	FeedbackPort uint16
	Cluster      uint64
	// Limit is how many requests it lets in at once.
	Limit   int
	Members []GroupMember
	// Unknown: nobody says who its members are now. What the switch holds of it stays.
	Unknown bool
}

func (b Box) key() string { return groupKey(b.At, b.Cluster) }

// NumberIn is its number among those of a switch.
func (b Box) NumberIn(all Numbers) (int, bool) {
	n, has := all[b.key()]
	return n, has
}

// fault is what no switch with this program could do.
func (b Box) fault() string {
	switch {
	case !b.At.Addr().Is4():
		return fmt.Sprintf("%s: the switch knows IPv4 alone", b.At)
	case b.Limit < 1 || b.Limit > BoxSlots:
		return fmt.Sprintf("%d requests at once, and the switch has slots for %d", b.Limit, BoxSlots)
	case len(b.Members) > BoxMembers:
		return fmt.Sprintf("%d members, and a document names %d", len(b.Members), BoxMembers)
	}
	for _, m := range b.Members {
		if !m.Address.Addr().Is4() {
			return fmt.Sprintf("member %d at %s: the switch knows IPv4 alone", m.ID, m.Address)
		}
	}
	return ""
}

// span is a range of slots.
type span struct{ first, end int }

// rows are what a switch holds of a box besides its copies: its own entry last (W-22).
func (b Box) rows(id int, of span) []Row {
	address := number(b.At.Addr())
	var out []Row
	for n, m := range b.Members {
		at := number(m.Address.Addr())
		out = append(out,
			Row{Table: tableReceiver, Match: []Match{{Field: "hdr.note.number", Value: uint64(id)}, {Field: "copy", Value: uint64(n + 1)}},
				Action: "to_member", Args: []Arg{{"mac", m.MAC}, {"ip", at}, {"udp_port", uint64(m.Address.Port())}}},
			Row{Table: tableMember, Match: []Match{{Field: "hdr.ipv4.src", Value: at}, {Field: "hdr.udp.src", Value: uint64(m.Address.Port())}, {Field: "in_port", Value: uint64(m.Port)},
				{Field: "hdr.ipv4.dst", Value: address}, {Field: "hdr.udp.dst", Value: uint64(b.FeedbackPort)}},
				Action: "is_member", Args: []Arg{{"number", uint64(id)}}})
	}
	return append(out, Row{Table: tableBoxOf, Match: []Match{{Field: "hdr.ipv4.dst", Value: address}, {Field: "hdr.udp.dst", Value: uint64(b.At.Port())}},
		Action: "admit", Args: []Arg{{"number", uint64(id)}, {"base", uint64(of.first)}, {"last", uint64(of.end - of.first - 1)}, {"longest", boxLongest},
			{"copies", uint64(firstCopies + id)}}})
}

// boxEntries are what a switch holds of a box that has a number.
func (i *Info) boxEntries(b Box, id int, of span) ([]Entry, error) {
	group := &p4.MulticastGroupEntry{MulticastGroupId: uint32(firstCopies + id)}
	for n, m := range b.Members {
		port, err := octets(uint64(m.Port), 32)
		if err != nil {
			return nil, err
		}
		group.Replicas = append(group.Replicas, &p4.Replica{PortKind: &p4.Replica_Port{Port: port}, Instance: uint32(n + 1)})
	}
	copies, err := i.Canonical(groupEntity(group))
	if err != nil {
		return nil, err
	}
	copies.rank = Ranks[Groups]
	out, err := i.bindAll(b.rows(id, of))
	return append(out, copies), err
}

// heldBox is what a switch holds of a number.
type heldBox struct {
	at    netip.AddrPort
	slots span
}

// boxesOf are those that a switch holds, by number: registers belong to numbers, and to slots.
func (i *Info) boxesOf(held []Entry) map[int]heldBox {
	out := map[int]heldBox{}
	for _, e := range held {
		s, ok := i.read(e)
		if e.table != tableBoxOf || !ok || s.args["number"] == nobody || s.args["number"] >= MaxGroups {
			continue
		}
		first := int(s.args["base"])
		out[int(s.args["number"])] = heldBox{endpoint(s.match["hdr.ipv4.dst"], s.match["hdr.udp.dst"]), span{first, first + int(s.args["last"]) + 1}}
	}
	return out
}

// PlanBoxes gives numbers and slots to groups, in the order given, and says what does not fit (W-24). Who has some keeps
// them, with another limit it begins anew. A number that became free is given to nobody in the same step.
func (i *Info) PlanBoxes(known Numbers, held []Entry, all []Box) GroupPlan {
	p := boxPlan{info: i, entries: held, held: i.boxesOf(held), used: map[string]int{}}
	p.before = p.numbersBefore(known, all)
	out := GroupPlan{Numbers: Numbers{}, Refused: map[string]string{}}
	for _, b := range all { // those that stay come first: nobody is given their slots
		if id, had := p.before[b.key()]; had && p.held[id].at == b.At {
			p.taken = append(p.taken, p.held[id].slots)
		}
	}
	for _, b := range all {
		if _, had := p.before[b.key()]; had || !b.Unknown {
			p.add(&out, b)
		}
	}
	return out
}

type boxPlan struct {
	info    *Info
	entries []Entry // that the switch holds
	held    map[int]heldBox
	before  Numbers
	used    map[string]int
	taken   []span
}

// numbersBefore are those that are known, and those that the switch shows to be had.
func (p *boxPlan) numbersBefore(known Numbers, all []Box) Numbers {
	before := Numbers{}
	maps.Copy(before, known)
	for id, h := range p.held {
		for _, b := range all {
			if _, had := before[b.key()]; !had && h.at == b.At {
				before[b.key()] = id
			}
		}
	}
	return before
}

// add gives a box its place in the plan, or says why it has none: who has one keeps it then.
func (p *boxPlan) add(out *GroupPlan, b Box) {
	id, had := p.before[b.key()]
	if !had {
		id = freeGroup(Group{Cluster: b.Cluster}, p.before, out.Numbers)
	}
	entries, why := p.place(b, id)
	if why != "" && !b.Unknown {
		out.Refused[b.Name] = why
	}
	if why != "" && had {
		entries = p.info.boxEntriesAt(p.entries, id, b)
	}
	if why == "" || had {
		out.Numbers[b.key()] = id
	}
	for _, e := range entries {
		p.used[e.table]++
	}
	out.Entries = append(out.Entries, entries...)
}

// place gives a box its slots and entries, or says why it gets none.
func (p *boxPlan) place(b Box, id int) ([]Entry, string) {
	fault := b.fault()
	switch {
	case b.Unknown:
		return nil, "unknown"
	case fault != "":
		return nil, fault
	case id < 0:
		return nil, fmt.Sprintf("%s: the switch has room for %d groups", b.At, MaxGroups-1)
	}
	of := p.held[id].slots
	if p.held[id].at != b.At || of.end-of.first != b.Limit {
		var free int
		if of, free = p.gap(b.Limit); free < b.Limit {
			return nil, fmt.Sprintf("%s: %d requests at once, and of the switch's %d slots %d are free in one piece", b.At, b.Limit, BoxSlots, free)
		}
		p.taken = append(p.taken, of)
	}
	entries, err := p.info.boxEntries(b, id, of)
	if err != nil {
		return nil, err.Error()
	}
	want := map[string]int{}
	for _, e := range entries {
		want[e.table]++
	}
	for _, table := range []string{tableBoxOf, tableMember, tableReceiver} {
		if left := int(p.info.Size(table)) - p.used[table]; want[table] > left {
			return nil, fmt.Sprintf("%s: %d entries in table %s, which has room for %d", b.At, want[table], table, left)
		}
	}
	return entries, ""
}

// gap is the first range of so many slots that nobody has, or the longest one that there is.
func (p *boxPlan) gap(size int) (of span, free int) {
	taken := append(slices.Clone(p.taken), span{BoxSlots, BoxSlots})
	slices.SortFunc(taken, func(a, b span) int { return a.first - b.first })
	at := 0
	for _, t := range taken {
		if free = max(free, t.first-at); t.first-at >= size {
			return span{at, at + size}, size
		}
		at = max(at, t.end)
	}
	return span{}, free
}

// boxEntriesAt are those that a switch holds of a box.
func (i *Info) boxEntriesAt(held []Entry, id int, b Box) (out []Entry) {
	for _, e := range held {
		if i.isOfBox(e, id, b) {
			e.rank = Ranks[e.table]
			out = append(out, e)
		}
	}
	return out
}

func (i *Info) isOfBox(e Entry, id int, b Box) bool {
	if g := e.Entity().GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
		return g.GetMulticastGroupId() == uint32(firstCopies+id)
	}
	s, ok := i.read(e)
	if !ok {
		return false
	}
	switch e.table {
	case tableBoxOf, tableMember:
		return s.args["number"] == uint64(id)
	case tableReceiver:
		return s.match["hdr.note.number"] == uint64(id)
	}
	return false
}

// Fates of requests and FEEDBACK at a switch that is a box, besides those of other programs.
const (
	// Copied are copies of what passed before, Answered FEEDBACK that freed a slot.
	Copied   Fate = "passed-again"
	Answered Fate = "answered"
	// Crowded are requests for which there was no place: not answered.
	Crowded Fate = "crowded"
)

// boxFates of the box's outcomes (headers.p4 of box).
var boxFates = map[int64]Fate{1: Malformed, 2: Malformed, 3: Malformed, 4: Malformed, 5: Malformed, 6: Malformed, 7: Malformed, 8: Malformed, 9: Malformed,
	10: Malformed, 11: Malformed, 12: Malformed, 13: Malformed, 14: Malformed, 15: Malformed, 16: Unbelieved, 18: Crowded, 19: OldReport, 20: BadOption,
	21: BadPolicy, 22: NoRoom, 23: Full, 24: Full, 25: Passed, 26: Copied, 27: Answered}

// BoxCells are the counters of a group, and what each counts.
func (i *Info) BoxCells(id int) map[Cell]Fate {
	out := map[Cell]Fate{}
	c := i.counter(counterOutcomes)
	if c == nil {
		return out
	}
	for reason, fate := range boxFates {
		if at := int64(id)*outcomesEach + reason; at < c.GetSize() {
			out[Cell{c.GetPreamble().GetId(), at}] = fate
		}
	}
	return out
}
