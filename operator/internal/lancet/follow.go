// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Phase is a stretch of constant load in a pattern that changes.
type Phase struct {
	Load     float64 // requests per second, over all agents
	Duration time.Duration
}

// Interval is what was seen during one phase. A changing load has no steady state,
// so that no percentile is qualified: the intervals take samples as independent, and
// say so. A phase whose load was not reached, or whose requests left late, has a
// warning that names it and the figure (L-59).
type Interval struct {
	Phase
	Start  time.Duration // since the first phase
	Result Result        // never Conclusive; its Reasons say that the load was meant to change
}

// windowSamples is how many samples of a pattern are kept, of all agents.
const windowSamples = 500_000

// fewestInPhase is how many requests each agent that measures must sample during a
// phase, on average: with fewer there may be none at all to speak of.
const fewestInPhase = 100

// CheckPhases names the phases that are too short for their load.
func CheckPhases(e Experiment, phases []Phase, agents int) error {
	var all []error
	for _, t := range e.timetables(phases, agents) {
		for i, p := range t.phases {
			if n := p.Load * p.Duration.Seconds() * t.rate; t.measures && n < fewestInPhase {
				all = append(all, fmt.Errorf("load: phase %d: %.4g requests/s for %v are %.0f samples for each agent that measures: must be at least %d",
					i, phases[i].Load, p.Duration, n, fewestInPhase))
			}
		}
		if len(all) > 0 {
			break // agents that measure are alike, and come first
		}
	}
	return errors.Join(all...)
}

// timetable is what one agent does in a pattern.
type timetable struct {
	phases   []Phase // its own part of them
	rate     float64 // share of its requests that are sampled, in all phases the same
	measures bool
}

// timetables deals out the phases as orders does a steady load.
func (e Experiment) timetables(phases []Phase, agents int) []timetable {
	out := make([]timetable, agents)
	requests := map[bool]float64{}
	for _, p := range phases {
		e.Load = p.Load
		for i, o := range e.split(agents, 1, e.firstRate(), p.Duration, p.Duration) {
			out[i].phases = append(out[i].phases, Phase{o.load, p.Duration})
			out[i].measures = o.measures
			requests[o.measures] += o.load * p.Duration.Seconds()
		}
	}
	for i := range out {
		out[i].rate = min(1, windowSamples/requests[out[i].measures])
	}
	return out
}

// Follow offers one phase after the other without a pause and reports each.
func Follow(ctx context.Context, e Experiment, phases []Phase, agents []Agent) ([]Interval, error) {
	if len(agents) == 0 || len(phases) == 0 {
		return nil, errors.New("a pattern needs at least one agent and one phase")
	}
	e = e.WithDefaults()
	if err := errors.Join(e.checkSplit(len(agents)), CheckPhases(e, phases, len(agents))); err != nil {
		return nil, err
	}
	rounds, err := follow(ctx, e.timetables(phases, len(agents)), agents)
	stop := all(agents, func(_ int, a Agent) error { return a.Stop(context.WithoutCancel(ctx)) })
	if err = errors.Join(err, stop); err != nil {
		return nil, err
	}
	var out []Interval
	start := time.Duration(0)
	for i, phase := range phases {
		e.Load = phase.Load
		result := Result{Reasons: []string{"the load changes: there is no steady state to qualify"}, Elapsed: phase.Duration}
		result.summarise(e, rounds[i])
		result.Warnings = append(result.Warnings, doubts(e, i, rounds[i])...)
		out = append(out, Interval{phase, start, result})
		start += phase.Duration
	}
	return out, nil
}

// follow has every agent keep its timetable, and returns the measurements of each
// phase.
func follow(ctx context.Context, tables []timetable, agents []Agent) ([][]Measurement, error) {
	rounds := make([][]Measurement, len(tables[0].phases))
	for i := range rounds {
		rounds[i] = make([]Measurement, len(agents))
	}
	together, stop := context.WithCancel(ctx) // the load of an agent that fails is missing: the others need not go on
	defer stop()
	err := all(agents, func(i int, a Agent) error {
		t := tables[i]
		seen, err := a.Follow(together, t.phases, t.rate)
		if err != nil && together.Err() != nil && ctx.Err() == nil {
			return nil // stopped for another's sake, which says why
		}
		if err != nil {
			stop()
			return err
		}
		for k, m := range seen {
			if m.Elapsed <= 0 || t.measures && len(m.Samples) == 0 {
				return fmt.Errorf("phase %d: measurement holds %d samples in %v", k, len(m.Samples), m.Elapsed)
			}
			m.Offered, m.LoadOnly = t.phases[k].Load, !t.measures
			if m.LoadOnly {
				m.Samples = nil // L-1
			}
			rounds[k][i] = m
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	return rounds, nil
}
