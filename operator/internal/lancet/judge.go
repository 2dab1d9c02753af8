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
	CheckIndependence Check = "Independence" // rank autocorrelation (L-24)
	CheckStationarity Check = "Stationarity" // unit root (L-25)
	CheckErrors       Check = "Errors"       // unanswered requests reach into the percentile (L-32)
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
		judgeLoad, judgeArrivals, judgeIndependence, judgeStationarity, judgeErrors, judgeInterval,
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
	var findings []Finding
	for i, m := range round {
		passed, detail := one(m)
		findings = append(findings, Finding{check, i, passed, detail})
	}
	return findings
}

func failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return !f.Passed })
}

func judgeLoad(e Experiment, round []Measurement) ([]Finding, Action) {
	wanted := e.Load / float64(len(round))
	findings := every(CheckLoad, round, func(m Measurement) (bool, string) {
		achieved := float64(m.Sent) / m.Elapsed.Seconds()
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
	gap := float64(len(round)) / e.Load
	findings := every(CheckArrivals, round, func(m Measurement) (bool, string) {
		gaps := make([]float64, len(m.Gaps))
		for i, g := range m.Gaps {
			gaps[i] = g.Seconds() + halfTick
		}
		if e.Arrivals == Fixed {
			jitter := stats.MaxJitter(gaps, gap)
			return jitter <= e.JitterTolerance, fmt.Sprintf("largest jitter %.1f %% of the gap (at most %.0f %%)",
				100*jitter, 100*e.JitterTolerance)
		}
		a2, p := stats.AndersonDarling(gaps, stats.Exponential{Mean: gap})
		return p >= e.Level, fmt.Sprintf("Anderson-Darling A² %.3f, p %.4f of %d gaps (at least %v)", a2, p, len(gaps), e.Level)
	})
	if failed(findings) {
		return findings, Action{Failed: CheckArrivals}
	}
	return findings, Action{}
}

func judgeIndependence(e Experiment, round []Measurement) ([]Finding, Action) {
	worst := 1
	findings := every(CheckIndependence, round, func(m Measurement) (bool, string) {
		series := inOrderOfTime(m.Samples)
		rho, p := stats.RankAutocorrelation(series, 1)
		lag, ok := stats.IndependentLag(series, e.Level)
		if !ok {
			lag = stats.MaxLag
		}
		worst = max(worst, lag)
		return ok && lag == 1, fmt.Sprintf("rank autocorrelation %.4f, p %.4f (at least %v); independent at lag %d", rho, p, e.Level, lag)
	})
	if failed(findings) {
		return findings, Action{LowerRateBy: float64(max(worst, 2)), Failed: CheckIndependence}
	}
	return findings, Action{}
}

func judgeStationarity(e Experiment, round []Measurement) ([]Finding, Action) {
	findings := every(CheckStationarity, round, func(m Measurement) (bool, string) {
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

// inOrderOfTime is one agent's latencies in the order the requests were sent.
func inOrderOfTime(samples []Sample) []float64 {
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b Sample) int { return cmp.Compare(a.Sent, b.Sent) })
	out := make([]float64, len(sorted))
	for i, s := range sorted {
		out[i] = s.seconds()
	}
	return out
}

// merged is every sample of the round, sorted by latency: percentiles are taken
// of all agents' samples together, never averaged (L-29).
func merged(round []Measurement) []float64 {
	var all []float64
	for _, m := range round {
		for _, s := range m.Samples {
			all = append(all, s.seconds())
		}
	}
	slices.Sort(all)
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
