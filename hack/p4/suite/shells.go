// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Shells sends the same frames to both architectures, whole ones and broken ones, and counts what comes out different:
// in frames, in what goes round, in counters of reasons.
func Shells(a, b *model.Program, seed, frames uint64) (differences uint64, first []string, err error) {
	one, two, service, err := twins(a, b)
	if err != nil {
		return 0, nil, err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	g := &generator{rng: r, service: service, served: make([]uint64, service.Workers)}
	var loops [2][]model.Frame
	for i := range frames {
		f := g.frame()
		if len(loops[0]) > 0 && r.IntN(2) == 0 {
			f = loops[0][0]
			loops[0], loops[1] = loops[0][1:], loops[1][1:]
		}
		one.Now += uint64(r.IntN(5))
		two.Now = one.Now
		x, y := one.Pass(f), two.Pass(f)
		g.note(x)
		if what := unlike(x, y); what != "" {
			differences++
			if len(first) < shownDifferences {
				first = append(first, fmt.Sprintf("seed %d, frame %d, %x: %s", seed, i, f.Data, what))
			}
			continue
		}
		for k, all := range [2][]model.Frame{x, y} {
			for _, out := range all {
				if out.Loop {
					loops[k] = append(loops[k], out)
				}
			}
		}
	}
	for reason := range reasons {
		if m, n := one.Outcome(service.Index, reason), two.Outcome(service.Index, reason); m != n {
			differences++
			first = append(first, fmt.Sprintf("seed %d: reason %d was counted %d and %d times", seed, reason, m, n))
		}
	}
	for k := bed.NoteKnown; k <= bed.NoteDropped; k++ {
		if m, n := one.Noted(measured, k), two.Noted(measured, k); m != n {
			differences++
			first = append(first, fmt.Sprintf("seed %d: note %d was made %d and %d times", seed, k, m, n))
		}
	}
	if odd := one.Odd() + two.Odd(); odd > 0 {
		differences += odd
		first = append(first, fmt.Sprintf("seed %d: %d things that should not be: %s%s", seed, odd, one.LastOdd, two.LastOdd))
	}
	return differences, first, nil
}

// gone is a worker that reports, and has no target.
const gone = 17

func twins(a, b *model.Program) (one, two *bed.Switch, service bed.Service, err error) {
	service = bed.Service{Index: 9, Workers: 37, Depth: 3, Base: 7, Limit: 20, Patience: 5000, Loss: 300}
	if one, err = bed.New(a); err != nil {
		return
	}
	if two, err = bed.New(b); err != nil {
		return
	}
	for _, s := range []*bed.Switch{one, two} {
		if err = s.Add(service); err != nil {
			return
		}
		if err = s.Measure(service, measured, 40); err != nil {
			return
		}
		for _, class := range bed.Classes {
			if err = s.Rate(service, measured, class, uint64(6000*class), 1<<20); err != nil {
				return
			}
		}
		row, slot, _, _ := service.Slot(gone)
		if err = s.Delete(bed.Control+"target", []model.Match{{Value: row}, {Value: slot}}, 0); err != nil {
			return
		}
		for _, port := range []uint64{2, bed.ClientPort, bed.WorkerPort} {
			s.Groups[4+port] = model.CopiesTo(1, 2, 9)
		}
		asked := model.Entry{Match: []model.Match{{Value: bed.RouterIP}, {Value: 1}, {Value: 0x0800}}, Action: "is_asked", Args: []uint64{bed.RouterMAC}}
		if err = s.Insert(bed.Control+"address", asked); err != nil {
			return
		}
		if err = s.Insert(bed.Control+"station", model.Entry{Match: []model.Match{{Value: 0x020000000909}}, Action: "to_port", Args: []uint64{9}}); err != nil {
			return
		}
		if err = s.Insert(bed.Control+"station", model.Entry{Match: []model.Match{{Value: 0xffffffffffff}}, Action: "to_group", Args: []uint64{4}}); err != nil {
			return
		}
	}
	return
}

// unlike says how two results of one pass differ; the loop's frames and those that leave are compared alike.
func unlike(x, y []model.Frame) string {
	if len(x) != len(y) {
		return fmt.Sprintf("%d and %d frames", len(x), len(y))
	}
	for i := range x {
		if x[i].Loop != y[i].Loop || !x[i].Loop && x[i].Port != y[i].Port {
			return fmt.Sprintf("ports %d and %d", x[i].Port, y[i].Port)
		}
		if !bytes.Equal(x[i].Data, y[i].Data) {
			return fmt.Sprintf("%x and %x", x[i].Data, y[i].Data)
		}
	}
	return ""
}

// generator makes frames: requests, FEEDBACK of workers that serve, others' traffic; some of them broken.
type generator struct {
	rng     *rand.Rand
	service bed.Service
	served  []uint64
	sent    []sent // requests that were sent to workers
}

type sent struct {
	worker int
	of     bed.Ends
	id     uint16
}

func (g *generator) note(out []model.Frame) {
	for _, f := range out {
		if w := g.service.WorkerOf(f); w >= 0 && !f.Loop {
			g.sent = append(g.sent, sent{w, bed.EndsOf(f.Data), binary.BigEndian.Uint16(bed.Payload(f.Data)[4:])})
		}
	}
}

func (g *generator) frame() model.Frame {
	f := g.whole()
	switch g.rng.IntN(8) {
	case 0: // some bytes others, checksums right or not
		f.Data = bytes.Clone(f.Data)
		for range 1 + g.rng.IntN(3) {
			f.Data[12+g.rng.IntN(min(len(f.Data)-12, 60))] ^= byte(1 << g.rng.IntN(8))
		}
		if g.rng.IntN(2) == 0 && len(f.Data) >= bed.Plain {
			bed.SetSums(f.Data)
		}
	case 1: // cut off
		f.Data = f.Data[:g.rng.IntN(len(f.Data))]
	}
	return f
}

func (g *generator) whole() model.Frame {
	switch n := g.rng.IntN(10); {
	case n < 4:
		return g.request()
	case n < 9:
		return g.feedback()
	case g.rng.IntN(2) == 0:
		f := model.Frame{Port: 2, Data: bed.Frame(bed.Ends{Src: bed.ClientIP, Dst: bed.ClientIP + 9, SrcPort: 53, DstPort: 5353}, g.bytes(30))}
		copy(f.Data, []byte{2, 0, 0, 0, 9, 9})
		return f
	default:
		return g.arp()
	}
}

// arp asks for somebody, for the router now and then.
func (g *generator) arp() model.Frame {
	ask := append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 1, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, g.bytes(38)...)
	if g.rng.IntN(2) == 0 {
		binary.BigEndian.PutUint32(ask[38:], bed.RouterIP)
	}
	return model.Frame{Port: 2, Data: ask}
}

func (g *generator) bytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(g.rng.Uint32())
	}
	return p
}

func (g *generator) request() model.Frame {
	body := g.bytes(g.rng.IntN(40))
	if g.rng.IntN(50) == 0 {
		body = g.bytes(1450 + g.rng.IntN(15))
	}
	p := bed.Request(uint16(g.rng.Uint32()), body)
	if g.rng.IntN(6) == 0 { // a class, or some other option
		kind := []byte{0, 1, 2, 3, 3, 3, 4, 5, 6, 66, 200}[g.rng.IntN(11)]
		p = append([]byte{0xcc, 12, p[2], p[3], p[4], p[5], p[6], p[7], kind, 4, byte(g.rng.IntN(10)), byte(g.rng.IntN(4))}, body...)
	}
	if g.rng.IntN(8) == 0 {
		p[2] = byte(g.rng.IntN(4))
	}
	f := g.service.FromClient(uint16(30000+g.rng.IntN(100)), p)
	if g.rng.IntN(4) == 0 { // no UDP checksum
		f.Data[40], f.Data[41] = 0, 0
	}
	return f
}

func (g *generator) feedback() model.Frame {
	w := g.rng.IntN(g.service.Workers)
	var of sent
	flags := uint8(0)
	if len(g.sent) > 0 && g.rng.IntN(3) > 0 {
		of, flags = g.sent[0], bed.Pair
		w = of.worker
		g.sent = g.sent[1:]
		g.served[w]++
	}
	fb := bed.Feedback{Flags: flags, N: 3, Incarnation: 1 + uint32(g.rng.IntN(300)/299), Received: g.served[w], Served: g.served[w],
		Client: of.of.Src, Port: of.of.SrcPort, ReqID: of.id}
	if g.rng.IntN(20) == 0 {
		fb.N, fb.Flags = uint16(g.rng.IntN(70)), fb.Flags|byte(g.rng.IntN(16))
	}
	return g.service.FromWorker(w, fb.Bytes())
}
