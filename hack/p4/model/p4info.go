// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
)

// The first byte of an id says what it names.
const (
	actionPrefix  = 0x01
	tablePrefix   = 0x02
	counterPrefix = 0x12
)

// P4Info is what a control plane may name, with the ids of @id; what has none gets the next number of its kind, as a
// test's own. NoAction has the id that compilers give it.
func (p *Program) P4Info() *p4config.P4Info {
	arch := map[string]string{"v1model": "v1model", "tna": "tna"}[p.Arch]
	info := &p4config.P4Info{PkgInfo: &p4config.PkgInfo{Arch: arch}}
	next := uint32(0xf000)
	preamble := func(prefix uint32, id uint64, name string) *p4config.Preamble {
		if id == 0 {
			next++
			id = uint64(next)
		}
		return &p4config.Preamble{Id: prefix<<24 | uint32(id)&0xffffff, Name: name, Alias: name[strings.LastIndexByte(name, '.')+1:]}
	}
	seen := map[string]uint32{}
	for _, t := range p.Tables {
		out := &p4config.Table{Preamble: preamble(tablePrefix, t.ID, t.Name), Size: int64(t.Size)}
		for i, k := range t.Keys {
			out.MatchFields = append(out.MatchFields, &p4config.MatchField{Id: uint32(i + 1), Name: k.Name,
				Bitwidth: int32(k.Expr.T.Width), Match: &p4config.MatchField_MatchType_{MatchType: matchType(k.Kind)}})
		}
		control := t.Name[:strings.LastIndexByte(t.Name, '.')+1]
		for _, a := range t.Actions {
			name := a.Name
			if name != "NoAction" {
				name = control + name
			}
			if seen[name] == 0 {
				act := action(name, a, preamble)
				info.Actions = append(info.Actions, act)
				seen[name] = act.Preamble.Id
			}
			out.ActionRefs = append(out.ActionRefs, &p4config.ActionRef{Id: seen[name]})
		}
		info.Tables = append(info.Tables, out)
	}
	for _, c := range p.Counters {
		info.Counters = append(info.Counters, &p4config.Counter{Preamble: preamble(counterPrefix, c.ID, c.Name), Size: int64(c.Size),
			Spec: &p4config.CounterSpec{Unit: p4config.CounterSpec_PACKETS}})
	}
	return info
}

const noActionID = 21257015 // what p4c gives to NoAction

func action(name string, a *TableAction, preamble func(uint32, uint64, string) *p4config.Preamble) *p4config.Action {
	id := a.ID
	if name == "NoAction" {
		id = noActionID
	}
	out := &p4config.Action{Preamble: preamble(actionPrefix, id, name)}
	for i, p := range a.Params {
		out.Params = append(out.Params, &p4config.Action_Param{Id: uint32(i + 1), Name: p.Name, Bitwidth: int32(p.Type.Width)})
	}
	return out
}

func matchType(kind string) p4config.MatchField_MatchType {
	return map[string]p4config.MatchField_MatchType{"exact": p4config.MatchField_EXACT, "ternary": p4config.MatchField_TERNARY,
		"lpm": p4config.MatchField_LPM}[kind]
}

// P4InfoText is the same as protobuf text.
func (p *Program) P4InfoText() (string, error) {
	text, err := prototext.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(p.P4Info())
	return "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n" + string(text), err
}
