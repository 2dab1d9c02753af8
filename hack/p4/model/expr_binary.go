// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

func (b *builder) binary(x *syntax.Expr, want *Type) *Expr {
	switch x.Op {
	case "&&", "||":
		return b.logic(x)
	case "<<", ">>":
		return b.shift(x, want)
	case "++":
		return b.concat(x)
	case "==", "!=", "<", ">", "<=", ">=":
		return b.compare(x)
	}
	l, r := b.operands(x.Pos, x.X, x.Y, want)
	f := arithmetic(x.Op, l.T)
	if f == nil {
		b.fail(x.Pos, "%s of %s", x.Op, l.T)
	}
	if l.Const && r.Const {
		return constant(l.T, f(l.Value, r.Value))
	}
	le, re := l.Eval, r.Eval
	return &Expr{T: l.T, Reads: slices.Concat(l.Reads, r.Reads), Depth: max(l.Depth, r.Depth) + 1,
		Eval: func(m *Machine) uint64 { return f(le(m), re(m)) }}
}

// arithmetic of two numbers of a type; nil: there is none.
func arithmetic(op string, t *Type) func(a, c uint64) uint64 {
	w := mask(t.Width)
	if t.Kind == KInf {
		w = ^uint64(0)
	}
	switch op {
	case "+":
		return func(a, c uint64) uint64 { return (a + c) & w }
	case "-":
		return func(a, c uint64) uint64 { return (a - c) & w }
	case "&":
		return func(a, c uint64) uint64 { return a & c }
	case "|":
		return func(a, c uint64) uint64 { return a | c }
	case "^":
		return func(a, c uint64) uint64 { return a ^ c }
	case "|+|", "|-|":
		return saturating(op, t)
	}
	return nil
}

func saturating(op string, t *Type) func(a, c uint64) uint64 {
	w, width := mask(t.Width), t.Width
	switch {
	case t.Kind == KBits && op == "|+|":
		return func(a, c uint64) uint64 {
			if s := a + c; s <= w && s >= a {
				return s
			}
			return w
		}
	case t.Kind == KBits:
		return func(a, c uint64) uint64 {
			if c > a {
				return 0
			}
			return a - c
		}
	case t.Kind == KInt && width < 64:
		return func(a, c uint64) uint64 {
			s := signed(a, width) + signed(c, width)
			if op == "|-|" {
				s = signed(a, width) - signed(c, width)
			}
			return uint64(min(max(s, -(int64(1)<<(width-1))), int64(1)<<(width-1)-1)) & w
		}
	}
	return nil
}

func (b *builder) logic(x *syntax.Expr) *Expr {
	l, r := b.scalar(x.X, boolType), b.scalar(x.Y, boolType)
	if l.T.Kind != KBool || r.T.Kind != KBool {
		b.fail(x.Pos, "%s of %s and %s", x.Op, l.T, r.T)
	}
	le, re, and := l.Eval, r.Eval, x.Op == "&&"
	return &Expr{T: boolType, Reads: slices.Concat(l.Reads, r.Reads), Depth: max(l.Depth, r.Depth),
		Unequal: l.Unequal || r.Unequal, Computes: l.Computes || r.Computes,
		Eval: func(m *Machine) uint64 {
			v := le(m)
			if (v != 0) == and {
				return re(m)
			}
			return v
		}}
}

func (b *builder) shift(x *syntax.Expr, want *Type) *Expr {
	l := b.scalar(x.X, want)
	by := b.constantExpr(x.Y, nil)
	if !l.T.numeric() || by > 64 {
		b.fail(x.Pos, "%s of %s by %d", x.Op, l.T, by)
	}
	w, width, left, arith := mask(l.T.Width), l.T.Width, x.Op == "<<", l.T.Kind == KInt
	f := func(v uint64) uint64 {
		switch {
		case left:
			return v << by & w
		case arith:
			return uint64(signed(v, width)>>by) & w
		}
		return v >> by
	}
	if l.Const {
		return constant(l.T, f(l.Value))
	}
	eval := l.Eval
	return &Expr{T: l.T, Reads: l.Reads, Depth: l.Depth + 1, Eval: func(m *Machine) uint64 { return f(eval(m)) }}
}

func (b *builder) concat(x *syntax.Expr) *Expr {
	l, r := b.scalar(x.X, nil), b.scalar(x.Y, nil)
	if !l.T.numeric() || !r.T.numeric() || l.T.Width+r.T.Width > 64 {
		b.fail(x.Pos, "%s ++ %s", l.T, r.T)
	}
	t, by := bits(l.T.Width+r.T.Width), r.T.Width
	if l.Const && r.Const {
		return constant(t, l.Value<<by|r.Value)
	}
	le, re := l.Eval, r.Eval
	return &Expr{T: t, Reads: slices.Concat(l.Reads, r.Reads), Depth: max(l.Depth, r.Depth),
		Eval: func(m *Machine) uint64 { return le(m)<<by | re(m) }}
}

func (b *builder) compare(x *syntax.Expr) *Expr {
	l, r := b.operands(x.Pos, x.X, x.Y, nil)
	equality := x.Op == "==" || x.Op == "!="
	if !equality && !l.T.numeric() {
		b.fail(x.Pos, "%s of %s", x.Op, l.T)
	}
	if b.stateful != nil {
		b.stateful.Comparisons++
	}
	f := comparison(x.Op, l.T)
	if l.Const && r.Const {
		return constant(boolType, truth(f(l.Value, r.Value)))
	}
	le, re := l.Eval, r.Eval
	return &Expr{T: boolType, Reads: slices.Concat(l.Reads, r.Reads), Depth: max(l.Depth, r.Depth),
		Unequal: !equality && !l.Const && !r.Const, Computes: max(l.Depth, r.Depth) > 0,
		Eval: func(m *Machine) uint64 { return truth(f(le(m), re(m))) }}
}

func truth(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func comparison(op string, t *Type) func(a, c uint64) bool {
	less := func(a, c uint64) bool { return a < c }
	if t.Kind == KInt {
		w := t.Width
		less = func(a, c uint64) bool { return signed(a, w) < signed(c, w) }
	}
	switch op {
	case "==":
		return func(a, c uint64) bool { return a == c }
	case "!=":
		return func(a, c uint64) bool { return a != c }
	case "<":
		return less
	case ">":
		return func(a, c uint64) bool { return less(c, a) }
	case "<=":
		return func(a, c uint64) bool { return !less(c, a) }
	}
	return func(a, c uint64) bool { return !less(a, c) }
}
