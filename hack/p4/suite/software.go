// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Beside is what came of giving packets to the program that a router in software was given, too
// (dataplane/sim/switch_software.h).
type Beside struct {
	Findings
	AboveN uint64 // requests that a worker of either had above its n
}

// report is what a worker has received and served.
type report struct{ received, served uint64 }

// besideWorker is a worker of the switch. The router in software has one of the same name, who serves other requests.
type besideWorker struct {
	report
	older report // what it said last but one
	n     int
	flags uint8
	life  uint32
}

func (w *besideWorker) feedback(flags uint8, r report) []byte {
	return bed.Feedback{Flags: flags | w.flags&bed.Leave, N: uint16(w.n), Incarnation: w.life, Received: r.received, Served: r.served}.Bytes()
}

// sentTo is what became of a request: who got which bytes. worker −1: its client, a DROP.
type sentTo struct {
	worker int
	bytes  string
}

// side is one of the two routers, by the number of a request.
type side struct {
	flying map[int]int // with which worker
	sent   map[int]sentTo
	given  int // to workers, in all
	late   int
}

func newSide() side { return side{flying: map[int]int{}, sent: map[int]sentTo{}} }

type besidePlayer struct {
	prog       *model.Program
	sw         *bed.Switch
	service    bed.Service
	loop       []model.Frame
	workers    []besideWorker
	soft, here side
	numbers    map[uint16]int // of requests, by what their clients call them
	lost       map[int]bool
	*Beside
}

// PlayBeside reads the simulator's lines and compares.
func PlayBeside(lines io.Reader, prog *model.Program, most uint64) (*Beside, error) {
	p := &besidePlayer{prog: prog, Beside: &Beside{}}
	err := p.play(lines, most, p.event)
	if p.sw != nil {
		p.oddOf(p.sw.Machine)
	}
	return p.Beside, err
}

// besideLine is the events of a line's kind: how many words, and which of them are numbers.
type besideLine struct {
	words   int
	numbers []int
	play    func(p *besidePlayer, f []string, n []int) error
}

var besideLines = map[string]besideLine{
	"E": {6, []int{1, 2, 3, 4, 5}, (*besidePlayer).episode},
	"Z": {2, []int{1}, (*besidePlayer).restart},
	"N": {6, []int{1, 2, 3, 4, 5}, (*besidePlayer).tells},
	"Q": {9, []int{1, 2, 4, 5, 6}, (*besidePlayer).asks},
	"B": {6, []int{1, 2, 4, 5}, (*besidePlayer).serves},
	"X": {5, []int{1, 2}, (*besidePlayer).misleads},
	"K": {2, []int{1}, (*besidePlayer).waitsLong},
	"G": {4, []int{1, 2}, (*besidePlayer).gave},
	"L": {3, []int{1}, (*besidePlayer).refusedLate},
	"O": {3, []int{1, 2}, (*besidePlayer).known},
}

func (p *besidePlayer) event(f []string) error {
	if len(f) == 0 || len(f) < max(1, besideLines[f[0]].words) || p.sw == nil && f[0] != "E" {
		return fmt.Errorf("no line of bobtail-sim switch --program=software")
	}
	line := besideLines[f[0]]
	var n []int
	for _, i := range line.numbers {
		v, err := strconv.Atoi(f[i])
		if err != nil {
			return err
		}
		n = append(n, v)
	}
	if line.play == nil || n[0] < 0 {
		return fmt.Errorf("no line of bobtail-sim switch --program=software")
	}
	if timed := f[0] != "G" && f[0] != "L" && f[0] != "O" && f[0] != "E"; timed {
		p.sw.Now = uint64(n[0])
		p.Events++
	}
	return line.play(p, f, n)
}

func (p *besidePlayer) episode(_ []string, n []int) error {
	p.service = bed.Service{Index: vectorService, Base: 3, Workers: n[0], Depth: n[1], Limit: n[2], Patience: uint64(n[3]), Loss: uint64(n[4])}
	p.workers = make([]besideWorker, n[0])
	p.numbers, p.lost = map[uint16]int{}, map[int]bool{}
	p.soft, p.here = newSide(), newSide()
	return p.restart(nil, nil)
}

// restart: what waited is gone, what workers have they keep.
func (p *besidePlayer) restart([]string, []int) error {
	if p.sw != nil {
		p.oddOf(p.sw.Machine)
	}
	sw, err := bed.New(p.prog)
	if err != nil {
		return err
	}
	p.sw, p.loop = sw, nil
	clear(p.soft.sent)
	clear(p.here.sent)
	return sw.Add(p.service)
}

// pass gives a frame to the switch. The second pass of a FEEDBACK follows at once, and that of a request without a place.
func (p *besidePlayer) pass(f model.Frame) {
	for _, g := range p.sw.Pass(f) {
		switch {
		case !g.Loop:
			p.left(g)
		case g.Data[0] == loopCredit, bytes.Equal(g.Data[12:16], make([]byte, 4)):
			p.pass(g)
		default:
			p.loop = append(p.loop, g)
		}
	}
}

const loopCredit = 3 // LOOP_CREDIT of headers.p4

// settle lets what waits go round as long as there is anybody for it: the router in software gives it at once.
func (p *besidePlayer) settle() {
	for len(p.loop) > 0 && p.room() {
		f := p.loop[0]
		p.loop = p.loop[1:]
		p.pass(f)
	}
}

func (p *besidePlayer) room() bool {
	for w := range p.workers {
		if p.sw.Credits(p.service, w) > 0 {
			return true
		}
	}
	return false
}

// left: a frame left the switch.
func (p *besidePlayer) left(f model.Frame) {
	payload := bed.Payload(f.Data)
	id, known := p.numbers[uint16(payload[4])<<8|uint16(payload[5])]
	if !known || !bed.Sound(f.Data) {
		p.differs("%x leaves the switch", f.Data)
		return
	}
	w := p.service.WorkerOf(f)
	p.ends(id, w, f)
	if w >= 0 {
		p.got(&p.here, id, w)
		if !p.lost[id] {
			p.workers[w].received++
		}
	}
	p.here.sent[id] = sentTo{w, string(payload)}
}

// besideClient is the port of the client of all requests.
const besideClient = 40000

// ends of what left: the client's own as far as a worker, and the router's with a DROP.
func (p *besidePlayer) ends(id, w int, f model.Frame) {
	want := bed.Ends{Src: bed.RouterIP, Dst: bed.ClientIP, SrcPort: bed.RequestPort, DstPort: besideClient}
	if w >= 0 {
		want = bed.Ends{Src: bed.ClientIP, Dst: p.service.WorkerIP(w), SrcPort: besideClient, DstPort: bed.MemberPort}
	}
	if got := bed.EndsOf(f.Data); got != want || w < 0 && f.Port != bed.ClientPort {
		p.differs("request %d leaves by port %d from and to %v, want %v", id, f.Port, got, want)
	}
}

// got: a worker gets a request; never more than it takes.
func (p *besidePlayer) got(s *side, id, w int) {
	s.given++
	if p.lost[id] || w >= len(p.workers) {
		return
	}
	s.flying[id] = w
	has := 0
	for _, other := range s.flying {
		if other == w {
			has++
		}
	}
	if has > p.workers[w].n {
		p.AboveN++
		p.note("worker %d has %d requests, n is %d", w, has, p.workers[w].n)
	}
}

// tells: a worker tells of itself.
func (p *besidePlayer) tells(_ []string, n []int) error {
	if n[1] >= len(p.workers) {
		return fmt.Errorf("there is no worker %d", n[1])
	}
	w := &p.workers[n[1]]
	if uint32(n[4]) != w.life {
		*w = besideWorker{life: uint32(n[4])}
	}
	w.n, w.flags = n[2], uint8(n[3])
	p.pass(p.service.FromWorker(n[1], w.feedback(uint8(n[3]), w.report)))
	p.settle()
	return nil
}

// finished takes a request that the switch gave somebody, that one, or where it waits here another one that waits there.
func (p *besidePlayer) finished(id int) (int, bool) {
	delete(p.soft.flying, id)
	if w, ok := p.here.flying[id]; ok {
		delete(p.here.flying, id)
		return w, true
	}
	first := -1
	for other := range p.here.flying {
		if _, both := p.soft.flying[other]; !both && (first < 0 || other < first) {
			first = other
		}
	}
	w, ok := p.here.flying[first]
	delete(p.here.flying, first)
	return w, ok
}

// serves: a request has been served; what its worker says gets lost, comes twice, or an older word comes behind it.
func (p *besidePlayer) serves(f []string, n []int) error {
	at, ok := p.finished(n[1])
	if !ok {
		p.differs("nobody has a request for %d", n[1])
		return nil
	}
	before := p.outcomes()
	w := &p.workers[at]
	w.served++
	flags := uint8(bed.Pair)
	if f[3] == "told" {
		flags = 0
	}
	said := []report{w.report}
	switch f[3] {
	case "twice":
		said = append(said, w.report)
	case "older":
		said = append(said, w.older)
	}
	w.older = w.report
	for _, r := range said {
		p.pass(p.service.FromWorker(at, w.feedback(flags, r)))
	}
	p.settle()
	after := p.outcomes()
	if b, o := after[RReported]-before[RReported], after[ROld]-before[ROld]; b != uint64(n[2]) || o != uint64(n[3]) {
		p.differs("%d FEEDBACK was believed and %d was old, want %d and %d", b, o, n[2], n[3])
	}
	return nil
}

func (p *besidePlayer) outcomes() (all [reasons]uint64) {
	for r := range all {
		all[r] = p.sw.Outcome(p.service.Index, r) + p.sw.Outcome(0, r)
	}
	return all
}

// refusedFor is the one reason that has been counted since; 0: none, −1: several.
func (p *besidePlayer) refusedFor(before [reasons]uint64) (reason int) {
	for r, n := range p.outcomes() {
		if n == before[r] {
			continue
		}
		if reason != 0 || n != before[r]+1 {
			return -1
		}
		reason = r
	}
	return reason
}

// misleads: FEEDBACK that is not to be believed.
func (p *besidePlayer) misleads(f []string, n []int) error {
	data, err := hexBytes(f[3])
	if err != nil {
		return err
	}
	before, changes := p.outcomes(), p.sw.Changes
	p.pass(p.service.FromWorker(n[1], data))
	if reason := p.refusedFor(before); !reasonAgrees(onFeedbackPort, f[4], reason) {
		p.differs("FEEDBACK is refused by %s, and here for reason %d", f[4], reason)
	}
	if p.sw.Changes != changes {
		p.differs("FEEDBACK is refused by %s, and registers changed", f[4])
	}
	return nil
}

func hexBytes(text string) ([]byte, error) {
	if text == "-" {
		return nil, nil
	}
	return hex.DecodeString(text)
}

// waitsLong: whatever waits, waited too long.
func (p *besidePlayer) waitsLong([]string, []int) error {
	all := p.loop
	p.loop = nil
	for _, f := range all {
		before := p.outcomes()
		p.pass(f)
		if r := p.refusedFor(before); r != RLate {
			p.differs("what waited too long got reason %d", r)
		}
		p.here.late++
	}
	return nil
}

func (p *besidePlayer) gave(f []string, n []int) error {
	data, err := hexBytes(f[3])
	p.got(&p.soft, n[0], n[1])
	p.soft.sent[n[0]] = sentTo{n[1], string(data)}
	return err
}

func (p *besidePlayer) refusedLate(f []string, n []int) error {
	data, err := hexBytes(f[2])
	p.soft.late++
	p.soft.sent[n[0]] = sentTo{-1, string(data)}
	return err
}

// known compares what both know when an event is over.
func (p *besidePlayer) known(_ []string, n []int) error {
	outstanding := 0
	for w := range p.workers {
		granted := p.workers[w].n
		if p.workers[w].flags&bed.Leave != 0 {
			granted = 0
		}
		outstanding += granted - int(p.sw.Credits(p.service, w))
	}
	if outstanding != n[0] || len(p.loop) != n[1] {
		p.differs("%d are outstanding and %d wait, want %d and %d", outstanding, len(p.loop), n[0], n[1])
	}
	if p.soft.given != p.here.given || p.soft.late != p.here.late {
		p.differs("%d were given to workers and %d were late, want %d and %d", p.here.given, p.here.late, p.soft.given, p.soft.late)
	}
	p.compareBytes()
	return nil
}

// compareBytes of what both have sent. Which of those that wait goes first is a router's own choice.
func (p *besidePlayer) compareBytes() {
	for id, want := range p.soft.sent {
		got, both := p.here.sent[id]
		if !both {
			continue
		}
		if (want.worker < 0) == (got.worker < 0) && got.bytes != optionFirst(want) {
			p.differs("request %d leaves as %x, want %x", id, got.bytes, optionFirst(want))
		}
		delete(p.soft.sent, id)
		delete(p.here.sent, id)
	}
}
