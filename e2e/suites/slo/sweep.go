// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// The loads of the sweep, in shares of what the workers can do at most, and how
// often and how long each is offered. One pause of a tenth of a second spoils the
// p99 of ten seconds, so one miss says little of a load: it is offered again after
// the others had their turn. A load is not repeated once it or a higher one has met
// the objective, because it cannot raise the capacity any more.
var sweepShares = []float64{0.7, 0.8, 0.86, 0.92, 0.97}

const (
	sweepRounds   = 3
	sweepWarmup   = 2 * time.Second
	sweepMeasured = 10 * time.Second
)

// point is one load of the sweep, nothing enforced.
type point struct {
	share, offered float64 // of the workers, and in requests/s
	within         float64 // requests/s answered within the objective, by the routers
	p99, client    float64 // by the routers, by the client, in microseconds
	short          error   // the client could not offer it: what was measured says nothing
	elsewhere      harness.Elsewhere
}

// sweep finds the capacity under the objective.
func (s *Suite) sweep(ctx context.Context) error {
	name := fmt.Sprintf("load sweep, nothing enforced: the capacity within p99 <= %s; a load that misses it is offered up to %d times", s.Setup.latency(), sweepRounds)
	each := int((sweepWarmup + sweepMeasured + 4*time.Second).Seconds())
	return s.Steps.Do(ctx, harness.Step{Name: name, Cost: fmt.Sprintf("%d to %d s", each*len(sweepShares), each*len(sweepShares)*sweepRounds),
		Cause: "a load Job does not run, or a router does not answer: kubectl -n " + Namespace + " get pods,events"},
		func(ctx context.Context) error {
			for round := range sweepRounds {
				if err := s.round(ctx, round); err != nil {
					return err
				}
			}
			s.swept, s.cut = best(s.points, s.Setup.latency()).within, neverOffered(s.points, s.Setup.latency())
			return nil
		})
}

// round offers every load that may still raise the capacity.
func (s *Suite) round(ctx context.Context, round int) error {
	for i, share := range open(s.points, s.Setup.latency()) {
		p, err := s.measure(ctx, fmt.Sprintf("sweep-%d-%d", round, i), share)
		var short notOffered
		switch {
		case errors.As(err, &short): // a pause of the machine, which another try may be spared
			p.short = short
			s.Steps.Say("     %v", err)
		case err != nil:
			return err
		}
		s.points = append(s.points, p)
		s.Steps.Say("     %6.0f/s offered, %3.0f %% of the workers: p99 %s, at the client %s, %6.0f/s within the objective; %2.0f %% of the processors' time elsewhere",
			p.offered, 100*p.share, milliseconds(p.p99), milliseconds(p.client), p.within, 100*p.elsewhere.Share())
	}
	return nil
}

// open are the loads above the highest one that met the objective.
func open(points []point, objective time.Duration) (shares []float64) {
	met := 0.0
	for _, p := range points {
		if p.meets(objective) {
			met = max(met, p.share)
		}
	}
	for _, share := range sweepShares {
		if share > met {
			shares = append(shares, share)
		}
	}
	return shares
}

func (p point) meets(objective time.Duration) bool {
	return p.short == nil && p.p99 <= float64(objective.Microseconds())
}

// neverOffered is why a load that might have raised the capacity says nothing: every
// time it was cut short.
func neverOffered(points []point, objective time.Duration) error {
	for _, share := range open(points, objective) {
		tries := slices.DeleteFunc(slices.Clone(points), func(p point) bool { return p.share != share })
		if len(tries) > 0 && !slices.ContainsFunc(tries, func(p point) bool { return p.short == nil }) {
			return tries[0].short
		}
	}
	return nil
}

// measure offers one load. The routers are read a while before its end, because it
// began before its pod was seen to run; the warm-up is not in their window.
func (s *Suite) measure(ctx context.Context, name string, share float64) (point, error) {
	const early, window = 1500 * time.Millisecond, sweepMeasured - 2*time.Second
	rate := int(share * s.Setup.Nominal())
	job := s.load(name, rate, sweepWarmup, sweepMeasured)
	if err := s.Env.StartLoad(ctx, job); err != nil {
		return point{}, err
	}
	told := s.Env.WatchElsewhere(ctx)
	err := until(ctx, time.Now().Add(sweepWarmup+sweepMeasured-early))
	elsewhere, _ := told() // not known: then nothing is said of it
	if err != nil {
		return point{}, err
	}
	seen, err := s.Env.Routers(ctx, Namespace, Service, window)
	if err != nil {
		return point{}, errors.Join(err, s.Env.StopLoad(ctx, job))
	}
	r, err := s.Env.FinishLoad(ctx, job)
	if err != nil {
		return point{}, err
	}
	return point{share: share, elsewhere: elsewhere, offered: float64(rate), within: inTime(r, seen.Latency, s.Setup.latency()),
		p99: p99(seen.Latency), client: p99(r.Histogram)}, offered(job, r)
}

// best is the load at which most requests were answered within the objective, among
// those whose percentile met it; none of 0 requests/s if no load did.
func best(points []point, objective time.Duration) (most point) {
	for _, p := range points {
		if p.meets(objective) && p.within > most.within {
			most = p
		}
	}
	return most
}

// capacity under the objective: what the sweep found, or what the routers answered
// within it under an overload whose percentile met it, where that is more. Who has
// done it can do it.
func (s *Suite) capacity() float64 {
	most := s.swept
	for _, r := range s.rows {
		if s.met(r) {
			most = max(most, r.inTime)
		}
	}
	return most
}

func (s *Suite) met(r row) bool {
	return r.short == nil && p99(r.routers) <= float64(s.Setup.latency().Microseconds())
}

// isCapacity says that a row is its own yardstick: its goodput is the capacity, and
// its share of that is 1 whatever it did. Its share of what the sweep found says more.
func (s *Suite) isCapacity(r row) bool {
	return s.met(r) && r.inTime > s.swept && r.inTime == s.capacity()
}

// within is the rate of requests that were answered within the objective, by the
// client.
func within(r harness.LoadResult, objective time.Duration) float64 {
	if r.Histogram == nil || r.WindowSeconds <= 0 {
		return 0
	}
	return float64(r.Histogram.CountAtMost(uint64(objective.Nanoseconds()))) / r.WindowSeconds
}

// inTime is the same by the routers' clock: of what the client was answered a second,
// the share that they saw within the objective. A window of theirs ends within a
// second, so it tells shares and no rates.
func inTime(r harness.LoadResult, routers *ll7.Histogram, objective time.Duration) float64 {
	answered := routers.Total() - routers.Inf() // the others are missing from what the client was answered, too
	if r.WindowSeconds <= 0 || answered == 0 {
		return 0
	}
	share := float64(routers.CountAtMost(uint64(objective.Nanoseconds()))) / float64(answered)
	return share * float64(r.Completed) / r.WindowSeconds
}

// notOffered says that a client could not offer the load it was asked for: what it
// measured then says nothing of the service.
type notOffered struct {
	job  harness.Load
	sent uint64
	want float64
}

func (n notOffered) Error() string {
	return fmt.Sprintf("job %s sent %d requests of %.0f: it cannot offer %d/s",
		n.job.Name, n.sent, n.want, n.job.Rate)
}

func offered(l harness.Load, r harness.LoadResult) error {
	want := float64(l.Rate) * l.Duration.Seconds()
	if math.Abs(float64(r.Sent)-want) > 0.02*want+5*math.Sqrt(want) {
		return notOffered{l, uint64(r.Sent), want}
	}
	return nil
}
