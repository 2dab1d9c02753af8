// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Where an aggregator and the members of a group are.
const (
	AggregatorIP    = 0x0a000501
	AggregatorPort  = 8400
	AggregatorMAC   = RouterMAC
	GroupNumber     = 11
	GroupCopies     = 1100
	GroupSlots      = 9
	MemberGroupPort = 8300
	firstMemberPort = 20 // of the switch: two members a port
	memberNet       = 0x0a030000
	memberMAC       = 0x020000040000
	padID           = 0xffff - GroupSlots // ids of slots without a member
)

// What the program counts of a message, as headers.p4 of aggregator numbers it.
const (
	AggMalformed  = 12
	AggMany       = 25
	AggReasons    = 27
	aggregate     = "Ingress.aggregate."
	tell          = "Egress.tell."
	groupHeader   = 24
	committedHead = 20
)

// AggregatorReason is the number of a reason by the software's word for it (replica/aggregator.h), or by that of the tables.
var AggregatorReason = map[string]int{"source": 11, "malformed": AggMalformed, "foreign": 13, "unknown": 14, "stale": 15, "epoch": 16,
	"stranger": 17, "low": 18, "high": 19, "refusals": 20, "probes": 21, "passed": 22, "announced": 23, "nothing_new": 24}

// GroupMember is one of a configuration.
type GroupMember struct {
	ID    uint16
	Votes bool
}

// Group is what a controller knows of one.
type Group struct {
	ID      uint32
	Cluster uint64
	Epoch   uint64
	Members []GroupMember
}

// Aggregator is a program that aggregates.
type Aggregator struct {
	*model.Machine
	group Group
}

// NewAggregator is a fresh switch with a group in its tables.
func NewAggregator(p *model.Program, g Group) (*Aggregator, error) {
	a := &Aggregator{Machine: model.NewMachine(p)}
	err := a.add(aggregate+"own", "is_own", []uint64{AggregatorIP})
	asked := []uint64{AggregatorIP, 1, 0x0800}
	err = first(err, a.add(aggregate+"address", "is_asked", asked, AggregatorMAC))
	err = first(err, a.add(aggregate+"station", "to_port", []uint64{RouterMAC + 9}, OtherPort))
	return a, first(err, a.Write(g))
}

func (a *Aggregator) add(table, action string, key []uint64, args ...uint64) error {
	e := model.Entry{Action: action, Args: args}
	for _, k := range key {
		e.Match = append(e.Match, model.Match{Value: k})
	}
	return a.Insert(table, e)
}

// memberKey is where a member sends from.
func memberKey(slot int) []uint64 {
	return []uint64{uint64(MemberIP(slot)), MemberGroupPort, MemberSwitchPort(slot), AggregatorIP, AggregatorPort}
}

// MemberIP of the member in a slot, which are counted from 1.
func MemberIP(slot int) uint32 { return memberNet + uint32(slot) }

// MemberSwitchPort is the switch's port of a member: some share one.
func MemberSwitchPort(slot int) uint64 { return firstMemberPort + uint64(slot)/2 }

// Write puts a group into the tables, in place of the one that is there: the entry of the group first out, last in (W-22).
func (a *Aggregator) Write(g Group) error {
	exact := func(v ...uint64) (m []model.Match) {
		for _, x := range v {
			m = append(m, model.Match{Value: x})
		}
		return m
	}
	var err error
	if len(a.group.Members) > 0 {
		err = first(err, a.Delete(aggregate+"group_of", exact(AggregatorIP, AggregatorPort), 0))
		for slot := 1; slot <= len(a.group.Members); slot++ {
			err = first(err, a.Delete(aggregate+"member", exact(memberKey(slot)...), 0))
			err = first(err, a.Delete(tell+"receiver", exact(GroupNumber, uint64(slot)), 0))
		}
	}
	a.group = g
	voters, ids, copies := uint64(0), make([]uint64, GroupSlots), []model.Copy{}
	for i := range ids {
		ids[i] = uint64(padID + i)
	}
	for i, m := range g.Members {
		slot, counts := uint64(i+1), uint64(0)
		if m.Votes {
			counts, voters = slot, voters+1
		}
		ids[i] = uint64(m.ID)
		copies = append(copies, model.Copy{Port: MemberSwitchPort(i + 1), Instance: slot})
		err = first(err, a.add(aggregate+"member", "is_member", memberKey(i+1), slot, counts, uint64(m.ID)))
		err = first(err, a.add(tell+"receiver", "to_member", []uint64{GroupNumber, slot}, memberMAC+slot, uint64(MemberIP(i+1)), MemberGroupPort))
	}
	a.Groups[GroupCopies] = copies
	err = first(err, a.add(tell+"names", "are", []uint64{GroupNumber}, ids...))
	return first(err, a.add(aggregate+"group_of", "aggregate", []uint64{AggregatorIP, AggregatorPort}, GroupNumber, uint64(g.ID), g.Cluster>>32,
		g.Cluster&0xffffffff, g.Epoch>>32, g.Epoch&0xffffffff, voters/2, GroupCopies))
}

// SlotOf a member, or 0.
func (a *Aggregator) SlotOf(id uint16) int {
	for i, m := range a.group.Members {
		if m.ID == id {
			return i + 1
		}
	}
	return 0
}

// Reason is how often something was counted of the group.
func (a *Aggregator) Reason(r int) uint64 {
	return a.Count(aggregate+"outcomes", GroupNumber<<5|uint64(r))
}

// FromMember is a frame with a message of the member in a slot, as it sends it to a switch; slot 0: of somebody else.
func FromMember(slot int, message []byte) model.Frame {
	payload := append([]byte{0xcc, 8, 0x50, 0xe0, 0x12, 0x34, 0, 1}, message...)
	return DatagramOf(slot, append(payload, 1, 2, 3, 4, 5, 6, 7, byte(slot))) // its disk
}

// DatagramOf the member in a slot for the aggregator.
func DatagramOf(slot int, payload []byte) model.Frame {
	e := Ends{MemberIP(slot), AggregatorIP, MemberGroupPort, AggregatorPort}
	return model.Frame{Port: MemberSwitchPort(slot), Data: Frame(e, payload)}
}

// Told is what a switch sends the member in a slot, made of what the software's aggregator sends it.
func (a *Aggregator) Told(slot int, message []byte, in model.Frame) model.Frame {
	f := model.Frame{Port: MemberSwitchPort(slot)}
	ends := Ends{AggregatorIP, MemberIP(slot), AggregatorPort, MemberGroupPort}
	if binary.BigEndian.Uint16(message[2:]) != 0xffff { // passed on as it came
		f.Data = append([]byte{}, in.Data...)
		put48(f.Data, uint64(memberMAC+slot))
		put48(f.Data[6:], AggregatorMAC)
		binary.BigEndian.PutUint32(f.Data[26:], ends.Src)
		binary.BigEndian.PutUint32(f.Data[30:], ends.Dst)
		binary.BigEndian.PutUint16(f.Data[34:], ends.SrcPort)
		binary.BigEndian.PutUint16(f.Data[36:], ends.DstPort)
		SetSums(f.Data)
		return f
	}
	payload := append([]byte{0xcc, 8, 0x50, 0xe0, 0, 0, 0, 1}, a.whole(message)...)
	payload = append(payload, make([]byte, 8)...)
	f.Data = Frame(ends, payload)
	put48(f.Data, uint64(memberMAC+slot))
	put48(f.Data[6:], AggregatorMAC)
	if binary.BigEndian.Uint16(message[:2]) == 0x0106 { // to a leader, by what came: its own address
		put48(f.Data, ClientMAC)
	}
	return f
}

const committed = 0x0104

// whole fills an AGG_COMMIT up to nine members. Who did not say how far it applied has 0.
func (a *Aggregator) whole(message []byte) []byte {
	if binary.BigEndian.Uint16(message) != committed {
		return message
	}
	said := map[uint16][]byte{}
	for at := groupHeader + committedHead; at < len(message); at += 12 {
		if applied := message[at+4 : at+12]; binary.BigEndian.Uint32(applied[4:]) != 0 {
			said[binary.BigEndian.Uint16(message[at:])] = applied
		}
	}
	out := append([]byte{}, message[:groupHeader+committedHead]...)
	binary.BigEndian.PutUint32(out[groupHeader:], GroupSlots)
	for i := range GroupSlots {
		id := uint16(padID + i)
		if i < len(a.group.Members) {
			id = a.group.Members[i].ID
		}
		done := make([]byte, 12)
		binary.BigEndian.PutUint16(done, id)
		copy(done[4:], said[id])
		out = append(out, done...)
	}
	return out
}

// Settled is a frame whose UDP checksum of 0xffff, which stands for 0, is written as the other one.
func Settled(f []byte) string {
	if len(f) >= Plain && f[40] == 0 && f[41] == 0 {
		f = append([]byte{}, f...)
		f[40], f[41] = 0xff, 0xff
	}
	return hex.EncodeToString(f)
}
