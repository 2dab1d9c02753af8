// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// The loads of the sweep, in shares of what the workers can do at most, and how
// long each is offered.
var sweepShares = []float64{0.6, 0.75, 0.85, 0.9, 0.94, 0.97, 1}

const (
	sweepWarmup   = 3 * time.Second
	sweepMeasured = 12 * time.Second
)

// point is one load of the sweep, nothing enforced.
type point struct {
	offered, within float64 // requests/s; within: answered within the objective
	p99             float64 // by the client, in microseconds
}

// sweep finds the capacity under the objective.
func (s *Suite) sweep(ctx context.Context) error {
	name := fmt.Sprintf("load sweep, nothing enforced: the capacity within p99 <= %s", s.Setup.latency())
	cost := fmt.Sprintf("%d s", len(sweepShares)*int((sweepWarmup+sweepMeasured+6*time.Second).Seconds()))
	return s.Steps.Do(ctx, harness.Step{Name: name, Cost: cost,
		Cause: "the machine itself takes longer than the objective; take longer service times: make e2e-slo SLO=\"--service=20ms\""},
		func(ctx context.Context) error {
			var points []point
			for i, share := range sweepShares {
				p, err := s.measure(ctx, fmt.Sprintf("sweep-%d", i), int(share*s.Setup.Nominal()))
				if err != nil {
					return err
				}
				points = append(points, p)
				s.Steps.Say("     %6.0f/s offered, %3.0f %% of the workers: p99 %s, %6.0f/s within the objective", p.offered, 100*share, milliseconds(p.p99), p.within)
			}
			best, err := capacity(points, s.Setup.latency())
			s.capacity = best.within
			return err
		})
}

func (s *Suite) measure(ctx context.Context, name string, rate int) (point, error) {
	job := s.load(name, rate, sweepWarmup, sweepMeasured)
	if err := s.Env.StartLoad(ctx, job); err != nil {
		return point{}, err
	}
	r, err := s.Env.FinishLoad(ctx, job)
	if err != nil {
		return point{}, err
	}
	if err := offered(job, r); err != nil {
		return point{}, err
	}
	return point{offered: float64(rate), within: within(r, s.Setup.latency()), p99: p99(r.Histogram)}, nil
}

// capacity is the highest load at which the percentile was within the objective.
// A load that missed it below one that met it says that the machine was
// disturbed, and lowers nothing.
func capacity(points []point, objective time.Duration) (point, error) {
	var best point
	for _, p := range points {
		if p.p99 <= float64(objective.Microseconds()) && p.within > best.within {
			best = p
		}
	}
	if best.within == 0 {
		return best, fmt.Errorf("no load of the sweep met the objective of %s", objective)
	}
	return best, nil
}

// within is the rate of requests that were answered within the objective.
func within(r harness.LoadResult, objective time.Duration) float64 {
	if r.Histogram == nil || r.WindowSeconds <= 0 {
		return 0
	}
	return float64(r.Histogram.CountAtMost(uint64(objective.Nanoseconds()))) / r.WindowSeconds
}

// offered is an error when a client could not offer the load it was asked for:
// what it measured then says nothing of the service.
func offered(l harness.Load, r harness.LoadResult) error {
	want := float64(l.Rate) * l.Duration.Seconds()
	if math.Abs(float64(r.Sent)-want) > 0.02*want+5*math.Sqrt(want) {
		return fmt.Errorf("job %s sent %d requests of %.0f: the machine cannot offer %d/s; take longer service times: make e2e-slo SLO=\"--service=20ms\"",
			l.Name, r.Sent, want, l.Rate)
	}
	return nil
}
