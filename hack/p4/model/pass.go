// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// Frame is a packet at a port. Loop: it goes round, or came round, the recirculation port.
type Frame struct {
	Port     uint64
	Data     []byte
	Loop     bool
	instance uint64 // of a copy of a multicast, in egress
}

// arrival runs one frame through ingress and egress.
type arrival struct {
	run func(m *Machine, in Frame) []Frame
}

const (
	dropPort       = 511
	instanceRecirc = 4

	instanceIngressClone = 1
	instanceEgressClone  = 2

	noPort            = 511
	phaseZero         = 8 // bytes between the intrinsic header of TNA and the frame
	parserErrorNone   = 1
	parserErrorShort  = 2
	parserErrorExpire = 16
)

// Pass runs one frame through the program once. What is to go round comes back with Loop set.
func (m *Machine) Pass(in Frame) []Frame {
	if m.Trace != nil {
		m.Trace("packet of %d bytes at port %d, from the loop: %v", len(in.Data), in.Port, in.Loop)
	}
	ended, unheard := m.ended, m.unheard
	out := m.Prog.ports[0].run(m, in)
	if times := m.ended - ended; times > 1 || times == 0 && len(out) == 0 && m.unheard == unheard {
		m.Uncounted++
		m.LastOdd = fmt.Sprintf("the end of %x at port %d, which became %d frames, is counted %d times", in.Data, in.Port, len(out), times)
	}
	return out
}

// MaxPasses bounds Run.
const MaxPasses = 10_000

// Run passes a frame, and what goes round, until nothing does; still: what still goes round after so many passes.
func (m *Machine) Run(in Frame, most int) (out, still []Frame) {
	waiting := []Frame{in}
	for n := 0; len(waiting) > 0 && n < most; n++ {
		f := waiting[0]
		waiting = waiting[1:]
		for _, g := range m.Pass(f) {
			if g.Loop {
				waiting = append(waiting, g)
			} else {
				out = append(out, g)
			}
		}
	}
	return out, waiting
}

func (m *Machine) begin(packet []byte) {
	clear(m.S)
	m.packet, m.at, m.out = packet, 0, nil
	m.parserError, m.badChecksum, m.recirculate = noError, false, false
	m.pass++
}

func (b *builder) wantBlocks(main *syntax.Instance, name string, n int) {
	if main.Type.Name != name || len(main.Args) != n {
		b.fail(main.Pos, "want %s of %d blocks", name, n)
	}
}

// v1Pass is what V1Switch needs from its program.
type v1Pass struct {
	*gress
	verify, ingress, egress, compute, deparse func(m *Machine)

	inPort, spec, port, kind, stamp, leaves, length, group, instance, errors, wrong int // slots of the standard metadata
}

// v1model is V1Switch: parser, verify, ingress, egress, compute, deparser share headers and metadata.
func (b *builder) v1model(main *syntax.Instance) {
	b.wantBlocks(main, "V1Switch", 6)
	p := &v1Pass{gress: &gress{places: map[string]*Place{}}}
	b.parserBlock(p.gress, main.Args[0])
	p.verify = runAll(b.controlBlock(p.gress, main.Args[1]))
	b.prog.Ingress = b.controlBlock(p.gress, main.Args[2])
	b.prog.Egress = b.controlBlock(p.gress, main.Args[3])
	p.compute = runAll(b.controlBlock(p.gress, main.Args[4]))
	p.deparse = runAll(b.controlBlock(p.gress, main.Args[5]))
	p.ingress, p.egress = runAll(b.prog.Ingress), runAll(b.prog.Egress)
	if p.places["standard_metadata_t"] == nil {
		b.fail(main.Pos, "no block has standard_metadata_t")
	}
	for name, slot := range map[string]*int{"ingress_port": &p.inPort, "egress_spec": &p.spec, "egress_port": &p.port,
		"instance_type": &p.kind, "ingress_global_timestamp": &p.stamp, "egress_global_timestamp": &p.leaves, "packet_length": &p.length, "mcast_grp": &p.group, "egress_rid": &p.instance,
		"parser_error": &p.errors, "checksum_error": &p.wrong} {
		*slot = p.need("standard_metadata_t", name)
	}
	b.prog.ports = []*arrival{{p.run}}
}

// arrive parses a frame; what is behind its headers.
func (p *v1Pass) arrive(m *Machine, data []byte, port, kind uint64) []byte {
	m.begin(data)
	m.S[p.inPort], m.S[p.kind], m.S[p.stamp], m.S[p.length] = port, kind, m.Now&mask(48), uint64(len(data))
	m.parse(p.parser)
	m.S[p.errors] = uint64(m.parserError)
	return m.packet[m.at:]
}

// leave is egress to one port.
func (p *v1Pass) leave(m *Machine, to uint64, rest []byte) []Frame {
	m.S[p.port], m.S[p.spec], m.S[p.leaves] = to, 0, (m.Now+m.Waits)&mask(48)
	m.out, m.recirculate = nil, false
	p.egress(m)
	if m.S[p.spec] == dropPort {
		return nil
	}
	p.compute(m)
	p.deparse(m)
	return []Frame{{Port: to, Data: append(m.out, rest...), Loop: m.recirculate}}
}

// clone is a copy of a frame, which is parsed anew and begins in egress.
func (p *v1Pass) clone(m *Machine, c copied, data []byte, kind uint64) []Frame {
	to, ok := m.session(c)
	if !ok {
		return nil
	}
	return p.leave(m, to, p.arrive(m, data, 0, kind))
}

func (p *v1Pass) run(m *Machine, in Frame) []Frame {
	port, kind := in.Port, uint64(0)
	if in.Loop {
		port, kind = 0, instanceRecirc
	}
	rest := p.arrive(m, in.Data, port, kind)
	p.verify(m)
	m.S[p.wrong] = truth(m.badChecksum)
	p.ingress(m)
	var out []Frame
	if n := m.S[p.group]; n != 0 {
		out = m.copies(n, func(m *Machine, c Copy) []Frame {
			m.S[p.instance] = c.Instance
			return p.leave(m, c.Port, rest)
		})
	} else if m.S[p.spec] != dropPort {
		out = p.leave(m, m.S[p.spec], rest)
	}
	first, last := m.mirrored(cloneIngress), m.mirrored(cloneEgress)
	for _, c := range first {
		out = append(out, p.clone(m, c, in.Data, instanceIngressClone)...)
	}
	for _, c := range last {
		if len(out) > 0 {
			out = append(out, p.clone(m, c, out[0].Data, instanceEgressClone)...)
		}
	}
	return out
}

// copies makes one frame for each copy of a multicast group.
func (m *Machine) copies(group uint64, leave func(m *Machine, c Copy) []Frame) []Frame {
	if len(m.Groups[group]) == 0 {
		m.unheard++
	}
	kept := append([]uint64(nil), m.S...)
	var all []Frame
	for _, c := range m.Groups[group] {
		copy(m.S, kept)
		m.pass++ // each is a packet of its own
		all = append(all, leave(m, c)...)
	}
	return all
}

// tnaPass is what an ingress or egress of TNA needs from its program.
type tnaPass struct {
	*gress
	control, deparse func(m *Machine)
	intrinsic        *Type
	dropCtl, errors  int
	stamp            int      // global_tstamp
	unset            []*Place // metadata that begins with anything
}

// metadata of the program's own, down to its numbers.
func (g *gress) metadata() []*Place {
	var all []*Place
	for name, p := range g.places {
		if p.Type.Kind == KStruct && !strings.Contains(name, "intrinsic_metadata") {
			for _, m := range p.Members {
				if m.Type.scalar() {
					all = append(all, m)
				}
			}
		}
	}
	return all
}

func (b *builder) tnaPass(args []*syntax.Expr, dir string) (*tnaPass, []*Node) {
	g := &gress{places: map[string]*Place{}}
	b.parserBlock(g, args[0])
	nodes := b.controlBlock(g, args[1])
	p := &tnaPass{gress: g, control: runAll(nodes), deparse: runAll(b.controlBlock(g, args[2]))}
	p.intrinsic = b.types[dir+"_intrinsic_metadata_t"]
	p.dropCtl = g.need(dir+"_intrinsic_metadata_for_deparser_t", "drop_ctl")
	p.errors = g.need(dir+"_intrinsic_metadata_from_parser_t", "parser_err")
	p.stamp = g.need(dir+"_intrinsic_metadata_from_parser_t", "global_tstamp")
	if !b.zeroed {
		p.unset = g.metadata()
	}
	return p, nodes
}

// tna is Switch of one Pipeline: what passes from ingress to egress is the frame alone.
func (b *builder) tna(main *syntax.Instance) {
	b.wantBlocks(main, "Switch", 1)
	pipe, ok := b.named(main.Args[0]).(*syntax.Instance)
	if !ok {
		b.fail(main.Pos, "want Switch(pipe) of a Pipeline")
	}
	b.wantBlocks(pipe, "Pipeline", 6)
	in, ingress := b.tnaPass(pipe.Args[:3], "ingress")
	out, egress := b.tnaPass(pipe.Args[3:], "egress")
	b.prog.Ingress, b.prog.Egress = ingress, egress
	unicast := in.need("ingress_intrinsic_metadata_for_tm_t", "ucast_egress_port")
	group := in.need("ingress_intrinsic_metadata_for_tm_t", "mcast_grp_a")
	if unicast < 0 {
		b.fail(pipe.Pos, "the ingress control has no ingress_intrinsic_metadata_for_tm_t")
	}
	b.prog.ports = []*arrival{{func(m *Machine, f Frame) []Frame {
		if f.Loop {
			f.Port = loopPort
		}
		m.Prog.tnaBegin(m, in.intrinsic, f)
		m.S[unicast] = noPort
		passes := m.tnaRun(in)
		data, copies := m.out, m.mirrored(cloneIngress)
		to, n := m.S[unicast], m.S[group]
		var all []Frame
		if passes && n != 0 {
			all = m.copies(n, func(m *Machine, c Copy) []Frame { return m.tnaLeave(out, c, data) })
		}
		if passes && to != noPort {
			all = append(all, m.tnaLeave(out, Copy{Port: to}, data)...)
		}
		for _, c := range copies { // of the packet as it came
			if to, ok := m.session(c); ok {
				all = append(all, m.tnaLeave(out, Copy{Port: to}, append(c.head, f.Data...))...)
			}
		}
		return all
	}}}
}

// The recirculation port of pipe 0.
const loopPort = 68

// tnaBegin puts the intrinsic header in front of a frame.
func (p *Program) tnaBegin(m *Machine, t *Type, f Frame) {
	head := make([]byte, t.Width/8, t.Width/8+phaseZero+len(f.Data))
	for _, field := range t.Fields {
		switch field.Name {
		case "ingress_port", "egress_port":
			putBits(head, field.At, field.Type.Width, f.Port)
		case "ingress_mac_tstamp":
			putBits(head, field.At, field.Type.Width, (m.Now<<10+m.Fine)&mask(48))
			head = append(head, make([]byte, phaseZero)...)
		case "egress_rid":
			putBits(head, field.At, field.Type.Width, f.instance)
		case "pkt_length":
			putBits(head, field.At, field.Type.Width, uint64(len(f.Data)))
		}
	}
	m.begin(append(head, f.Data...))
}

// tnaLeave is egress, and once more for each copy that egress makes of what it sends; copies of copies are not made.
func (m *Machine) tnaLeave(p *tnaPass, c Copy, data []byte) []Frame {
	frames := m.tnaEgress(p, c, data)
	sent := m.out
	for _, c := range m.mirrored(cloneIngress) {
		if to, ok := m.session(c); ok {
			frames = append(frames, m.tnaEgress(p, Copy{Port: to}, append(c.head, sent...))...)
		}
	}
	m.mirrored(cloneIngress)
	return frames
}

func (m *Machine) tnaEgress(p *tnaPass, c Copy, data []byte) []Frame {
	m.Prog.tnaBegin(m, p.intrinsic, Frame{Port: c.Port, Data: data, instance: c.Instance})
	if p.stamp >= 0 {
		m.S[p.stamp] = (m.Now<<10 + m.Fine + m.Waits) & mask(48)
	}
	if !m.tnaRun(p) {
		return nil
	}
	return []Frame{{Port: c.Port, Data: m.out, Loop: c.Port == loopPort}}
}

// tnaRun is parser, control and deparser; false: the frame ends here, but for its copies.
func (m *Machine) tnaRun(p *tnaPass) bool {
	for _, f := range p.unset {
		m.S[f.Slot] = undefined & mask(f.Type.Width)
	}
	m.parse(p.parser)
	if m.parserError != noError {
		if p.errors < 0 {
			return false // a parser drops what the control does not ask about
		}
		m.S[p.errors] = map[int]uint64{packetTooShort: parserErrorShort, noMatch: parserErrorNone, timeout: parserErrorExpire}[m.parserError]
	}
	rest := m.packet[m.at:]
	p.control(m)
	p.deparse(m)
	m.out = append(m.out, rest...)
	return p.dropCtl < 0 || m.S[p.dropCtl]&1 == 0
}

// Describe says what a program has, for people.
func (p *Program) Describe() string {
	return fmt.Sprintf("%s: %d tables, %d registers, %d counters, %d variables", p.Arch, len(p.Tables), len(p.Registers), len(p.Counters), len(p.Slots))
}
