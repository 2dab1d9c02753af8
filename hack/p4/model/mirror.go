// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/bobtail-dev/bobtail/hack/p4/syntax"

// copied is a packet that is to be sent a second time, to the port of a session.
type copied struct {
	session uint64
	head    []byte // in front of it
}

// The kinds of clone of v1model, and what a clone's instance_type is.
const (
	cloneIngress = 0
	cloneEgress  = 1
)

// clone is clone(CloneType.I2E, session): a copy of the packet as it came, or E2E: as it leaves.
func (b *builder) clone(x *syntax.Expr) *Node {
	b.wantArgs(x.Pos, "clone", x.Args, 2)
	kind, session := b.constantExpr(x.Args[0], bits(8)), b.scalar(x.Args[1], bits(32))
	eval := session.Eval
	return effect(x.Pos, "clone", func(m *Machine) {
		m.clones[kind&1] = append(m.clones[kind&1], copied{session: eval(m)})
	}, session)
}

// mirrorEmit is emit(session) or emit(session, header) of a Mirror.
func (b *builder) mirrorEmit(x *syntax.Expr) *Node {
	if len(x.Args) == 0 || len(x.Args) > 2 {
		b.fail(x.Pos, "emit of a Mirror takes a session, and perhaps a header")
	}
	session := b.scalar(x.Args[0], bits(10))
	eval := session.Eval
	head := func(*Machine) {}
	n := effect(x.Pos, "mirror", nil, session)
	if len(x.Args) == 2 {
		h := b.header(x.Args[1])
		head = headerWriter(h)
		n.Reads = append(n.Reads, h.slots()...)
	}
	n.run = func(m *Machine) {
		kept := m.out
		m.out = nil
		head(m)
		m.clones[cloneIngress] = append(m.clones[cloneIngress], copied{eval(m), m.out})
		m.out = kept
	}
	return n
}

// mirrored takes what was to be copied.
func (m *Machine) mirrored(kind int) []copied {
	all := m.clones[kind]
	m.clones[kind] = nil
	return all
}

// session is the port of one; false: nobody set it up, and the copy is lost.
func (m *Machine) session(c copied) (uint64, bool) {
	port, ok := m.Sessions[c.session]
	return port, ok
}
