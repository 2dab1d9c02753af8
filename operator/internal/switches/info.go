// SPDX-License-Identifier: Apache-2.0

// Package switches decides what a programmable switch must hold: tables as its P4Info
// describes them, entries in one canonical form, the difference between what is wanted
// and what was read, and the order in which it is written (W-20 to W-24). It is pure;
// package link speaks to switches and package keeper looks after them.
package switches

import (
	"errors"
	"fmt"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
)

// MaxInfoBytes bounds a P4Info.
const MaxInfoBytes = 1 << 20

// Info is a P4Info, indexed.
type Info struct {
	// P4 is what it was made from.
	P4      *p4config.P4Info
	tables  map[uint32]*table
	byName  map[string]*table
	actions map[uint32]*p4config.Action
}

// table is one table of a P4Info.
type table struct {
	*p4config.Table
	name    string
	fields  map[string]*p4config.MatchField
	actions map[string]*p4config.Action
}

// ParseInfo reads a P4Info in protobuf's text format, as compilers write it.
func ParseInfo(text []byte) (*Info, error) {
	if len(text) > MaxInfoBytes {
		return nil, fmt.Errorf("%d bytes: must be at most %d", len(text), MaxInfoBytes)
	}
	p4 := &p4config.P4Info{}
	if err := prototext.Unmarshal(text, p4); err != nil {
		return nil, fmt.Errorf("is no P4Info in protobuf's text format: %w", err)
	}
	return NewInfo(p4)
}

// NewInfo indexes a P4Info and refuses one that contradicts itself.
func NewInfo(p4 *p4config.P4Info) (*Info, error) {
	i := &Info{P4: p4, tables: map[uint32]*table{}, byName: map[string]*table{}, actions: map[uint32]*p4config.Action{}}
	for _, a := range p4.GetActions() {
		id := a.GetPreamble().GetId()
		if i.actions[id] != nil {
			return nil, fmt.Errorf("action id %#x stands twice", id)
		}
		i.actions[id] = a
	}
	for _, t := range p4.GetTables() {
		if err := i.add(t); err != nil {
			return nil, err
		}
	}
	if len(i.tables) == 0 {
		return nil, errors.New("describes no table")
	}
	return i, nil
}

func (i *Info) add(t *p4config.Table) error {
	name := plainName(t.GetPreamble().GetName())
	id := t.GetPreamble().GetId()
	if i.tables[id] != nil || i.byName[name] != nil {
		return fmt.Errorf("table %s (id %#x) stands twice", name, id)
	}
	out := &table{Table: t, name: name, fields: map[string]*p4config.MatchField{}, actions: map[string]*p4config.Action{}}
	for _, f := range t.GetMatchFields() {
		out.fields[f.GetName()] = f
	}
	for _, ref := range t.GetActionRefs() {
		a := i.actions[ref.GetId()]
		if a == nil {
			return fmt.Errorf("table %s names action %#x, which is not there", name, ref.GetId())
		}
		out.actions[plainName(a.GetPreamble().GetName())] = a
	}
	i.tables[id], i.byName[name] = out, out
	return nil
}

// plainName is what stands behind the last dot: where a table is declared differs between
// the architectures, and one compiler gives a prefix of its own (W-12).
func plainName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// Size is how many entries a table holds.
func (i *Info) Size(name string) int64 {
	if t := i.byName[name]; t != nil {
		return t.GetSize()
	}
	return 0
}

// Tables are the ids of all tables that a controller may write, in the order of the
// P4Info.
func (i *Info) Tables() (out []uint32) {
	for _, t := range i.P4.GetTables() {
		if !t.GetIsConstTable() {
			out = append(out, t.GetPreamble().GetId())
		}
	}
	return out
}

// TableID is the id of a table; 0: there is none.
func (i *Info) TableID(name string) uint32 {
	if t := i.byName[name]; t != nil {
		return t.GetPreamble().GetId()
	}
	return 0
}

// TableName is the name of a table, for people.
func (i *Info) TableName(id uint32) string {
	if t := i.tables[id]; t != nil {
		return t.name
	}
	return fmt.Sprintf("table %d", id)
}
