// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Aggregated is what came of giving a group's messages to both architectures of the aggregator
// (dataplane/sim/switch_aggregator.h).
type Aggregated struct {
	Findings
	Recirculations uint64 // of frames of groups of nine
}

// aggregators are the same switch in both architectures.
type aggregators [2]*bed.Aggregator

type aggregatorPlayer struct {
	progs [2]*model.Program
	both  aggregators // get what the simulator's lines say
	rough aggregators // and these what was broken on its way, too
	group bed.Group
	rng   *rand.Rand
	*Aggregated
}

// PlayAggregator reads the simulator's lines and compares.
func PlayAggregator(lines io.Reader, v1, tna *model.Program, most uint64) (*Aggregated, error) {
	p := &aggregatorPlayer{progs: [2]*model.Program{v1, tna}, rng: rand.New(rand.NewPCG(5, 1)), Aggregated: &Aggregated{}}
	err := p.play(lines, most, p.event)
	p.odd()
	return p.Aggregated, err
}

func (p *aggregatorPlayer) event(f []string) error {
	switch {
	case len(f) > 4 && f[0] == "E":
		id, err := strconv.ParseUint(f[1], 10, 32)
		cluster, err2 := strconv.ParseUint(f[2], 10, 64)
		p.group = bed.Group{ID: uint32(id), Cluster: cluster}
		return firstOf(err, err2, p.members(f[3:]), p.fresh())
	case len(f) > 2 && f[0] == "T" && p.both[0] != nil:
		return firstOf(p.members(f[1:]), p.both.write(p.group), p.rough.write(p.group))
	case len(f) == 1 && f[0] == "R" && p.both[0] != nil:
		return p.fresh()
	case len(f) == 6 && f[0] == "M" && p.both[0] != nil:
		return p.message(f)
	}
	return fmt.Errorf("no line of bobtail-sim switch --program=aggregator")
}

func (a aggregators) write(g bed.Group) error { return firstOf(a[0].Write(g), a[1].Write(g)) }

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// members are the epoch and then id:role.
func (p *aggregatorPlayer) members(f []string) error {
	var err error
	if p.group.Epoch, err = strconv.ParseUint(f[0], 10, 64); err != nil {
		return err
	}
	p.group.Members = nil
	for _, m := range f[1:] {
		id, role, _ := strings.Cut(m, ":")
		n, err := strconv.ParseUint(id, 10, 16)
		if err != nil {
			return err
		}
		p.group.Members = append(p.group.Members, bed.GroupMember{ID: uint16(n), Votes: role == "1"})
	}
	return nil
}

func (p *aggregatorPlayer) odd() {
	for _, a := range append(p.both[:], p.rough[:]...) {
		if a != nil {
			p.oddOf(a.Machine)
		}
	}
}

// fresh is a switch without registers, with its tables written.
func (p *aggregatorPlayer) fresh() error {
	p.odd()
	var err, err2 error
	for i, prog := range p.progs {
		p.both[i], err = bed.NewAggregator(prog, p.group)
		p.rough[i], err2 = bed.NewAggregator(prog, p.group)
		if err := firstOf(err, err2); err != nil {
			return err
		}
	}
	return nil
}

func (p *aggregatorPlayer) message(f []string) error {
	from, err := strconv.ParseUint(f[1], 10, 16)
	in, err2 := hex.DecodeString(f[3])
	if err := firstOf(err, err2); err != nil {
		return err
	}
	frame := bed.FromMember(p.both[0].SlotOf(uint16(from)), in)
	out, reason, changes := p.pass(p.both, frame)
	p.Events++
	want, err := p.wanted(f, frame)
	if err != nil {
		return err
	}
	p.judge(f[2], reason, changes)
	p.compare(out, want)
	p.pass(p.rough, frame)
	if p.rng.IntN(4) == 0 {
		p.broken(frame)
	}
	return nil
}

// judge compares what became of a message. The software decodes all types whole, the program those that are for it.
func (p *aggregatorPlayer) judge(want string, reason int, changes uint64) {
	r, known := bed.AggregatorReason[want]
	refused := reason != 0 && reason < bed.AggregatorReason["probes"] || reason == bed.AggMany
	if !known || r != reason && !(want == "malformed" && refused) {
		p.differs("want %s, got reason %d", want, reason)
	}
	if r < bed.AggregatorReason["stale"] && changes > 0 {
		p.differs("%s, and registers changed", want)
	}
}

// wanted is each frame that the software's aggregator would have sent.
func (p *aggregatorPlayer) wanted(f []string, in model.Frame) ([]model.Frame, error) {
	if f[4] == "-" {
		return nil, nil
	}
	message, err := hex.DecodeString(f[5])
	if err != nil {
		return nil, err
	}
	var all []model.Frame
	for _, to := range strings.Split(f[4], ",") {
		id, err := strconv.ParseUint(to, 10, 16)
		if err != nil {
			return nil, err
		}
		all = append(all, p.both[0].Told(p.both[0].SlotOf(uint16(id)), message, in))
	}
	return all, nil
}

func (p *aggregatorPlayer) compare(got, want []model.Frame) {
	if len(got) != len(want) {
		p.differs("%d frames, want %d", len(got), len(want))
		return
	}
	for i, w := range want {
		g := got[i]
		if g.Port != w.Port || bed.Settled(head(g.Data, w.Data)) != bed.Settled(w.Data) {
			p.differs("to port %d %x, want to port %d %x", g.Port, g.Data, w.Port, w.Data)
		}
		if !bed.Sound(g.Data) {
			p.differs("checksums or lengths are wrong: %x", g.Data)
		}
	}
}

// head is as much of a frame as is compared: what is behind its datagram is Ethernet's.
func head(got, want []byte) []byte { return got[:min(len(got), len(want))] }

// pass gives a frame to both architectures; which reason was counted, and how many words of registers changed.
func (p *aggregatorPlayer) pass(through aggregators, frame model.Frame) ([]model.Frame, int, uint64) {
	var outs [2][]model.Frame
	var reasons [2]int
	var changes [2]uint64
	for i, a := range through {
		var before [bed.AggReasons]uint64
		for r := range before {
			before[r] = a.Reason(r)
		}
		kept := a.Changes
		outs[i] = a.Pass(frame)
		changes[i] = a.Changes - kept
		for r := range before {
			if a.Reason(r) != before[r] {
				reasons[i] = r
			}
		}
		for _, f := range outs[i] {
			if f.Loop && len(p.group.Members) == bed.GroupSlots {
				p.Recirculations++
			}
		}
	}
	what := unlike(outs[0], outs[1])
	if reasons[0] != reasons[1] || (changes[0] > 0) != (changes[1] > 0) {
		what += fmt.Sprintf(" reasons %d and %d, %d and %d words changed", reasons[0], reasons[1], changes[0], changes[1])
	}
	p.shellsDiffer(frame.Data, what)
	return outs[0], reasons[0], changes[0]
}

// broken is a frame whose bytes changed on the way, or that was cut. An answer or a probe whose checksum says so changes
// nothing. Entries are checked by those who get them: their header may be believed.
func (p *aggregatorPlayer) broken(frame model.Frame) {
	f := model.Frame{Port: frame.Port, Data: bytes.Clone(frame.Data)}
	for range 1 + p.rng.IntN(2) {
		f.Data[12+p.rng.IntN(min(len(f.Data)-12, 150))] ^= byte(1 << p.rng.IntN(8))
	}
	if p.rng.IntN(8) == 0 {
		f.Data = f.Data[:p.rng.IntN(len(f.Data))]
	}
	_, _, changes := p.pass(p.rough, f)
	if changes > 0 && !bed.Sound(f.Data) && f.Data[groupKind] != sharedKind {
		p.differs("%x: its checksum is wrong, and registers changed", f.Data)
	}
}

const (
	groupKind  = bed.Plain + 9
	sharedKind = 12
)
