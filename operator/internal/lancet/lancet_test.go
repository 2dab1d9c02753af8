// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// one runs an experiment and returns its result.
func one(t *testing.T, e Experiment, q *queue) Result {
	t.Helper()
	result, err := Run(context.Background(), e, q.agents(), q)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// The same seeds have the same result, whichever agent is asked first: what is kept of
// TestCoverage holds while the code is the same (measure/lancet/coverage.py).
func TestSameDrawsSameResult(t *testing.T) {
	for _, m := range lightModels[2:] {
		first, again := one(t, m.experiment(), m.queue(5)), one(t, m.experiment(), m.queue(5))
		if !reflect.DeepEqual(first, again) {
			t.Errorf("%s: %+v, then %+v", m.name, first, again)
		}
	}
}

// inconclusive fails unless the result is, for a reason that names the check.
func inconclusive(t *testing.T, r Result, check Check) {
	t.Helper()
	if why := strings.Join(r.Reasons, "; "); r.Conclusive || !strings.Contains(why, string(check)) {
		t.Errorf("conclusive %v, reasons %q; want inconclusive for %s", r.Conclusive, why, check)
	}
	if len(r.Percentiles) == 0 || r.Throughput == 0 {
		t.Error("what was seen is not reported")
	}
}

// L-22, L-30, L-62, L-63: one agent that does not send as it was told spoils the experiment.
func TestArrivalsAreJudgedAgainstTheConfiguredDistribution(t *testing.T) {
	needs.Unraced(t)
	m := heavyModels[0]
	q := m.queue(1)
	q.gap = func(r *rand.Rand) float64 { return 0.3 + 0.7*r.ExpFloat64() }
	inconclusive(t, one(t, m.experiment(), q), CheckArrivals)
	e := m.experiment()
	e.Arrivals = Fixed
	inconclusive(t, one(t, e, m.queue(1)), CheckArrivals)
	even := newQueue(1, 1, 1)
	even.service = fixed
	even.gap = func(*rand.Rand) float64 { return 1 }
	e.Load = 0.5 / unit
	if r := one(t, e, even); !r.Conclusive {
		t.Errorf("fixed arrivals, fixed service: %v", r.Reasons)
	}
}

// L-21: a load that is not reached is no measurement of that load.
func TestLoadNotReached(t *testing.T) {
	m := heavyModels[0]
	q := m.queue(1)
	q.gap = func(r *rand.Rand) float64 { return 1.25 * r.ExpFloat64() }
	inconclusive(t, one(t, m.experiment(), q), CheckLoad)
}

// L-25: above saturation the queue only grows.
func TestOverloadIsNotStationary(t *testing.T) {
	needs.Draws(t)
	e := heavyModels[0].experiment()
	e.Load = 1.2 / unit
	e.Tries = 2
	r := one(t, e, heavyModels[0].queue(1))
	if r.Conclusive {
		t.Errorf("an overloaded queue has a percentile: %+v", r.Percentiles)
	}
}

// L-24: the sampling rate falls until samples are independent.
func TestSamplingRateAdapts(t *testing.T) {
	needs.Unraced(t)
	m := heavyModels[0]
	r := one(t, m.experiment(), m.queue(2))
	first, last := r.Rounds[0], r.Rounds[len(r.Rounds)-1]
	if !r.Conclusive || last.SamplingRate >= first.SamplingRate {
		t.Errorf("conclusive %v, rate %v then %v", r.Conclusive, first.SamplingRate, last.SamplingRate)
	}
}

// L-26, L-27: a narrow interval needs more samples; an unreachable one ends.
func TestSamplesGrowUntilTheIntervalIsNarrow(t *testing.T) {
	needs.Unraced(t)
	m := light
	e := m.experiment()
	e.SamplingRate, e.Level = 0.02, 1e-4 // what is asked here is not independence
	e.Width = units(m.truth / 16)
	r := one(t, e, m.queue(3))
	if last := r.Rounds[len(r.Rounds)-1]; !r.Conclusive || last.Samples <= 10_000 {
		t.Errorf("conclusive %v with %d samples: %v", r.Conclusive, last.Samples, r.Reasons)
	}
	e.Width, e.Tries = time.Nanosecond, 3
	r = one(t, e, m.queue(3))
	inconclusive(t, r, CheckInterval)
	if len(r.Rounds) != 3 {
		t.Errorf("%d rounds, want 3", len(r.Rounds))
	}
	e.Tries, e.Limit = 10, 8*time.Second
	if r = one(t, e, m.queue(3)); r.Conclusive || !strings.Contains(r.Reasons[0], "limit 8s") || r.Elapsed > e.Limit {
		t.Errorf("beyond the limit: %v, %v", r.Elapsed, r.Reasons)
	}
}

// L-32: unanswered requests are slower than any answered one.
func TestUnansweredRequests(t *testing.T) {
	needs.Unraced(t)
	m := light
	failing := func(share float64) *queue {
		q := m.queue(4)
		q.fail = func(_ float64, r *rand.Rand) bool { return r.Float64() < share }
		return q
	}
	few := one(t, m.experiment(), failing(0.005))
	none := one(t, m.experiment(), m.queue(4))
	at := func(r Result, p float64) Percentile {
		got, ok := r.At(p)
		if !ok {
			t.Fatalf("no percentile %v in %+v", p, r.Percentiles)
		}
		return got
	}
	if !few.Conclusive || at(few, 0.99).Value <= at(none, 0.99).Value {
		t.Errorf("0.5 %% lost: p99 %v, without %v, %v", at(few, 0.99).Value, at(none, 0.99).Value, few.Reasons)
	}
	if at(few, 0.9999).Value != Never {
		t.Errorf("0.5 %% lost, p99.99 is %v", at(few, 0.9999).Value)
	}
	if few.Failed["timeout"] == 0 {
		t.Errorf("failures by cause: %v", few.Failed)
	}
	inconclusive(t, one(t, m.experiment(), failing(0.02)), CheckErrors)
}

// L-29, L-60: agents' samples are merged; disagreement is a warning.
func TestMergedNotAveraged(t *testing.T) {
	quick, slow := Measurement{Elapsed: 1}, Measurement{Elapsed: 1}
	for i := range 1000 {
		quick.Samples = append(quick.Samples, Sample{Latency: time.Duration(1000 + i)})
		slow.Samples = append(slow.Samples, Sample{Latency: time.Duration(9000 + i)})
	}
	var r Result
	r.summarise(Experiment{Percentile: 0.5, Confidence: 0.95}, []Measurement{quick, slow})
	if got := r.Percentiles[0]; got.Value != 1999 || got.Samples != 2000 {
		t.Errorf("median of both: %+v; the mean of medians would be 5499 ns", got)
	}
	for _, round := range [][]Measurement{{quick, slow}, {slow, quick}} {
		r.summarise(Experiment{Percentile: 0.5, Confidence: 0.95}, round)
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "agents 0 and 1 disagree") {
			t.Errorf("warnings: %v", r.Warnings)
		}
	}
}

// L-45: too few samples for the tail are said to be too few.
func TestFarTailNeedsMoreSamples(t *testing.T) {
	needs.Unraced(t)
	m := light
	e := m.experiment()
	e.Percentile, e.Width = 0.9999, time.Second
	r := one(t, e, m.queue(5))
	if last := r.Rounds[len(r.Rounds)-1]; !r.Conclusive || last.Samples < 56_000 {
		t.Errorf("p99.99: conclusive %v with %d samples, %v", r.Conclusive, last.Samples, r.Reasons)
	}
}

type broken struct{ Agent }

var errBroken = errors.New("connection refused")

func (broken) Measure(context.Context, int, float64, time.Duration) (Measurement, error) {
	return Measurement{}, errBroken
}

func TestBadInput(t *testing.T) {
	q := heavyModels[0].queue(1)
	e := Experiment{Load: -1, Percentile: 99, Confidence: 2, Arrivals: "Bursty"}
	_, err := Run(context.Background(), e, q.agents(), q)
	for _, field := range []string{"load", "percentile", "confidence", "arrivals"} {
		if err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("error does not name %s: %v", field, err)
		}
	}
	e = heavyModels[0].experiment()
	e.Limit = time.Second
	if _, err := Run(context.Background(), e, q.agents(), q); err == nil || !strings.Contains(err.Error(), "limit:") {
		t.Errorf("a limit too short for one round: %v", err)
	}
	if _, err := Run(context.Background(), heavyModels[0].experiment(), nil, q); err == nil {
		t.Error("no agents, no error")
	}
	_, err = Run(context.Background(), heavyModels[0].experiment(), []Agent{broken{q.agents()[0]}}, q)
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "agent 0") {
		t.Errorf("a broken agent: %v", err)
	}
}
