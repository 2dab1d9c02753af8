// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

func (b *builder) note(slots ...int) {
	if n := len(b.writes); n > 0 {
		b.writes[n-1] = append(b.writes[n-1], slots...)
	}
}

func (b *builder) stmts(all []syntax.Stmt) []*Node {
	nodes := make([]*Node, 0, len(all))
	for _, s := range all {
		nodes = append(nodes, b.stmt(s)...)
	}
	return nodes
}

func (b *builder) stmt(s syntax.Stmt) []*Node {
	switch s := s.(type) {
	case *syntax.Assign:
		return []*Node{b.assign(s)}
	case *syntax.If:
		return b.ifStmt(s)
	case *syntax.Block:
		b.open()
		defer b.close()
		return b.stmts(s.Body)
	case *syntax.Local:
		return b.local(s)
	case *syntax.Call:
		return b.callStmt(s.Call)
	}
	b.fail(s.At(), "this statement is not in the subset")
	return nil
}

func (b *builder) local(s *syntax.Local) []*Node {
	switch d := s.Decl.(type) {
	case *syntax.Const:
		b.constant(d)
		return nil
	case *syntax.Var:
		return b.variable(d)
	}
	b.fail(s.Pos, "an instance among statements is not in the subset")
	return nil
}

func (b *builder) variable(d *syntax.Var) []*Node {
	t := b.typeOf(d.Type)
	if !t.scalar() && t.Kind != KStruct || d.Value != nil && !t.scalar() {
		b.fail(d.Pos, "a variable of %s is not in the subset", t)
	}
	p := b.place(t, d.Name)
	if b.stateful != nil {
		for _, s := range p.slots() {
			b.stateful.outer[s] = true
		}
	}
	b.declare(d.Pos, d.Name, p)
	if d.Value == nil {
		return nil
	}
	return []*Node{b.assignTo(d.Pos, b.read(p), b.expr(d.Value, t))}
}

func (b *builder) assign(s *syntax.Assign) *Node {
	kept := b.stateful // what is assigned to is no input
	b.stateful = nil
	to := b.anyExpr(s.To, nil)
	b.stateful = kept
	if kept != nil && to.Place != nil {
		for _, slot := range to.Place.slots() {
			if !kept.outer[slot] {
				b.fail(s.Pos, "a register action may write only its value and its result")
			}
		}
	}
	return b.assignTo(s.Pos, to, b.expr(s.Value, to.T))
}

func (b *builder) assignTo(p syntax.Pos, to, value *Expr) *Node {
	if to.Place == nil || to.Const {
		b.fail(p, "this cannot be assigned to")
	}
	if !to.T.scalar() {
		b.fail(p, "an assignment of a whole %s is not in the subset", to.T)
	}
	if !to.T.same(value.T) {
		b.fail(p, "%s is assigned to %s", value.T, to.T)
	}
	slot, eval := to.Place.Slot, value.Eval
	n := &Node{Kind: NAssign, Pos: p, What: b.prog.Slots[slot], Reads: value.Reads, Writes: []int{slot}, Depth: value.Depth}
	b.note(slot)
	if value.effect != nil {
		e := value.effect
		n.Kind, n.Register, n.Stateful, n.Reads, n.Depth = NEffect, e.Register, e.Stateful, e.Reads, 1
		n.Writes = append(n.Writes, e.Writes...)
	}
	if to.Sliced && to.T.Width != to.Place.Type.Width {
		lo, m := to.Lo, mask(to.T.Width)<<to.Lo
		n.Reads = append(slices.Clone(n.Reads), slot)
		n.run = func(mm *Machine) { mm.S[slot] = mm.S[slot]&^m | eval(mm)<<lo }
		return n
	}
	valid := to.Place.Valid
	if valid < 0 {
		n.run = func(m *Machine) { m.S[slot] = eval(m) }
		return n
	}
	n.run = func(m *Machine) {
		v := eval(m)
		if m.S[valid] == 0 {
			m.invalid(slot)
			return
		}
		m.S[slot] = v
	}
	return n
}

// tableTest is t.apply().hit or .miss, perhaps negated: the table and whether hit means yes.
func (b *builder) tableTest(x *syntax.Expr) (*Table, bool) {
	yes := true
	for x.Kind == syntax.EUnary && x.Op == "!" {
		x, yes = x.X, !yes
	}
	if x.Kind != syntax.EMember || x.X.Kind != syntax.ECall || x.Name != "hit" && x.Name != "miss" {
		return nil, false
	}
	call := x.X
	if call.X.Kind != syntax.EMember || call.X.Name != "apply" || call.X.X.Kind != syntax.EName {
		return nil, false
	}
	t, ok := b.lookup(call.X.X.Name).(*Table)
	if !ok {
		return nil, false
	}
	return t, yes == (x.Name == "hit")
}

func (b *builder) ifStmt(s *syntax.If) []*Node {
	n := &Node{Kind: NIf, Pos: s.Pos, What: "if"}
	var before []*Node
	if t, yes := b.tableTest(s.Cond); t != nil {
		before = []*Node{b.applyTable(s.Pos, t)}
		hit, want := t.hit, truth(yes)
		n.Cond = &Expr{T: boolType, Reads: []int{hit}, Eval: func(m *Machine) uint64 { return truth(m.S[hit] == want) }}
	} else {
		n.Cond = b.scalar(s.Cond, boolType)
	}
	if n.Cond.T.Kind != KBool {
		b.fail(s.Pos, "want a bool in an if, got %s", n.Cond.T)
	}
	n.Reads = n.Cond.Reads
	b.open()
	n.Then = b.stmts(s.Then)
	b.close()
	b.open()
	n.Else = b.stmts(s.Else)
	b.close()
	test, yes, no := n.Cond.Eval, runAll(n.Then), runAll(n.Else)
	n.run = func(m *Machine) {
		if test(m) != 0 {
			yes(m)
		} else {
			no(m)
		}
	}
	return append(before, n)
}

func runAll(nodes []*Node) func(m *Machine) {
	runs := make([]func(m *Machine), 0, len(nodes))
	for _, n := range nodes {
		runs = append(runs, n.run)
	}
	switch len(runs) {
	case 0:
		return func(*Machine) {}
	case 1:
		return runs[0]
	}
	return func(m *Machine) {
		for _, r := range runs {
			r(m)
		}
	}
}

// bind gives a parameter its argument: what is read only is put in its place, what is written is the variable passed.
func (b *builder) bind(p syntax.Param, t *Type, arg *Expr, pos syntax.Pos) any {
	if !arg.T.same(t) {
		b.fail(pos, "%s of type %s gets %s", p.Name, t, arg.T)
	}
	if p.Direction == "out" || p.Direction == "inout" {
		if arg.Place == nil || arg.Sliced || !arg.Place.Type.same(t) {
			b.fail(pos, "%s is written: want a variable", p.Name)
		}
		return arg.Place
	}
	if arg.effect != nil {
		b.fail(pos, "a call with an effect as an argument is not in the subset")
	}
	if !t.scalar() {
		return arg.Place
	}
	return &Expr{T: arg.T, Eval: arg.Eval, Const: arg.Const, Value: arg.Value, Reads: arg.Reads, Depth: arg.Depth}
}

// called puts a body in its place with its parameters bound; arguments that are only read must not change meanwhile.
func (b *builder) called(pos syntax.Pos, params []syntax.Param, args []*syntax.Expr, body func()) {
	if len(params) != len(args) {
		b.fail(pos, "want %d arguments, got %d", len(params), len(args))
	}
	bound := make([]any, len(params))
	types := make([]*Type, len(params))
	for i, p := range params {
		types[i] = b.typeOf(p.Type)
		bound[i] = b.bind(p, types[i], b.expr(args[i], types[i]), pos)
	}
	b.open()
	defer b.close()
	for i, p := range params {
		b.declare(p.Pos, p.Name, bound[i])
	}
	b.writes = append(b.writes, nil)
	body()
	n := len(b.writes) - 1
	written := b.writes[n]
	b.writes = b.writes[:n]
	b.note(written...)
	for i, p := range params {
		if e, ok := bound[i].(*Expr); ok && slices.ContainsFunc(e.Reads, func(s int) bool { return slices.Contains(written, s) }) {
			b.fail(pos, "what is passed as %s is written by what is called", p.Name)
		}
	}
}

// callAction runs an action that is called by name.
func (b *builder) callAction(pos syntax.Pos, a *syntax.Action, args []*syntax.Expr) []*Node {
	var nodes []*Node
	if b.depth++; b.depth > 16 {
		b.fail(pos, "actions more than 16 deep")
	}
	b.called(pos, a.Params, args, func() { nodes = b.stmts(a.Body) })
	b.depth--
	return nodes
}
