// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// control puts a control in its place: its parameters are bound already.
func (b *builder) control(c *syntax.Control, name string) []*Node {
	kept := b.path
	b.path += name + "."
	defer func() { b.path = kept }()
	for _, d := range c.Decls {
		b.controlDecl(d)
	}
	return b.stmts(c.Apply)
}

func (b *builder) controlDecl(d syntax.Decl) {
	switch d := d.(type) {
	case *syntax.Const:
		b.constant(d)
	case *syntax.Action:
		b.declare(d.Pos, d.Name, d)
	case *syntax.Table:
		b.declare(d.Pos, d.Name, b.table(d))
	case *syntax.Instance:
		b.declare(d.Pos, d.Name, b.instance(d))
	case *syntax.Var:
		if d.Value != nil {
			b.fail(d.Pos, "a variable of a control with a value is not in the subset: assign to it in apply")
		}
		b.variable(d)
	}
}

var matchKinds = map[string]bool{"exact": true, "ternary": true, "lpm": true}

const (
	maxKeys    = 8
	maxEntries = 1 << 20
)

func (b *builder) table(d *syntax.Table) *Table {
	t := &Table{Name: b.path + d.Name, ID: annotated(d.Annotations, b), Pos: d.Pos, Size: 1024, index: len(b.prog.Tables)}
	t.hit = b.slot(t.Name + ".hit")
	if len(d.Keys) == 0 || len(d.Keys) > maxKeys {
		b.fail(d.Pos, "table %s has %d keys: want 1 to %d", d.Name, len(d.Keys), maxKeys)
	}
	for _, k := range d.Keys {
		if !matchKinds[k.Kind] {
			b.fail(k.Pos, "match kind %s is not in the subset", k.Kind)
		}
		e := b.scalar(k.Expr, nil)
		if e.T.Kind != KBits {
			b.fail(k.Pos, "a key of type %s is not in the subset", e.T)
		}
		t.Keys = append(t.Keys, TableKey{Name: spelled(k.Expr), Kind: k.Kind, Expr: e})
	}
	if d.Size != nil {
		if t.Size = b.constantExpr(d.Size, nil); t.Size == 0 || t.Size > maxEntries {
			b.fail(d.Pos, "table %s of %d entries: want 1 to %d", d.Name, t.Size, maxEntries)
		}
	}
	for _, ref := range d.Actions {
		t.Actions = append(t.Actions, b.tableAction(ref, t.Action))
	}
	b.defaultAction(d, t)
	b.prog.Tables = append(b.prog.Tables, t)
	return t
}

func spelled(x *syntax.Expr) string {
	switch x.Kind {
	case syntax.EName:
		return x.Name
	case syntax.EMember:
		return spelled(x.X) + "." + x.Name
	}
	return "?"
}

// tableAction is an action with parameters that entries give.
func (b *builder) tableAction(ref syntax.ActionRef, known func(string) *TableAction) *TableAction {
	if known(ref.Name) != nil {
		b.fail(ref.Pos, "action %s is listed twice", ref.Name)
	}
	out := &TableAction{Name: ref.Name}
	if ref.Name == "NoAction" {
		return out
	}
	a, ok := b.lookup(ref.Name).(*syntax.Action)
	if !ok {
		b.fail(ref.Pos, "%s is no action", ref.Name)
	}
	out.ID = annotated(a.Annotations, b)
	b.open()
	defer b.close()
	for _, p := range a.Params {
		t := b.typeOf(p.Type)
		if p.Direction != "" || t.Kind != KBits {
			b.fail(p.Pos, "parameter %s of an action in a table has no direction and is bit<N>", p.Name)
		}
		place := b.place(t, p.Name)
		out.Params = append(out.Params, place)
		b.declare(p.Pos, p.Name, place)
	}
	b.writes = append(b.writes, nil)
	out.Body = b.stmts(a.Body)
	b.writes = b.writes[:len(b.writes)-1]
	return out
}

func (b *builder) defaultAction(d *syntax.Table, t *Table) {
	if d.Default == nil {
		t.Default = &TableAction{Name: "NoAction"}
		return
	}
	if t.Default = t.Action(d.Default.Name); t.Default == nil {
		b.fail(d.Default.Pos, "default action %s is not one of the table's", d.Default.Name)
	}
	if len(d.Default.Args) != len(t.Default.Params) {
		b.fail(d.Default.Pos, "%s takes %d arguments", d.Default.Name, len(t.Default.Params))
	}
	for i, x := range d.Default.Args {
		t.Preset = append(t.Preset, b.constantExpr(x, t.Default.Params[i].Type))
	}
}

// applyTable is one use of a table.
func (b *builder) applyTable(pos syntax.Pos, t *Table) *Node {
	n := &Node{Kind: NTable, Pos: pos, What: t.Name, Table: t, Writes: []int{t.hit}, Depth: 1}
	for _, k := range t.Keys {
		n.Reads = append(n.Reads, k.Expr.Reads...)
	}
	for _, a := range t.Actions {
		collect(a.Body, n)
	}
	b.note(n.Writes...)
	n.run = t.run()
	return n
}

// collect adds what a body reads and writes to a node.
func collect(body []*Node, n *Node) {
	for _, s := range body {
		n.Reads = append(n.Reads, s.Reads...)
		n.Writes = append(n.Writes, s.Writes...)
		collect(s.Then, n)
		collect(s.Else, n)
	}
}
