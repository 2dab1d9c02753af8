// SPDX-License-Identifier: Apache-2.0

// Package report writes what experiments found: a table for people, JSON and CSV
// for programs, and a plot of latency over throughput.
package report

import (
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// Document is the whole of a run, as JSON. Latencies are in microseconds; null is
// +∞, a request that was not answered.
type Document struct {
	Name       string   `json:"name,omitempty"`
	Protocol   string   `json:"protocol"`
	Targets    []string `json:"targets"`
	Agents     []string `json:"agents"`
	Timestamps []string `json:"timestamps"` // of each agent: software, kernel, hardware
	BusyPoll   []string `json:"busyPoll"`   // of each agent: on, off, or refused: and why
	// LatencyAgents: the first so many agents measured, the others made the load;
	// absent when all did both.
	LatencyAgents int     `json:"latencyAgents,omitempty"`
	Latency       string  `json:"latency"`    // Response or Service: what the percentiles are of
	Percentile    float64 `json:"percentile"` // of 100: the one that was asked for
	Confidence    float64 `json:"confidencePercent"`
	Changing      bool    `json:"changing"` // steps or sine: points are one after the other
	Points        []Point `json:"points"`
}

// Point is one load.
type Point struct {
	StartSeconds float64           `json:"startSeconds,omitempty"` // of a changing load
	Offered      float64           `json:"offeredRequestsPerSecond"`
	Achieved     float64           `json:"achievedRequestsPerSecond"`
	Conclusive   bool              `json:"conclusive"`
	Reasons      []string          `json:"reasons,omitempty"` // why it is not
	Warnings     []string          `json:"warnings,omitempty"`
	Failed       map[string]uint64 `json:"failed,omitempty"` // by cause
	Mean         *float64          `json:"meanMicroseconds"`
	Percentiles  []Quantile        `json:"percentiles"`
	Other        []Quantile        `json:"otherPercentiles"` // of the other latency (Service or Response)
	Rounds       []Round           `json:"rounds,omitempty"`
	Seconds      float64           `json:"seconds"`
}

// Quantile is one percentile with its confidence interval.
type Quantile struct {
	Percentile float64  `json:"percentile"` // of 100
	Value      *float64 `json:"microseconds"`
	Low        *float64 `json:"lowMicroseconds"`
	High       *float64 `json:"highMicroseconds"`
	Defined    bool     `json:"defined"` // false: too few samples to bound it (L-45)
	Samples    int      `json:"samples"`
}

// Round is one try and what its checks said.
type Round struct {
	Samples      int       `json:"samples"`
	SamplingRate float64   `json:"samplingRate"`
	Findings     []Finding `json:"findings"`
}

// Finding is one check of one agent, or (-1) of all together.
type Finding struct {
	Check  string `json:"check"`
	Agent  int    `json:"agent"`
	Passed bool   `json:"passed"`
	Detail string `json:"detail"`
}

// NewPoint is the result of an experiment at one load.
func NewPoint(offered float64, r lancet.Result) Point {
	p := Point{
		Offered: offered, Achieved: r.Throughput, Conclusive: r.Conclusive, Reasons: r.Reasons, Warnings: r.Warnings, Failed: r.Failed,
		Mean: microseconds(r.Mean), Percentiles: quantiles(r.Percentiles), Other: quantiles(r.Other), Seconds: r.Elapsed.Seconds(),
	}
	for _, round := range r.Rounds {
		out := Round{Samples: round.Samples, SamplingRate: round.SamplingRate}
		for _, f := range round.Findings {
			out.Findings = append(out.Findings, Finding{string(f.Check), f.Agent, f.Passed, f.Detail})
		}
		p.Rounds = append(p.Rounds, out)
	}
	return p
}

func quantiles(all []lancet.Percentile) []Quantile {
	out := make([]Quantile, len(all))
	for i, p := range all {
		out[i] = Quantile{Percent(p.Percentile), microseconds(p.Value), microseconds(p.Low), microseconds(p.High), p.Defined, p.Samples}
	}
	return out
}

// Percent of a share, free of binary dust.
func Percent(share float64) float64 { return float64(int64(share*1e8+0.5)) / 1e6 }

func microseconds(d time.Duration) *float64 {
	if d == lancet.Never {
		return nil
	}
	v := float64(d.Nanoseconds()) / 1e3
	return &v
}

// Wanted is the percentile that was asked for.
func (d Document) Wanted(p Point) (Quantile, bool) {
	for _, q := range p.Percentiles {
		if q.Percentile == d.Percentile {
			return q, true
		}
	}
	return Quantile{}, false
}

// Conclusive says whether every point is.
func (d Document) Conclusive() bool {
	for _, p := range d.Points {
		if !p.Conclusive {
			return false
		}
	}
	return len(d.Points) > 0
}
