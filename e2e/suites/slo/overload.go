// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// phase is one overload.
type phase struct {
	name, mode, controller string
	duration               time.Duration // measured, after the settling
}

// row is what became of it.
type row struct {
	phase
	offered, answered, within float64 // requests/s, by the client
	inTime                    float64 // requests/s answered within the objective, by the routers
	refused                   float64 // share of the requests, by the client
	client, routers           *ll7.Histogram
	worst                     float64 // p99 of the worst window, by the routers, in microseconds
	met                       string  // condition Met
}

// overload enforces what the phase says, offers 1.5 times what the workers can
// do, and reads what the routers measured while the load still runs.
func (s *Suite) overload(ctx context.Context, p phase) error {
	rate := s.Setup.overloadRate()
	name := fmt.Sprintf("overload: %d requests/s, 1.5 times what the workers can do; enforcement: %s %s", rate, p.mode, p.controller)
	cost := fmt.Sprintf("%d s", int((settling + p.duration + 10*time.Second).Seconds()))
	return s.Steps.Do(ctx, harness.Step{Name: name, Cost: cost,
		Cause: "the routers do not enforce: kubectl -n " + Namespace + " describe slo " + Objective},
		func(ctx context.Context) error {
			if err := s.enforce(ctx, p); err != nil {
				return err
			}
			job := s.load(p.name, rate, settling, p.duration)
			if err := s.Env.StartLoad(ctx, job); err != nil {
				return err
			}
			r := row{phase: p}
			if err := s.watch(ctx, &r); err != nil {
				return errors.Join(err, s.Env.StopLoad(ctx, job)) // it would weigh on the next phase
			}
			result, err := s.Env.FinishLoad(ctx, job)
			if err != nil {
				return err
			}
			r.count(result, s.Setup.latency())
			s.rows = append(s.rows, r)
			return offered(job, result)
		})
}

// enforce writes spec.enforcement and waits until every router has it.
func (s *Suite) enforce(ctx context.Context, p phase) error {
	enforcement := fmt.Sprintf(`{"mode": %q}`, p.mode)
	if p.controller != "" {
		enforcement = fmt.Sprintf(`{"mode": %q, "controller": %q}`, p.mode, p.controller)
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "slo", Objective, "--type=merge", "-p", `{"spec": {"enforcement": `+enforcement+`}}`); err != nil {
		return err
	}
	return s.Env.WaitCondition(ctx, time.Minute, Namespace, "slo", Objective, "Programmed", "True")
}

// watch reads the routers every few seconds for the worst window, and once more
// for the whole of the phase. Its end lies a second before the end of the load
// and its begin two seconds after the settling, because nobody knows better when
// the load began.
func (s *Suite) watch(ctx context.Context, r *row) error {
	begin := time.Now()
	for at := settling + worstOf + time.Second; at < settling+r.duration-time.Second; at += worstOf {
		if err := until(ctx, begin.Add(at)); err != nil {
			return err
		}
		one, err := s.Env.Routers(ctx, Namespace, Service, worstOf)
		if err != nil {
			return err
		}
		r.worst = max(r.worst, p99(one.Latency)) // NaN when nothing came through: then the worst is no number either
	}
	if err := until(ctx, begin.Add(settling+r.duration-time.Second)); err != nil {
		return err
	}
	all, err := s.Env.Routers(ctx, Namespace, Service, r.duration-3*time.Second)
	if err != nil {
		return err
	}
	r.routers = all.Latency
	object, err := s.Env.Object(ctx, Namespace, "slo", Objective)
	if err != nil {
		return err
	}
	r.met = object.Condition("Met").Status
	return s.show(ctx)
}

// show prints what a user would see now.
func (s *Suite) show(ctx context.Context) error {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "slo")
	s.Steps.Say("\n$ kubectl -n %s get slo\n%s", Namespace, out)
	return err
}

func (r *row) count(l harness.LoadResult, objective time.Duration) {
	r.client, r.within, r.inTime = l.Histogram, within(l, objective), inTime(l, r.routers, objective)
	if l.WindowSeconds > 0 {
		r.offered, r.answered = float64(l.Sent)/l.WindowSeconds, float64(l.Completed)/l.WindowSeconds
	}
	if l.Sent > 0 {
		r.refused = float64(l.Dropped) / float64(l.Sent)
	}
}

func until(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}
