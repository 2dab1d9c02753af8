// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Program is which of Bobtail's programs a pipeline is.
type Program string

// The programs (dataplane/p4).
const (
	ProgramRouter     Program = "router"
	ProgramCRAB       Program = "crab"
	ProgramSLOG       Program = "slog"
	ProgramAggregator Program = "aggregator"
	ProgramBox        Program = "box"
	ProgramUnknown    Program = ""
)

// marks are tables that only one program has.
var marks = map[Program][]string{
	ProgramRouter: {tableService, tableMember}, ProgramCRAB: {tableVIP, tableRing, tableSpread}, ProgramSLOG: {tableSource, tableGap, tableReply},
	ProgramAggregator: {tableGroupOf, tableReceiver, tableNames}, ProgramBox: {tableBoxOf, tableReceiver},
}

// Program says which one it is, by its tables.
func (i *Info) Program() Program {
	for _, p := range slices.Sorted(maps.Keys(marks)) {
		if !slices.ContainsFunc(marks[p], func(t string) bool { return i.byName[t] == nil }) {
			return p
		}
	}
	return ProgramUnknown
}

// Tables of the balancer of connections (dataplane/p4/crab).
const (
	tableVIP    = "vip"
	tableSpread = "spread"
)

// Bounds of the balancer.
const (
	// VIPs is how many numbers there are; 0 is nobody's, since the program counts under it what is of none.
	VIPs = 256
	// MaxServers of a VIP, which may have as many turns as there are numbers in a ring.
	MaxServers = 4096
)

// VIP is an address and port whose connections a switch redirects.
type VIP struct {
	// Name of the Service, and Version of what it was made from.
	Name, Version string
	At            netip.AddrPort
	Random        bool
	OwnMAC        uint64
	Servers       []Server
}

// Server takes connections; its weight is as many turns.
type Server struct {
	Address netip.Addr
	Weight  int
	NextHop
}

// key of a VIP among the numbers of a switch.
func (v VIP) key() string { return v.At.String() }

// turns are the servers in the order of their turns: those of more weight spread over them.
func (v VIP) turns() (out []int) {
	total := 0
	for _, s := range v.Servers {
		total += s.Weight
	}
	credit := make([]int, len(v.Servers))
	for range total {
		best := 0
		for n, s := range v.Servers {
			if credit[n] += s.Weight; credit[n] > credit[best] {
				best = n
			}
		}
		credit[best] -= total
		out = append(out, best)
	}
	if !v.Random || total == 0 {
		return out
	}
	size := 1
	for size < spread*total {
		size *= 2
	}
	for n := total; n < size; n++ {
		out = append(out, out[n%total])
	}
	return out
}

// fault is what no switch with this program could do.
func (v VIP) fault() string {
	total := 0
	for _, s := range v.Servers {
		if !s.Address.Is4() {
			return fmt.Sprintf("server %s: the switch knows IPv4 alone", s.Address)
		}
		total += s.Weight
	}
	switch {
	case !v.At.Addr().Is4():
		return fmt.Sprintf("%s: the switch knows IPv4 alone", v.At)
	case len(v.Servers) > MaxServers || total > MaxServers:
		return fmt.Sprintf("%s: %d servers of %d turns together, and at most %d fit", v.At, len(v.Servers), total, MaxServers)
	}
	return ""
}

// rows are what a switch holds of a VIP. It is known before its own entry has it redirected.
func (v VIP) rows(id uint32) []Row {
	choose, turns := uint64(0), v.turns()
	mask := uint64(0)
	if v.Random {
		choose, mask = 1, uint64(max(len(turns)-1, 0))
	}
	out := []Row{{Table: tableVIP, Match: []Match{{Field: "hdr.ipv4.dst", Value: number(v.At.Addr())}, {Field: "hdr.tcp.dst", Value: uint64(v.At.Port())}},
		Action: "balance", Args: []Arg{{"number", uint64(id)}, {"choose", choose}, {"last", uint64(max(len(turns)-1, 0))}, {"mask", mask},
			// Nobody takes the hash: servers do not have the VIP's address. Who has no placeholder is not redirected (C-10).
			{"direct", 0}, {"capable", 0}}}}
	for turn, n := range turns {
		s := v.Servers[n]
		out = append(out, Row{Table: tableRing, Match: []Match{{Field: "meta.vip", Value: uint64(id)}, {Field: "meta.choice", Value: uint64(turn)}},
			Action: "to_server", Args: []Arg{{"number", uint64(id)<<8 | uint64(min(n, 255))}, {"port", uint64(s.Port)}, {"own_mac", v.OwnMAC}, {"mac", s.MAC}, {"server", number(s.Address)}}})
	}
	return out
}

// Numbers of VIPs, by address and port.
type Numbers map[string]int

// NumbersOf are those that a switch holds: registers and counters belong to numbers.
func (i *Info) NumbersOf(held []Entry) Numbers {
	out := Numbers{}
	for _, e := range held {
		s, ok := i.read(e)
		if e.table != tableVIP || !ok || s.args["number"] == nobody || s.args["number"] >= VIPs {
			continue
		}
		out[endpoint(s.match["hdr.ipv4.dst"], s.match["hdr.tcp.dst"]).String()] = int(s.args["number"])
	}
	return out
}

// BalancePlan is what a switch is to hold of VIPs.
type BalancePlan struct {
	Numbers Numbers
	Entries []Entry
	// Refused says why a VIP is not as it should be, by its Service's name; what it has had stays.
	Refused map[string]string
}

// PlanVIPs gives numbers to VIPs, in the order given, and says what does not fit (W-24). Who has a number keeps it. One
// that became free is given to nobody in the same step.
func (i *Info) PlanVIPs(known Numbers, held []Entry, all []VIP) BalancePlan {
	before := maps.Clone(known)
	if before == nil {
		before = Numbers{}
	}
	for key, n := range i.NumbersOf(held) {
		if _, is := before[key]; !is {
			before[key] = n
		}
	}
	out := BalancePlan{Numbers: Numbers{}, Refused: map[string]string{}}
	used := map[string]int{}
	for _, v := range all {
		why := v.fault()
		n, had := before[v.key()]
		if !had && why == "" {
			if n = freeNumber(before, out.Numbers); n < 0 {
				why = fmt.Sprintf("%s: the switch has room for %d addresses with their ports", v.At, VIPs-1)
			}
		}
		var entries []Entry
		if why == "" {
			entries, why = i.vipEntries(v, n, int(i.Size(tableRing))-used[tableRing])
		}
		if why != "" {
			out.Refused[v.Name] = why
			if had {
				out.Numbers[v.key()] = n
				out.Entries = append(out.Entries, i.vipEntriesAt(held, n)...)
			}
			continue
		}
		out.Numbers[v.key()] = n
		used[tableRing] += len(entries) - 1
		out.Entries = append(out.Entries, entries...)
	}
	return out
}

// vipEntries are what a switch holds of a VIP that has a number, or why there is no room.
func (i *Info) vipEntries(v VIP, id, left int) ([]Entry, string) {
	rows := v.rows(uint32(id))
	if len(rows)-1 > left {
		return nil, fmt.Sprintf("%s: %d entries in table %s, which has room for %d", v.At, len(rows)-1, tableRing, left)
	}
	out, err := i.bindAll(rows)
	if err != nil {
		return nil, err.Error()
	}
	return out, ""
}

func freeNumber(before, now Numbers) int {
	taken := map[int]bool{}
	for _, all := range []Numbers{before, now} {
		for _, n := range all {
			taken[n] = true
		}
	}
	for n := nobody + 1; n < VIPs; n++ {
		if !taken[n] {
			return n
		}
	}
	return -1
}

// vipEntriesAt are those that a switch holds of a number.
func (i *Info) vipEntriesAt(held []Entry, number int) (out []Entry) {
	for _, e := range held {
		s, ok := i.read(e)
		if ok && (e.table == tableVIP && s.args["number"] == uint64(number) || e.table == tableRing && s.match["meta.vip"] == uint64(number)) {
			e.rank = Ranks[e.table]
			out = append(out, e)
		}
	}
	return out
}

// Fates of connections at a switch, besides Malformed.
const (
	Redirected Fate = "redirected"
	// Unredirected were discarded: of clients that cannot be redirected, no SYN, or there was no server.
	Unredirected Fate = "not-redirected"
	Forged       Fate = "overwritten" // a redirection that a client wrote (C-28)
)

// fates of the balancer's outcomes (headers.p4 of crab).
var vipFates = map[int64]Fate{1: Redirected, 2: Redirected, 8: Malformed, 9: Malformed, 10: Malformed, 11: Malformed, 12: Malformed, 13: Malformed, 14: Unredirected, 15: Unredirected}

// VIPCells are the counters of a VIP, and what each counts.
func (i *Info) VIPCells(number int) map[Cell]Fate {
	out := map[Cell]Fate{}
	add := func(name string, at int64, fate Fate) {
		if c := i.counter(name); c != nil && at < c.GetSize() {
			out[Cell{c.GetPreamble().GetId(), at}] = fate
		}
	}
	for reason, fate := range vipFates {
		add(counterOutcomes, int64(number)*outcomesEach+reason, fate)
	}
	add("foreign", int64(number), Forged)
	return out
}
