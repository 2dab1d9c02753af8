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
	tries                  int           // at most; see judge
}

// row is what became of it in one try.
type row struct {
	phase
	try                       int     // from 1
	offered, answered, within float64 // requests/s, by the client
	inTime                    float64 // requests/s answered within the objective, by the routers
	refused                   float64 // share of the requests, by the client
	client, routers           *ll7.Histogram
	worst                     float64 // p99 of the worst window, by the routers, in microseconds
	met                       string  // condition Met
	elsewhere                 harness.Elsewhere
	unknown                   error // why elsewhere is not known
	short                     error // the client could not offer it: what was measured says nothing
	judgement
}

// overload measures a phase until one try of it is judged.
func (s *Suite) overload(ctx context.Context, p phase) error {
	for try := 1; ; try++ {
		r := row{phase: p, try: try}
		if err := s.offer(ctx, &r); err != nil {
			return err
		}
		s.rows = append(s.rows, r)
		last := &s.rows[len(s.rows)-1]
		last.judgement = s.judge(r) // with the capacity that it may itself be
		if last.again {
			s.Steps.Say("     %s", last.why)
			continue
		}
		s.cut = errors.Join(s.cut, r.short)
		return nil
	}
}

// offer enforces what the phase says, offers 1.5 times what the workers can do, and
// reads what the routers measured.
func (s *Suite) offer(ctx context.Context, r *row) error {
	rate := s.Setup.overloadRate()
	name := fmt.Sprintf("overload: %d requests/s, 1.5 times what the workers can do; enforcement: %s %s", rate, r.mode, r.controller)
	if r.try > 1 {
		name += fmt.Sprintf(", try %d of at most %d", r.try, r.tries)
	}
	cost := fmt.Sprintf("%d s", int((settling + r.duration + 10*time.Second).Seconds()))
	return s.Steps.Do(ctx, harness.Step{Name: name, Cost: cost,
		Cause: "the routers do not enforce: kubectl -n " + Namespace + " describe slo " + Objective},
		func(ctx context.Context) error {
			if err := s.enforce(ctx, r.phase); err != nil {
				return err
			}
			job := s.load(r.name, rate, settling, r.duration)
			if err := s.Env.StartLoad(ctx, job); err != nil {
				return err
			}
			if err := s.watch(ctx, r); err != nil {
				return errors.Join(err, s.Env.StopLoad(ctx, job)) // it would weigh on the next phase
			}
			result, err := s.Env.FinishLoad(ctx, job)
			if err != nil {
				return err
			}
			r.count(result, s.Setup.latency())
			if r.short = offered(job, result); r.short != nil {
				s.Steps.Say("     %v", r.short)
			}
			return nil
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
	return s.Env.WaitCondition(ctx, time.Minute, Namespace, "slo", Objective, "Programmed=True")
}

// watch waits for the end of the load and reads what the routers measured of it,
// second by second. A window ends with a whole second: read one second after the load,
// it begins at most one after the settling and holds the end.
func (s *Suite) watch(ctx context.Context, r *row) error {
	begin := time.Now()
	if err := until(ctx, begin.Add(settling)); err != nil {
		return err
	}
	told := s.Env.WatchElsewhere(ctx)
	err := until(ctx, begin.Add(settling+r.duration+time.Second))
	r.elsewhere, r.unknown = told()
	if err != nil {
		return err
	}
	seen, err := s.Env.RoutersBySecond(ctx, Namespace, Service, r.duration)
	if err != nil {
		return err
	}
	r.routers, r.worst = seen.Latency, worstWindow(seen.BySecond, int(worstOf.Seconds()))
	object, err := s.Env.Object(ctx, Namespace, "slo", Objective)
	if err != nil {
		return err
	}
	r.met = object.Condition("Met").Status
	return s.show(ctx)
}

// worstWindow is the highest p99 of any so many seconds in a row, in microseconds;
// NaN when nothing came through in some of them: then the worst is no number either.
func worstWindow(seconds []*ll7.Histogram, length int) float64 {
	worst := 0.0
	for from := 0; from+length <= len(seconds); from++ {
		var window ll7.Histogram
		for _, second := range seconds[from : from+length] {
			window.Merge(second)
		}
		worst = max(worst, p99(&window))
	}
	return worst
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
