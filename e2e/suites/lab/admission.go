// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// share of the overload that each class offers.
var mix = []struct{ class, rate int }{{0, overload - 1100}, {5, 700}, {7, 400}}

// classes refuses under three classes at once: the lowest pays, the priority is
// spared while that is enough, and what is not droppable is never refused.
func (s *Suite) classes(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("Reject, three classes, %d requests/s: Priority7 may not be dropped", overload), Cost: "40 s",
		Cause: "the routers do not enforce: kubectl -n " + Namespace + " describe slo " + Objective},
		func(ctx context.Context) error {
			if err := s.enforce(ctx, `{"mode": "Reject", "controller": "Track", "classes": [{"policy": "Priority7", "droppable": "Deny"}]}`); err != nil {
				return err
			}
			var jobs []harness.Load
			for _, m := range mix {
				jobs = append(jobs, load(fmt.Sprintf("class-%d", m.class), m.rate, m.class, window+5*time.Second))
			}
			seen, results, err := s.offer(ctx, jobs)
			if err != nil {
				return err
			}
			for i, r := range results {
				refused := share(r.Dropped, r.Sent)
				s.Steps.Say("     class %d: sent %d, refused %.1f %%, p99 at the client %.1f ms", mix[i].class, r.Sent, 100*refused, r.Percentile("99")/1000)
				s.Got.Set(fmt.Sprintf("e2e_class_%d_refused_share", mix[i].class), refused)
			}
			s.over("e2e_classes_p99_over_slo", seen)
			return s.classMetrics(ctx)
		})
}

// classMetrics asserts that some router shows the latency of each class.
func (s *Suite) classMetrics(ctx context.Context) error {
	names, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/component=router,bobtail.dev/service="+Service,
		"-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, pod := range strings.Fields(names) {
		text, err := s.Env.Kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+Namespace+"/pods/http:"+pod+":9464/proxy/metrics")
		if err != nil {
			return err
		}
		all.WriteString(text)
	}
	var errs []error
	for _, m := range mix {
		if series := fmt.Sprintf(`bobtail_router_class_latency_seconds_count{class="%d",`, m.class); !strings.Contains(all.String(), series) {
			errs = append(errs, fmt.Errorf("no router has %s", series))
		}
	}
	return errors.Join(errs...)
}

// degrade marks instead of refusing: everything is answered, some of it at lower
// quality, and the objective holds.
func (s *Suite) degrade(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("Degrade, %d requests/s: marked instead of refused", overload), Cost: "40 s",
		Cause: "the servers do not read the mark: kubectl -n " + Namespace + " describe slo " + Objective},
		func(ctx context.Context) error {
			if err := s.enforce(ctx, `{"mode": "Degrade", "controller": "Track", "classes": null}`); err != nil {
				return err
			}
			seen, results, err := s.offer(ctx, []harness.Load{load("degrade", overload, 0, window+5*time.Second)})
			if err != nil {
				return err
			}
			r := results[0]
			s.Steps.Say("     sent %d, answered %d, of them marked %.1f %%, refused %d", r.Sent, r.Completed, 100*share(r.Degraded, r.Completed), r.Dropped)
			s.Got.Set("e2e_degrade_marked_share", share(r.Degraded, r.Completed))
			s.Got.Set("e2e_degrade_answered_share", share(r.Completed, r.Sent))
			s.over("e2e_degrade_p99_over_slo", seen)
			return nil
		})
}

// enforce writes spec.enforcement and waits until every router has it.
func (s *Suite) enforce(ctx context.Context, enforcement string) error {
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "slo", Objective, "--type=merge", "-p", `{"spec": {"enforcement": `+enforcement+`}}`); err != nil {
		return err
	}
	return s.Env.WaitCondition(ctx, time.Minute, Namespace, "slo", Objective, "Programmed=True")
}

// offer runs the loads side by side and reads the routers before they end.
func (s *Suite) offer(ctx context.Context, jobs []harness.Load) (harness.Seen, []harness.LoadResult, error) {
	var errs []error
	for _, job := range jobs {
		errs = append(errs, s.Env.StartLoad(ctx, job))
	}
	errs = append(errs, pause(ctx, settling+window+time.Second))
	seen, err := s.Env.Routers(ctx, Namespace, Service, window)
	errs = append(errs, err)
	var results []harness.LoadResult
	for _, job := range jobs {
		r, err := s.Env.FinishLoad(ctx, job)
		errs, results = append(errs, err), append(results, r)
	}
	return seen, results, errors.Join(errs...)
}

func (s *Suite) over(name string, seen harness.Seen) {
	p99 := harness.Microseconds(seen.Latency, "99")
	s.Steps.Say("     p99 of all routers together %.1f ms, %.3f of the objective, of %d requests", p99/1000, p99/float64(objective.Microseconds()), seen.Latency.Total())
	s.Got.SetFinite(name, p99/float64(objective.Microseconds()))
}

func share(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}
