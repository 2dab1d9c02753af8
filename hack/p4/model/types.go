// SPDX-License-Identifier: Apache-2.0

// Package model gives P4 sources their meaning: it checks the types of a strict subset of P4_16 and makes something of it
// that runs packets. It is a test tool: what it accepts and how it runs is told in docs/reference/switch-programs.md.
package model

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// TypeKind tells types apart.
type TypeKind uint8

// The kinds of types.
const (
	KBits TypeKind = iota
	KInt           // signed
	KInf           // a number without a width
	KBool
	KStruct
	KHeader
	KExtern
	KVoid
	KError
	KList
)

// Type of an expression or place.
type Type struct {
	Kind   TypeKind
	Width  int
	Name   string
	Fields []TypeField
}

// TypeField is one member of a struct or header.
type TypeField struct {
	Name string
	Type *Type
	At   int // bits from the beginning of a header
}

func (t *Type) String() string {
	switch t.Kind {
	case KBits:
		return fmt.Sprintf("bit<%d>", t.Width)
	case KInt:
		return fmt.Sprintf("int<%d>", t.Width)
	case KInf:
		return "a number without a width"
	case KBool:
		return "bool"
	case KList:
		return "a list"
	case KVoid:
		return "void"
	}
	return t.Name
}

func (t *Type) scalar() bool {
	return t.Kind == KBits || t.Kind == KInt || t.Kind == KBool || t.Kind == KError
}

func (t *Type) numeric() bool { return t.Kind == KBits || t.Kind == KInt }

func (t *Type) same(o *Type) bool {
	return t.Kind == o.Kind && t.Width == o.Width && t.Name == o.Name
}

var (
	boolType  = &Type{Kind: KBool, Width: 1}
	infType   = &Type{Kind: KInf}
	voidType  = &Type{Kind: KVoid}
	errorType = &Type{Kind: KError, Width: 8, Name: "error"}
)

func bits(w int) *Type { return &Type{Kind: KBits, Width: w} }

// Place is where a variable is kept: a slot, or places of members. A header has a slot that says whether it is valid.
type Place struct {
	Type    *Type
	Name    string
	Slot    int
	Valid   int // of the header that it is or is part of; −1: none
	Members []*Place
}

func (p *Place) member(name string) *Place {
	for i, f := range p.Type.Fields {
		if f.Name == name {
			return p.Members[i]
		}
	}
	return nil
}

// slots of a place, all of them.
func (p *Place) slots() []int {
	if p.Members == nil && p.Type.scalar() {
		return []int{p.Slot}
	}
	var all []int
	if p.Type.Kind == KHeader {
		all = append(all, p.Valid)
	}
	for _, m := range p.Members {
		all = append(all, m.slots()...)
	}
	return all
}

// headers that a place is or contains, in order.
func (p *Place) headers() []*Place {
	if p.Type.Kind == KHeader {
		return []*Place{p}
	}
	var all []*Place
	for _, m := range p.Members {
		all = append(all, m.headers()...)
	}
	return all
}

// maxSlots bounds what a program may declare.
const maxSlots = 1 << 16

// place makes room for a variable.
func (b *builder) place(t *Type, name string) *Place {
	return b.placeIn(t, name, -1)
}

func (b *builder) placeIn(t *Type, name string, valid int) *Place {
	p := &Place{Type: t, Name: name, Slot: -1, Valid: valid}
	switch t.Kind {
	case KStruct, KHeader:
		if t.Kind == KHeader {
			p.Valid = b.slot(name + ".$valid")
			valid = p.Valid
		}
		for _, f := range t.Fields {
			p.Members = append(p.Members, b.placeIn(f.Type, name+"."+f.Name, valid))
		}
	default:
		p.Slot = b.slot(name)
	}
	return p
}

func (b *builder) slot(name string) int {
	if len(b.prog.Slots) == maxSlots {
		b.fail(syntax.Pos{}, "more than %d variables", maxSlots)
	}
	b.prog.Slots = append(b.prog.Slots, name)
	return len(b.prog.Slots) - 1
}

func mask(w int) uint64 {
	if w >= 64 {
		return ^uint64(0)
	}
	return uint64(1)<<w - 1
}

// signed reads w bits as a number with a sign.
func signed(v uint64, w int) int64 { return int64(v<<(64-w)) >> (64 - w) }
