// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// effect is a node of what an extern does, with what it reads and writes.
func effect(p syntax.Pos, what string, run func(m *Machine), of ...*Expr) *Node {
	n := &Node{Kind: NEffect, Pos: p, What: what, Depth: 1, run: run}
	for _, e := range of {
		n.Reads = append(n.Reads, e.Reads...)
	}
	return n
}

// callStmt is a call for its effect.
func (b *builder) callStmt(x *syntax.Expr) []*Node {
	if x.X.Kind == syntax.EName {
		if a, ok := b.lookup(x.X.Name).(*syntax.Action); ok {
			if b.stateful != nil {
				b.fail(x.Pos, "a call in a register action is not in the subset")
			}
			return b.callAction(x.Pos, a, x.Args)
		}
		return []*Node{b.function(x)}
	}
	if x.X.Kind != syntax.EMember {
		b.fail(x.Pos, "this call is not in the subset")
	}
	method := x.X.Name
	switch of := b.named(x.X.X).(type) {
	case *Table:
		if method == "apply" && len(x.Args) == 0 {
			return []*Node{b.applyTable(x.Pos, of)}
		}
	case *object:
		return b.objectCall(x, of, method)
	}
	if method == "setValid" || method == "setInvalid" {
		b.wantArgs(x.Pos, method, x.Args, 0)
		return []*Node{b.setValid(x, method == "setValid")}
	}
	b.fail(x.Pos, "%s is not in the subset here", method)
	return nil
}

func (b *builder) header(x *syntax.Expr) *Place {
	p := b.place0(x)
	if p.Type.Kind != KHeader {
		b.fail(x.Pos, "want a header, got %s", p.Type)
	}
	return p
}

// Fields of a header that was made valid hold nothing before they are written. Here they hold this, so that a program
// which counts on zeros is another one.
const undefined = 0xa5a5a5a5a5a5a5a5

func (b *builder) setValid(x *syntax.Expr, valid bool) *Node {
	h := b.header(x.X.X)
	slot := h.Valid
	n := effect(x.Pos, h.Name+".$valid", func(m *Machine) { m.S[slot] = 0 })
	if valid {
		n.run = func(m *Machine) {
			if m.S[slot] == 0 {
				for _, f := range h.Members {
					m.S[f.Slot] = undefined & mask(f.Type.Width)
				}
			}
			m.S[slot] = 1
		}
	}
	n.Writes = []int{slot}
	b.note(slot)
	return n
}

func (b *builder) objectCall(x *syntax.Expr, o *object, method string) []*Node {
	switch o.kind + "." + method {
	case "control.apply":
		return b.callControl(x, o)
	case "packet_in.extract":
		return []*Node{b.extract(x)}
	case "packet_in.advance":
		return []*Node{b.advance(x)}
	case "packet_out.emit":
		return b.emit(x)
	case "register.read", "register.write":
		return []*Node{b.registerCall(x, o.register, method)}
	case "counter.count", "Counter.count":
		b.wantArgs(x.Pos, "count", x.Args, 1)
		at, c := b.scalar(x.Args[0], bits(32)), o.counter
		eval := at.Eval
		n := effect(x.Pos, c.Name, func(m *Machine) { m.count(c, eval(m)) }, at)
		n.Counter = c
		return []*Node{n}
	case "RegisterAction.execute":
		e := b.execute(x, o)
		n, eval := e.effect, e.Eval
		n.Depth, n.run = 1, func(m *Machine) { eval(m) }
		return []*Node{n}
	case "Mirror.emit":
		return []*Node{b.mirrorEmit(x)}
	case "Checksum.add", "Checksum.subtract":
		return []*Node{b.sumCall(x, o, method)}
	}
	b.fail(x.Pos, "%s.%s is not in the subset", o.kind, method)
	return nil
}

func (b *builder) callControl(x *syntax.Expr, o *object) []*Node {
	var nodes []*Node
	c := o.control
	kept := b.scopes
	if b.depth++; b.depth > 16 {
		b.fail(x.Pos, "controls more than 16 deep")
	}
	b.called(x.Pos, c.Params, x.Args, func() {
		bound := b.scopes[len(b.scopes)-1]
		b.scopes = []map[string]any{kept[0], bound}
		nodes = b.control(c, o.name)
	})
	b.depth--
	b.scopes = kept
	return nodes
}

func (b *builder) registerCall(x *syntax.Expr, r *Register, method string) *Node {
	b.wantArgs(x.Pos, method, x.Args, 2)
	if method == "read" {
		to, at := b.expr(x.Args[0], nil), b.scalar(x.Args[1], bits(32))
		if to.Place == nil || to.Sliced || !to.T.same(r.Lanes[0]) {
			b.fail(x.Pos, "read of %s wants a variable of %s", r.Name, r.Lanes[0])
		}
		slot, eval := to.Place.Slot, at.Eval
		n := effect(x.Pos, r.Name, func(m *Machine) { m.S[slot] = m.readWord(r, eval(m)) }, at)
		n.Register, n.Writes = r, []int{slot}
		b.note(slot)
		return n
	}
	at, value := b.scalar(x.Args[0], bits(32)), b.scalar(x.Args[1], r.Lanes[0])
	if !value.T.same(r.Lanes[0]) {
		b.fail(x.Pos, "%s holds %s, got %s", r.Name, r.Lanes[0], value.T)
	}
	ae, ve := at.Eval, value.Eval
	n := effect(x.Pos, r.Name, func(m *Machine) { m.writeWord(r, ae(m), ve(m)) }, at, value)
	n.Register = r
	return n
}

// fieldList is a list of fields for a checksum: how to put them one behind the other.
func (b *builder) fieldList(x *syntax.Expr) (*Expr, func(m *Machine) uint64) {
	list := &Expr{T: &Type{Kind: KList}}
	if x.Kind == syntax.EList {
		list = b.expr(x, nil)
	} else {
		for _, m := range b.place0(x).Members {
			list.List = append(list.List, b.read(m))
		}
	}
	total := 0
	for _, e := range list.List {
		if !e.T.numeric() {
			b.fail(x.Pos, "a checksum of %s", e.T)
		}
		total += e.T.Width
		list.Reads = append(list.Reads, e.Reads...)
	}
	if total%8 != 0 {
		b.fail(x.Pos, "a checksum of %d bits: want whole bytes", total)
	}
	fields := list.List
	return list, func(m *Machine) uint64 { return onesSum(m, fields, total) }
}

// onesSum adds up 16-bit words in one's complement; the last one is filled up with zeros.
func onesSum(m *Machine, fields []*Expr, total int) uint64 {
	sum, at := uint64(0), 0 // at: bits before the field
	for _, e := range fields {
		v, w := e.Eval(m), e.T.Width
		for w > 0 {
			n := min(w, 16-at%16)
			part := v >> (w - n) & mask(n)
			sum += part << (16 - at%16 - n)
			at += n
			w -= n
		}
	}
	return fold(sum)
}

func fold(sum uint64) uint64 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

func (b *builder) sumCall(x *syntax.Expr, o *object, method string) *Node {
	b.wantArgs(x.Pos, method, x.Args, 1)
	list, sum := b.fieldList(x.Args[0])
	slot, sub := o.sum, method == "subtract"
	n := effect(x.Pos, o.name, func(m *Machine) {
		v := sum(m)
		if sub {
			v ^= 0xffff
		}
		m.S[slot] = fold(m.S[slot] + v)
	}, list)
	n.Writes = []int{slot}
	return n
}
