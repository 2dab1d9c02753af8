// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// What each architecture has.
var externsOf = map[string]map[string]bool{
	"v1model": {"register": true, "counter": true},
	"tna":     {"Register": true, "RegisterAction": true, "Counter": true, "Checksum": true, "Random": true, "Mirror": true, "Hash": true},
}

const (
	maxRegister = 1 << 22
	maxWords    = 1 << 24 // of all registers and counters of a program
)

// room accounts for the memory that a program's arrays take.
func (b *builder) room(d *syntax.Instance, words uint64) {
	if b.words += words; b.words > maxWords {
		b.fail(d.Pos, "registers and counters of more than %d words", maxWords)
	}
}

func (b *builder) instance(d *syntax.Instance) *object {
	name := d.Type.Name
	if c, ok := b.lookup(name).(*syntax.Control); ok {
		if len(d.Args) != 0 {
			b.fail(d.Pos, "arguments of an instance of a control are not in the subset")
		}
		return &object{kind: "control", control: c, name: d.Name}
	}
	if !externsOf[b.prog.Arch][name] {
		b.fail(d.Pos, "%s is not in the subset of %s", name, b.prog.Arch)
	}
	if d.Apply != nil && name != "RegisterAction" {
		b.fail(d.Pos, "%s with a body is not in the subset", name)
	}
	o := &object{kind: name, typ: d.Type, name: b.path + d.Name}
	switch name {
	case "register", "Register":
		o.register = b.register(d)
	case "counter", "Counter":
		o.counter = b.counter(d)
	case "RegisterAction":
		b.registerAction(d, o)
	case "Checksum":
		b.wantArgs(d.Pos, name, d.Args, 0)
		o.sum = b.slot(o.name)
	case "Mirror":
		b.wantArgs(d.Pos, name, d.Args, 0)
	case "Random":
		b.wantArgs(d.Pos, name, d.Args, 0)
		o.width = b.typeArg(d, 0, 1).Width
	case "Hash":
		b.wantArgs(d.Pos, name, d.Args, 1)
		o.width, o.algorithm = b.typeArg(d, 0, 1).Width, b.hashAlgorithm(d.Args[0])
		if o.width != o.algorithm {
			b.fail(d.Pos, "a Hash of %d bits by a function of %d is not in the subset", o.width, o.algorithm)
		}
	}
	return o
}

func (b *builder) wantArgs(p syntax.Pos, name string, args []*syntax.Expr, n int) {
	if len(args) != n {
		b.fail(p, "%s takes %d arguments, got %d", name, n, len(args))
	}
}

func (b *builder) typeArg(d *syntax.Instance, i, of int) *Type {
	if len(d.Type.Args) != of {
		b.fail(d.Pos, "%s takes %d type arguments, got %d", d.Type.Name, of, len(d.Type.Args))
	}
	return b.typeOf(d.Type.Args[i])
}

// register is register<T>(size) or Register<T, I>(size), perhaps with a first value, which must be zero (W-2).
func (b *builder) register(d *syntax.Instance) *Register {
	args := len(d.Args)
	of := 1
	if d.Type.Name == "Register" {
		of = 2
	}
	if args == 2 && of == 2 {
		b.wantZero(d.Args[1])
	} else {
		b.wantArgs(d.Pos, d.Type.Name, d.Args, 1)
	}
	r := &Register{Name: b.path + d.Name, ID: annotated(d.Annotations, b), Pos: d.Pos, Size: b.constantExpr(d.Args[0], nil),
		index: len(b.prog.Registers)}
	switch t := b.typeArg(d, 0, of); {
	case t.numeric():
		r.Lanes = []*Type{t}
	case t.Kind == KStruct && of == 2:
		for _, f := range t.Fields {
			if !f.Type.numeric() {
				b.fail(d.Pos, "a register of %s is not in the subset", t)
			}
			r.Lanes = append(r.Lanes, f.Type)
		}
	default:
		b.fail(d.Pos, "a register of %s is not in the subset", t)
	}
	if r.Size == 0 || r.Size > maxRegister || len(r.Lanes) == 0 || len(r.Lanes) > 4 {
		b.fail(d.Pos, "register %s of %d entries: want 1 to %d", d.Name, r.Size, maxRegister)
	}
	b.room(d, r.Size*uint64(len(r.Lanes)))
	b.prog.Registers = append(b.prog.Registers, r)
	return r
}

func (b *builder) wantZero(x *syntax.Expr) {
	if x.Kind == syntax.EList {
		for _, a := range x.Args {
			b.wantZero(a)
		}
		return
	}
	if b.constantExpr(x, nil) != 0 {
		b.fail(x.Pos, "a register that does not begin with zeros is not in the subset: a fresh switch is all zeros")
	}
}

// endings are the counters that say what became of a packet: by reason, or by the worker that got it.
var endings = map[string]bool{"outcomes": true, "forwarded": true}

func (b *builder) counter(d *syntax.Instance) *Counter {
	b.wantArgs(d.Pos, d.Type.Name, d.Args, 2)
	c := &Counter{Name: b.path + d.Name, ID: annotated(d.Annotations, b), Pos: d.Pos, Size: b.constantExpr(d.Args[0], nil),
		Last: endings[d.Name], index: len(b.prog.Counters)}
	if c.Size == 0 || c.Size > maxRegister {
		b.fail(d.Pos, "counter %s of %d entries: want 1 to %d", d.Name, c.Size, maxRegister)
	}
	b.constantExpr(d.Args[1], nil)
	b.room(d, c.Size)
	b.prog.Counters = append(b.prog.Counters, c)
	return c
}

// registerAction reads what is done to an entry, and what it takes from the packet.
func (b *builder) registerAction(d *syntax.Instance, o *object) {
	b.wantArgs(d.Pos, "RegisterAction", d.Args, 1)
	of, ok := b.named(d.Args[0]).(*object)
	if !ok || of.register == nil || d.Apply == nil || len(d.Apply.Params) != 2 {
		b.fail(d.Pos, "want RegisterAction<T, I, U>(a register) name = { void apply(inout T value, out U result) {...} };")
	}
	t, told := b.typeArg(d, 0, 3), b.typeArg(d, 2, 3)
	p := d.Apply.Params
	if p[0].Direction != "inout" || p[1].Direction != "out" || !b.typeOf(p[0].Type).same(t) || !b.typeOf(p[1].Type).same(told) || !told.numeric() {
		b.fail(d.Pos, "apply of %s takes inout %s and out %s", d.Name, t, told)
	}
	s := &Stateful{Name: b.path + d.Name, Pos: d.Pos, Inputs: map[int]bool{}, Constants: map[uint64]bool{}, outer: map[int]bool{}}
	s.value, s.told = b.place(t, p[0].Name), b.place(told, p[1].Name)
	if lanes := len(s.value.lanes()); lanes != len(of.register.Lanes) {
		b.fail(d.Pos, "%s is of %s, its register of %d words", d.Name, t, len(of.register.Lanes))
	}
	for _, slot := range append(s.value.slots(), s.told.Slot) {
		s.outer[slot] = true
	}
	b.open()
	b.declare(p[0].Pos, p[0].Name, s.value)
	b.declare(p[1].Pos, p[1].Name, s.told)
	b.stateful = s
	b.writes = append(b.writes, nil)
	s.body = b.stmts(d.Apply.Body)
	b.writes = b.writes[:len(b.writes)-1]
	b.stateful = nil
	b.close()
	of.register.Actions = append(of.register.Actions, s)
	o.register, o.stateful = of.register, s
}

// lanes are the slots of a register's entry.
func (p *Place) lanes() []int {
	if len(p.Members) == 0 {
		return []int{p.Slot}
	}
	var all []int
	for _, m := range p.Members {
		all = append(all, m.Slot)
	}
	return all
}

func (b *builder) named(x *syntax.Expr) any {
	if x.Kind != syntax.EName {
		return nil
	}
	return b.lookup(x.Name)
}
