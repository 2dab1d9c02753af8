// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Load is what is asked of a generator: gaps of 2 million packets a second (S-13), from templates of so many nanoseconds.
type Load struct {
	Rate, TemplateNS float64
	Packets          int
}

// Generated is what came of it.
type Generated struct {
	RateError     float64 // of the rate, each number of the table drawn once
	LatencyErrors uint64  // replies that were not counted in their bucket, and counts that are wrong
	Odd           uint64
	First         []string
}

type slogReply struct {
	at    uint64
	frame model.Frame
}

type slogReplies []slogReply

func (r slogReplies) Len() int           { return len(r) }
func (r slogReplies) Less(i, k int) bool { return r[i].at < r[k].at }
func (r slogReplies) Swap(i, k int)      { r[i], r[k] = r[k], r[i] }
func (r *slogReplies) Push(x any)        { *r = append(*r, x.(slogReply)) }
func (r *slogReplies) Pop() any {
	old := *r
	x := old[len(old)-1]
	*r = old[:len(old)-1]
	return x
}

// slogWeights of the targets.
var slogWeights = []int{5, 2, 1}

// slogWorld is targets in virtual time.
type slogWorld struct {
	g       *bed.Generator
	rng     *rand.Rand
	result  *Generated
	due     slogReplies
	buckets [bed.SlogBeyond + 1]uint64
	became  [8][bed.SlogOutcomes]uint64 // by target and what
	turn    int
	now     uint64
}

func (w *slogWorld) wrong(format string, args ...any) {
	w.result.LatencyErrors++
	if len(w.result.First) < shownDifferences {
		w.result.First = append(w.result.First, fmt.Sprintf("at %d ns: ", w.now)+fmt.Sprintf(format, args...))
	}
}

// Slog runs a load, whose targets answer after 100 ns to 2 s, or never, and compares every count.
func Slog(p *model.Program, l Load, seed uint64) (*Generated, error) {
	gaps := bed.Gaps(l.Rate, l.TemplateNS*1e-9)
	g, err := bed.NewGenerator(p, gaps, slogWeights, uint64(l.Packets))
	if err != nil {
		return nil, err
	}
	w := &slogWorld{g: g, rng: rand.New(rand.NewPCG(seed, 5)), result: &Generated{}, now: 1 << 40}
	order := w.rng.Perm(len(gaps))
	template, begin, last := g.Template(make([]byte, 18)), float64(w.now), 0.0
	skip, sent := uint64(0), 0
	for k := 0; sent < l.Packets; k++ {
		at := begin + float64(k)*l.TemplateNS
		w.until(uint64(at))
		g.Dice = []uint64{uint64(order[sent%len(order)])}
		waits := uint64(w.rng.IntN(5000))
		g.At(w.now, waits)
		out := g.Pass(template)
		if skip > 0 {
			skip--
			w.became[0][bed.SlogSkipped]++
			if len(out) != 0 {
				w.wrong("a packet too early")
			}
			continue
		}
		skip, last = gaps[order[sent%len(order)]], at
		sent++
		w.sent(out, waits)
	}
	last += l.TemplateNS * float64(skip+1)
	w.result.RateError = math.Abs(float64(sent)/((last-begin)*1e-9)/l.Rate - 1)
	w.end(template)
	return w.result, nil
}

// until: replies arrive that are due.
func (w *slogWorld) until(ns uint64) {
	for len(w.due) > 0 && w.due[0].at <= ns {
		r := heap.Pop(&w.due).(slogReply)
		w.now = r.at
		w.g.At(w.now, 0)
		if out := w.g.Pass(r.frame); len(out) != 0 {
			w.wrong("a reply was forwarded")
		}
	}
	w.now = ns
}

// sent: a packet left; its target answers some time later.
func (w *slogWorld) sent(out []model.Frame, waits uint64) {
	target, at := 0, w.turn
	for at >= slogWeights[target] {
		at -= slogWeights[target]
		target++
	}
	w.turn = (w.turn + 1) % 8
	w.became[target][bed.SlogSent]++
	if len(out) != 1 {
		w.wrong("%d packets, want one", len(out))
		return
	}
	if what := bed.SlogSound(out[0], target); what != "" {
		w.wrong("what was sent: %s", what)
		return
	}
	unit := w.g.Unit()
	stamp := w.now/unit + waits/unit
	took := uint64(math.Exp(math.Log(100) + w.rng.Float64()*math.Log(2e7)))
	reply := bed.Reply(out[0], []byte("reply"))
	r := slogReply{w.now + waits + took, reply}
	switch w.rng.IntN(40) {
	case 0: // lost
		return
	case 1: // from somebody else
		r.frame.Data = bytes.Clone(reply.Data)
		r.frame.Data[29] = 77
		bed.SetSums(r.frame.Data)
		w.became[0][bed.SlogUnmatched]++
	case 2: // to a port that holds no stamp
		r.frame.Data = bytes.Clone(reply.Data)
		r.frame.Data[36] &= 127
		bed.SetSums(r.frame.Data)
		w.became[target][bed.SlogUnmatched]++
	default:
		w.answered(target, (r.at/unit-stamp)&(1<<31-1))
	}
	heap.Push(&w.due, r)
}

func (w *slogWorld) answered(target int, latency uint64) {
	if latency >= 1<<30 {
		w.became[target][bed.SlogRange]++
		return
	}
	w.became[target][bed.SlogReceived]++
	b := bed.Bucket(latency)
	if b >= bed.LastBucket {
		b = bed.SlogBeyond
	}
	w.buckets[b]++
}

// end: all is answered, a template more is not sent, another run may begin, and the counts are what they should be.
func (w *slogWorld) end(template model.Frame) {
	w.until(w.now + 4e9)
	for range 200_000 {
		if out := w.g.Pass(template); len(out) != 0 {
			w.wrong("a packet more than the run has")
		}
		if w.g.Became(0, bed.SlogSpent) > 0 {
			break
		}
		w.became[0][bed.SlogSkipped]++
	}
	w.became[0][bed.SlogSpent]++
	for t := range slogWeights {
		for what := bed.SlogSkipped; what < bed.SlogOutcomes; what++ {
			if got := w.g.Became(t, what); got != w.became[t][what] {
				w.wrong("%d of target %d became %d, want %d", got, t, what, w.became[t][what])
			}
		}
	}
	for b, want := range w.buckets {
		if got := w.g.InBucket(b); got != want {
			w.wrong("%d latencies in bucket %d, want %d", got, b, want)
		}
	}
	w.result.Odd = w.g.Odd()
}

// SlogGaps are gaps in seconds between packets of a generator that draws by itself.
func SlogGaps(p *model.Program, l Load, seed uint64) ([]float64, error) {
	g, err := bed.NewGenerator(p, bed.Gaps(l.Rate, l.TemplateNS*1e-9), slogWeights, uint64(l.Packets)+1)
	if err != nil {
		return nil, err
	}
	g.Seed(seed)
	var gaps []float64
	template, before := g.Template(make([]byte, 18)), -1
	for k := 0; len(gaps) < l.Packets; k++ {
		g.At(uint64(float64(k)*l.TemplateNS), 0)
		if len(g.Pass(template)) == 0 {
			continue
		}
		if before >= 0 {
			gaps = append(gaps, float64(k-before)*l.TemplateNS*1e-9)
		}
		before = k
	}
	return gaps, nil
}

// SlogShells sends the same frames to both architectures, whose clocks show the same, and counts what comes out different.
func SlogShells(a, b *model.Program, seed, frames uint64) (differences uint64, first []string, err error) {
	var both [2]*bed.Generator
	for i, p := range []*model.Program{a, b} {
		if both[i], err = bed.NewGenerator(p, []uint64{0, 1, 2, 3}, slogWeights, frames); err != nil {
			return 0, nil, err
		}
		asked := model.Entry{Match: []model.Match{{Value: bed.OwnNet << 16, Mask: 0xffff0000}, {Value: 1}, {Value: 0x0800}}, Action: "is_asked", Args: []uint64{bed.RouterMAC}}
		if err = both[i].Insert("Ingress.slog.address", asked); err != nil {
			return 0, nil, err
		}
	}
	rng := rand.New(rand.NewPCG(seed, 6))
	now, sent := uint64(0), model.Frame{}
	for i := range frames {
		now += uint64(rng.IntN(100_000))
		generated := rng.IntN(2) == 0
		f := slogFrame(rng, generated, sent)
		die := uint64(rng.IntN(6))
		var out [2][]model.Frame
		for k, g := range both {
			in := f
			g.Dice, g.Now, g.Fine, g.Waits = []uint64{die}, now, 0, uint64(i%7)
			if k == 1 {
				g.Now, g.Fine = 0, now
				if generated {
					in.Data = append(make([]byte, 6), f.Data...)
				}
			}
			out[k] = g.Pass(in)
		}
		if what := unlike(out[0], out[1]); what != "" {
			differences++
			first = append(first, fmt.Sprintf("seed %d, frame %d, %x: %s", seed, i, f.Data, what))
		}
		if len(out[0]) == 1 && generated {
			sent = out[0][0]
		}
	}
	for t := range 256 {
		for what := bed.SlogSkipped; what < bed.SlogOutcomes; what++ {
			if m, n := both[0].Became(t, what), both[1].Became(t, what); m != n {
				differences++
				first = append(first, fmt.Sprintf("seed %d: %d and %d of target %d became %d", seed, m, n, t, what))
			}
		}
	}
	if odd := both[0].Odd() + both[1].Odd(); odd > 0 {
		differences += odd
		first = append(first, fmt.Sprintf("seed %d: %d things that should not be: %s%s", seed, odd, both[0].LastOdd, both[1].LastOdd))
	}
	return differences, first[:min(len(first), shownDifferences)], nil
}

// slogFrame is a template, the reply to what was sent, a question by ARP, or one of them broken.
func slogFrame(rng *rand.Rand, generated bool, sent model.Frame) model.Frame {
	f := model.Frame{Port: bed.GeneratorPort, Data: bed.Frame(bed.Ends{Src: bed.OwnNet << 16, Dst: bed.TargetNet << 16, SrcPort: 1 << 15, DstPort: bed.TargetUDP}, make([]byte, 18))}
	switch {
	case generated:
	case rng.IntN(4) == 0 || sent.Data == nil:
		f = model.Frame{Port: 2, Data: append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 1, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 38)...)}
		f.Data[38], f.Data[39] = bed.OwnNet>>8, bed.OwnNet&255
	default:
		f = bed.Reply(sent, []byte("reply"))
	}
	switch rng.IntN(6) {
	case 0:
		f.Data = bytes.Clone(f.Data)
		f.Data[12+rng.IntN(30)] ^= byte(1 << rng.IntN(8))
	case 1:
		f.Data = f.Data[:rng.IntN(len(f.Data))]
	}
	return f
}
