// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet/stats"
)

// Check names one question that a round must answer, in the order they are asked
// (L-28): what fails first is mended first.
type Check string

// The checks, in order.
const (
	CheckLoad         Check = "Load"         // achieved rate (L-21)
	CheckArrivals     Check = "Arrivals"     // gaps between transmissions (L-22)
	CheckErrors       Check = "Errors"       // unanswered requests reach into the percentile (L-32)
	CheckIndependence Check = "Independence" // rank autocorrelation, runs of slow samples (L-24)
	CheckStationarity Check = "Stationarity" // unit root (L-25)
	CheckInterval     Check = "Interval"     // width of the confidence interval (L-26)
)

// Finding is the outcome of one check, for one agent or (-1) for all together.
type Finding struct {
	Check  Check
	Agent  int
	Passed bool
	Detail string // the statistic, its probability and what was wanted
}

// Action is what a judged round leads to.
type Action struct {
	Done        bool    // conclusive
	LowerRateBy float64 // sampling rate is to be divided by it; 0: no
	AddSamples  int     // more samples are needed; 0: no
	Failed      Check   // why the round is not conclusive
}

// judge looks at one round. The findings stop after the first check that failed,
// because later ones mean nothing without it.
func judge(e Experiment, round []Measurement) ([]Finding, Action) {
	var findings []Finding
	for _, step := range []func(Experiment, []Measurement) ([]Finding, Action){
		judgeLoad, judgeArrivals, judgeErrors, judgeIndependence, judgeStationarity, judgeInterval,
	} {
		found, action := step(e, round)
		findings = append(findings, found...)
		if action.Failed != "" {
			return findings, action
		}
	}
	return findings, Action{Done: true}
}

// every runs a check for each agent; all must pass (L-30).
func every(check Check, round []Measurement, one func(m Measurement) (bool, string)) []Finding {
	return those(check, round, func(Measurement) bool { return true }, one)
}

// measuring runs it for those whose latencies count.
func measuring(check Check, round []Measurement, one func(m Measurement) (bool, string)) []Finding {
	return those(check, round, func(m Measurement) bool { return !m.LoadOnly }, one)
}

func those(check Check, round []Measurement, which func(Measurement) bool, one func(m Measurement) (bool, string)) []Finding {
	var findings []Finding
	for i, m := range round {
		if which(m) {
			passed, detail := one(m)
			findings = append(findings, Finding{check, i, passed, detail})
		}
	}
	return findings
}

func failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return !f.Passed })
}

func judgeLoad(e Experiment, round []Measurement) ([]Finding, Action) {
	findings := every(CheckLoad, round, func(m Measurement) (bool, string) {
		wanted, achieved := m.Offered, float64(m.Sent)/m.Elapsed.Seconds()
		off := math.Abs(achieved-wanted) / wanted
		return off <= e.LoadTolerance, fmt.Sprintf("%.1f of %.1f requests/s, off by %.1f %% (at most %.0f %%)",
			achieved, wanted, 100*off, 100*e.LoadTolerance)
	})
	if failed(findings) {
		return findings, Action{Failed: CheckLoad}
	}
	return findings, Action{}
}

// halfTick: a gap read as n whole nanoseconds was on average half a one longer;
// without it two requests within one nanosecond would be impossible arrivals.
const halfTick = 0.5e-9

func judgeArrivals(e Experiment, round []Measurement) ([]Finding, Action) {
	took := meanTime(round)
	findings := every(CheckArrivals, round, func(m Measurement) (bool, string) {
		mean := float64(max(m.Streams, 1)) / m.Offered
		gaps := someGaps(m.Gaps, e.ArrivalGaps)
		switch e.Arrivals {
		case Trace:
			return onTime(e, m, took)
		case Fixed:
			jitter := stats.MaxJitter(gaps, mean)
			return jitter <= e.JitterTolerance, fmt.Sprintf("largest jitter %.1f %% of the gap (at most %.0f %%)%s",
				100*jitter, 100*e.JitterTolerance, crowded(m, took))
		}
		a2, p := stats.AndersonDarling(gaps, stats.Exponential{Mean: mean})
		return p >= e.Level, fmt.Sprintf("Anderson-Darling A² %.3f, p %.4f of %d gaps (at least %v)%s", a2, p, len(gaps), e.Level, crowded(m, took))
	})
	if failed(findings) {
		return findings, Action{Failed: CheckArrivals}
	}
	return findings, Action{}
}

// meanTime is how long, in seconds, an answered request was under way.
func meanTime(round []Measurement) float64 {
	sum, n := 0.0, 0
	for _, s := range together(round) {
		if !s.Failed {
			sum, n = sum+min(s.Latency, s.Other).Seconds(), n+1
		}
	}
	return sum / float64(max(n, 1))
}

// crowdedShare of the connections under way on average, Poisson arrivals find them
// all taken now and then, and leave late: the load is open no longer (spec §1).
const crowdedShare = 0.5

// crowded names the usual reason of late requests: too few connections.
func crowded(m Measurement, took float64) string {
	under := took * float64(m.Sent) / m.Elapsed.Seconds()
	if m.Slots == 0 || under < crowdedShare*float64(m.Slots) {
		return ""
	}
	return fmt.Sprintf("; %.1f requests under way on average, and room for %d on its connections: give it more", under, m.Slots)
}

// someGaps spreads so many over all of them, in seconds: with more, deviations too
// small to matter would be significant, and no real sender would pass.
func someGaps(all []time.Duration, most int) []float64 {
	out := make([]float64, min(len(all), most))
	for i := range out {
		out[i] = all[i*len(all)/len(out)].Seconds() + halfTick
	}
	return out
}

// judgeIndependence looks at every agent's samples and at all of them together:
// the interval stands on the merged ones, which lie closer than any agent's own.
func judgeIndependence(e Experiment, round []Measurement) ([]Finding, Action) {
	worst := 1
	one := func(samples []Sample) (bool, string) {
		series := inOrderOfTime(samples)
		lag, ok := stats.IndependentLag(series, e.Percentile, e.Level)
		if !ok {
			lag = stats.MaxLag
		}
		worst = max(worst, lag)
		return ok && lag == 1, describe(stats.TestIndependence(series, e.Percentile, 1), e.Level, lag)
	}
	findings := measuring(CheckIndependence, round, func(m Measurement) (bool, string) { return one(m.Samples) })
	if len(findings) > 1 {
		passed, detail := one(together(round))
		findings = append(findings, Finding{CheckIndependence, -1, passed, detail})
	}
	if failed(findings) {
		return findings, Action{LowerRateBy: float64(max(worst, 2)), Failed: CheckIndependence}
	}
	return findings, Action{}
}

func describe(t stats.Independence, level float64, lag int) string {
	return fmt.Sprintf("rank autocorrelation %.4f, p %.4f; %d samples above %v in %d runs, p %.4f (at least %v); independent at lag %d",
		t.Rho, t.RankP, t.Slow.Slow, duration(t.Slow.Level), t.Slow.Runs, t.Slow.P, level, lag)
}

func judgeStationarity(e Experiment, round []Measurement) ([]Finding, Action) {
	findings := measuring(CheckStationarity, round, func(m Measurement) (bool, string) {
		series := slices.DeleteFunc(inOrderOfTime(m.Samples), func(v float64) bool { return math.IsInf(v, 1) })
		test, err := stats.AugmentedDickeyFuller(series)
		if err != nil {
			return err == stats.ErrConstant, "Dickey-Fuller: " + err.Error()
		}
		return test.P <= e.UnitRootLevel, fmt.Sprintf("Dickey-Fuller t %.2f with %d lags, p %.4f (at most %v)",
			test.Statistic, test.Lags, test.P, e.UnitRootLevel)
	})
	if failed(findings) {
		return findings, Action{AddSamples: e.Samples, Failed: CheckStationarity}
	}
	return findings, Action{}
}

func judgeErrors(e Experiment, round []Measurement) ([]Finding, Action) {
	sent, lost := uint64(0), uint64(0)
	for _, m := range round {
		sent, lost = sent+m.Sent, lost+m.failures()
	}
	share := float64(lost) / float64(max(sent, 1))
	finding := Finding{CheckErrors, -1, share <= 1-e.Percentile,
		fmt.Sprintf("%d of %d requests were not answered (at most %.4g %%)", lost, sent, 100*(1-e.Percentile))}
	if !finding.Passed {
		return []Finding{finding}, Action{Failed: CheckErrors}
	}
	return []Finding{finding}, Action{}
}

func judgeInterval(e Experiment, round []Measurement) ([]Finding, Action) {
	got := percentile(merged(round), e.Percentile, e.Confidence)
	finding := Finding{Check: CheckInterval, Agent: -1}
	action := Action{AddSamples: e.Samples, Failed: CheckInterval}
	switch width := got.High - got.Low; {
	case !got.Defined:
		needed := int(stats.SamplesNeeded(e.Percentile, e.Confidence))
		action.AddSamples = max(e.Samples, needed-got.Samples)
		finding.Detail = fmt.Sprintf("%d samples, at least %d are needed", got.Samples, needed)
	case width > e.Width:
		finding.Detail = fmt.Sprintf("%v…%v is %v wide (at most %v)", got.Low, got.High, width, e.Width)
	default:
		finding.Passed, action = true, Action{}
		finding.Detail = fmt.Sprintf("%v…%v is %v wide (at most %v)", got.Low, got.High, width, e.Width)
	}
	return []Finding{finding}, action
}

// inOrderOfTime is latencies in the order the requests were sent.
func inOrderOfTime(samples []Sample) []float64 {
	ordered := slices.SortedFunc(slices.Values(samples), func(a, b Sample) int { return cmp.Compare(a.Sent, b.Sent) })
	out := make([]float64, len(ordered))
	for i, s := range ordered {
		out[i] = s.seconds()
	}
	return out
}

// merged is every sample of the round, sorted by latency: percentiles are taken
// of all agents' samples together, never averaged (L-29).
func merged(round []Measurement) []float64 {
	return sorted(together(round), func(s Sample) time.Duration { return s.Latency })
}

func mergedOther(round []Measurement) []float64 {
	return sorted(together(round), func(s Sample) time.Duration { return s.Other })
}

func sorted(samples []Sample, latency func(Sample) time.Duration) []float64 {
	all := make([]float64, len(samples))
	for i, s := range samples {
		s.Latency = latency(s)
		all[i] = s.seconds()
	}
	slices.Sort(all)
	return all
}

func together(round []Measurement) []Sample {
	var all []Sample
	for _, m := range round {
		all = append(all, m.Samples...)
	}
	return all
}

// Never is the latency of a request that was not answered.
const Never = time.Duration(math.MaxInt64)

func duration(seconds float64) time.Duration {
	if math.IsInf(seconds, 1) {
		return Never
	}
	return time.Duration(math.Round(seconds * 1e9))
}
