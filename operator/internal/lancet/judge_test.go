// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/stats"
)

// gapsOf draws exponential gaps of a mean.
func gapsOf(seed uint64, n int, mean time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 3))
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(random.ExpFloat64() * float64(mean))
	}
	return out
}

// L-22, L-30: an agent of four streams deals its load out over them, so that the
// gaps of each are four times as long as the load alone would have them.
func TestGapsAreThoseOfOneStream(t *testing.T) {
	e := Experiment{Percentile: 0.99}.WithDefaults()
	for _, c := range []struct {
		streams int
		mean    time.Duration
		ok      bool
	}{{4, 4 * time.Millisecond, true}, {4, time.Millisecond, false}, {1, time.Millisecond, true}, {0, time.Millisecond, true}, {1, 4 * time.Millisecond, false}} {
		m := Measurement{Elapsed: time.Second, Sent: 1000, Offered: 1000, Streams: c.streams, Gaps: gapsOf(1, 500, c.mean)}
		found, action := judgeArrivals(e, []Measurement{m})
		if found[0].Passed != c.ok || (action.Failed == "") != c.ok {
			t.Errorf("%d streams, gaps of %v at 1000 requests/s: %+v", c.streams, c.mean, found)
		}
		m.Gaps = []time.Duration{c.mean, c.mean, c.mean}
		e := e
		e.Arrivals = Fixed
		if found, _ = judgeArrivals(e, []Measurement{m}); found[0].Passed != c.ok {
			t.Errorf("%d streams, even gaps of %v: %+v", c.streams, c.mean, found)
		}
	}
}

// samplesOf are independent exponential latencies a millisecond apart, each of them
// held for so many samples.
func samplesOf(seed uint64, n, held int, offset time.Duration) []Sample {
	random := rand.New(rand.NewPCG(seed, 4))
	out := make([]Sample, n)
	latency := time.Duration(0)
	for i := range out {
		if i%held == 0 {
			latency = time.Duration(random.ExpFloat64() * 1e6)
		}
		out[i] = Sample{Sent: offset + time.Duration(i)*time.Millisecond, Latency: latency}
	}
	return out
}

// L-24, L-30: agents whose samples are independent each are not so together when they
// see the same stretches of the service; the interval stands on all of them.
func TestIndependenceOfAllTogether(t *testing.T) {
	needs.Unraced(t)
	e := Experiment{Percentile: 0.99}.WithDefaults()
	alike := []Measurement{{Samples: samplesOf(1, 4000, 1, 0)}, {Samples: samplesOf(1, 4000, 1, time.Microsecond)}}
	found, action := judgeIndependence(e, alike)
	if len(found) != 3 || !found[0].Passed || !found[1].Passed || found[2].Passed || found[2].Agent != -1 || action.Failed != CheckIndependence {
		t.Errorf("agents in step: %+v, %+v", found, action)
	}
	apart := []Measurement{{Samples: samplesOf(1, 4000, 1, 0)}, {Samples: samplesOf(2, 4000, 1, time.Microsecond)}}
	if found, action = judgeIndependence(e, apart); len(found) != 3 || failed(found) || action != (Action{}) {
		t.Errorf("agents apart: %+v, %+v", found, action)
	}
	if found, _ = judgeIndependence(e, apart[:1]); len(found) != 1 {
		t.Errorf("one agent is all there is: %+v", found)
	}
	quiet := append(apart[:1:1], Measurement{LoadOnly: true})
	if found, _ = judgeIndependence(e, quiet); len(found) != 1 {
		t.Errorf("one that makes load only has no samples to merge: %+v", found)
	}
}

// lagOf is the lag at which a finding says that samples are independent.
func lagOf(t *testing.T, f Finding) (lag float64) {
	t.Helper()
	const before = "independent at lag "
	if _, err := fmt.Sscanf(f.Detail[strings.LastIndex(f.Detail, before)+len(before):], "%g", &lag); err != nil {
		t.Fatalf("%v in %s", err, f.Detail)
	}
	return lag
}

// L-24, L-41: the sampling rate falls by the lag at which samples are independent: by
// the largest of all agents'.
func TestSamplingRateFallsByTheLag(t *testing.T) {
	needs.Unraced(t)
	e := Experiment{Percentile: 0.99}.WithDefaults()
	for _, c := range []struct {
		held  []int
		worst int // whose lag is the largest
	}{{[]int{1, 1}, -1}, {[]int{5, 1}, 0}, {[]int{1, 10}, 1}, {[]int{100, 5}, 0}, {[]int{2, 200}, 1}} {
		var round []Measurement
		for i, held := range c.held {
			round = append(round, Measurement{Samples: samplesOf(uint64(41+i), 8000, held, time.Duration(i)*10*time.Second)})
		}
		found, action := judgeIndependence(e, round)
		if c.worst < 0 {
			if action != (Action{}) || failed(found) {
				t.Errorf("independent samples: %+v, %+v", action, found)
			}
			continue
		}
		lag := lagOf(t, found[c.worst])
		if want := max(lag, lagOf(t, found[2])); action.LowerRateBy != want || lag < float64(c.held[c.worst]) || action.Failed != CheckIndependence {
			t.Errorf("latencies of %v samples each: lower the rate by %v, want %v; %+v", c.held, action.LowerRateBy, want, found)
		}
	}
}

// The next round is made at the rate that the judgement asked for.
func TestNextRoundHasTheLowerRate(t *testing.T) {
	needs.Unraced(t)
	m := heavyModels[0]
	r := one(t, m.experiment(), m.queue(2))
	if len(r.Rounds) < 2 {
		t.Fatalf("%d rounds", len(r.Rounds))
	}
	for i, round := range r.Rounds[1:] {
		lag := 1.0
		for _, f := range r.Rounds[i].Findings {
			if f.Check == CheckIndependence {
				lag = max(lag, lagOf(t, f))
			}
		}
		fell := r.Rounds[i].SamplingRate / round.SamplingRate
		if want := max(lag, 2); failed(r.Rounds[i].Findings) && lag > 1 && (fell < 0.999*want || fell > 1.001*want) {
			t.Errorf("round %d: the rate fell by %v, want %v", i+1, fell, want)
		}
	}
}

// L-22: the gaps that are looked at lie all over the round: an agent that sent well
// at first and late afterwards did not send well.
func TestGapsOfTheWholeRoundAreJudged(t *testing.T) {
	e := Experiment{Percentile: 0.99}.WithDefaults()
	m := Measurement{Elapsed: time.Second, Sent: 2000, Offered: 1000, Gaps: gapsOf(2, 500, time.Millisecond)}
	for range 1500 {
		m.Gaps = append(m.Gaps, time.Millisecond)
	}
	if found, _ := judgeArrivals(e, []Measurement{m}); found[0].Passed {
		t.Errorf("even gaps behind the first 500: %+v", found)
	}
}

// Late requests of a load that keeps half of its connections busy are laid to
// them; with more room, or none known, they are not.
func TestCrowdedConnections(t *testing.T) {
	m := Measurement{Elapsed: 10 * time.Second, Sent: 5000}
	for slots, want := range map[int]string{
		0: "", 10: "; 5.0 requests under way on average, and room for 10 on its connections: give it more", 11: "",
	} {
		m.Slots = slots
		if got := crowded(m, 0.01); got != want {
			t.Errorf("%d slots: %q, want %q", slots, got, want)
		}
	}
}

// L-25: what drifts is given more samples, as many again, at the same rate.
func TestDriftAsksForMoreSamples(t *testing.T) {
	e := Experiment{Percentile: 0.99}.WithDefaults()
	steady, drifting := Measurement{Samples: samplesOf(3, 2000, 1, 0)}, Measurement{Samples: samplesOf(3, 2000, 1, 0)}
	sum := time.Duration(0)
	for i := range drifting.Samples {
		sum += drifting.Samples[i].Latency - time.Millisecond
		drifting.Samples[i].Latency = time.Second + sum // a random walk
	}
	found, action := judgeStationarity(e, []Measurement{steady, drifting})
	if want := (Action{AddSamples: e.Samples, Failed: CheckStationarity}); action != want || !found[0].Passed || found[1].Passed {
		t.Errorf("%+v, want %+v; %+v", action, want, found)
	}
	steady.Samples[7].Failed = true // endless, and no reason to call the rest unsteady
	if found, action = judgeStationarity(e, []Measurement{steady}); failed(found) || action != (Action{}) {
		t.Errorf("%+v, %+v", found, action)
	}
}

// L-45: as many samples more as the tail lacks, and never fewer than a round's.
func TestTailAsksForWhatItLacks(t *testing.T) {
	e := Experiment{Percentile: 0.9999, Samples: 1000}.WithDefaults()
	round := []Measurement{{Samples: samplesOf(5, 5000, 1, 0)}}
	needed := int(stats.SamplesNeeded(0.9999, 0.95))
	for samples, want := range map[int]int{1000: needed - 5000, 60_000: 60_000} {
		e.Samples = samples
		found, action := judgeInterval(e, round)
		if action.AddSamples != want || action.Failed != CheckInterval {
			t.Errorf("rounds of %d: %+v, want %d more", samples, action, want)
		}
		if len(found) != 1 || found[0].Agent != -1 || found[0].Passed {
			t.Errorf("what all agents measured together is judged: %+v", found)
		}
	}
}

// L-2, L-23: agents that measure send so much each, whatever there are of them, and
// no sample is lost in dealing them out.
func TestDealingOut(t *testing.T) {
	e := Experiment{Load: 100_000, Percentile: 0.99, LatencyAgents: 2}.WithDefaults()
	if got := e.firstRate(); got != 0.08 {
		t.Errorf("two agents of 4000 requests/s each of 100,000: a share of %v", got)
	}
	if parts(10, 3) != 4 || parts(9, 3) != 3 || parts(1, 3) != 1 {
		t.Errorf("10, 9 and 1 samples of three agents: %d, %d, %d each", parts(10, 3), parts(9, 3), parts(1, 3))
	}
}

// L-64: a load that the agents do not divide is dealt out whole, with or without agents
// that measure alone.
func TestNoLoadIsLostInDealingOut(t *testing.T) {
	for _, measuring := range []int{0, 1} {
		e := Experiment{Load: 1000, Percentile: 0.99, LatencyAgents: measuring}.WithDefaults()
		sum := 0.0
		for _, o := range e.split(3, 10_000, e.firstRate(), time.Minute, time.Minute) {
			sum += o.load
		}
		if math.Abs(sum-e.Load) > 1e-9*e.Load {
			t.Errorf("%d of three agents measure alone: %v requests/s of %v", measuring, sum, e.Load)
		}
	}
}

// L-43: the percentile is the smallest sample that so many are at or below.
func TestRankOfAPercentile(t *testing.T) {
	all := make([]float64, 150)
	for i := range all {
		all[i] = float64(i+1) * 1e-9
	}
	for p, want := range map[float64]time.Duration{0.5: 75, 0.99: 149, 0.999: 150, 0.001: 1, 0.006: 1, 0.007: 2} {
		if got := percentile(all, p, 0.95).Value; got != want {
			t.Errorf("p%v of 1…150 is %d, want %d", 100*p, got, want)
		}
	}
}
