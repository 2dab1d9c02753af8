// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
)

// Entry is one thing a switch holds, in canonical form: two entries are of one place
// when their keys are equal, and say the same when their values are, too.
type Entry struct {
	key, value string
	// rank orders writes: what an entry points at has a lower one.
	rank int
	// table is where it stands, for people and for capacities.
	table string
	// raw is what was bound or read, as it is on the wire: a load has 65,536 entries, and a message of one takes twenty
	// times as much.
	raw      []byte
	metadata []byte
	// mark is the metadata that it is to be written with; nil: what it has.
	mark []byte
}

// Entity is what is sent to the switch.
func (e Entry) Entity() *p4.Entity {
	out := &p4.Entity{}
	if proto.Unmarshal(e.raw, out) != nil {
		return &p4.Entity{} // not of what was written here
	}
	if t := out.GetTableEntry(); t != nil && e.mark != nil {
		t.Metadata = e.mark
	} else if g := out.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil && e.mark != nil {
		g.Metadata = e.mark
	}
	return out
}

// Table is the name of the table, or Groups.
func (e Entry) Table() string { return e.table }

// Of says that it carries that mark.
func (e Entry) Of(tag []byte) bool { return len(tag) > 0 && bytes.Equal(e.metadata, tag) }

// String names the entry for people.
func (e Entry) String() string { return e.key }

// Groups is where multicast groups stand.
const Groups = "multicast groups"

// Match is one field of a key.
type Match struct {
	Field string
	Value uint64
	// Prefix is the length of the prefix of an LPM field.
	Prefix int32
	// Mask says which bits of a TERNARY field count; none: the field is left out.
	Mask uint64
}

// Arg is one parameter of an action.
type Arg struct {
	Name  string
	Value uint64
}

// Row is an entry before it is bound to a P4Info.
type Row struct {
	Table  string
	Match  []Match
	Action string
	Args   []Arg
	Rank   int
	// Priority tells entries of a table with TERNARY fields apart: the highest that matches counts.
	Priority int32
}

// Bind makes an entry of a row, or says what the P4Info lacks.
func (i *Info) Bind(r Row) (Entry, error) {
	t := i.byName[r.Table]
	if t == nil {
		return Entry{}, fmt.Errorf("table %s is not there", r.Table)
	}
	a := t.actions[r.Action]
	if a == nil {
		return Entry{}, fmt.Errorf("table %s has no action %s", r.Table, r.Action)
	}
	fields, err := t.bindMatch(r.Match)
	if err != nil {
		return Entry{}, err
	}
	params, err := bindArgs(a, r.Args)
	if err != nil {
		return Entry{}, fmt.Errorf("table %s, action %s: %w", r.Table, r.Action, err)
	}
	entity := &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{
		TableId: t.GetPreamble().GetId(), Match: fields, Priority: r.Priority,
		Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{ActionId: a.GetPreamble().GetId(), Params: params}}},
	}}}
	e, err := i.Canonical(entity)
	e.rank = r.Rank
	return e, err
}

func (t *table) bindMatch(all []Match) ([]*p4.FieldMatch, error) {
	if len(all) != len(t.fields) {
		return nil, fmt.Errorf("table %s has %d fields, not %d", t.name, len(t.fields), len(all))
	}
	var out []*p4.FieldMatch
	for _, m := range all {
		f := t.fields[m.Field]
		if f == nil {
			return nil, fmt.Errorf("table %s has no field %s", t.name, m.Field)
		}
		value, err := octets(m.Value, f.GetBitwidth())
		if err != nil {
			return nil, fmt.Errorf("table %s, field %s: %w", t.name, m.Field, err)
		}
		one := &p4.FieldMatch{FieldId: f.GetId()}
		if f.GetMatchType() == p4config.MatchField_TERNARY && m.Mask == 0 {
			continue // as P4Runtime writes what matches everything
		}
		switch f.GetMatchType() {
		case p4config.MatchField_EXACT:
			one.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: value}}
		case p4config.MatchField_LPM:
			one.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: value, PrefixLen: m.Prefix}}
		case p4config.MatchField_TERNARY:
			mask, err := octets(m.Mask, f.GetBitwidth())
			if err != nil {
				return nil, fmt.Errorf("table %s, mask of field %s: %w", t.name, m.Field, err)
			}
			one.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: value, Mask: mask}}
		default:
			return nil, fmt.Errorf("table %s, field %s matches by %s; must be EXACT, TERNARY or LPM", t.name, m.Field, f.GetMatchType())
		}
		out = append(out, one)
	}
	return out, nil
}

func bindArgs(a *p4config.Action, args []Arg) ([]*p4.Action_Param, error) {
	if len(args) != len(a.GetParams()) {
		return nil, fmt.Errorf("has %d parameters, not %d", len(a.GetParams()), len(args))
	}
	var out []*p4.Action_Param
	for _, p := range a.GetParams() {
		n := slices.IndexFunc(args, func(x Arg) bool { return x.Name == p.GetName() })
		if n < 0 {
			return nil, fmt.Errorf("has a parameter %s", p.GetName())
		}
		value, err := octets(args[n].Value, p.GetBitwidth())
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.GetName(), err)
		}
		out = append(out, &p4.Action_Param{ParamId: p.GetId(), Value: value})
	}
	return out, nil
}

// octets is a number in P4Runtime's canonical form: no leading zeros, one octet at least.
func octets(v uint64, bits int32) ([]byte, error) {
	if bits < 1 || bits < 64 && v>>bits != 0 {
		return nil, fmt.Errorf("%d does not fit into %d bits", v, bits)
	}
	out := []byte{byte(v)}
	for v >>= 8; v != 0; v >>= 8 {
		out = append(out, byte(v))
	}
	slices.Reverse(out)
	return out, nil
}

// Group is a multicast group of ports.
func (i *Info) Group(id uint32, ports []uint32, rank int) (Entry, error) {
	g := &p4.MulticastGroupEntry{MulticastGroupId: id}
	for n, port := range ports {
		value, err := octets(uint64(port), 32)
		if err != nil {
			return Entry{}, err
		}
		g.Replicas = append(g.Replicas, &p4.Replica{PortKind: &p4.Replica_Port{Port: value}, Instance: uint32(n)})
	}
	e, err := i.Canonical(groupEntity(g))
	e.rank = rank
	return e, err
}

func groupEntity(g *p4.MulticastGroupEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
		Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: g},
	}}}
}

// errOutside is an entity that this program has no use for.
var errOutside = errors.New("is of no table of the pipeline, and no multicast group")

// Canonical brings what was read into the form of what is wanted. Whatever a server
// answers, it fails or returns; it never trusts a length or a nil.
func (i *Info) Canonical(entity *p4.Entity) (Entry, error) {
	if t := entity.GetTableEntry(); t != nil {
		return i.canonicalTable(entity, t)
	}
	if g := entity.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
		return Entry{key: fmt.Sprintf("multicast group %d", g.GetMulticastGroupId()), value: replicas(g), table: Groups}.keep(entity, g.GetMetadata())
	}
	return Entry{}, errOutside
}

// keep is the entry with what it was made of.
func (e Entry) keep(entity *p4.Entity, metadata []byte) (Entry, error) {
	raw, err := proto.Marshal(entity)
	if err != nil {
		return Entry{}, errOutside
	}
	e.raw, e.metadata = raw, bytes.Clone(metadata)
	return e, nil
}

func (i *Info) canonicalTable(entity *p4.Entity, t *p4.TableEntry) (Entry, error) {
	known := i.tables[t.GetTableId()]
	if known == nil || t.GetIsDefaultAction() || t.GetIsConst() {
		return Entry{}, errOutside
	}
	fields := slices.Clone(t.GetMatch())
	slices.SortStableFunc(fields, func(a, b *p4.FieldMatch) int { return cmp.Compare(a.GetFieldId(), b.GetFieldId()) })
	var key strings.Builder
	key.WriteString(known.name)
	for _, f := range fields {
		fmt.Fprintf(&key, " %s=%s", known.fieldName(f.GetFieldId()), matched(f))
	}
	if t.GetPriority() != 0 {
		fmt.Fprintf(&key, " priority=%d", t.GetPriority())
	}
	return Entry{key: key.String(), value: acted(t.GetAction()), table: known.name}.keep(entity, t.GetMetadata())
}

func (t *table) fieldName(id uint32) string {
	for name, f := range t.fields {
		if f.GetId() == id {
			return name
		}
	}
	return fmt.Sprintf("field-%d", id)
}

func matched(f *p4.FieldMatch) string {
	switch m := f.GetFieldMatchType().(type) {
	case *p4.FieldMatch_Exact_:
		return hex(m.Exact.GetValue())
	case *p4.FieldMatch_Lpm:
		return fmt.Sprintf("%s/%d", hex(m.Lpm.GetValue()), m.Lpm.GetPrefixLen())
	case *p4.FieldMatch_Ternary_:
		return fmt.Sprintf("%s&%s", hex(m.Ternary.GetValue()), hex(m.Ternary.GetMask()))
	case *p4.FieldMatch_Range_:
		return fmt.Sprintf("%s..%s", hex(m.Range.GetLow()), hex(m.Range.GetHigh()))
	case *p4.FieldMatch_Optional_:
		return "?" + hex(m.Optional.GetValue())
	}
	return "unreadable"
}

func acted(a *p4.TableAction) string {
	direct := a.GetAction()
	if direct == nil { // an action profile: nothing of ours, but it must compare
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
		if err != nil {
			return "unreadable"
		}
		return "profile " + hex(raw)
	}
	params := slices.Clone(direct.GetParams())
	slices.SortStableFunc(params, func(a, b *p4.Action_Param) int { return cmp.Compare(a.GetParamId(), b.GetParamId()) })
	var out strings.Builder
	fmt.Fprintf(&out, "action %d", direct.GetActionId())
	for _, p := range params {
		fmt.Fprintf(&out, " %d=%s", p.GetParamId(), hex(p.GetValue()))
	}
	return out.String()
}

func replicas(g *p4.MulticastGroupEntry) string {
	var all []string
	for _, r := range g.GetReplicas() {
		all = append(all, fmt.Sprintf("%s.%d", hex(replicaPort(r)), r.GetInstance()))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// replicaPort reads both forms: servers older than P4Runtime 1.4 answer in the first.
func replicaPort(r *p4.Replica) []byte {
	if _, old := r.GetPortKind().(*p4.Replica_EgressPort); old {
		//lint:ignore SA1019 what a server answers is not ours to choose
		port, _ := octets(uint64(r.GetEgressPort()), 32)
		return port
	}
	return r.GetPort()
}

// hex writes octets without leading zeros, with which some servers pad.
func hex(value []byte) string {
	if value = trimmed(value); value[0] == 0 {
		return "0x0"
	}
	return fmt.Sprintf("%#x", value)
}

// trimmed has one octet at least.
func trimmed(value []byte) []byte {
	if value = bytes.TrimLeft(value, "\x00"); len(value) == 0 {
		return []byte{0}
	}
	return value
}
