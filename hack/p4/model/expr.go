// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

func constant(t *Type, v uint64) *Expr {
	return &Expr{T: t, Const: true, Value: v, Eval: func(*Machine) uint64 { return v }}
}

// expr gives an expression its meaning. want: the type that a number without a width takes; may be nil.
func (b *builder) expr(x *syntax.Expr, want *Type) *Expr {
	e := b.anyExpr(x, want)
	if e.T.Kind == KInf && want != nil && want.numeric() {
		return b.fit(x.Pos, e, want)
	}
	return e
}

func (b *builder) anyExpr(x *syntax.Expr, want *Type) *Expr {
	switch x.Kind {
	case syntax.ENumber:
		return b.number(x)
	case syntax.EBool:
		return constant(boolType, x.Value)
	case syntax.EName, syntax.EMember:
		return b.reference(x)
	case syntax.ESlice:
		return b.slice(x)
	case syntax.EUnary:
		return b.unary(x, want)
	case syntax.EBinary:
		return b.binary(x, want)
	case syntax.ECond:
		return b.choice(x, want)
	case syntax.ECast:
		return b.cast(x)
	case syntax.ECall:
		return b.callExpr(x)
	}
	list := &Expr{T: &Type{Kind: KList}}
	for _, a := range x.Args {
		list.List = append(list.List, b.expr(a, nil))
	}
	return list
}

func (b *builder) number(x *syntax.Expr) *Expr {
	t := infType
	if x.Width > 0 {
		t = bits(x.Width)
		if x.Signed {
			t = &Type{Kind: KInt, Width: x.Width}
		}
	}
	if b.stateful != nil && x.Value != 0 {
		b.stateful.Constants[x.Value] = true
	}
	return constant(t, x.Value)
}

// fit gives a number without a width one.
func (b *builder) fit(p syntax.Pos, e *Expr, t *Type) *Expr {
	v := int64(e.Value)
	if v >= 0 && e.Value&^mask(t.Width) != 0 || v < 0 && (t.Width < 64 && v < -(int64(1)<<(t.Width-1))) {
		b.fail(p, "%d does not fit %s", v, t)
	}
	return constant(t, e.Value&mask(t.Width))
}

// reference is a name, or a member of something.
func (b *builder) reference(x *syntax.Expr) *Expr {
	if x.Kind == syntax.EMember && x.X.Kind == syntax.EName && b.lookup(x.X.Name) == nil {
		if v, t := enumValue(x.X.Name, x.Name); t != nil {
			return constant(t, v)
		}
	}
	if x.Kind == syntax.EName {
		switch what := b.lookup(x.Name).(type) {
		case *Place:
			return b.read(what)
		case *Expr:
			return b.noteInput(what)
		case nil:
			b.fail(x.Pos, "%s is not declared", x.Name)
		}
		b.fail(x.Pos, "%s is no value", x.Name)
	}
	of := b.place0(x.X)
	m := of.member(x.Name)
	if m == nil {
		b.fail(x.Pos, "%s has no member %s", of.Type, x.Name)
	}
	return b.read(m)
}

// place0 is an expression that names a struct or header.
func (b *builder) place0(x *syntax.Expr) *Place {
	e := b.reference0(x)
	if e.Place == nil || e.Sliced {
		b.fail(x.Pos, "want a struct or a header")
	}
	return e.Place
}

func (b *builder) reference0(x *syntax.Expr) *Expr {
	if x.Kind != syntax.EName && x.Kind != syntax.EMember {
		b.fail(x.Pos, "want the name of a variable")
	}
	return b.reference(x)
}

// read is the value of a variable.
func (b *builder) read(p *Place) *Expr {
	e := &Expr{T: p.Type, Place: p, Hi: p.Type.Width - 1}
	if !p.Type.scalar() {
		e.Reads = p.slots()
		return e
	}
	slot, valid := p.Slot, p.Valid
	e.Reads = []int{slot}
	if valid < 0 {
		e.Eval = func(m *Machine) uint64 { return m.S[slot] }
	} else {
		e.Eval = func(m *Machine) uint64 {
			if m.S[valid] == 0 {
				m.invalid(slot)
			}
			return m.S[slot]
		}
	}
	return b.noteInput(e)
}

// noteInput remembers what a register action takes from the packet.
func (b *builder) noteInput(e *Expr) *Expr {
	if b.stateful != nil && !e.Const {
		for _, s := range e.Reads {
			if !b.stateful.outer[s] {
				b.stateful.Inputs[s] = true
			}
		}
	}
	return e
}

func (b *builder) constantExpr(x *syntax.Expr, want *Type) uint64 {
	e := b.expr(x, want)
	if !e.Const {
		b.fail(x.Pos, "want a constant")
	}
	return e.Value
}

func (b *builder) slice(x *syntax.Expr) *Expr {
	of := b.scalar(x.X, nil)
	hi, lo := b.constantExpr(x.Hi, nil), b.constantExpr(x.Lo, nil)
	if !of.T.numeric() || hi < lo || hi >= uint64(of.T.Width) {
		b.fail(x.Pos, "[%d:%d] of %s", hi, lo, of.T)
	}
	t, m := bits(int(hi-lo)+1), mask(int(hi-lo)+1)
	if of.Const {
		return constant(t, of.Value>>lo&m)
	}
	eval := of.Eval
	return &Expr{T: t, Reads: of.Reads, Depth: of.Depth, Place: of.Place, Sliced: true, Hi: of.Lo + int(hi), Lo: of.Lo + int(lo),
		Eval: func(mm *Machine) uint64 { return eval(mm) >> lo & m }}
}

// scalar is an expression that is a number or a truth, without an effect.
func (b *builder) scalar(x *syntax.Expr, want *Type) *Expr {
	e := b.expr(x, want)
	if !e.T.scalar() && e.T.Kind != KInf {
		b.fail(x.Pos, "want a value, got %s", e.T)
	}
	if e.effect != nil {
		b.fail(x.Pos, "a call with an effect inside an expression is not in the subset")
	}
	return e
}

func (b *builder) unary(x *syntax.Expr, want *Type) *Expr {
	e := b.scalar(x.X, want)
	w := mask(e.T.Width)
	var f func(v uint64) uint64
	switch {
	case x.Op == "!" && e.T.Kind == KBool:
		f = func(v uint64) uint64 { return v ^ 1 }
	case x.Op == "~" && e.T.numeric():
		f = func(v uint64) uint64 { return ^v & w }
	case x.Op == "-" && e.T.numeric():
		f = func(v uint64) uint64 { return -v & w }
	case x.Op == "-" && e.T.Kind == KInf:
		return constant(infType, -e.Value)
	default:
		b.fail(x.Pos, "%s of %s", x.Op, e.T)
	}
	if e.Const {
		return constant(e.T, f(e.Value))
	}
	eval, depth := e.Eval, e.Depth
	if x.Op != "!" {
		depth++
	}
	return &Expr{T: e.T, Reads: e.Reads, Depth: depth, Unequal: e.Unequal, Computes: e.Computes,
		Eval: func(m *Machine) uint64 { return f(eval(m)) }}
}

func (b *builder) choice(x *syntax.Expr, want *Type) *Expr {
	c := b.scalar(x.X, boolType)
	y, z := b.operands(x.Pos, x.Y, x.Z, want)
	if c.T.Kind != KBool {
		b.fail(x.Pos, "want a bool before ?, got %s", c.T)
	}
	test, yes, no := c.Eval, y.Eval, z.Eval
	return &Expr{T: y.T, Reads: slices.Concat(c.Reads, y.Reads, z.Reads), Depth: max(c.Depth, y.Depth, z.Depth) + 1,
		Eval: func(m *Machine) uint64 {
			if test(m) != 0 {
				return yes(m)
			}
			return no(m)
		}}
}

// operands of one type; a number without a width takes the other's.
func (b *builder) operands(p syntax.Pos, xx, yy *syntax.Expr, want *Type) (*Expr, *Expr) {
	x, y := b.scalar(xx, want), b.scalar(yy, want)
	if x.T.Kind == KInf && y.T.numeric() {
		x = b.fit(p, x, y.T)
	}
	if y.T.Kind == KInf && x.T.numeric() {
		y = b.fit(p, y, x.T)
	}
	if !x.T.same(y.T) {
		b.fail(p, "%s and %s are two types", x.T, y.T)
	}
	return x, y
}

// cast changes a type where P4_16 lets it.
func (b *builder) cast(x *syntax.Expr) *Expr {
	t := b.typeOf(x.Type)
	e := b.expr(x.X, nil)
	if e.T.Kind == KInf && t.numeric() {
		return constant(t, e.Value&mask(t.Width))
	}
	from := e.T
	if !castable(from, t) {
		b.fail(x.Pos, "a cast of %s to %s is not in the subset", from, t)
	}
	if e.Const {
		return constant(t, recast(e.Value, from, t))
	}
	out := *e
	out.T = t
	if t.Width != from.Width {
		eval := e.Eval
		out.Eval = func(m *Machine) uint64 { return recast(eval(m), from, t) }
		out.Place = nil
	}
	return &out
}

func castable(from, to *Type) bool {
	if from.numeric() && to.numeric() {
		return from.Kind == to.Kind || from.Width == to.Width
	}
	return from.Width == 1 && to.Width == 1 && (from.Kind == KBool || to.Kind == KBool)
}

func recast(v uint64, from, to *Type) uint64 {
	if from.Kind == KInt && to.Width > from.Width {
		return uint64(signed(v, from.Width)) & mask(to.Width)
	}
	return v & mask(to.Width)
}
