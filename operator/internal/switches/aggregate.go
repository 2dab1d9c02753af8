// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Tables of the aggregator (dataplane/p4/aggregator); its table of members has the name of the router's.
const (
	tableGroupOf  = "group_of"
	tableReceiver = "receiver"
	tableNames    = "names"
)

// Bounds of the aggregator.
const (
	// MaxGroups is how many numbers there are; 0 is nobody's, since the program counts under it what is of none.
	MaxGroups = 256
	// GroupSlots is how many members of a group it counts.
	GroupSlots = 9
	// firstPad is the lowest id of slots without a member: above all members', since ids rise from slot to slot.
	firstPad = 1<<16 - 1 - GroupSlots
	// firstCopies is the multicast group of number 0; those below are of ports.
	firstCopies = 1 << 10
)

// anew are tables whose entries are taken away before anything that they stand for is changed, and written again behind it:
// who counts must be of one membership whole.
var anew = map[string]bool{tableGroupOf: true}

// Group is a replication group whose aggregator is a switch.
type Group struct {
	// Name and Version of what it was made from.
	Name, Version string
	At            netip.AddrPort
	// Number and Cluster are the group's on the wire; Epoch is the index of the entry that made its membership.
	Number         uint32
	Cluster, Epoch uint64
	OwnMAC         uint64
	Members        []GroupMember
	// Unknown: nobody says who its members are now. What the switch holds of it stays.
	Unknown bool
}

// GroupMember is one of the membership; the zero address: it is not known where it is.
type GroupMember struct {
	ID      uint16
	Votes   bool
	Address netip.AddrPort
	NextHop
}

// WireCluster are the 64 bits that stand for a cluster on the wire.
func WireCluster(id [16]byte) uint64 {
	sum := sha256.Sum256(id[:])
	return binary.BigEndian.Uint64(sum[:])
}

// key of a group among the numbers of a switch. Registers remember terms, so that another group at the same address is
// another one.
func (g Group) key() string { return groupKey(g.At, g.Cluster) }

func groupKey(at netip.AddrPort, cluster uint64) string { return fmt.Sprintf("%s %016x", at, cluster) }

// NumberIn is its number among those of a switch.
func (g Group) NumberIn(all Numbers) (int, bool) {
	n, has := all[g.key()]
	return n, has
}

// fault is what no switch with this program could do.
func (g Group) fault() string {
	if !g.At.Addr().Is4() {
		return fmt.Sprintf("%s: the switch knows IPv4 alone", g.At)
	}
	if len(g.Members) > GroupSlots {
		return fmt.Sprintf("%d members, learners among them, and the switch counts %d: the leader sends by itself until they are fewer", len(g.Members), GroupSlots)
	}
	seen := map[netip.AddrPort]bool{}
	for _, m := range g.Members {
		switch {
		case m.ID == 0 || m.ID >= firstPad:
			return fmt.Sprintf("member %d: the switch counts members up to number %d", m.ID, firstPad-1)
		case m.Address.IsValid() && !m.Address.Addr().Is4():
			return fmt.Sprintf("member %d at %s: the switch knows IPv4 alone", m.ID, m.Address)
		case m.Address.IsValid() && seen[m.Address]:
			return fmt.Sprintf("member %d at %s: another member is there", m.ID, m.Address)
		}
		seen[m.Address] = true
	}
	return ""
}

// rows are what a switch holds of a group besides its copies. Members are in the slots of their order by id.
func (g Group) rows(id int) []Row {
	half, ids := uint64(0), make([]Arg, GroupSlots)
	for i := range ids {
		ids[i] = Arg{fmt.Sprintf("id_%d", i+1), uint64(firstPad + i)}
	}
	address, port := number(g.At.Addr()), uint64(g.At.Port())
	var out []Row
	for i, m := range g.sorted() {
		slot, counts := uint64(i+1), uint64(0)
		ids[i].Value = uint64(m.ID)
		if m.Votes {
			counts = slot
			half++
		}
		if !m.Address.IsValid() {
			continue
		}
		at := number(m.Address.Addr())
		out = append(out,
			Row{Table: tableMember, Match: []Match{{Field: "hdr.ipv4.src", Value: at}, {Field: "hdr.udp.src", Value: uint64(m.Address.Port())}, {Field: "in_port", Value: uint64(m.Port)},
				{Field: "hdr.ipv4.dst", Value: address}, {Field: "hdr.udp.dst", Value: port}},
				Action: "is_member", Args: []Arg{{"slot", slot}, {"counts", counts}, {"id", uint64(m.ID)}}},
			Row{Table: tableReceiver, Match: []Match{{Field: "hdr.note.number", Value: uint64(id)}, {Field: "copy", Value: slot}},
				Action: "to_member", Args: []Arg{{"mac", m.MAC}, {"ip", at}, {"udp_port", uint64(m.Address.Port())}}})
	}
	return append(out,
		Row{Table: tableNames, Match: []Match{{Field: "hdr.note.number", Value: uint64(id)}}, Action: "are", Args: ids},
		Row{Table: tableGroupOf, Match: []Match{{Field: "hdr.ipv4.dst", Value: address}, {Field: "hdr.udp.dst", Value: port}},
			Action: "aggregate", Args: []Arg{{"number", uint64(id)}, {"id", uint64(g.Number)}, {"cluster_high", g.Cluster >> 32}, {"cluster", g.Cluster & (1<<32 - 1)},
				{"epoch_high", g.Epoch >> 32}, {"epoch", g.Epoch & (1<<32 - 1)}, {"half", half / 2}, {"copies", uint64(firstCopies + id)}}})
}

func (g Group) sorted() []GroupMember {
	return slices.SortedFunc(slices.Values(g.Members), func(a, b GroupMember) int { return cmp.Compare(a.ID, b.ID) })
}

// copies are what of each slot goes out by which port.
func (i *Info) copies(g Group, id int) (Entry, error) {
	out := &p4.MulticastGroupEntry{MulticastGroupId: uint32(firstCopies + id)}
	for slot, m := range g.sorted() {
		if !m.Address.IsValid() {
			continue
		}
		port, err := octets(uint64(m.Port), 32)
		if err != nil {
			return Entry{}, err
		}
		out.Replicas = append(out.Replicas, &p4.Replica{PortKind: &p4.Replica_Port{Port: port}, Instance: uint32(slot + 1)})
	}
	e, err := i.Canonical(groupEntity(out))
	e.rank = Ranks[Groups]
	return e, err
}

// groupEntries are what a switch holds of a group that has a number.
func (i *Info) groupEntries(g Group, number int) ([]Entry, error) {
	copies, err := i.copies(g, number)
	if err != nil {
		return nil, err
	}
	out, err := i.bindAll(g.rows(number))
	return append(out, copies), err
}

// GroupsOf are the numbers of groups that a switch holds, by address and cluster: registers belong to numbers.
func (i *Info) GroupsOf(held []Entry) Numbers {
	out := Numbers{}
	for _, e := range held {
		s, ok := i.read(e)
		if e.table != tableGroupOf || !ok || s.args["number"] == nobody || s.args["number"] >= MaxGroups {
			continue
		}
		at := endpoint(s.match["hdr.ipv4.dst"], s.match["hdr.udp.dst"])
		out[groupKey(at, s.args["cluster_high"]<<32|s.args["cluster"])] = int(s.args["number"])
	}
	return out
}

// GroupPlan is what a switch is to hold of groups.
type GroupPlan struct {
	Numbers Numbers
	Entries []Entry
	// Refused says why a group is not as it should be, by its name; what it has had stays, of an unknown one, too.
	Refused map[string]string
}

// PlanGroups gives numbers to groups, in the order given, and says what does not fit (W-24). Who has a number keeps it. One
// that became free is given to nobody in the same step.
func (i *Info) PlanGroups(known Numbers, held []Entry, all []Group) GroupPlan {
	before := maps.Clone(known)
	if before == nil {
		before = Numbers{}
	}
	maps.Copy(before, i.GroupsOf(held))
	out := GroupPlan{Numbers: Numbers{}, Refused: map[string]string{}}
	used := map[string]int{}
	for _, g := range all {
		number, had := before[g.key()]
		if g.Unknown && !had {
			continue
		}
		if !had {
			number = freeGroup(g, before, out.Numbers)
		}
		entries, why := i.entriesOfGroup(g, number, used)
		if why != "" && !g.Unknown {
			out.Refused[g.Name] = why
		}
		if why != "" && had {
			entries = i.groupEntriesAt(held, number, g.At)
		}
		if why == "" || had {
			out.Numbers[g.key()] = number
		}
		for _, e := range entries {
			used[e.table]++
		}
		out.Entries = append(out.Entries, entries...)
	}
	return out
}

// entriesOfGroup are the entries of a group at its number (-1: there is none left), or why it gets none. What an unknown
// group lacks is said by whoever asks for it.
func (i *Info) entriesOfGroup(g Group, number int, used map[string]int) ([]Entry, string) {
	fault := g.fault()
	switch {
	case g.Unknown:
		return nil, "unknown"
	case fault != "":
		return nil, fault
	case number < 0:
		return nil, fmt.Sprintf("%s: the switch has room for %d groups", g.At, MaxGroups-1)
	}
	return i.roomForGroup(g, number, used)
}

// freeGroup is a number that nobody has. Where it is looked for first the cluster says: registers remember the terms of who
// had the number before, and another group is to meet them as seldom as can be.
func freeGroup(g Group, before, now Numbers) int {
	taken := map[int]bool{}
	for _, all := range []Numbers{before, now} {
		for _, n := range all {
			taken[n] = true
		}
	}
	const most = MaxGroups - 1 - nobody
	for n := range most {
		if id := nobody + 1 + (int(g.Cluster%most)+n)%most; !taken[id] {
			return id
		}
	}
	return -1
}

// roomForGroup are the entries of a group, or why there is no room for them.
func (i *Info) roomForGroup(g Group, number int, used map[string]int) ([]Entry, string) {
	entries, err := i.groupEntries(g, number)
	if err != nil {
		return nil, err.Error()
	}
	want := map[string]int{}
	for _, e := range entries {
		want[e.table]++
	}
	for _, table := range []string{tableGroupOf, tableMember, tableReceiver, tableNames} {
		if left := int(i.Size(table)) - used[table]; want[table] > left {
			return nil, fmt.Sprintf("%s: %d entries in table %s, which has room for %d", g.At, want[table], table, left)
		}
	}
	return entries, ""
}

// groupEntriesAt are those that a switch holds of a number.
func (i *Info) groupEntriesAt(held []Entry, number int, at netip.AddrPort) (out []Entry) {
	for _, e := range held {
		if i.isOfGroup(e, number, at) {
			e.rank = Ranks[e.table]
			out = append(out, e)
		}
	}
	return out
}

func (i *Info) isOfGroup(e Entry, number int, at netip.AddrPort) bool {
	if g := e.Entity().GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
		return g.GetMulticastGroupId() == uint32(firstCopies+number)
	}
	s, ok := i.read(e)
	if !ok {
		return false
	}
	switch e.table {
	case tableGroupOf:
		return s.args["number"] == uint64(number)
	case tableReceiver, tableNames:
		return s.match["hdr.note.number"] == uint64(number)
	case tableMember:
		return endpoint(s.match["hdr.ipv4.dst"], s.match["hdr.udp.dst"]) == at
	}
	return false
}

// Fates of members' messages at a switch, besides Malformed.
const (
	// Probed are a leader's questions that were answered; Passed its entries, to all others.
	Probed Fate = "probed"
	Passed Fate = "passed"
	// Announced are answers that told everybody a commit; Gathered the others that count.
	Announced Fate = "announced"
	Gathered  Fate = "gathered"
	// Outdated are of another term, membership or half; Refusals answers that are none.
	Outdated Fate = "outdated"
	Refusals Fate = "refusals"
	// Unbelieved come from nobody in the group, or are of another group.
	Unbelieved Fate = "unbelieved"
)

// groupFates of the aggregator's outcomes (headers.p4 of aggregator).
var groupFates = map[int64]Fate{1: Malformed, 2: Malformed, 3: Malformed, 4: Malformed, 5: Malformed, 6: Malformed, 7: Malformed, 8: Malformed, 9: Malformed,
	11: Unbelieved, 12: Malformed, 13: Unbelieved, 14: Malformed, 15: Outdated, 16: Outdated, 17: Unbelieved, 18: Outdated, 19: Outdated, 20: Refusals,
	21: Probed, 22: Passed, 23: Announced, 24: Gathered, 25: Malformed}

// GroupCells are the counters of a group, and what each counts.
func (i *Info) GroupCells(number int) map[Cell]Fate {
	out := map[Cell]Fate{}
	c := i.counter(counterOutcomes)
	if c == nil {
		return out
	}
	for reason, fate := range groupFates {
		if at := int64(number)*outcomesEach + reason; at < c.GetSize() {
			out[Cell{c.GetPreamble().GetId(), at}] = fate
		}
	}
	return out
}
