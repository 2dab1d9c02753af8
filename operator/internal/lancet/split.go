// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"fmt"
	"math"
	"time"
)

// order is what one agent does in a round.
type order struct {
	load     float64 // requests per second it offers
	measures bool    // its latencies count; otherwise it makes load and tells when its requests left
	samples  int
	rate     float64 // share of its requests that are sampled
	limit    time.Duration
}

// split deals out a load and the samples of a round. Where every agent does both,
// each has its part of either. Where some only measure (L-1, L-2), these send the
// sampled requests and no others, so that what they see is not their own load; a
// lower sampling rate then is fewer requests of theirs, and more of the rest's.
func (e Experiment) split(agents, samples int, rate float64, length, limit time.Duration) []order {
	out := make([]order, agents)
	measuring := e.LatencyAgents
	if measuring == 0 {
		for i := range out {
			out[i] = order{e.Load / float64(agents), true, parts(samples, agents), rate, limit}
		}
		return out
	}
	for i := range out {
		if i < measuring {
			out[i] = order{e.Load * rate / float64(measuring), true, parts(samples, measuring), 1, limit}
			continue
		}
		load := e.Load * (1 - rate) / float64(agents-measuring)
		wanted := 2 * float64(e.ArrivalGaps) // gaps, of all over the round
		out[i] = order{load, false, int(2 * wanted), min(1, wanted/(load*length.Seconds())), length}
	}
	return out
}

func parts(samples, agents int) int { return (samples + agents - 1) / agents }

// firstRate is the sampling rate to begin with: agents that only measure send no
// more than a client without a load of its own can stamp well.
func (e Experiment) firstRate() float64 {
	if e.LatencyAgents == 0 {
		return e.SamplingRate
	}
	return min(e.SamplingRate, float64(e.LatencyAgents)*e.LatencyRate/e.Load)
}

// lowestRate is where sampling ends.
func (e Experiment) lowestRate() float64 { return min(e.MinSamplingRate, e.firstRate()/10) }

// checkSplit: somebody has to make the load.
func (e Experiment) checkSplit(agents int) error {
	if e.LatencyAgents > 0 && e.LatencyAgents >= agents {
		return fmt.Errorf("latencyAgents: %d: must be fewer than the %d agents: the others make the load", e.LatencyAgents, agents)
	}
	return nil
}

// offer tells every agent its part of the load.
func offer(ctx context.Context, orders []order, agents []Agent) error {
	return all(agents, func(i int, a Agent) error { return a.Load(ctx, orders[i].load) })
}

// measure orders one round.
func measure(ctx context.Context, orders []order, agents []Agent) ([]Measurement, error) {
	round := make([]Measurement, len(agents))
	err := all(agents, func(i int, a Agent) error {
		o := orders[i]
		m, err := a.Measure(ctx, o.samples, o.rate, o.limit)
		if err != nil {
			return err
		}
		if m.Elapsed <= 0 || o.measures && len(m.Samples) == 0 {
			return fmt.Errorf("measurement holds %d samples in %v", len(m.Samples), m.Elapsed)
		}
		m.Offered, m.LoadOnly = o.load, !o.measures
		if m.LoadOnly {
			m.Samples = nil // L-1: a client under full load measures itself
		}
		round[i] = m
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	return round, nil
}

// seconds as a duration, of at least a millisecond.
func seconds(s float64) time.Duration {
	return time.Duration(math.Max(s, 1e-3) * float64(time.Second))
}
