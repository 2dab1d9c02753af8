// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// measured is the number of the service's histogram.
const measured = 77

// shedding is what the simulator said of admission (dataplane/sim/switch_admission.h).
type shedding struct {
	on      bool
	label   int64
	die     uint64
	pair    int64
	noted   [bed.NoteDropped + 1]uint64
	refused uint64
}

func (p *player) admission() error {
	switch p.fields[0] {
	case "A":
		p.shed = shedding{on: true}
		return p.sw.Measure(p.service, measured, uint64(p.n[1]))
	case "R":
		return p.sw.Rate(p.service, measured, int(p.n[1]), uint64(p.n[2]), uint64(p.n[3]))
	case "C":
		p.shed.label, p.shed.die = p.n[1], uint64(p.n[2])
	case "P":
		p.shed.pair = p.n[1]
	case "T":
		return p.noted()
	case "K":
		p.compareClass()
	case "M":
		p.compareLatencies()
	}
	return nil
}

// arriving is the request of a line, of the class and with the die that the line before said.
func (p *player) arriving() model.Frame {
	id := p.n[2]
	payload := bed.Request(requestOf(id), []byte(p.text))
	if p.shed.on {
		p.sw.Dice = []uint64{p.shed.die}
		if p.shed.label != 0 {
			payload = bed.Asking(payload, uint8(p.shed.label>>8), uint8(p.shed.label))
		}
	}
	return p.service.FromClient(portOf(id), payload)
}

// twin marks a pair that stands in the place of the one with the id below it: CRC-16 does not see the difference.
const twin = 1 << 40

func portOf(id int64) uint16 { return uint16(30000+id%twin%1000) ^ uint16(id/twin) }

func requestOf(id int64) uint16 { return uint16(id) ^ uint16(id/twin)*0xc1c0 }

// name has a FEEDBACK name the pair that the line before said.
func (p *player) name(fb *bed.Feedback) {
	if fb.Flags&bed.Pair != 0 {
		fb.Client, fb.Port, fb.ReqID = bed.ClientIP, portOf(p.shed.pair), requestOf(p.shed.pair)
	}
}

// noted compares what the event before made the switch note. A latency is of one of two buckets: the totals tell which.
func (p *player) noted() error {
	note := int(p.n[1])
	if note < bed.NoteKnown || note > bed.NoteDropped {
		return fmt.Errorf("there is no note %d", note)
	}
	p.shed.noted[note]++
	for k := bed.NoteKnown; k <= bed.NoteDropped; k++ {
		if got := p.sw.Noted(measured, k); got != p.shed.noted[k] {
			p.differs("note %d was made %d times, want %d", k, got, p.shed.noted[k])
		}
	}
	return nil
}

func (p *player) compareClass() {
	arrived, refused := p.sw.Class(measured, int(p.n[1]))
	if int64(arrived) != p.n[2] || int64(refused) != p.n[3] {
		p.differs("of class %d %d arrived and %d were refused", p.n[1], arrived, refused)
	}
}

func (p *player) compareLatencies() {
	within, exceeded := p.sw.Latencies(measured, bed.Within), p.sw.Latencies(measured, bed.Exceeded)
	if int64(within) != p.n[1] || int64(exceeded) != p.n[2] {
		p.differs("%d are within the objective and %d beyond it", within, exceeded)
	}
	unknown, dropped := p.sw.Noted(measured, bed.NoteUnseen), p.sw.Noted(measured, bed.NoteDropped)
	if int64(unknown) != p.n[3] || int64(dropped) != p.n[4] {
		p.differs("%d FEEDBACKs of unknown pairs, %d of dropped ones", unknown, dropped)
	}
}

// unasked: of a service without an objective nothing is noted.
func (p *player) unasked() {
	for k := bed.NoteKnown; k <= bed.NoteDropped && !p.shed.on; k++ {
		if n := p.sw.Noted(0, k); n != 0 {
			p.differs("note %d was made %d times without an objective", k, n)
		}
	}
}
