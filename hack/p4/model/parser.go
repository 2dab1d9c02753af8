// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// state of a parser that can be run.
type state struct {
	name  string
	body  []*Node
	keys  []func(m *Machine) uint64
	cases []stateCase
	next  int
}

type stateCase struct {
	value, mask []uint64
	next        int
}

// Where a parser ends.
const (
	accepted = -1
	rejected = -2
)

// Errors of a parser, as v1model numbers them; TNA has a bit for each.
const (
	noError        = 0
	packetTooShort = 1
	noMatch        = 2
	timeout        = 6
)

const maxStates = 512

// parserStates makes a parser run. Its parameters are bound already.
func (b *builder) parserStates(p *syntax.Parser) []*state {
	index := map[string]int{"accept": accepted, "reject": rejected}
	for i, s := range p.States {
		if _, twice := index[s.Name]; twice {
			b.fail(s.Pos, "state %s is declared twice", s.Name)
		}
		index[s.Name] = i
	}
	if len(p.States) == 0 || len(p.States) > maxStates || p.States[0].Name != "start" {
		b.fail(p.Pos, "parser %s: the first of its at most %d states is start", p.Name, maxStates)
	}
	for _, d := range p.Decls {
		b.controlDecl(d)
	}
	to := func(pos syntax.Pos, name string) int {
		n, ok := index[name]
		if !ok {
			b.fail(pos, "state %s is not declared", name)
		}
		return n
	}
	var all []*state
	for _, s := range p.States {
		out := &state{name: s.Name}
		b.open()
		out.body = b.stmts(s.Body)
		if len(s.Keys) == 0 {
			out.next = to(s.Pos, s.Next)
		} else {
			b.selection(s, out, to)
		}
		b.close()
		all = append(all, out)
	}
	return all
}

func (b *builder) selection(s *syntax.State, out *state, to func(syntax.Pos, string) int) {
	if len(s.Keys) > maxKeys {
		b.fail(s.Pos, "a select by more than %d keys", maxKeys)
	}
	var keys []*Expr
	for _, k := range s.Keys {
		e := b.scalar(k, nil)
		if e.T.Kind != KBits {
			b.fail(k.Pos, "a select by %s is not in the subset", e.T)
		}
		keys = append(keys, e)
		out.keys = append(out.keys, e.Eval)
	}
	out.next = rejected
	for _, c := range s.Cases {
		one := stateCase{next: to(c.Pos, c.Next)}
		for i, k := range c.Keysets {
			v, m := uint64(0), uint64(0)
			if !k.Any {
				v, m = b.constantExpr(k.Value, keys[i].T), mask(keys[i].T.Width)
				if k.Mask != nil {
					m = b.constantExpr(k.Mask, keys[i].T)
				}
			}
			one.value, one.mask = append(one.value, v&m), append(one.mask, m)
		}
		out.cases = append(out.cases, one)
	}
}

// parse runs a parser from its start.
func (m *Machine) parse(states []*state) {
	at := 0
	for steps := 0; at >= 0; steps++ {
		if steps == maxStates {
			m.parserError = timeout
			return
		}
		s := states[at]
		if m.Trace != nil {
			m.Trace("  state %s", s.name)
		}
		for _, n := range s.body {
			if n.run(m); m.parserError != noError {
				return
			}
		}
		at = s.choose(m)
	}
	if at == rejected {
		m.parserError = noMatch
	}
}

func (s *state) choose(m *Machine) int {
	if len(s.keys) == 0 {
		return s.next
	}
	var keys [maxKeys]uint64
	for i, k := range s.keys {
		keys[i%maxKeys] = k(m)
	}
	for _, c := range s.cases {
		ok := true
		for i := range c.value {
			if keys[i%maxKeys]&c.mask[i] != c.value[i] {
				ok = false
				break
			}
		}
		if ok {
			return c.next
		}
	}
	return s.next
}

// extract takes a header from the packet.
func (b *builder) extract(x *syntax.Expr) *Node {
	b.wantArgs(x.Pos, "extract", x.Args, 1)
	h := b.header(x.Args[0])
	read := headerReader(h)
	n := effect(x.Pos, h.Name, read)
	n.Writes = h.slots()
	b.note(n.Writes...)
	return n
}

func headerReader(h *Place) func(m *Machine) {
	size, valid := h.Type.Width/8, h.Valid
	type field struct{ slot, at, width int }
	var fields []field
	for i, f := range h.Type.Fields {
		fields = append(fields, field{h.Members[i].Slot, f.At, f.Type.Width})
	}
	return func(m *Machine) {
		if len(m.packet)-m.at < size {
			m.parserError = packetTooShort
			return
		}
		from := m.packet[m.at : m.at+size]
		for _, f := range fields {
			m.S[f.slot] = bitsOf(from, f.at, f.width)
		}
		m.at += size
		m.S[valid] = 1
	}
}

// bitsOf reads up to 64 bits of big-endian bytes.
func bitsOf(p []byte, at, width int) uint64 {
	v := uint64(0)
	for width > 0 {
		have := 8 - at%8
		n := min(have, width)
		v = v<<n | uint64(p[at/8])>>(have-n)&mask(n)
		at += n
		width -= n
	}
	return v
}

// putBits writes them; the bits are zero before.
func putBits(p []byte, at, width int, v uint64) {
	for width > 0 {
		room := 8 - at%8
		n := min(room, width)
		p[at/8] |= byte(v >> (width - n) & mask(n) << (room - n))
		at += n
		width -= n
	}
}

// advance passes over bytes.
func (b *builder) advance(x *syntax.Expr) *Node {
	b.wantArgs(x.Pos, "advance", x.Args, 1)
	n := b.constantExpr(x.Args[0], bits(32))
	if n%8 != 0 || n > 1<<16 {
		b.fail(x.Pos, "advance of %d bits: want whole bytes", n)
	}
	by := int(n / 8)
	return effect(x.Pos, "advance", func(m *Machine) {
		if len(m.packet)-m.at < by {
			m.parserError = packetTooShort
			return
		}
		m.at += by
	})
}

// emit writes the headers that are valid.
func (b *builder) emit(x *syntax.Expr) []*Node {
	b.wantArgs(x.Pos, "emit", x.Args, 1)
	var nodes []*Node
	for _, h := range b.place0(x.Args[0]).headers() {
		n := effect(x.Pos, h.Name, headerWriter(h))
		n.Reads = h.slots()
		nodes = append(nodes, n)
	}
	return nodes
}

func headerWriter(h *Place) func(m *Machine) {
	return func(m *Machine) {
		if m.S[h.Valid] == 0 {
			return
		}
		began := len(m.out)
		m.out = append(m.out, make([]byte, h.Type.Width/8)...)
		for i, f := range h.Type.Fields {
			putBits(m.out[began:], f.At, f.Type.Width, m.S[h.Members[i].Slot])
		}
	}
}
