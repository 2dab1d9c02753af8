// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// What may be other in a switch than in the router in software, besides what R-132 leaves open. docs/reference/
// switch-programs.md has the same table for people.
//
//	unread  An option behind the first one, or the end of one that runs over the header's: a parser without loops reads
//	        the first option alone, and its worker judges the others. So the switch forwards it.
//	sticky  Policy 1 needs a master, whom a switch does not know: DROP.
//	long    No room for option 5: DROP. The router in software sends it as it is; the switch would lose its credit.
//	order   Option 5 stands in front of the client's options, in the router in software behind them: a parser without
//	        loops cannot put anything behind what it has not read. The order of options means nothing.
//	reasons One reason of the router in software may be one of several here, as the tables below say. Of a packet with
//	        two faults either may be named.
//	source  Of the router's address every port is a wrong source (M-23), not its own two alone: nothing else is there.

// The verdicts of a line.
const (
	gotForwarded = "F"
	gotHeld      = "H"
	gotDrop      = "D"
	gotSilence   = "S"
)

type reasonTable map[string][]int

// onRequestPort: the cases of r2p2.md §9, and words of bobtail_router_drops_total.
var onRequestPort = reasonTable{
	"M-1": {RShort}, "M-2": {RMagic}, "M-7": {RCount}, "M-8": {RSingle}, "M-9": {RIndex}, "M-23": {RSource}, "M-26": {RType},
	"M-3":      {RSize, ROptionLength, RForwarder},            // of a header that ends behind its packet the body is read as options
	"M-5":      {RType, RReport, RCount, RSingle, RTruncated}, // FEEDBACK is parsed wherever it comes
	"OPT-SIZE": {ROptionSize}, "OPT-LENGTH": {ROptionLength}, "FORWARDER": {RForwarder},
	"OPT-TRUNCATED": {ROptionLength}, // of the first option alone: shorter than its own two bytes
	"policy":        {RPolicy}, "critical_option": {ROption}, "queue_full": {RFull}, "no_room": {RNoRoom},
}

var onFeedbackPort = reasonTable{
	"M-1": {RShort}, "M-2": {RMagic}, "M-3": {RSize}, "M-5": {RType}, "M-22": {RCounters}, "M-25": {RTrailing}, "M-26": {RType},
	"M-7":  {RCount, RSingle},
	"M-8":  {RCount, RSingle},
	"M-21": {RReport, RTruncated, RNotServed}, // a stranger is somebody whom a switch does not know at all
}

func reasonAgrees(table reasonTable, word string, reason int) bool {
	return slices.Contains(table[word], reason)
}

// optionFirst is what the router in software sent, with option 5 in front of the client's options.
func optionFirst(sent sentTo) string {
	const option = 8 // with its padding
	b := sent.bytes
	if sent.worker < 0 || len(b) < 8+option || int(b[1]) > len(b) || int(b[1]) < 8+option {
		return b
	}
	at := int(b[1]) - option
	return b[:8] + b[at:at+option] + b[8:at] + b[at+option:]
}

// asked is a datagram for the request port, and what the router in software made of it.
type asked struct {
	id            int
	lost          bool
	kind, verdict string
	ends          bed.Ends
	bytes         []byte
	reason        string // where it was refused
	sent          sentTo // where it was not, or with a DROP
}

var askedWords = map[string]int{gotForwarded: 11, gotHeld: 9, gotDrop: 11, gotSilence: 10}

func readAsked(f []string, n []int) (*asked, error) {
	q := &asked{id: n[1], lost: n[2] == 1, kind: f[3], verdict: f[8],
		ends: bed.Ends{Src: uint32(n[3]), Dst: bed.RouterIP, SrcPort: uint16(n[4]), DstPort: bed.RequestPort}}
	if len(f) != askedWords[q.verdict] {
		return nil, fmt.Errorf("%s is no verdict, or not all of it", q.verdict)
	}
	var err, err2, err3 error
	q.bytes, err = hexBytes(f[7])
	switch q.verdict {
	case gotForwarded:
		q.sent.worker, err2 = strconv.Atoi(f[9])
	case gotDrop:
		q.reason, q.sent.worker = f[9], -1
	case gotSilence:
		q.reason = f[9]
	}
	if len(f) == askedWords[gotForwarded] {
		var answer []byte
		answer, err3 = hexBytes(f[10])
		q.sent.bytes = string(answer)
	}
	return q, firstOf(err, err2, err3)
}

// asks: a datagram comes to the request port.
func (p *besidePlayer) asks(f []string, n []int) error {
	q, err := readAsked(f, n)
	if err != nil {
		return err
	}
	p.numbers[uint16(q.id)], p.lost[q.id] = q.id, q.lost
	before, changes := p.outcomes(), p.sw.Changes
	got := p.ask(q)
	reason := p.refusedFor(before)
	switch q.kind {
	case "unread":
		p.unread(q, got)
	case "sticky":
		p.refusedHere(q, got, reason, RPolicy)
	case "long":
		p.refusedHere(q, got, reason, RNoRoom)
	default:
		p.judge(q, got, reason)
		if got == gotSilence && p.sw.Changes != changes {
			p.differs("a packet that was discarded changed registers (R-54)")
		}
		p.noteSoft(q)
		p.settle()
	}
	return nil
}

func (p *besidePlayer) noteSoft(q *asked) {
	if q.verdict == gotForwarded {
		p.got(&p.soft, q.id, q.sent.worker)
	}
	if q.verdict == gotForwarded || q.verdict == gotDrop {
		p.soft.sent[q.id] = q.sent
	}
}

// ask says what became of a request in its first pass.
func (p *besidePlayer) ask(q *asked) string {
	waiting := len(p.loop)
	p.pass(model.Frame{Port: bed.ClientPort, Data: bed.Frame(q.ends, q.bytes)})
	switch sent, known := p.here.sent[q.id]; {
	case known && sent.worker < 0:
		return gotDrop
	case known:
		return gotForwarded
	case len(p.loop) > waiting:
		return gotHeld
	}
	return gotSilence
}

func accepted(verdict string) bool { return verdict == gotForwarded || verdict == gotHeld }

// judge compares verdicts. What waits here may be forwarded when it has gone round: settle sees to that.
func (p *besidePlayer) judge(q *asked, got string, reason int) {
	switch {
	case got != q.verdict && !(accepted(got) && accepted(q.verdict)):
		p.differs("%x of %v becomes %s here (reason %d), want %s %s", q.bytes, q.ends, got, reason, q.verdict, q.reason)
	case accepted(got) && reason != 0:
		p.differs("%x is taken, and reason %d counted", q.bytes, reason)
	case accepted(got) || q.kind == "two" && reason > 0:
	case !reasonAgrees(onRequestPort, q.reason, reason):
		p.differs("%x is refused by %s, and here for reason %d", q.bytes, q.reason, reason)
	}
}

// unread: only here it goes to a worker, who refuses it at once: both have the same room again.
func (p *besidePlayer) unread(q *asked, got string) {
	p.settle()
	w, ok := p.here.flying[q.id]
	if !ok || accepted(q.verdict) {
		p.differs("%x, whose fault a switch does not read, becomes %s, in software %s", q.bytes, got, q.verdict)
		return
	}
	delete(p.here.flying, q.id)
	delete(p.here.sent, q.id)
	p.here.given--
	p.workers[w].served++
	p.pass(p.service.FromWorker(w, p.workers[w].feedback(0, p.workers[w].report)))
}

// refusedHere: only the router in software takes it.
func (p *besidePlayer) refusedHere(q *asked, got string, reason, want int) {
	if got != gotDrop || reason != want {
		p.differs("%x becomes %s for reason %d, want DROP for %d", q.bytes, got, reason, want)
	}
	drop := []byte{0xcc, 8, 0x41, 0xc0, byte(q.id >> 8), byte(q.id), 0, 1, 'D', 'R', 'O', 'P'}
	if p.here.sent[q.id].bytes != string(drop) {
		p.differs("%x is answered with %x, want %x", q.bytes, p.here.sent[q.id].bytes, drop)
	}
	delete(p.here.sent, q.id)
}
