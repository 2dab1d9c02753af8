// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"math"
	"time"
)

// Agent offers its part of the load and measures it. The coordinator calls one
// agent's methods one after the other, different agents' at the same time.
type Agent interface {
	// Load starts offering so many requests per second, or changes to it.
	Load(ctx context.Context, perSecond float64) error
	// Measure samples requests, each chosen at random with probability rate
	// (L-46), until it has so many, and returns when all of them have ended.
	Measure(ctx context.Context, samples int, rate float64) (Measurement, error)
	// Stop ends the load.
	Stop(ctx context.Context) error
}

// Measurement is one agent's part of a round.
type Measurement struct {
	Elapsed time.Duration
	Sent    uint64            // requests in that time, sampled or not
	Failed  map[string]uint64 // of these, by cause: timeout, refused, dropped …
	Gaps    []time.Duration   // between consecutive transmissions, a random part of them
	Samples []Sample
}

// Sample is one request.
type Sample struct {
	Sent    time.Duration // since the start of the load, at transmission
	Latency time.Duration
	Failed  bool // ended without an answer: worse than any latency (L-32)
}

// failures counts requests that ended without an answer.
func (m Measurement) failures() uint64 {
	sum := uint64(0)
	for _, n := range m.Failed {
		sum += n
	}
	return sum
}

// seconds is the latency as the statistics see it: failed requests are infinite.
func (s Sample) seconds() float64 {
	if s.Failed {
		return math.Inf(1)
	}
	return s.Latency.Seconds()
}
