// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

func alike(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// Mean, variation and what lies beyond a time, of a distribution that can be reckoned by hand.
func TestMomentsByHand(t *testing.T) {
	s := Service{Seconds: []float64{1, 2, 5}, Weights: []float64{2, 1, 1}}
	if !alike(s.Mean(), 2.25) || !alike(s.SquaredVariation(), (2*1.25*1.25+0.25*0.25+2.75*2.75)/4/(2.25*2.25)) {
		t.Errorf("mean %v, variation %v", s.Mean(), s.SquaredVariation())
	}
	for after, want := range map[float64]float64{0: 1, 1: 0.5, 1.5: 0.5, 2: 0.25, 5: 0} {
		if got := s.Beyond(after); !alike(got, want) {
			t.Errorf("beyond %v: %v, want %v", after, got, want)
		}
	}
	fixed := Service{Seconds: []float64{3}, Weights: []float64{7}}
	if fixed.SquaredVariation() != 0 || fixed.Mean() != 3 {
		t.Errorf("%v, %v", fixed.Mean(), fixed.SquaredVariation())
	}
}

// A histogram becomes points in the middle of its filled buckets.
func TestFromHistogramTakesTheMiddle(t *testing.T) {
	h := &ll7.Histogram{}
	h.Record(500)
	h.RecordMany(5_000_000, 3)
	s := FromHistogram(h)
	low, high := ll7.UpperEdge(ll7.Index(5_000_000)-1)+1, ll7.UpperEdge(ll7.Index(5_000_000))
	if len(s.Seconds) != 2 || !alike(s.Seconds[0], 1023.0/2e9) || !alike(s.Seconds[1], float64(low+high)/2e9) || s.Weights[0] != 1 || s.Weights[1] != 3 {
		t.Errorf("%+v", s)
	}
	if s.Seconds[1] < float64(low)/1e9 || s.Seconds[1] > float64(high)/1e9 {
		t.Errorf("%v is not within its bucket", s.Seconds[1])
	}
}

// Two service times behind each other take as long as both, as often as both come together; who is drawn never has a weight
// of nothing.
func TestSumsAndDraws(t *testing.T) {
	a, b := Service{Seconds: []float64{0.001, 0.002}, Weights: []float64{1, 3}}, Service{Seconds: []float64{0.010}, Weights: []float64{2}}
	sum := a.sum(b)
	if len(sum.Seconds) != 2 || math.Abs(sum.Seconds[0]-0.011) > 0.0001 || math.Abs(sum.Seconds[1]-0.012) > 0.0001 || sum.Weights[0] != 2 || sum.Weights[1] != 6 {
		t.Errorf("%+v", sum)
	}
	many := Service{Seconds: []float64{1, 2}, Weights: []float64{1e-9, 1e6}}.resample(rand.NewPCG(1, 2))
	if len(many.Seconds) != 1 || many.Seconds[0] != 2 || math.Abs(many.Weights[0]-1e6) > 1e4 {
		t.Errorf("%+v", many)
	}
}

// A queue of one slot at each worker, and one worker, are a central queue; with more slots a request waits behind others; of
// very uneven service times, and where nobody looks, each worker has a queue of its own.
func TestWhichModelsBound(t *testing.T) {
	even := Service{Seconds: []float64{1}, Weights: []float64{1}}
	uneven := Service{Seconds: []float64{1, 1000}, Weights: []float64{1000, 1}}
	central, alone := Model{Servers: 4}, Model{Servers: 1}
	for name, c := range map[string]struct {
		q     Question
		worst Model
	}{
		"one slot":           {Question{Service: uneven, Policy: Bounded, Depth: 1, Workers: 4}, central},
		"two slots":          {Question{Service: even, Policy: Bounded, Depth: 2, Workers: 4}, Model{Servers: 4, ExtraServices: 1}},
		"many slots":         {Question{Service: even, Policy: Bounded, Depth: 9, Workers: 4}, Model{Servers: 4, ExtraServices: mostBehind}},
		"uneven, many slots": {Question{Service: uneven, Policy: Bounded, Depth: 9, Workers: 4}, alone},
	} {
		if best, worst := c.q.bounds(); best != central || worst != c.worst {
			t.Errorf("%s: %+v and %+v, want %+v", name, best, worst, c.worst)
		}
	}
	for _, q := range []Question{{Service: even, Policy: Random, Depth: 1, Workers: 4}, {Service: even, Policy: Random, Depth: 1, Workers: 1}} {
		if best, worst := q.bounds(); best != alone || worst != alone {
			t.Errorf("at random among %d: %+v and %+v", q.Workers, best, worst)
		}
	}
	if got := (Model{Servers: 1}).MaxLoad(even, 0.9, 0.5); got != 0 {
		t.Errorf("service alone takes longer than the limit, and a load of %v is found", got)
	}
	if got := (Model{Servers: 1}).MaxLoad(Service{Seconds: []float64{1, 9}, Weights: []float64{9, 1}}, 0.89, 5); got <= 0 {
		t.Error("less than the share lies beyond the limit, and no load is found")
	}
	if got := (Model{Servers: 1}).MaxLoad(Service{}, 0.9, 5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// Overhead is what is left of a sojourn behind service and waiting, never less than nothing, and unknown above what workers
// can do.
func TestOverheadIsWhatIsLeft(t *testing.T) {
	q := Question{Service: Service{Seconds: []float64{0.01}, Weights: []float64{1}}, Policy: Bounded, Depth: 1, Workers: 1}
	wait := MG1Wait(0.5, 0) * 0.01
	if got := q.WaitAt(50); math.Abs(got-wait) > 1e-3*wait {
		t.Errorf("waits %v, want %v", got, wait)
	}
	if got := q.OverheadAt(50, 0.02); !alike(got, 0.02-0.01-q.WaitAt(50)) || got <= 0 {
		t.Errorf("%v", got)
	}
	if q.OverheadAt(50, 0.011) != 0 || q.OverheadAt(100, 0.02) != 0 || q.OverheadAt(50, math.NaN()) != 0 || !math.IsInf(q.WaitAt(100), 1) {
		t.Error("overhead of what is not known")
	}
}
