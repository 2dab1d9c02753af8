// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Balanced is what came of giving segments to both architectures of the balancer (dataplane/sim/switch_crab.h).
type Balanced struct {
	Findings
	Unread uint64 // SYNs whose options the program does not read
}

type crabPlayer struct {
	v1, tna *model.Program
	both    [2]*bed.Balancer
	rng     *rand.Rand
	servers int
	turn    int
	last    map[uint16]crabGiven // by place: the last SYN there
	spared  *bed.Balancer        // the same VIP with a fall-back, where it has none: says why a packet would have taken it
	now     uint64
	*Balanced
}

// crabGiven is whom a SYN was given to.
type crabGiven struct {
	key    string
	server int
	at     uint64
}

// PlayCrab reads the simulator's lines and compares.
func PlayCrab(lines io.Reader, v1, tna *model.Program, most uint64) (*Balanced, error) {
	p := &crabPlayer{v1: v1, tna: tna, rng: rand.New(rand.NewPCG(3, 1)), Balanced: &Balanced{}}
	err := p.play(lines, most, p.event)
	p.odd()
	return p.Balanced, err
}

func (p *crabPlayer) event(f []string) error {
	switch {
	case len(f) == 4 && f[0] == "E":
		return p.episode(f)
	case len(f) == 5 && f[0] == "S" && p.both[0] != nil:
		return p.segment(f)
	}
	return fmt.Errorf("no line of bobtail-sim switch --program=crab")
}

func (p *crabPlayer) odd() {
	for _, b := range p.both {
		if b != nil {
			p.oddOf(b.Machine)
		}
	}
}

func (p *crabPlayer) episode(f []string) error {
	var servers, drop, capable int
	if _, err := fmt.Sscan(strings.Join(f[1:], " "), &servers, &drop, &capable); err != nil {
		return err
	}
	p.odd()
	for i, prog := range []*model.Program{p.v1, p.tna} {
		b, err := bed.NewBalancer(prog, servers, drop == 0, capable == 1)
		if err != nil {
			return err
		}
		p.both[i] = b
	}
	p.servers, p.turn, p.last, p.spared = servers, 0, map[uint16]crabGiven{}, nil
	if drop == 1 {
		spared, err := bed.NewBalancer(p.v1, servers, true, capable == 1)
		if err != nil {
			return err
		}
		p.spared = spared
	}
	return nil
}

func (p *crabPlayer) segment(f []string) error {
	if _, err := fmt.Sscan(f[1], &p.now); err != nil {
		return err
	}
	in, err := hex.DecodeString(f[3])
	if err != nil {
		return err
	}
	out, reason := p.pass(bed.Packet(in))
	p.Events++
	if f[4] == "-" {
		p.nothing(in, out, f[2])
	} else if want, err := hex.DecodeString(f[4]); err != nil {
		return err
	} else {
		p.something(in, out, want, f[2], reason)
	}
	if p.rng.IntN(4) == 0 { // the same with some bytes others: for the architectures alone
		in = bytes.Clone(in)
		for range 1 + p.rng.IntN(3) {
			in[p.rng.IntN(min(len(in), 60))] ^= byte(1 << p.rng.IntN(8))
		}
		p.pass(bed.Packet(in[:p.rng.IntN(len(in))+1]))
		p.pass(bed.Packet(nil)[:p.rng.IntN(15)]) // nothing behind Ethernet's header, or not all of it
	}
	return nil
}

// pass gives a frame to both architectures; which reason was counted.
func (p *crabPlayer) pass(data []byte) ([]model.Frame, int) {
	frame := model.Frame{Port: bed.ClientPort, Data: data}
	var outs [2][]model.Frame
	var reasons [2]int
	for i, b := range p.both {
		b.Now = p.now
		if i == 1 {
			b.Now = p.now * 1000 / 1024
		}
		var before [bed.CrabReasons]uint64
		for r := range before {
			before[r] = b.Reason(r)
		}
		outs[i] = b.Pass(frame)
		for r := range before {
			if b.Reason(r) != before[r] {
				reasons[i] = r
			}
		}
	}
	what := unlike(outs[0], outs[1])
	if reasons[0] != reasons[1] {
		what += fmt.Sprintf(" reasons %d and %d", reasons[0], reasons[1])
	}
	p.shellsDiffer(data, what)
	if (reasons[0] == bed.CrabRedirected || reasons[0] == bed.CrabInserted) && len(outs[0]) == 1 {
		p.chosen(data[14:], outs[0][0])
	}
	return outs[0], reasons[0]
}

// chosen judges the choice: in turn, but that a SYN that came again within three seconds goes where it went (C-25).
func (p *crabPlayer) chosen(in []byte, out model.Frame) {
	key := string(in[12:22]) + string(in[24:28])
	place := model.CRC16(append(append(append(append([]byte{}, in[12:16]...), in[20:22]...), in[16:20]...), in[24:28]...))
	want, at := p.turn, p.now
	p.turn = (p.turn + 1) % p.servers
	const patience, edge = 3_000_000, 3
	known, ok := p.last[place]
	unsure := false
	if ok && known.key == key {
		age := p.now - known.at
		unsure = age+edge > patience && age < patience+edge
		if age <= patience {
			want, at = known.server, known.at
		}
	}
	server := int(out.Port) - bed.ServerPort
	if dst := int(binary.BigEndian.Uint32(out.Data[30:])) - bed.FirstServer; dst != server || server != want && !unsure {
		p.differs("server %d at port %d, want %d", dst, out.Port, want)
	}
	p.last[place] = crabGiven{key, server, at}
}

// nothing: the software sent nothing. What is for others, and wrong, passes a switch as it is.
func (p *crabPlayer) nothing(in []byte, out []model.Frame, what string) {
	if binary.BigEndian.Uint32(in[16:]) == bed.VIP {
		if len(out) != 0 {
			p.differs("want nothing (%s), got %x", what, out[0].Data)
		}
	} else if len(out) != 1 || out[0].Port != bed.OtherPort || !bytes.Equal(out[0].Data[14:], in) {
		p.differs("want others' traffic as it is (%s)", what)
	}
}

var crabHashed = map[string]bool{"client": true, "option_space": true, "not_syn": true, "servers": true}

// unreadHere: a VIP without a fall-back drops the SYN whose options the switch does not read.
func (p *crabPlayer) unreadHere(in []byte, out []model.Frame, reason int) bool {
	if p.spared == nil || len(out) != 0 || reason != bed.CrabNoFallback {
		return false
	}
	before := p.spared.Reason(bed.CrabUnread)
	p.spared.Pass(model.Frame{Port: bed.ClientPort, Data: bed.Packet(in)})
	return p.spared.Reason(bed.CrabUnread) != before
}

// something: the software sent a packet. Its server is its own choice; the rest is the same, byte by byte.
func (p *crabPlayer) something(in []byte, out []model.Frame, want []byte, what string, reason int) {
	if p.unreadHere(in, out, reason) {
		p.Unread++
		return
	}
	if len(out) != 1 || len(out[0].Data) < 14+len(want) && reason != bed.CrabUnread {
		p.differs("want %s, got %d frames, reason %d", what, len(out), reason)
		return
	}
	if reason == bed.CrabUnread && what != "not_syn" {
		p.Unread++
		return
	}
	got := bytes.Clone(out[0].Data[14 : 14+len(want)])
	byHash := reason >= bed.CrabFirstHash && reason <= bed.CrabLastHash
	if byHash != crabHashed[what] || (reason == bed.CrabInserted) != (what == "inserted") {
		p.differs("want %s, got reason %d", what, reason)
	}
	if !byHash {
		if bed.TCPRest(got) != bed.TCPRest(want) {
			p.differs("TCP's checksum is another one: %x, want %x", got, want)
		}
		head := 36
		copy(got[16:20], want[16:20])
		copy(got[head:head+2], want[head:head+2])
		if !bed.IPSound(out[0].Data[14:]) {
			p.differs("IP's checksum is wrong")
		}
		copy(got[10:12], want[10:12])
	}
	if !bytes.Equal(got, want) {
		p.differs("%s: got %x, want %x", what, got, want)
	}
}
