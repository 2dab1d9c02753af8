// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"slices"
	"strings"
	"testing"
)

// bound is a number of a definition: what is taken at its edges, and what is not.
type bound struct {
	field     string // as the error names it
	set       func(d *Definition, v float64)
	good, bad []float64
}

const tiny = 1e-9

func load(set func(*Load, float64)) func(*Definition, float64) {
	return func(d *Definition, v float64) {
		d.Load = Load{}
		set(&d.Load, v)
	}
}

func sweep(set func(*Sweep, float64)) func(*Definition, float64) {
	return load(func(l *Load, v float64) {
		l.Sweep = &Sweep{From: 10, To: 20, Points: 5}
		set(l.Sweep, v)
	})
}

func step(set func(*Step, float64)) func(*Definition, float64) {
	return load(func(l *Load, v float64) {
		l.Steps = []Step{{RequestsPerSecond: 5, Seconds: 5}, {RequestsPerSecond: 5, Seconds: 5}}
		set(&l.Steps[1], v)
	})
}

func sine(set func(*Sine, float64)) func(*Definition, float64) {
	return load(func(l *Load, v float64) {
		l.Sine = &Sine{Mean: 100, Amplitude: 50, Period: 40, Seconds: 100, Step: 10}
		set(l.Sine, v)
	})
}

func bimodal(set func(*Bimodal, float64)) func(*Definition, float64) {
	return func(d *Definition, v float64) {
		d.Interarrival = Interarrival{Kind: "bimodal", Bimodal: &Bimodal{LongShare: 0.5, Ratio: 2}}
		set(d.Interarrival.Bimodal, v)
	}
}

var bounds = []bound{
	{"targets[0].port", func(d *Definition, v float64) { d.Targets[0].Port = int(v) }, []float64{1, 65535}, []float64{0, -1, 65536}},
	{"targets[0].weight", func(d *Definition, v float64) { d.Targets[0].Weight = int(v) }, []float64{0, 1, 64}, []float64{-1, 65}},
	{"targets: weights", func(d *Definition, v float64) {
		d.Targets = append(d.Targets, Target{Host: "b", Port: 1, Weight: int(v)}, Target{Host: "c", Port: 1})
	}, []float64{1, 62}, []float64{63, 64}},
	{"load.requestsPerSecond", load(func(l *Load, v float64) { l.RequestsPerSecond = v }), []float64{tiny, 1e9}, []float64{-1, 1e9 + 1}},
	{"load.sweep.fromRequestsPerSecond", sweep(func(s *Sweep, v float64) { s.From = v }), []float64{tiny, 19}, []float64{0, -1, 1e9 + 1}},
	{"load.sweep.toRequestsPerSecond", sweep(func(s *Sweep, v float64) { s.To = v }), []float64{10.5, 1e9}, []float64{10, 9, 1e9 + 1}},
	{"load.sweep.points", sweep(func(s *Sweep, v float64) { s.Points = int(v) }), []float64{2, 100}, []float64{1, 0, -2, 101}},
	{"load.steps[1].requestsPerSecond", step(func(s *Step, v float64) { s.RequestsPerSecond = v }), []float64{tiny, 1e9}, []float64{0, -1, 1e9 + 1}},
	{"load.steps[1].seconds", step(func(s *Step, v float64) { s.Seconds = v }), []float64{tiny, 86400}, []float64{0, -1, 86401}},
	{"load.steps: ", load(func(l *Load, v float64) {
		for range int(v) {
			l.Steps = append(l.Steps, Step{RequestsPerSecond: 1, Seconds: 1})
		}
	}), []float64{1, 10_000}, []float64{10_001}},
	{"load.sine.meanRequestsPerSecond", sine(func(s *Sine, v float64) { s.Mean = v }), []float64{51, 1e9}, []float64{0, -1, 1e9 + 1}},
	{"load.sine.amplitudeRequestsPerSecond", sine(func(s *Sine, v float64) { s.Amplitude = v }), []float64{tiny, 99.9}, []float64{0, -1, 100, 101}},
	{"load.sine.seconds", sine(func(s *Sine, v float64) { s.Seconds = v }), []float64{tiny, 86400}, []float64{0, -1, 86401}},
	{"load.sine.stepSeconds", sine(func(s *Sine, v float64) { s.Step = v }), []float64{0, 0.01, 10}, []float64{-1, 0.009}},
	{"load.sine.periodSeconds", sine(func(s *Sine, v float64) { s.Period = v }), []float64{40, 41}, []float64{39, 0, -1}},
	{"interarrival.bimodal.longShare", bimodal(func(b *Bimodal, v float64) { b.LongShare = v }), []float64{tiny, 0.999}, []float64{0, -0.1, 1, 1.1}},
	{"interarrival.bimodal.ratio", bimodal(func(b *Bimodal, v float64) { b.Ratio = v }), []float64{1.01, 1e6}, []float64{1, 0, -1, 1e6 + 1}},
	{"traces.share", func(d *Definition, v float64) { d.Traces = Traces{Share: v, OTLPEndpoint: "collector:4317"} }, []float64{tiny, 1}, []float64{-0.1, 1.01}},
	{"measurement.percentile", func(d *Definition, v float64) { d.Measurement.Percentile = v }, []float64{0, 99.9}, []float64{-1, 100}},
	{"measurement.confidencePercent", func(d *Definition, v float64) { d.Measurement.ConfidencePercent = v }, []float64{0, 99.9}, []float64{-1, 100}},
	{"measurement.widthMicroseconds", func(d *Definition, v float64) { d.Measurement.WidthMicroseconds = v }, []float64{0, 1e6}, []float64{-tiny}},
	{"measurement.limitSeconds", func(d *Definition, v float64) { d.Measurement.LimitSeconds = v }, []float64{0, 86400}, []float64{-tiny, 86401}},
	{"measurement.settleSeconds", func(d *Definition, v float64) { d.Measurement.SettleSeconds = v }, []float64{0, 10}, []float64{-tiny}},
	{"measurement.arrivalGaps", func(d *Definition, v float64) { d.Measurement.ArrivalGaps = int(v) }, []float64{0, 50, 100_000}, []float64{-1, 1, 49, 100_001}},
	{"measurement.latencyAgents", func(d *Definition, v float64) { d.Measurement.LatencyAgents = int(v) }, []float64{0, 1024}, []float64{-1, 1025}},
	{"measurement.latencyRequestsPerSecond", func(d *Definition, v float64) {
		d.Measurement.LatencyAgents, d.Measurement.LatencyRequestsPerSecond = 1, v
	}, []float64{0, 1e8}, []float64{-tiny, 1e8 + 1}},
	{"measurement.latencyRequestsPerSecond", func(d *Definition, v float64) {
		d.Measurement.LatencyAgents, d.Measurement.LatencyRequestsPerSecond = 0, v
	}, []float64{0}, []float64{1}},
}

// A definition is taken at the edges of what each number may be, and refused beyond them by the field's name.
func TestEachNumberHasItsBounds(t *testing.T) {
	for _, b := range bounds {
		for _, v := range b.good {
			if said := refusals(b, v); len(said) != 0 {
				t.Errorf("%s of %v: %s", b.field, v, said)
			}
		}
		for _, v := range b.bad {
			if len(refusals(b, v)) == 0 {
				t.Errorf("%s of %v is taken", b.field, v)
			}
		}
	}
}

// refusals is what is said against that field alone.
func refusals(b bound, v float64) []string {
	d := Definition{Protocol: "r2p2", Targets: []Target{{Host: "a", Port: 8000}}, Load: Load{RequestsPerSecond: 1000}}
	b.set(&d, v)
	err := d.Validate()
	if err == nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(line string) bool { return !strings.HasPrefix(line, b.field) })
}
