// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// callExpr is a call for its value.
func (b *builder) callExpr(x *syntax.Expr) *Expr {
	if x.X.Kind != syntax.EMember {
		b.fail(x.Pos, "a call of a function inside an expression is not in the subset")
	}
	method := x.X.Name
	if method == "isValid" {
		b.wantArgs(x.Pos, method, x.Args, 0)
		slot := b.header(x.X.X).Valid
		return &Expr{T: boolType, Reads: []int{slot}, Eval: func(m *Machine) uint64 { return m.S[slot] }}
	}
	o, ok := b.named(x.X.X).(*object)
	if !ok {
		b.fail(x.Pos, "%s is not in the subset here", method)
	}
	switch o.kind + "." + method {
	case "RegisterAction.execute":
		return b.execute(x, o)
	case "Random.get":
		b.wantArgs(x.Pos, method, x.Args, 0)
		w := mask(o.width)
		return withEffect(x.Pos, o.name, bits(o.width), func(m *Machine) uint64 { return m.random() & w })
	case "Hash.get":
		b.wantArgs(x.Pos, method, x.Args, 1)
		list, digest := b.digest(x.Args[0], o.algorithm)
		e := withEffect(x.Pos, o.name, bits(o.width), digest)
		e.effect.Reads = list.Reads
		return e
	case "Checksum.get", "Checksum.verify":
		b.wantArgs(x.Pos, method, x.Args, 0)
		slot := o.sum
		e := withEffect(x.Pos, o.name, bits(16), func(m *Machine) uint64 { return m.S[slot] })
		if method == "verify" { // set where the checksum is wrong
			e.T, e.Eval = boolType, func(m *Machine) uint64 { return truth(m.S[slot] != 0xffff) }
		}
		e.effect.Reads = []int{slot}
		return e
	case "Checksum.update":
		b.wantArgs(x.Pos, method, x.Args, 1)
		list, sum := b.fieldList(x.Args[0])
		e := withEffect(x.Pos, o.name, bits(16), func(m *Machine) uint64 { return sum(m) ^ 0xffff })
		e.effect.Reads = list.Reads
		return e
	}
	b.fail(x.Pos, "%s.%s is not in the subset", o.kind, method)
	return nil
}

func withEffect(p syntax.Pos, what string, t *Type, eval func(m *Machine) uint64) *Expr {
	return &Expr{T: t, Eval: eval, effect: &Node{Kind: NEffect, Pos: p, What: what}}
}

// execute does a register action to one entry.
func (b *builder) execute(x *syntax.Expr, o *object) *Expr {
	b.wantArgs(x.Pos, "execute", x.Args, 1)
	at := b.scalar(x.Args[0], bits(32))
	r, s := o.register, o.stateful
	body, index, told := runAll(s.body), at.Eval, s.told.Slot
	lanes := s.value.lanes()
	e := withEffect(x.Pos, s.Name, s.told.Type, func(m *Machine) uint64 {
		entry := m.entry(r, index(m))
		m.S[told] = 0
		for i, l := range lanes {
			m.S[l] = entry[i]
		}
		body(m)
		if m.Trace != nil {
			m.Trace("    %s[%d] %v -> %v, tells %d", s.Name, index(m), entry, m.words(lanes), m.S[told])
		}
		for i, l := range lanes {
			if entry[i] != m.S[l] {
				m.Changes++
			}
			entry[i] = m.S[l]
		}
		return m.S[told]
	})
	e.effect.Register, e.effect.Stateful = r, s
	e.effect.Reads = slices.Clone(at.Reads)
	for in := range s.Inputs {
		e.effect.Reads = append(e.effect.Reads, in)
	}
	return e
}

// function is a call of what v1model has beside objects.
func (b *builder) function(x *syntax.Expr) *Node {
	name := x.X.Name
	if b.prog.Arch != "v1model" {
		b.fail(x.Pos, "%s is not in the subset of %s", name, b.prog.Arch)
	}
	switch name {
	case "mark_to_drop":
		b.wantArgs(x.Pos, name, x.Args, 1)
		p := b.place0(x.Args[0])
		spec := p.member("egress_spec")
		group := p.member("mcast_grp")
		if spec == nil || group == nil {
			b.fail(x.Pos, "mark_to_drop takes the standard metadata")
		}
		n := effect(x.Pos, name, func(m *Machine) { m.S[spec.Slot], m.S[group.Slot] = dropPort, 0 })
		n.Writes = []int{spec.Slot, group.Slot}
		b.note(n.Writes...)
		return n
	case "recirculate_preserving_field_list":
		b.wantArgs(x.Pos, name, x.Args, 1)
		b.constantExpr(x.Args[0], bits(8))
		return effect(x.Pos, name, func(m *Machine) { m.recirculate = true })
	case "clone":
		return b.clone(x)
	case "random":
		return b.randomCall(x)
	case "hash":
		return b.hashCall(x)
	case "verify_checksum", "update_checksum":
		return b.checksumCall(x, name)
	}
	b.fail(x.Pos, "%s is not in the subset", name)
	return nil
}

func (b *builder) randomCall(x *syntax.Expr) *Node {
	b.wantArgs(x.Pos, "random", x.Args, 3)
	to := b.expr(x.Args[0], nil)
	if to.Place == nil || to.Sliced || to.T.Kind != KBits {
		b.fail(x.Pos, "random wants a variable of bit<N>")
	}
	lo, hi := b.constantExpr(x.Args[1], to.T), b.constantExpr(x.Args[2], to.T)
	if lo > hi {
		b.fail(x.Pos, "random from %d to %d", lo, hi)
	}
	slot, span := to.Place.Slot, hi-lo+1
	n := effect(x.Pos, "random", func(m *Machine) { m.S[slot] = lo + m.random()%span })
	n.Writes = []int{slot}
	b.note(slot)
	return n
}

// checksumCall is verify_checksum or update_checksum of v1model.
func (b *builder) checksumCall(x *syntax.Expr, name string) *Node {
	b.wantArgs(x.Pos, name, x.Args, 4)
	cond := b.scalar(x.Args[0], boolType)
	list, sum := b.fieldList(x.Args[1])
	field := b.expr(x.Args[2], nil)
	b.constantExpr(x.Args[3], nil)
	if cond.T.Kind != KBool || field.Place == nil || field.T.Width != 16 {
		b.fail(x.Pos, "%s takes a bool, a list, 16 bits and HashAlgorithm.csum16", name)
	}
	test, value, slot := cond.Eval, field.Eval, field.Place.Slot
	n := effect(x.Pos, name, nil, cond, list)
	if name == "verify_checksum" {
		n.run = func(m *Machine) {
			if test(m) != 0 && sum(m)^0xffff != value(m) {
				m.badChecksum = true
			}
		}
		return n
	}
	n.run = func(m *Machine) {
		if test(m) != 0 {
			m.S[slot] = sum(m) ^ 0xffff
		}
	}
	n.Writes = []int{slot}
	return n
}
