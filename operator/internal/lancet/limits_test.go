// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"strings"
	"testing"
	"time"
)

// share is a number that lies between 0 and 1 and is neither.
func share(field string, set func(*Experiment, float64)) limit {
	return limit{field, set, []float64{0.001, 0.999}, []float64{-0.1, 1, 1.5}}
}

// limit says which values a field may have at its bounds, and which not. A zero is left out: it means the default.
type limit struct {
	field     string
	set       func(*Experiment, float64)
	good, bad []float64
}

var limits = []limit{
	{"load", func(e *Experiment, v float64) { e.Load = v }, []float64{500, 1e9}, []float64{0, -1, 1.1e9}},
	share("percentile", func(e *Experiment, v float64) { e.Percentile = v }),
	share("confidence", func(e *Experiment, v float64) { e.Confidence = v }),
	share("loadTolerance", func(e *Experiment, v float64) { e.LoadTolerance = v }),
	share("jitterTolerance", func(e *Experiment, v float64) { e.JitterTolerance = v }),
	share("level", func(e *Experiment, v float64) { e.Level = v }),
	share("unitRootLevel", func(e *Experiment, v float64) { e.UnitRootLevel = v }),
	{"width", func(e *Experiment, v float64) { e.Width = time.Duration(v) }, []float64{1}, []float64{-1}},
	{"samples", func(e *Experiment, v float64) { e.Samples = int(v) }, []float64{100, 1_000_000}, []float64{-1, 99, 1_000_001}},
	{"samplingRate", func(e *Experiment, v float64) { e.SamplingRate = v }, []float64{0.2, 1}, []float64{-0.1, 1.1}},
	{"minSamplingRate", func(e *Experiment, v float64) { e.MinSamplingRate = v }, []float64{1e-9, 0.2}, []float64{-0.1, 0.21}},
	{"latencyAgents", func(e *Experiment, v float64) { e.LatencyAgents = int(v) }, []float64{0, 1, 1024}, []float64{-1, 1025}},
	{"latencyRequestsPerSecond", func(e *Experiment, v float64) { e.LatencyRate = v }, []float64{1}, []float64{-1}},
	{"tries", func(e *Experiment, v float64) { e.Tries = int(v) }, []float64{1, 100}, []float64{-1, 101}},
	{"settle", func(e *Experiment, v float64) { e.Settle = time.Duration(v) }, []float64{1}, []float64{-1}},
	{"arrivalGaps", func(e *Experiment, v float64) { e.ArrivalGaps = int(v) }, []float64{50, 100_000}, []float64{-1, 49, 100_001}},
}

// Every field has its bounds, takes what lies at them, and is named where it lies beyond.
func TestBoundsOfAnExperiment(t *testing.T) {
	named := func(e Experiment, field string) bool {
		err := e.WithDefaults().Validate()
		return err != nil && strings.Contains("\n"+err.Error(), "\n"+field+": ")
	}
	for _, c := range limits {
		for n, v := range append(append([]float64(nil), c.good...), c.bad...) {
			e := Experiment{Load: 10_000, Percentile: 0.99}
			if c.set(&e, v); named(e, c.field) != (n >= len(c.good)) {
				t.Errorf("%s %v: %v", c.field, v, e.WithDefaults().Validate())
			}
		}
	}
	e := Experiment{Load: 10_000, Percentile: 0.99, SamplingRate: 1, LatencyAgents: 1}
	if !named(e, "samplingRate") {
		t.Error("agents that only measure send all there is, and nobody makes the load")
	}
	if e.SamplingRate = 0.999; named(e, "samplingRate") {
		t.Error("a rate just below 1 is refused")
	}
}

// One round fits in the time there is to the second, with the time to settle.
func TestOneRoundFits(t *testing.T) {
	e := Experiment{Load: 10_000, Percentile: 0.99, Samples: 10_000, SamplingRate: 0.5, Settle: time.Second} // a round of 2 s
	for limit, fits := range map[time.Duration]bool{3 * time.Second: true, 3*time.Second - 1: false} {
		e.Limit = limit
		if err := e.WithDefaults().Validate(); (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "one round of 10000 samples, 2 s") {
			t.Errorf("%v: %v", limit, err)
		}
	}
}

// A further round is made as long as there are tries, time to the second, and a rate that is no lower than the lowest.
func TestWhetherThereIsAFurtherRound(t *testing.T) {
	e := Experiment{Load: 10_000, Percentile: 0.99, MinSamplingRate: 0.01, Tries: 3, Limit: 100 * time.Second}.WithDefaults()
	for _, c := range []struct {
		try, samples int
		rate         float64
		elapsed      time.Duration
		says         string
	}{
		{2, 10_000, 0.2, 0, ""}, {3, 10_000, 0.2, 0, "not conclusive in 3 rounds"}, {4, 10_000, 0.2, 0, "not conclusive in 4 rounds"},
		{1, 1000, 0.01, 0, ""}, {1, 1000, 0.0099, 0, "not independent even at a sampling rate of 0.01"},
		{1, 10_000, 0.2, 95 * time.Second, ""}, {1, 10_000, 0.2, 96 * time.Second, "not conclusive in 1m36s, and 10000 samples at a sampling rate of 0.2 take 5 s more (limit 1m40s)"},
	} {
		if got := exhausted(e, c.try, c.samples, c.rate, c.elapsed); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
