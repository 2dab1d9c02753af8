// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Lockstep is what came of playing the simulator's lines (dataplane/sim/switch_story.h) with a program.
type Lockstep struct {
	Events, Differences, AboveN, Missing uint64
	Odd                                  uint64 // accesses that should not be
	First                                []string
}

type player struct {
	prog    *model.Program
	sw      *bed.Switch
	service bed.Service
	loop    []model.Frame
	result  *Lockstep
	line    int
	text    string
	n       []int64 // the numbers of the line
	fields  []string
	shed    shedding
}

// Play reads lines and compares; most: findings after which it ends.
func Play(lines io.Reader, p *model.Program, most uint64) (*Lockstep, error) {
	pl := &player{prog: p, result: &Lockstep{}}
	in := bufio.NewScanner(lines)
	for in.Scan() && pl.result.Differences+pl.result.AboveN+pl.result.Missing < most {
		pl.line++
		if err := pl.play(in.Text()); err != nil {
			return pl.result, fmt.Errorf("line %d: %w", pl.line, err)
		}
	}
	pl.odd()
	return pl.result, in.Err()
}

func (p *player) odd() {
	if p.sw != nil {
		p.result.Odd += p.sw.Odd()
		p.unasked()
	}
}

func (p *player) differs(format string, args ...any) {
	p.result.Differences++
	p.remember(format, args...)
}

func (p *player) remember(format string, args ...any) {
	if len(p.result.First) < shownDifferences {
		p.result.First = append(p.result.First, fmt.Sprintf("line %d, %q: %s", p.line, p.text, fmt.Sprintf(format, args...)))
	}
}

var lineFields = map[string]int{"E": 7, "Z": 1, "Q": 5, "L": 5, "B": 9, "X": 3, "D": 11, "I": 4,
	"A": 2, "R": 4, "C": 3, "P": 2, "T": 3, "K": 4, "M": 5}

// read takes a line apart: the kind, numbers, and perhaps a letter in between.
func (p *player) read(text string) error {
	p.text, p.fields = text, strings.Fields(text)
	p.n = p.n[:0]
	for _, f := range p.fields {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			v = 0
		}
		p.n = append(p.n, v)
	}
	if len(p.fields) == 0 || lineFields[p.fields[0]] == 0 || len(p.fields) < lineFields[p.fields[0]] {
		return fmt.Errorf("%q is no line of bobtail-sim switch", text)
	}
	if p.sw == nil && p.fields[0] != "E" {
		return fmt.Errorf("%q comes before any E", text)
	}
	return nil
}

func (p *player) play(text string) error {
	if err := p.read(text); err != nil {
		return err
	}
	switch p.fields[0] {
	case "E":
		return p.episode()
	case "Z":
		return p.fresh()
	case "D":
		p.compareWorker()
		return nil
	case "I":
		p.rest()
		return nil
	case "A", "R", "C", "P", "T", "K", "M":
		return p.admission()
	}
	p.event()
	return nil
}

// event is a packet that arrives at the switch.
func (p *player) event() {
	p.sw.Now = uint64(p.n[1])
	p.result.Events++
	switch p.fields[0] {
	case "Q":
		p.request(p.arriving())
	case "L":
		p.goRound()
	case "B":
		p.feedback()
	case "X":
		p.forged()
	}
}

func (p *player) episode() error {
	p.service = bed.Service{Index: 5, Base: 3, Workers: int(p.n[1]), Depth: int(p.n[2]), Limit: int(p.n[4]),
		Patience: uint64(p.n[5]), Loss: uint64(p.n[6])}
	if p.n[3] != bed.RowWorkers {
		return fmt.Errorf("the program's groups have %d workers", bed.RowWorkers)
	}
	return p.fresh()
}

func (p *player) fresh() error {
	p.odd()
	sw, err := bed.New(p.prog)
	if err != nil {
		return err
	}
	p.sw, p.loop, p.shed = sw, nil, shedding{}
	return sw.Add(p.service)
}

// pass is what one pass sends, and how much it puts into the loop.
func (p *player) pass(f model.Frame) (out []model.Frame, waits int) {
	for _, g := range p.sw.Pass(f) {
		if g.Loop {
			p.loop = append(p.loop, g)
			waits++
		} else {
			out = append(out, g)
		}
	}
	return out, waits
}

// request passes a frame and compares with the verdict, which begins with field 3.
func (p *player) request(f model.Frame) {
	out, waits := p.pass(f)
	switch v := p.fields[3]; {
	case v == "F" && len(p.n) >= 8:
		p.forwarded(out, waits)
	case v == "W" && len(p.n) >= 9:
		if len(out) != 0 || waits != 1 {
			p.differs("want it to wait, got %d frames and %d in the loop", len(out), waits)
			return
		}
		p.compareLoop(p.loop[len(p.loop)-1].Data)
	case v == "R":
		if len(out) != 1 || waits != 0 || out[0].Port != bed.ClientPort || !bed.Sound(out[0].Data) || string(bed.Payload(out[0].Data)[8:]) != "DROP" {
			p.differs("want DROP, got %d frames and %d in the loop", len(out), waits)
		}
		if p.fields[4] == "shed" {
			p.shed.refused++
		}
		if got := p.sw.Outcome(p.service.Index, RShed); got != p.shed.refused {
			p.differs("%d were refused by the rate of their class, want %d", got, p.shed.refused)
		}
	default:
		p.differs("unknown verdict")
	}
}

func (p *player) forwarded(out []model.Frame, waits int) {
	w, credits, open, n := int(p.n[4]), p.n[5], p.n[6], p.n[7]
	if len(out) != 1 || waits != 0 || !bed.Sound(out[0].Data) {
		p.differs("want it forwarded, got %d frames and %d in the loop", len(out), waits)
		return
	}
	if got := p.service.WorkerOf(out[0]); got != w {
		p.differs("worker %d got it", got)
		return
	}
	got := int64(p.sw.Credits(p.service, w))
	if got != credits {
		p.differs("worker %d has %d credits left", w, got)
	}
	if got < 0 || open > n {
		p.result.AboveN++
		p.remember("worker %d has %d requests and %d credits where n is %d", w, open, got, n)
	}
}

// compareLoop compares what a waiting request carries: the loop's header as headers.p4 lays it out.
func (p *player) compareLoop(d []byte) {
	got := [5]int64{int64(d[2])<<8 | int64(d[3]), int64(d[4]), int64(d[5]), int64(d[1]), int64(d[15])}
	for i, what := range []string{"round", "group", "tried", "raised", "admitted"} {
		if got[i] != p.n[4+i] {
			p.differs("%s is %d", what, got[i])
		}
	}
}

func (p *player) goRound() {
	if len(p.loop) == 0 {
		p.differs("the loop is empty")
		return
	}
	f := p.loop[0]
	p.loop = p.loop[1:]
	if p.fields[3] != "C" {
		p.request(f)
		return
	}
	if out, waits := p.pass(f); len(out) != 0 || waits != 0 {
		p.differs("want credits changed and nothing else")
	}
	if got := int64(p.sw.Credits(p.service, int(p.n[4]))); got != p.n[6] {
		p.differs("worker %d has %d credits", p.n[4], got)
	}
}

func (p *player) feedback() {
	fb := bed.Feedback{Flags: uint8(p.n[3]), N: uint16(p.n[4]), Incarnation: uint32(p.n[5]), Received: uint64(p.n[6]), Served: uint64(p.n[7])}
	p.name(&fb)
	out, waits := p.pass(p.service.FromWorker(int(p.n[2]), fb.Bytes()))
	switch v := p.fields[8]; {
	case len(out) != 0:
		p.differs("a FEEDBACK was forwarded")
	case v == "P" && waits != 1 || v != "P" && waits != 0:
		p.differs("%d in the loop", waits)
	case v == "P":
		d := p.loop[len(p.loop)-1].Data
		if got := int64(int32(uint32(d[16])<<24 | uint32(d[17])<<16 | uint32(d[18])<<8 | uint32(d[19]))); got != p.n[9] {
			p.differs("the change is %d", got)
		}
	}
}

// forged is a FEEDBACK from a wrong port of the switch, then from a wrong UDP port, then from a stranger (W-8).
func (p *player) forged() {
	fb := bed.Feedback{N: 60, Incarnation: 1 << 30, Served: 7, Received: 9}.Bytes()
	honest := p.service.FromWorker(int(p.n[2]), fb)
	wrong := []model.Frame{{Port: bed.ClientPort, Data: honest.Data}}
	ends := bed.EndsOf(honest.Data)
	ends.SrcPort++
	wrong = append(wrong, model.Frame{Port: bed.WorkerPort, Data: bed.Frame(ends, fb)})
	ends.SrcPort--
	ends.Src += 1 << 20
	wrong = append(wrong, model.Frame{Port: bed.WorkerPort, Data: bed.Frame(ends, fb)})
	for i, f := range wrong {
		before := p.sw.Changes
		if out, waits := p.pass(f); len(out) != 0 || waits != 0 || p.sw.Changes != before {
			p.differs("forged FEEDBACK %d: %d frames, or registers changed", i, len(out))
		}
	}
}

// compareWorker compares all that is known of a worker.
func (p *player) compareWorker() {
	w := int(p.n[1])
	at := p.service.IndexOf(w)
	const route, settle = bed.Control, "Egress.settle."
	if got := int64(p.sw.Credits(p.service, w)); got != p.n[2] {
		p.differs("credits of worker %d are %d", w, got)
	}
	for i, r := range []string{route + "lives", route + "served", route + "received", route + "granted", route + "sent",
		settle + "dues", settle + "pasts", settle + "losses"} {
		if got := int64(p.sw.Word(r, at)); got != p.n[3+i] {
			p.differs("%s of worker %d is %d, want %d", r, w, got, p.n[3+i])
		}
	}
}

func (p *player) rest() {
	w := int(p.n[1])
	if got := int64(p.sw.Credits(p.service, w)); got != p.n[3] {
		p.result.Missing++
		p.remember("worker %d has %d credits at rest, n is %d", w, got, p.n[3])
	}
	if held := p.sw.Word(bed.Control+"held", uint64(p.service.Index)); held != 0 || len(p.loop) != 0 {
		p.differs("%d are said to wait at rest, %d do", held, len(p.loop))
	}
}
