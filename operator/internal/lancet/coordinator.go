// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Clock is the coordinator's: a simulation brings its own.
type Clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// Run makes one experiment with at least one agent. An error means that no
// measurement could be made at all; an experiment that ended without a
// trustworthy figure is a Result that is not Conclusive.
func Run(ctx context.Context, e Experiment, agents []Agent, clock Clock) (Result, error) {
	e = e.WithDefaults()
	if err := e.Validate(); err != nil {
		return Result{}, err
	}
	if len(agents) == 0 {
		return Result{}, errors.New("agents: at least one is needed")
	}
	if err := e.checkSplit(len(agents)); err != nil {
		return Result{}, err
	}
	start := clock.Now()
	if err := offer(ctx, e.orders(len(agents), e.Samples, e.firstRate()), agents); err != nil {
		return Result{}, fmt.Errorf("start load: %w", err)
	}
	result, err := converge(ctx, e, agents, clock, start)
	stop := all(agents, func(_ int, a Agent) error { return a.Stop(context.WithoutCancel(ctx)) })
	return result, errors.Join(err, stop)
}

// converge orders rounds until one is conclusive or nothing is left to try (L-27).
func converge(ctx context.Context, e Experiment, agents []Agent, clock Clock, start time.Time) (Result, error) {
	var result Result
	samples, rate := e.Samples, e.firstRate()
	if err := clock.Sleep(ctx, e.Settle); err != nil {
		return result, err
	}
	for try := 1; ; try++ {
		round, err := measure(ctx, e.orders(len(agents), samples, rate), agents)
		if err != nil {
			return result, err
		}
		findings, action := judge(e, round)
		result.Rounds = append(result.Rounds, Round{samples, rate, findings})
		result.summarise(e, round)
		result.Elapsed = clock.Now().Sub(start)
		if action.Done {
			result.Conclusive = true
			return result, nil
		}
		samples += action.AddSamples
		if action.LowerRateBy > 0 {
			rate /= action.LowerRateBy
		}
		if action.LowerRateBy > 0 && e.LatencyAgents > 0 {
			if err := offer(ctx, e.orders(len(agents), samples, rate), agents); err != nil {
				return result, fmt.Errorf("change load: %w", err)
			}
		}
		if end := exhausted(e, try, samples, rate, result.Elapsed); end != "" {
			result.Reasons = []string{end, reason(findings)}
			return result, nil
		}
	}
}

// orders are those of a round of a steady load.
func (e Experiment) orders(agents, samples int, rate float64) []order {
	return e.split(agents, samples, rate, seconds(e.roundSeconds(samples, rate)), e.patience(samples, rate))
}

// exhausted says why no further round is made, "" when there may be one. A round
// that could not end within the limit is not begun.
func exhausted(e Experiment, try, samples int, rate float64, elapsed time.Duration) string {
	next := e.roundSeconds(samples, rate)
	switch {
	case rate < e.lowestRate():
		return fmt.Sprintf("samples are not independent even at a sampling rate of %v", e.lowestRate())
	case try >= e.Tries:
		return fmt.Sprintf("not conclusive in %d rounds", try)
	case elapsed.Seconds()+next > e.Limit.Seconds():
		return fmt.Sprintf("not conclusive in %v, and %d samples at a sampling rate of %.3g take %.0f s more (limit %v)",
			elapsed.Round(time.Second), samples, rate, next, e.Limit)
	}
	return ""
}

// all calls every agent at the same time and waits for the last.
func all(agents []Agent, call func(i int, a Agent) error) error {
	failures := make([]error, len(agents))
	var wait sync.WaitGroup
	for i, a := range agents {
		wait.Go(func() {
			if err := call(i, a); err != nil {
				failures[i] = fmt.Errorf("agent %d: %w", i, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(failures...)
}
