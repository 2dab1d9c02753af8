// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
)

var split = model{"mm4", 4, 0.5, exponential, queueing.MMkQuantile(4, 0.5, 0.99), true}

// L-1, L-2: the agent that measures sends few requests, the others the rest, and
// only its samples make the percentile.
func TestSplitLoad(t *testing.T) {
	e, q := split.experiment(), split.queue(1)
	r := one(t, e, q)
	got, _ := r.At(0.99)
	if !r.Conclusive || got.Low > units(split.truth) || got.High < units(split.truth) {
		t.Errorf("conclusive %v, p99 %+v, truth %v, %v", r.Conclusive, got, units(split.truth), r.Reasons)
	}
	first := []float64{q.loads[0][0], q.loads[1][0], q.loads[2][0]}
	if first[0] != 4000 || first[1] != (e.Load-4000)/2 || first[2] != first[1] {
		t.Errorf("loads %v of %v", first, e.Load)
	}
	if off := math.Abs(r.Throughput-e.Load) / e.Load; off > 0.05 {
		t.Errorf("throughput %.0f of %.0f: that of all agents", r.Throughput, e.Load)
	}
	last := r.Rounds[len(r.Rounds)-1]
	if got.Samples < last.Samples || got.Samples > last.Samples+1 {
		t.Errorf("%d samples of %d", got.Samples, last.Samples)
	}
	checked := map[Check]int{}
	for _, f := range last.Findings {
		checked[f.Check]++
	}
	if checked[CheckLoad] != 3 || checked[CheckArrivals] != 3 || checked[CheckIndependence] != 1 || checked[CheckStationarity] != 1 {
		t.Errorf("findings %v", checked)
	}
}

// L-24: samples are thinned by sending fewer of them; the service sees one load.
func TestSplitAdaptsByLoad(t *testing.T) {
	needs.Unraced(t)
	m := model{"mm1", 1, 0.7, exponential, queueing.MM1Quantile(0.7, 0.99), true}
	e, q := m.experiment(), m.queue(2)
	e.LatencyRate = 1e6 // the sampling rate alone decides
	r := one(t, e, q)
	if !r.Conclusive || len(q.loads[0]) < 2 {
		t.Fatalf("conclusive %v, loads %v, %v", r.Conclusive, q.loads[0], r.Reasons)
	}
	for i := range q.loads[0] {
		if sum := q.loads[0][i] + q.loads[1][i] + q.loads[2][i]; math.Abs(sum-e.Load) > 1e-6*e.Load {
			t.Errorf("%v requests/s at step %d, want %v", sum, i, e.Load)
		}
		if want := e.Load * r.Rounds[i].SamplingRate; i < len(r.Rounds) && math.Abs(q.loads[0][i]-want) > 1e-6*want {
			t.Errorf("step %d: %v requests/s measured, want %v", i, q.loads[0][i], want)
		}
	}
}

// L-22, L-30: an agent that only makes load must make the load it was told to.
func TestSplitJudgesThoseThatMakeTheLoad(t *testing.T) {
	needs.Unraced(t)
	q := split.queue(1)
	q.gap = func(r *rand.Rand) float64 { return 0.3 + 0.7*r.ExpFloat64() }
	r := one(t, split.experiment(), q)
	inconclusive(t, r, CheckArrivals)
	if why := strings.Join(r.Reasons, "; "); !strings.Contains(why, "Arrivals, agent 1") {
		t.Errorf("reasons %q do not name a throughput agent", why)
	}
}

// L-32: what the others lost was lost, too, and in the samples it is the worst of all.
func TestSplitCountsEveryLoss(t *testing.T) {
	needs.Unraced(t)
	failing := func(share float64) Result {
		q := split.queue(4)
		q.fail = func(_ float64, r *rand.Rand) bool { return r.Float64() < share }
		return one(t, split.experiment(), q)
	}
	r := failing(0.02)
	inconclusive(t, r, CheckErrors)
	samples := uint64(r.Rounds[0].Samples)
	if r.Failed["timeout"] < samples/2 { // of the 10,000 measured ones alone it would be 200
		t.Errorf("%v lost, want those of all agents", r.Failed)
	}
	few := failing(0.005)
	if got, _ := few.At(0.9999); !few.Conclusive || got.Value != Never {
		t.Errorf("0.5 %% lost: conclusive %v, p99.99 %v", few.Conclusive, got.Value)
	}
}

// A load that changes is made by the same agents, phase after phase.
func TestSplitFollows(t *testing.T) {
	q := split.queue(5)
	intervals, err := Follow(context.Background(), Experiment{Percentile: 0.99, LatencyAgents: 1},
		[]Phase{{Load: 1e5, Duration: time.Second}, {Load: 2e5, Duration: time.Second}, {Load: 1e5, Duration: time.Second}}, q.agents())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1e5, 2e5, 1e5} {
		if intervals[i].Start != time.Duration(i)*time.Second {
			t.Errorf("phase %d begins at %v", i, intervals[i].Start)
		}
		if got := intervals[i].Result.Throughput; math.Abs(got-want) > 0.1*want {
			t.Errorf("phase %d: %.0f requests/s, want %.0f", i, got, want)
		}
		if q.loads[0][i] != 4000 || q.loads[1][i] != (want-4000)/2 {
			t.Errorf("phase %d: loads %v and %v", i, q.loads[0][i], q.loads[1][i])
		}
	}
}

// brokenAgent fails at once; a patient one keeps on until it is told to stop.
type brokenAgent struct{ Agent }

func (brokenAgent) Follow(context.Context, []Phase, float64) ([]Measurement, error) {
	return nil, errors.New("out of memory")
}

type patientAgent struct{ Agent }

func (patientAgent) Follow(ctx context.Context, _ []Phase, _ float64) ([]Measurement, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The load of an agent that is lost is missing from then on: the pattern ends, and says why.
func TestALostAgentEndsThePattern(t *testing.T) {
	q := split.queue(5).agents()
	agents := []Agent{patientAgent{q[0]}, brokenAgent{q[1]}}
	_, err := Follow(context.Background(), Experiment{Percentile: 0.99}, []Phase{{Load: 1e5, Duration: time.Hour}}, agents)
	if err == nil || !strings.Contains(err.Error(), "out of memory") || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Of a long pattern a share is sampled, by agents that measure of theirs and by those
// that make the load of theirs, and all phases have the same.
func TestLongPatternsAreSampled(t *testing.T) {
	e := Experiment{Percentile: 0.99, LatencyAgents: 1}.WithDefaults()
	phases := []Phase{{Load: 1e5, Duration: 50 * time.Second}, {Load: 2e5, Duration: 50 * time.Second}}
	tables := e.timetables(phases, 3)
	if tables[0].rate != 1 || !tables[0].measures || tables[0].phases[1] != (Phase{4000, 50 * time.Second}) {
		t.Errorf("400,000 requests of the agent that measures are kept: %+v", tables[0])
	}
	made := (1e5 + 2e5 - 2*4000) * 50.0
	if got, want := tables[1].rate, windowSamples/made; math.Abs(got-want) > 1e-9 || tables[1].measures || tables[2].rate != got {
		t.Errorf("of the others' %.0f requests a share of %v, want %v", made, got, want)
	}
	if err := CheckPhases(e, append(phases, Phase{Load: 100, Duration: 4 * time.Second}), 3); err == nil || !strings.Contains(err.Error(), "phase 2: 100 requests/s for 4s are 80 samples") {
		t.Errorf("%v", err)
	}
}

// A phase of a handful of requests may hold none: that is said before any load.
func TestPhasesHoldRequests(t *testing.T) {
	both, apart := Experiment{Percentile: 0.99}.WithDefaults(), Experiment{Percentile: 0.99, LatencyAgents: 1, LatencyRate: 50}.WithDefaults()
	for _, c := range []struct {
		e    Experiment
		load float64
		ok   bool
	}{{both, 100, true}, {both, 99, false}, {apart, 1e5, true}, {apart, 240, false}} { // a fifth of 240 is 48
		err := CheckPhases(c.e, []Phase{{Load: c.load, Duration: 2 * time.Second}}, 2)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "load: phase 0: ") {
			t.Errorf("%v requests/s: %v", c.load, err)
		}
	}
	q := split.queue(5)
	if _, err := Follow(context.Background(), apart, []Phase{{Load: 10, Duration: time.Second}}, q.agents()); err == nil || len(q.loads) != 0 && len(q.loads[0]) != 0 {
		t.Errorf("%v; loads %v", err, q.loads)
	}
}

// §1 of the method: with too few connections the load is open no longer, and the
// check that finds it out says so. A machine that sends late for other reasons is
// not told to take more connections.
func TestTooFewConnectionsAreNamed(t *testing.T) {
	m := Measurement{Elapsed: time.Second, Sent: 750, Offered: 750, Gaps: make([]time.Duration, 600)}
	for range 500 {
		m.Samples = append(m.Samples, Sample{Latency: 40 * time.Millisecond, Other: 16 * time.Millisecond}, Sample{Failed: true})
	}
	for slots, hint := range map[int]bool{0: false, 16: true, 24: true, 25: false, 128: false} { // 12 are under way
		m.Slots = slots
		for _, arrivals := range []Arrivals{Poisson, Fixed} {
			found, action := judgeArrivals(Experiment{Percentile: 0.99, Arrivals: arrivals}.WithDefaults(), []Measurement{m})
			if action.Failed != CheckArrivals || strings.Contains(found[0].Detail, "12.0 requests under way on average, and room for") != hint {
				t.Errorf("%s, %d slots: %+v", arrivals, slots, found)
			}
		}
	}
}

// Somebody has to make the load.
func TestSplitNeedsBothKinds(t *testing.T) {
	e, q := split.experiment(), split.queue(1)
	e.LatencyAgents = 3
	if _, err := Run(context.Background(), e, q.agents(), q); err == nil || !strings.Contains(err.Error(), "latencyAgents: 3: must be fewer than the 3 agents") {
		t.Errorf("%v", err)
	}
	e.LatencyAgents, e.SamplingRate = 1, 1
	if _, err := Run(context.Background(), e, q.agents(), q); err == nil || !strings.Contains(err.Error(), "samplingRate: 1") {
		t.Errorf("%v", err)
	}
}
