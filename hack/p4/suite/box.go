// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Boxed is what came of giving requests and FEEDBACK to both architectures of the flow-control box
// (dataplane/sim/switch_box.h).
type Boxed struct {
	Findings
	AboveLimit uint64 // of requests in the group at once
}

type boxPlayer struct {
	progs       [2]*model.Program
	both        [2]*bed.Box // get what the simulator's lines say
	rough       [2]*bed.Box // and these what was broken on its way, too
	slots, base uint64
	inside      map[string]uint64 // when who is in the group came
	rng         *rand.Rand
	*Boxed
}

// boxStay is how long a request is in the group that nobody answers, in the program's units.
const boxStay = 2048

// PlayBox reads the simulator's lines and compares.
func PlayBox(lines io.Reader, v1, tna *model.Program, most uint64) (*Boxed, error) {
	p := &boxPlayer{progs: [2]*model.Program{v1, tna}, rng: rand.New(rand.NewPCG(5, 1)), Boxed: &Boxed{}}
	err := p.play(lines, most, p.event)
	p.odd()
	return p.Boxed, err
}

func (p *boxPlayer) event(f []string) error {
	n, err := numbers(f)
	switch {
	case err != nil:
		return err
	case len(f) == 3 && f[0] == "E" && n[0] > 0:
		p.slots, p.base = n[0], n[1]
		return p.fresh()
	case len(f) == 1 && f[0] == "R" && p.both[0] != nil:
		return p.fresh()
	case len(f) == 6 && (f[0] == "Q" || f[0] == "F") && p.both[0] != nil:
		if _, known := bed.BoxReason[f[5]]; known {
			p.packet(f[0] == "Q", n, f[5])
			return nil
		}
	}
	return fmt.Errorf("no line of bobtail-sim switch --program=box")
}

// numbers are the words of a line that are to be some: all but the first and the sixth.
func numbers(f []string) (n []uint64, err error) {
	for i := 1; i < min(len(f), 5); i++ {
		one, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return nil, err
		}
		n = append(n, one)
	}
	return n, nil
}

func (p *boxPlayer) fresh() error {
	p.odd()
	p.inside = map[string]uint64{}
	var err, err2 error
	for i, prog := range p.progs {
		p.both[i], err = bed.NewBox(prog, p.slots, p.base)
		p.rough[i], err2 = bed.NewBox(prog, p.slots, p.base)
		if err := firstOf(err, err2); err != nil {
			return err
		}
	}
	return nil
}

func (p *boxPlayer) odd() {
	for _, b := range append(p.both[:], p.rough[:]...) {
		if b != nil {
			p.oddOf(b.Machine)
		}
	}
}

// packet of a line: when, client, port and id.
func (p *boxPlayer) packet(asks bool, n []uint64, want string) {
	var frame model.Frame
	if asks {
		frame = bed.AskBox(uint32(n[1]), uint16(n[2]), ordered(uint16(n[3]), p.line))
	} else {
		fb := bed.Feedback{Flags: bed.Pair, N: 1, Incarnation: 7, Client: uint32(n[1]), Port: uint16(n[2]), ReqID: uint16(n[3])}
		frame = bed.TellBox(1+p.rng.IntN(bed.BoxMembers), fb.Bytes())
	}
	p.Events++
	out, reason := p.pass(p.both, n[0], frame)
	if r := bed.BoxReason[want]; r != reason {
		p.differs("want %s, got reason %d", want, reason)
	}
	p.compare(out, wantedOf(want, frame))
	p.bound(fmt.Sprint(n[1:4]), n[0], reason)
	p.pass(p.rough, n[0], frame)
	if p.rng.IntN(4) == 0 {
		p.broken(n[0], frame)
	}
}

// ordered is a replicated write or read with a body, and a session now and then.
func ordered(id uint16, n int) []byte {
	r := bed.Request(id, []byte("what the members are to do, in one order"))
	r[2] = byte(2 + n%2)
	if n%3 == 0 {
		session := make([]byte, 20)
		session[0], session[1], session[9], session[17] = 7, 18, byte(n), 1
		r = append(append(append([]byte{}, r[:8]...), session...), r[8:]...)
		r[1] += 20
	}
	return r
}

func wantedOf(what string, in model.Frame) (all []model.Frame) {
	switch what {
	case "passed", "passed_again":
		for n := 1; n <= bed.BoxMembers; n++ {
			all = append(all, bed.Copied(n, in))
		}
	case "busy", "busy_again":
		of, p := bed.EndsOf(in.Data), bed.Payload(in.Data)
		drop := []byte{0xcc, 8, 0x41, 0xc0, p[4], p[5], 0, 1, 'D', 'R', 'O', 'P'}
		f := bed.Frame(bed.Ends{Src: of.Dst, Dst: of.Src, SrcPort: of.DstPort, DstPort: of.SrcPort}, drop)
		copy(f, in.Data[6:12])
		copy(f[6:], in.Data[:6])
		all = append(all, model.Frame{Port: in.Port, Data: f})
	}
	return all
}

func (p *boxPlayer) compare(got, want []model.Frame) {
	if len(got) != len(want) {
		p.differs("%d frames, want %d", len(got), len(want))
		return
	}
	for i, w := range want {
		size, whole := 14+int(binary.BigEndian.Uint16(w.Data[16:])), got[i].Data
		if got[i].Port != w.Port || len(whole) < size || bed.Settled(whole[:size]) != bed.Settled(w.Data[:size]) {
			p.differs("to port %d %x, want to port %d %x", got[i].Port, whole, w.Port, w.Data)
		}
		if !bed.Sound(whole) {
			p.differs("checksums or lengths are wrong: %x", whole)
		}
	}
}

// bound counts who is in the group: never more than it has slots, whatever came twice, late or not at all.
func (p *boxPlayer) bound(pair string, now uint64, reason int) {
	for k, at := range p.inside {
		if now >= at+boxStay {
			delete(p.inside, k)
		}
	}
	switch reason {
	case bed.BoxReason["passed"]:
		p.inside[pair] = now
	case bed.BoxReason["answered"]:
		delete(p.inside, pair)
	}
	if uint64(len(p.inside)) > p.slots {
		p.AboveLimit++
		p.note("%d requests are in a group of %d slots", len(p.inside), p.slots)
	}
}

// pass gives a frame to both architectures; the reason that was counted.
func (p *boxPlayer) pass(through [2]*bed.Box, now uint64, frame model.Frame) ([]model.Frame, int) {
	var outs [2][]model.Frame
	var reasons, passes [2]int
	for i, b := range through {
		var before [bed.BoxReasons]uint64
		for r := range before {
			before[r] = b.Reason(r)
		}
		b.At(now)
		outs[i], passes[i] = b.All(frame)
		for r := range before {
			if b.Reason(r) != before[r] {
				reasons[i] = r
			}
		}
	}
	what := unlike(outs[0], outs[1])
	if reasons[0] != reasons[1] || passes[0] != passes[1] {
		what += fmt.Sprintf(" reasons %d and %d, %d and %d passes", reasons[0], reasons[1], passes[0], passes[1])
	}
	p.shellsDiffer(frame.Data, what)
	if most := 1 + btoi(reasons[0] == bed.BoxReason["busy"]); passes[0] > most {
		p.differs("%d passes of reason %d", passes[0], reasons[0])
	}
	return outs[0], reasons[0]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// broken is a frame whose bytes changed on the way, checksums right or not, or that was cut.
func (p *boxPlayer) broken(now uint64, frame model.Frame) {
	f := model.Frame{Port: frame.Port, Data: bytes.Clone(frame.Data)}
	for range 1 + p.rng.IntN(2) {
		f.Data[12+p.rng.IntN(min(len(f.Data)-12, 70))] ^= byte(1 << p.rng.IntN(8))
	}
	if p.rng.IntN(2) == 0 {
		bed.SetSums(f.Data)
	}
	if p.rng.IntN(8) == 0 {
		f.Data = f.Data[:p.rng.IntN(len(f.Data))]
	}
	p.pass(p.rough, now, f)
}
