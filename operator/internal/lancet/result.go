// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet/stats"
)

// Percentile is one percentile and its confidence interval.
type Percentile struct {
	Percentile       float64 // share of one
	Value, Low, High time.Duration
	Samples          int
	Defined          bool // false: too few samples to bound it (L-45); Low and High are the extremes there are
}

// Round is one try, kept for the log.
type Round struct {
	Samples      int // wanted, over all agents
	SamplingRate float64
	Findings     []Finding
}

// Result is what an experiment found. It is always filled in, also when it is
// not conclusive: then Reasons says why and the figures are what was seen.
type Result struct {
	Conclusive  bool
	Reasons     []string
	Warnings    []string
	Rounds      []Round
	Elapsed     time.Duration
	Throughput  float64 // requests per second achieved in the last round
	Failed      map[string]uint64
	Percentiles []Percentile
	Mean        time.Duration // of answered requests
	Other       []Percentile  // the same percentiles of the latency the experiment is not about (L-56)
}

// reported are the percentiles every result shows (L-27).
var reported = []float64{0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999999}

// percentile of sorted samples, in seconds (L-43).
func percentile(sorted []float64, p, confidence float64) Percentile {
	n := len(sorted)
	out := Percentile{Percentile: p, Samples: n}
	if n == 0 {
		return out
	}
	interval := stats.PercentileInterval(uint64(n), p, confidence)
	rank := min(max(int(math.Ceil(p*float64(n))), 1), n)
	out.Value = duration(sorted[rank-1])
	out.Low, out.High = duration(sorted[interval.Low-1]), duration(sorted[interval.High-1])
	out.Defined = interval.Defined
	return out
}

// summarise fills in the figures of the last round.
func (r *Result) summarise(e Experiment, round []Measurement) {
	sorted, other := merged(round), mergedOther(round)
	r.Percentiles, r.Other = nil, nil
	for _, p := range shown(e.Percentile) {
		r.Percentiles = append(r.Percentiles, percentile(sorted, p, e.Confidence))
		r.Other = append(r.Other, percentile(other, p, e.Confidence))
	}
	r.Throughput, r.Failed = 0, map[string]uint64{}
	for _, m := range round {
		r.Throughput += float64(m.Sent) / m.Elapsed.Seconds()
		for cause, n := range m.Failed {
			r.Failed[cause] += n
		}
	}
	r.Mean = mean(sorted)
	r.Warnings = imbalance(e, round)
	for _, m := range round {
		r.Warnings = append(r.Warnings, m.Warnings...)
	}
}

// shown are the percentiles of a result, in order.
func shown(wanted float64) []float64 {
	all := slices.Clone(reported)
	if !slices.Contains(all, wanted) {
		all = append(all, wanted)
		slices.Sort(all)
	}
	return all
}

// At is the percentile that was asked for; false when there is none.
func (r Result) At(p float64) (Percentile, bool) {
	i := slices.IndexFunc(r.Percentiles, func(have Percentile) bool { return have.Percentile == p })
	if i < 0 {
		return Percentile{}, false
	}
	return r.Percentiles[i], true
}

func mean(sorted []float64) time.Duration {
	sum, n := 0.0, 0
	for _, v := range sorted {
		if math.IsInf(v, 1) {
			break
		}
		sum, n = sum+v, n+1
	}
	if n == 0 {
		return 0
	}
	return duration(sum / float64(n))
}

// imbalance warns when agents disagree about the percentile (L-29): their clients,
// not the service, then differ.
func imbalance(e Experiment, round []Measurement) []string {
	var warnings []string
	parts := make([]Percentile, len(round))
	for i := range round {
		parts[i] = percentile(merged(round[i:i+1]), e.Percentile, e.Confidence)
	}
	for i := range parts {
		for j := range parts[:i] {
			if round[i].LoadOnly || round[j].LoadOnly {
				continue
			}
			if parts[i].Low > parts[j].High || parts[j].Low > parts[i].High {
				warnings = append(warnings, fmt.Sprintf("agents %d and %d disagree: %v…%v and %v…%v",
					j, i, parts[j].Low, parts[j].High, parts[i].Low, parts[i].High))
			}
		}
	}
	return warnings
}

// reason says in one line which checks of a round failed.
func reason(findings []Finding) string {
	var parts []string
	for _, f := range findings {
		switch {
		case f.Passed:
		case f.Agent < 0:
			parts = append(parts, fmt.Sprintf("%s: %s", f.Check, f.Detail))
		default:
			parts = append(parts, fmt.Sprintf("%s, agent %d: %s", f.Check, f.Agent, f.Detail))
		}
	}
	return strings.Join(parts, "; ")
}
