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
	// (L-46), until it has so many or the limit is over, and returns when all of
	// them have ended.
	Measure(ctx context.Context, samples int, rate float64, limit time.Duration) (Measurement, error)
	// Follow offers one phase after the other, each at its time whatever is still
	// under way, samples requests of all of them with probability rate, and returns
	// a measurement of each: of the requests that were due in it.
	Follow(ctx context.Context, phases []Phase, rate float64) ([]Measurement, error)
	// Stop ends the load.
	Stop(ctx context.Context) error
}

// Latency says between which two moments a latency lies (L-56).
type Latency string

const (
	// Response is from the time the request was due until its reply: what late
	// clients and busy connections add is in it.
	Response Latency = "Response"
	// Service is from its transmission, by the best stamps there are.
	Service Latency = "Service"
)

// Measurement is one agent's part of a round.
type Measurement struct {
	Elapsed  time.Duration
	Sent     uint64            // requests in that time, sampled or not
	Failed   map[string]uint64 // of these, by cause: timeout, refused, dropped …
	Gaps     []time.Duration   // between consecutive transmissions of one stream, a random part of them
	Late     []time.Duration   // of sampled requests that left, how long after they were due
	Streams  int               // arrival processes the agent's load is dealt out over; 0 counts as 1
	Slots    int               // requests the agent can have under way: connections times those on each; 0: not known
	Offered  float64           // requests per second it was told to send; the coordinator fills it in
	LoadOnly bool              // a throughput agent's (L-1): no samples; the coordinator fills it in
	Samples  []Sample
	Warnings []string // what the agent doubts about its own measurement
}

// Sample is one request.
type Sample struct {
	Sent    time.Duration // since the start of the load, at transmission
	Latency time.Duration // the one the experiment is about
	Other   time.Duration // the other one of L-56
	Failed  bool          // ended without an answer: worse than any latency (L-32)
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
