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
// so that nothing is qualified: the intervals of the percentiles take samples as
// independent, and say so.
type Interval struct {
	Phase
	Start  time.Duration // since the first phase
	Result Result        // never Conclusive; its Reasons say that the load was meant to change
}

// windowSamples is how many samples of a phase are kept at most.
const windowSamples = 1_000_000

// fewestInPhase is how many requests each agent that measures must send during a
// phase, on average: with fewer there may be none at all to speak of.
const fewestInPhase = 100

// CheckPhases names the phases that are too short for their load.
func CheckPhases(e Experiment, phases []Phase, agents int) error {
	var all []error
	for i, p := range phases {
		e.Load = p.Load
		perAgent := p.Load * p.Duration.Seconds() / float64(agents)
		if e.LatencyAgents > 0 {
			perAgent = p.Load * e.firstRate() * p.Duration.Seconds() / float64(e.LatencyAgents)
		}
		if perAgent < fewestInPhase {
			all = append(all, fmt.Errorf("load: phase %d: %.4g requests/s for %v are %.0f for each agent that measures: must be at least %d",
				i, p.Load, p.Duration, perAgent, fewestInPhase))
		}
	}
	return errors.Join(all...)
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
	var out []Interval
	start := time.Duration(0)
	for i, phase := range phases {
		got, err := follow(ctx, e, phase, agents)
		if err != nil {
			stop := all(agents, func(_ int, a Agent) error { return a.Stop(context.WithoutCancel(ctx)) })
			return out, errors.Join(fmt.Errorf("phase %d: %w", i, err), stop)
		}
		out = append(out, Interval{phase, start, got})
		start += phase.Duration
	}
	return out, all(agents, func(_ int, a Agent) error { return a.Stop(context.WithoutCancel(ctx)) })
}

func follow(ctx context.Context, e Experiment, phase Phase, agents []Agent) (Result, error) {
	e.Load = phase.Load
	rate := min(1, windowSamples/2/(phase.Load*phase.Duration.Seconds()))
	if e.LatencyAgents > 0 {
		rate = min(rate, e.firstRate())
	}
	orders := e.split(len(agents), windowSamples*len(agents), rate, phase.Duration, phase.Duration)
	if err := offer(ctx, orders, agents); err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	round, err := measure(ctx, orders, agents)
	if err != nil {
		return Result{}, err
	}
	result := Result{Reasons: []string{"the load changes: there is no steady state to qualify"}, Elapsed: phase.Duration}
	result.summarise(e, round)
	return result, nil
}
