// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// The router program's tables (dataplane/p4/router), and the order in which they are
// written: what an entry points at has a lower rank.
const (
	tableStation   = "station"
	tableOwn       = "own"
	tableOwnSource = "own_source"
	tableAddress   = "address"
)

// Ranks of the tables.
var Ranks = map[string]int{Groups: 0, tableStation: 1, tableOwn: 1, tableOwnSource: 1, tableAddress: 2, tableTarget: 2, tableMember: 3, tableRing: 3, tableBucket: 1, tableAdmit: 3, tableObjective: 3, tableService: 4,
	tableSpread: 3, tableVIP: 4, tableGap: 1, tableReply: 3, tableSource: 4, tableReceiver: 1, tableNames: 1, tableGroupOf: 4, tableBoxOf: 4}

// Flood is what the program adds the port to by which a frame came: the sum is the
// multicast group of all other ports, so that nobody hears himself.
const Flood = 1

// broadcast is the MAC address of everybody.
const broadcast = 1<<48 - 1

// What ARP asks with.
const (
	arpRequest = 1
	etherIPv4  = 0x0800
)

// Fabric is what a switch must know before it serves anybody: its ports, who is behind
// them, and which addresses are its own.
type Fabric struct {
	Ports    []uint32
	NextHops []NextHop
	// Pool holds networks of addresses of services, for which the switch answers ARP with
	// its own MAC address.
	Pool []netip.Prefix
	MAC  uint64
}

// NextHop is a station behind a port.
type NextHop struct {
	MAC  uint64
	Port uint32
}

// Entries are what a switch holds of a fabric. Frames for everybody go to all other ports;
// those for a station to its own. Who asks for an address of the pool is answered; what is
// sent there and is no service's is discarded and counted, and so is what pretends to
// come from there.
func (i *Info) Entries(f Fabric) ([]Entry, error) {
	out, err := i.floods(f.Ports)
	if err != nil {
		return nil, err
	}
	rows := []Row{{Table: tableStation, Match: []Match{{Field: "hdr.ethernet.dst", Value: broadcast}}, Action: "to_group", Args: []Arg{{"number", Flood}}}}
	for _, h := range f.NextHops {
		rows = append(rows, Row{Table: tableStation, Match: []Match{{Field: "hdr.ethernet.dst", Value: h.MAC}}, Action: "to_port", Args: []Arg{{"port", uint64(h.Port)}}})
	}
	if i.Program() == ProgramSLOG {
		rows = append(rows, generatorRows(f)...)
		f.Pool = nil // its addresses are stamps
	}
	for _, p := range f.Pool {
		for a := p.Masked().Addr(); p.Contains(a); a = a.Next() {
			address := number(a)
			rows = append(rows, Row{Table: tableOwn, Match: []Match{{Field: "hdr.ipv4.dst", Value: address}}, Action: "is_own"})
			if i.byName[tableOwnSource] != nil || i.Program() == ProgramRouter { // the others' packets keep their senders' addresses, or are known by them
				rows = append(rows, Row{Table: tableOwnSource, Match: []Match{{Field: "hdr.ipv4.src", Value: address}}, Action: "is_own_source"})
			}
			rows = append(rows, Row{Table: tableAddress, Match: []Match{{Field: "hdr.arp.target", Value: address}, {Field: "hdr.arp.operation", Value: arpRequest}, {Field: "hdr.arp.protocol", Value: etherIPv4}},
				Action: "is_asked", Args: []Arg{{"mac", f.MAC}}})
		}
	}
	if i.Measures() {
		rows = append(rows, bucketRows()...)
	}
	var wrong []error
	for _, r := range rows {
		r.Rank = Ranks[r.Table]
		e, err := i.Bind(r)
		if err != nil {
			wrong = append(wrong, err)
			if len(wrong) == 3 {
				break
			}
			continue
		}
		out = append(out, e)
	}
	return out, errors.Join(wrong...)
}

// floods are a group for each port, of all others.
func (i *Info) floods(ports []uint32) (out []Entry, err error) {
	ports = slices.Sorted(slices.Values(ports))
	for n, port := range ports {
		others := slices.Delete(slices.Clone(ports), n, n+1)
		if len(others) == 0 {
			break // a group of nobody: frames for it are discarded without one
		}
		group, err := i.Group(Flood+port, others, Ranks[Groups])
		if err != nil {
			return nil, err
		}
		out = append(out, group)
	}
	return out, nil
}

func number(a netip.Addr) (n uint64) {
	for _, b := range a.As4() {
		n = n<<8 | uint64(b)
	}
	return n
}

// Addresses is how many addresses a pool has.
func Addresses(pool []netip.Prefix) (n int) {
	for _, p := range pool {
		n += 1 << (32 - p.Bits())
	}
	return n
}

// Fit says what of a fabric a pipeline has no room for, with the number that would fit
// (W-24). It counts before any entry is made.
func (i *Info) Fit(f Fabric) []string {
	var out []string
	short := func(field, table string, want, reserved int64) {
		if i.byName[table] == nil {
			return // Entries says so
		}
		if room := i.Size(table) - reserved; want > room {
			out = append(out, fmt.Sprintf("`%s`: %d, and table %s of the pipeline has room for %d", field, want, table, max(room, 0)))
		}
	}
	if i.Program() == ProgramSLOG {
		short("spec.nextHops", tableStation, int64(len(f.NextHops)), 1)
		short("spec.addressPool", tableOwn, int64(len(f.Pool)), 0)
		return out
	}
	short("spec.nextHops", tableStation, int64(len(f.NextHops)), 1)
	short("spec.addressPool", tableOwn, int64(Addresses(f.Pool)), 0)
	short("spec.addressPool", tableOwnSource, int64(Addresses(f.Pool)), 0)
	short("spec.addressPool", tableAddress, int64(Addresses(f.Pool)), 0)
	return out
}
