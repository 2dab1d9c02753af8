// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Where a generator of load and its targets are.
const (
	GeneratorPort = 68     // of the switch
	OwnNet        = 0x0a63 // 10.99.0.0/16 is the switch's
	TargetNet     = 0x0a02
	TargetUDP     = 8000
	FirstTarget   = 20 // port of the switch
)

// What the program counts of a packet, as headers.p4 of slog numbers it.
const (
	SlogSkipped = iota + 1
	SlogSpent
	SlogNowhere
	SlogSent
	SlogReceived
	SlogRange
	SlogUnmatched
	SlogStrange
	SlogBroken
	SlogOutcomes
)

// Generator is a program that makes load.
type Generator struct {
	*model.Machine
	tna bool
}

const slog = "Ingress.slog."

// Gaps are 65,536 numbers of templates to drop, for exponential gaps at a rate; tick: seconds that the generator needs for
// one template (S-10, S-11). Their mean is scaled to the rate after rounding.
func Gaps(rate, tick float64) []uint64 {
	const n = 1 << 16
	gaps := make([]uint64, n)
	want := 1 / (rate * tick)
	fill := func(scale float64) float64 {
		sum := 0.0
		for i := range gaps {
			g := math.Round(-math.Log(1-(float64(i)+0.5)/n) * want * scale)
			gaps[i] = uint64(max(0, g-1))
			sum += float64(gaps[i] + 1)
		}
		return sum / n
	}
	lo, hi := 0.5, 2.0
	for range 40 {
		mid := (lo + hi) / 2
		if fill(mid) > want {
			hi = mid
		} else {
			lo = mid
		}
	}
	fill(lo)
	return gaps
}

// SubBuckets of an octave: a bucket is 1/128 of its latency wide, or one unit of the clock.
const SubBuckets = 128

// Bucket of a latency: as many as the unit's number below 256, then 128 an octave.
func Bucket(latency uint64) int {
	octave := bits.Len64(latency / SubBuckets)
	if octave <= 1 {
		return int(latency)
	}
	shift := octave - 1
	return shift*SubBuckets + int(latency>>shift)
}

// LastBucket is beyond 100 ms in nanoseconds; SlogBeyond is what is in none.
const (
	LastBucket = 20*SubBuckets + 2*SubBuckets
	SlogBeyond = 4095
)

// NewGenerator has targets with weights, and gaps.
func NewGenerator(p *model.Program, gaps []uint64, weights []int, packets uint64) (*Generator, error) {
	g := &Generator{model.NewMachine(p), p.Arch == "tna"}
	var err error
	add := func(table, action string, key []model.Match, args ...uint64) {
		if err == nil {
			err = g.Insert(slog+table, model.Entry{Match: key, Action: action, Args: args})
		}
	}
	one := func(v ...uint64) (m []model.Match) {
		for _, x := range v {
			m = append(m, model.Match{Value: x})
		}
		return m
	}
	for i, n := range gaps {
		add("gap", "drop_next", one(uint64(i)), n)
	}
	turns := 0
	for t, w := range weights {
		for range w {
			add("target", "to_target", one(uint64(turns)), uint64(t), FirstTarget+uint64(t), RouterMAC, 0x020000030000+uint64(t), OwnNet,
				TargetNet, uint64(t+1), TargetUDP)
			turns++
		}
		add("reply", "answers", one(TargetNet, uint64(t+1), TargetUDP), uint64(t))
	}
	add("own", "is_ours", one(OwnNet))
	for b := 0; b < LastBucket; b++ {
		lo, size := uint64(b), uint64(1)
		if b >= 2*SubBuckets {
			shift := b/SubBuckets - 1
			lo, size = uint64(b-shift*SubBuckets)<<shift, 1<<shift
		}
		add("bucket", "in_bucket", []model.Match{{Value: lo, Mask: (1<<31 - 1) &^ (size - 1)}}, uint64(b))
	}
	add("station", "to_port", one(RouterMAC), OtherPort)
	add("source", "generate", one(GeneratorPort), 7, packets, uint64(turns-1))
	return g, err
}

// Run begins another run.
func (g *Generator) Run(number, packets uint64, last int) error {
	return g.Insert(slog+"source", model.Entry{Match: []model.Match{{Value: GeneratorPort}}, Action: "generate", Args: []uint64{number, packets, uint64(last)}})
}

// At sets the clock, in nanoseconds, and how long a packet waits in the switch.
func (g *Generator) At(ns, waits uint64) {
	if g.tna {
		g.Now, g.Fine, g.Waits = ns>>10, ns&1023, waits
	} else {
		g.Now, g.Waits = ns/1000, waits/1000
	}
}

// Unit of the clock that stamps are of, in nanoseconds.
func (g *Generator) Unit() uint64 {
	if g.tna {
		return 1
	}
	return 1000
}

// Template is a frame as the packet generator makes it.
func (g *Generator) Template(payload []byte) model.Frame {
	f := Frame(Ends{Src: OwnNet << 16, Dst: TargetNet << 16, SrcPort: 1 << 15, DstPort: TargetUDP}, payload)
	if g.tna {
		f = append(make([]byte, 6), f...)
	}
	return model.Frame{Port: GeneratorPort, Data: f}
}

// Reply of a target to a frame that it got.
func Reply(f model.Frame, payload []byte) model.Frame {
	e := EndsOf(f.Data)
	return model.Frame{Port: f.Port, Data: Frame(Ends{Src: e.Dst, Dst: e.Src, SrcPort: e.DstPort, DstPort: e.SrcPort}, payload)}
}

// SlogSound says what is wrong with a frame that was sent; "": nothing.
func SlogSound(f model.Frame, target int) string {
	e := EndsOf(f.Data)
	switch {
	case !Sound(f.Data):
		return "checksums or lengths are wrong"
	case binary.BigEndian.Uint16(f.Data[40:]) != 0:
		return "it has a UDP checksum"
	case e.SrcPort < 1<<15 || e.Src>>16 != OwnNet:
		return fmt.Sprintf("it comes from %x:%d", e.Src, e.SrcPort)
	case e.Dst != TargetNet<<16+uint32(target)+1 || e.DstPort != TargetUDP || f.Port != FirstTarget+uint64(target):
		return fmt.Sprintf("it goes to %x:%d by port %d", e.Dst, e.DstPort, f.Port)
	}
	return ""
}

// Became is how many packets of a target became something.
func (g *Generator) Became(target, what int) uint64 {
	return g.Count(slog+"outcomes", uint64(target<<4|what))
}

// InBucket is how many latencies are in a bucket.
func (g *Generator) InBucket(b int) uint64 { return g.Count(slog+"latencies", uint64(b)) }
