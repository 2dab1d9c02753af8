// SPDX-License-Identifier: Apache-2.0

// Package lancet measures the tail latency of a service under open-loop load and
// says how far the figure may be trusted: the self-correcting method of Lancet
// (spec lancet.md §4, restated in docs/reference/protocol.md as L-20…L-32). A coordinator
// orders rounds of samples from agents, judges each with the tests of package
// stats, and lowers the sampling rate or asks for more samples until the
// confidence interval is as narrow as wanted, or says why it cannot be.
package lancet

import (
	"errors"
	"fmt"
	"time"
)

// Arrivals is the distribution of the gaps between requests.
type Arrivals string

// The kinds of arrivals that can be judged.
const (
	Poisson Arrivals = "Poisson"
	Fixed   Arrivals = "Fixed"
	// Trace replays given gaps: of no distribution, so that it is judged by how late
	// requests leave.
	Trace Arrivals = "Trace"
)

// Experiment is what the user asks for and the method's constants. Zero constants
// take the defaults of the published method.
type Experiment struct {
	Load       float64       // requests per second, over all agents
	Arrivals   Arrivals      // default Poisson
	Percentile float64       // share of one, for example 0.99
	Confidence float64       // share of one, default 0.95
	Width      time.Duration // widest acceptable interval, default 10 µs

	Samples         int           // of the first round and added by each that needs more; default 10,000 (L-23, L-25)
	SamplingRate    float64       // share of requests sampled at first; default 0.2 (L-23)
	MinSamplingRate float64       // below it samples count as never independent; default 0.0001 (L-24)
	Tries           int           // rounds; default 10 (L-27)
	Limit           time.Duration // in all; default 900 s (L-27)
	Settle          time.Duration // between start of load and first round; default 1 s (L-20)
	LoadTolerance   float64       // achieved against wanted load, default 0.1 (L-21)
	JitterTolerance float64       // of fixed arrivals, and how late those of a trace or a phase may be, share of the gap; default 0.1 (L-44, L-59)
	Level           float64       // of the tests of arrivals and independence; default 0.01 (L-44)
	UnitRootLevel   float64       // of the test of stationarity; default 0.05 (L-44)
	LatencyAgents   int           // the first so many agents measure and make no load, the others the reverse; 0: all do both (L-1, L-2)
	LatencyRate     float64       // requests per second of each of these at most; default 4,000
	ArrivalGaps     int           // gaps that the test of arrivals looks at; default 500 (L-44)
}

// WithDefaults fills in what was left out.
func (e Experiment) WithDefaults() Experiment {
	or(&e.Arrivals, Poisson)
	or(&e.Confidence, 0.95)
	or(&e.Width, 10*time.Microsecond)
	or(&e.Samples, 10_000)
	or(&e.SamplingRate, 0.2)
	or(&e.MinSamplingRate, 0.0001)
	or(&e.Tries, 10)
	or(&e.Limit, 900*time.Second)
	or(&e.Settle, time.Second)
	or(&e.LoadTolerance, 0.1)
	or(&e.JitterTolerance, 0.1)
	or(&e.Level, 0.01)
	or(&e.UnitRootLevel, 0.05)
	or(&e.ArrivalGaps, 500)
	or(&e.LatencyRate, 4000)
	return e
}

func or[T comparable](to *T, fallback T) {
	var zero T
	if *to == zero {
		*to = fallback
	}
}

// Validate names every field that is wrong and what it may be.
func (e Experiment) Validate() error {
	var all []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			all = append(all, fmt.Errorf("%s: %v: must be %s", field, value, want))
		}
	}
	share := func(v float64) bool { return v > 0 && v < 1 }
	check(e.Load > 0 && e.Load <= 1e9, "load", e.Load, "requests per second, above 0 and at most 1e9")
	check(e.Arrivals == Poisson || e.Arrivals == Fixed || e.Arrivals == Trace, "arrivals", e.Arrivals, "Poisson, Fixed or Trace")
	check(share(e.Percentile), "percentile", e.Percentile, "a share of one, such as 0.99")
	check(share(e.Confidence), "confidence", e.Confidence, "a share of one, such as 0.95")
	check(e.Width > 0, "width", e.Width, "longer than 0")
	check(e.Samples >= 100 && e.Samples <= 1_000_000, "samples", e.Samples, "between 100 and 1,000,000")
	check(e.SamplingRate > 0 && e.SamplingRate <= 1, "samplingRate", e.SamplingRate, "above 0 and at most 1")
	check(e.MinSamplingRate > 0 && e.MinSamplingRate <= e.SamplingRate, "minSamplingRate", e.MinSamplingRate,
		"above 0 and at most samplingRate")
	check(e.LatencyAgents >= 0 && e.LatencyAgents <= 1024, "latencyAgents", e.LatencyAgents, "between 0 and 1024")
	check(e.LatencyAgents == 0 || e.SamplingRate < 1, "samplingRate", e.SamplingRate, "below 1 with latencyAgents: they send the sampled requests, the others the rest")
	check(e.LatencyRate > 0, "latencyRequestsPerSecond", e.LatencyRate, "above 0")
	check(e.Tries >= 1 && e.Tries <= 100, "tries", e.Tries, "between 1 and 100")
	check(e.Limit > 0, "limit", e.Limit, "longer than 0")
	round := e.roundSeconds(e.Samples, e.firstRate())
	check(e.Settle.Seconds()+round <= e.Limit.Seconds(), "limit", e.Limit,
		fmt.Sprintf("long enough for one round of %d samples, %.0f s", e.Samples, round))
	check(e.Settle >= 0, "settle", e.Settle, "0 or longer")
	check(share(e.LoadTolerance), "loadTolerance", e.LoadTolerance, "a share of one")
	check(share(e.JitterTolerance), "jitterTolerance", e.JitterTolerance, "a share of one")
	check(share(e.Level), "level", e.Level, "a share of one")
	check(share(e.UnitRootLevel), "unitRootLevel", e.UnitRootLevel, "a share of one")
	check(e.ArrivalGaps >= 50 && e.ArrivalGaps <= 100_000, "arrivalGaps", e.ArrivalGaps, "between 50 and 100,000")
	return errors.Join(all...)
}

// roundSeconds is how long a round takes.
func (e Experiment) roundSeconds(samples int, rate float64) float64 {
	return float64(samples) / (rate * e.Load)
}

// patience is how long agents may take for a round: where the load is not reached
// the check of it says so, not an endless wait.
func (e Experiment) patience(samples int, rate float64) time.Duration {
	return time.Duration((2*e.roundSeconds(samples, rate) + 5) * float64(time.Second))
}
