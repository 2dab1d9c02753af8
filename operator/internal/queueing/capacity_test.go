// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// The distributions of the published figures, mean 1 ms.
var (
	deterministic = Service{[]float64{1e-3}, []float64{1000}}
	bimodal1      = Service{[]float64{0.5e-3, 5.5e-3}, []float64{900, 100}}
	bimodal2      = Service{[]float64{0.5e-3, 500.5e-3}, []float64{99900, 100}}
)

// exponential is drawn, not computed: this is what a server measures.
func exponential(n int) Service {
	random := rand.New(rand.NewPCG(3, 3))
	h := &ll7.Histogram{}
	for range n {
		h.Record(uint64(random.ExpFloat64() * 1e6))
	}
	return FromHistogram(h)
}

func quantile(m Model, s Service, rho float64) float64 {
	low, high := 0.0, 1e3
	for range 60 {
		t := (low + high) / 2
		if m.tail(s, t)(rho) > 0.01 {
			low = t
		} else {
			high = t
		}
	}
	return high * 1e3 // in mean service times
}

// the simulated p99 of one queue and of one queue each.
func TestAgainstSimulatedQueues(t *testing.T) {
	e := exponential(400_000)
	for _, c := range []struct {
		name                      string
		s                         Service
		rho, central, partitioned float64
	}{
		{"D", deterministic, 0.5, 1.00, 4.32}, {"D", deterministic, 0.8, 1.54, 11.3}, {"D", deterministic, 0.9, 2.27, 22.2},
		{"M", e, 0.5, 4.61, 9.19}, {"M", e, 0.8, 4.74, 23.0}, {"M", e, 0.9, 5.27, 46.2},
		{"B1", bimodal1, 0.5, 5.50, 14.3}, {"B1", bimodal1, 0.8, 5.96, 37.1}, {"B1", bimodal1, 0.9, 7.32, 78.5},
	} {
		near(t, c.name+" central", quantile(Model{Servers: 16}, c.s, c.rho), c.central, 0.06*c.central)
		near(t, c.name+" partitioned", quantile(Model{Servers: 1}, c.s, c.rho), c.partitioned, 0.15*c.partitioned)
	}
}

// the simulated p99 of JSQ, JBSQ(2) and JBSQ(3) lies between the two
// models of Bounded (3 % below the best at most, where the best is itself an
// approximation).
func TestBoundedLiesBetweenItsModels(t *testing.T) {
	e := exponential(400_000)
	for _, c := range []struct {
		name      string
		s         Service
		rho       float64
		simulated []float64
	}{
		{"D", deterministic, 0.5, []float64{1, 1, 1}}, {"D", deterministic, 0.8, []float64{1.96, 1.96, 1.96}},
		{"D", deterministic, 0.9, []float64{2.68, 2.39, 2.63}},
		{"M", e, 0.5, []float64{4.63, 4.64, 4.63}}, {"M", e, 0.8, []float64{5.37, 5.33, 5.36}}, {"M", e, 0.9, []float64{6.63, 6.25, 6.56}},
		{"B1", bimodal1, 0.5, []float64{5.5, 5.5, 5.5}}, {"B1", bimodal1, 0.8, []float64{6.25, 6.36, 6.43}},
		{"B1", bimodal1, 0.9, []float64{10.7, 8.85, 10.2}},
	} {
		for i, p99 := range c.simulated {
			best, worst := Question{Service: c.s, Policy: Bounded, Depth: []int{64, 2, 3}[i], Workers: 16}.bounds()
			low, high := quantile(best, c.s, c.rho), quantile(worst, c.s, c.rho)
			if p99 < 0.97*low || p99 > 1.03*high {
				t.Errorf("%s at %v: simulated %v outside %.2f..%.2f", c.name, c.rho, p99, low, high)
			}
		}
	}
}

// the highest load with p99 at ten service times.
func TestMaxLoad(t *testing.T) {
	e := exponential(400_000)
	near(t, "M/M/1", Model{Servers: 1}.MaxLoad(e, 0.99, 10e-3), 0.5395, 0.01)
	near(t, "M/M/16", Model{Servers: 16}.MaxLoad(e, 0.99, 10e-3), 0.9677, 0.01)
	near(t, "M/D/1", Model{Servers: 1}.MaxLoad(deterministic, 0.99, 10e-3), 0.7735, 0.03)
	near(t, "M/D/16", Model{Servers: 16}.MaxLoad(deterministic, 0.99, 10e-3), 0.988, 0.005)
	near(t, "M/B1/16", Model{Servers: 16}.MaxLoad(bimodal1, 0.99, 10e-3), 0.944, 0.02)
	near(t, "16 x M/B1/1", Model{Servers: 1}.MaxLoad(bimodal1, 0.99, 10e-3), 0.305, 0.03)
	near(t, "service alone is too long", Model{Servers: 16}.MaxLoad(bimodal1, 0.99, 5.4e-3), 0, 0)
	near(t, "no service time is known", Model{Servers: 16}.MaxLoad(Service{}, 0.99, 1), 0, 0)
}

func TestMoments(t *testing.T) {
	for name, c := range map[string]struct {
		s        Service
		mean, c2 float64
	}{
		"D": {deterministic, 1e-3, 0}, "B1": {bimodal1, 1e-3, 2.25}, "B2": {bimodal2, 1e-3, 249.75}, "M": {exponential(400_000), 1e-3, 1},
	} {
		near(t, name+" mean", c.s.Mean(), c.mean, 0.01*c.mean)
		near(t, name+" c2", c.s.SquaredVariation(), c.c2, 0.01*c.c2+1e-12)
		near(t, name+" of three", c.s.plus(2).Mean(), 3*c.mean, 0.03*c.mean)
	}
}

// The interval holds the truth in about 95 of 100 samples when the model is
// exact (M/M/16), and narrows with the sample.
func TestCapacityInterval(t *testing.T) {
	needs.Draws(t)
	const rounds = 100
	truth := 0.0
	for low, high := 0.0, 1.0; high-low > 1e-6; {
		truth = (low + high) / 2
		if MMkQuantile(16, truth, 0.99) <= 8 {
			low = truth
		} else {
			high = truth
		}
	}
	truth *= 16e3
	random := rand.New(rand.NewPCG(11, 11))
	held, narrow, wide := 0, 0.0, 0.0
	for range rounds {
		h := &ll7.Histogram{}
		for range 2000 {
			h.Record(uint64(random.ExpFloat64() * 1e6))
		}
		e := Capacity(Question{Service: FromHistogram(h), Policy: Bounded, Depth: 1, Workers: 16, P: 0.99, Limit: 8e-3})
		if e.Low <= truth && truth <= e.High {
			held++
		}
		if !(e.Low <= e.Middle && e.Middle <= e.High) {
			t.Fatalf("not in order: %+v", e)
		}
		wide += e.High - e.Low
	}
	if held < 88 {
		t.Errorf("the interval holds the truth in %d of %d rounds", held, rounds)
	}
	e := Capacity(Question{Service: exponential(200_000), Policy: Bounded, Depth: 1, Workers: 16, P: 0.99, Limit: 8e-3})
	if narrow = e.High - e.Low; narrow > wide/rounds/3 {
		t.Errorf("a hundred times the sample: interval %.0f, before %.0f", narrow, wide/rounds)
	}
}

func TestCapacityByPolicy(t *testing.T) {
	ask := func(p Policy, depth int, s Service) Estimate {
		return Capacity(Question{Service: s, Policy: p, Depth: depth, Workers: 16, P: 0.99, Limit: 10e-3})
	}
	e := exponential(100_000)
	central, bounded, blind, random := ask(Bounded, 1, e), ask(Bounded, 3, e), ask(Blind, 3, e), ask(Random, 3, e)
	if !(central.Middle > bounded.Middle && bounded.Middle > blind.Middle && blind.Middle > random.Middle) {
		t.Errorf("central %+v, bounded %+v, blind %+v, random %+v", central, bounded, blind, random)
	}
	if blind.Low > random.High || blind.High < central.Middle {
		t.Errorf("blind %+v does not reach from random %+v to central %+v", blind, random, central)
	}
	// Very variable service times: behind a busy worker one may wait for a long one.
	if b := ask(Bounded, 3, bimodal2); b.Low != ask(Random, 3, bimodal2).Low {
		t.Errorf("bounded with heavy service times: %+v", b)
	}
	one := Capacity(Question{Service: e, Policy: Random, Workers: 1, P: 0.99, Limit: 10e-3})
	near(t, "one worker has no policy", one.Middle, 539.5, 8)
}

// the mean wait of one worker is Pollaczek and Khinchine's, for service times
// of any shape; that of many grows with their spread alike.
func TestMeanWait(t *testing.T) {
	for name, c := range map[string]struct {
		s    Service
		want float64 // ms, of one worker at load 0.8
	}{"D": {deterministic, 2}, "B1": {bimodal1, 6.5}, "M": {exponential(400_000), 4}} {
		near(t, name, 1e3*Model{Servers: 1}.MeanWait(c.s, 0.8), c.want, 0.02*c.want)
		half := Model{Servers: 16}.MeanWait(deterministic, 0.8)
		near(t, name+" of 16", Model{Servers: 16}.MeanWait(c.s, 0.8)/half, c.want/2, 0.02*c.want)
	}
}

// A router that sees n behind a worker puts nobody behind more than n - 1, and never
// behind more than two.
func TestBoundsByDepth(t *testing.T) {
	for depth, extra := range map[int]int{1: 0, 2: 1, 3: 2, 64: 2} {
		best, worst := Question{Service: bimodal1, Policy: Bounded, Depth: depth, Workers: 16}.bounds()
		if best != (Model{Servers: 16}) || worst != (Model{Servers: 16, ExtraServices: extra}) {
			t.Errorf("JBSQ(%d): %+v to %+v, want %d further service times", depth, best, worst, extra)
		}
	}
}

// The grid moves no value by more than its cell is wide.
func TestGridIsFine(t *testing.T) {
	s := Service{Seconds: []float64{1.00e-3, 1.15e-3, 1.30e-3, 1.305e-3}, Weights: []float64{1, 1, 1, 1}}.coarsened()
	if len(s.Seconds) != 3 || s.Seconds[1] != 1.15e-3 || s.Weights[2] != 2 {
		t.Errorf("%+v", s)
	}
	near(t, "mean of what one cell holds", s.Seconds[2], 1.3025e-3, 1e-9)
}

func TestOverhead(t *testing.T) {
	q := Question{Service: exponential(100_000), Policy: Bounded, Depth: 1, Workers: 16, P: 0.99, Limit: 10e-3}
	near(t, "overhead", q.OverheadAt(0.5*16e3, 1.5e-3), 0.5e-3, 0.02e-3)
	near(t, "faster than the model", q.OverheadAt(0.5*16e3, 0.5e-3), 0, 0)
	near(t, "more than the workers can do", q.OverheadAt(17e3, 50e-3), 0, 0)
	near(t, "nothing was measured", q.OverheadAt(0, math.NaN()), 0, 0)
	slow := q
	slow.Overhead = 4e-3
	if a, b := Capacity(q), Capacity(slow); b.Middle >= a.Middle {
		t.Errorf("overhead costs nothing: %v, %v", a, b)
	}
	slow.Overhead = 11e-3
	if e := Capacity(slow); e.High != 0 {
		t.Errorf("overhead above the objective: %+v", e)
	}
}
