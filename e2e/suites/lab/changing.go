// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// pattern is an experiment whose load changes, and what its table must show.
type pattern struct {
	name, step, workload, load, percentile string
	before                                 string // applied before it
	want                                   []phase
	shape                                  func(observed []float64) error // of the percentiles, in microseconds
}

// phase is a line of the table.
type phase struct{ start, offered int64 }

// patterns follow each other: each alone on the service. The load of the second
// step is an eighth more than the workers can do, so a queue grows that the third
// step still sees and the fourth does not. Recorded arrivals
// come in bursts of 150, whatever the load, of which each agent sends half.
func patterns() []pattern {
	return []pattern{
		{name: "steps", step: "load in steps, the second above the capacity", percentile: "99",
			workload: "connectionsPerAgent: 64, outstandingPerConnection: 64, timeoutMilliseconds: 5000",
			load:     "{steps: [{requestsPerSecond: 1000, seconds: 5}, {requestsPerSecond: 3600, seconds: 5}, {requestsPerSecond: 1000, seconds: 5}, {requestsPerSecond: 1000, seconds: 5}]}",
			want:     []phase{{0, 1000}, {5, 3600}, {10, 1000}, {15, 1000}}, shape: overloaded},
		{name: "sine", step: "load as a wave", percentile: "99", workload: "connectionsPerAgent: 128",
			load: "{sine: {meanRequestsPerSecond: 1000, amplitudeRequestsPerSecond: 800, periodSeconds: 12, seconds: 18, stepSeconds: 2}}",
			want: wave(1000, 800, 12, 18, 2), shape: notFaster(wave(1000, 800, 12, 18, 2), 2)},
		{name: "recorded", step: "recorded arrivals from a ConfigMap: bursts", percentile: "50", before: gapsManifest(),
			workload: "connectionsPerAgent: 256, interarrival: Trace, gapsFrom: {configMapKeyRef: {name: gaps, key: bursts}}",
			load:     "{steps: [{requestsPerSecond: 500, seconds: 6}, {requestsPerSecond: 1000, seconds: 6}]}",
			want:     []phase{{0, 500}, {6, 1000}}, shape: atLeast(leastBurstMedian.Microseconds())},
	}
}

// changing runs the experiments whose load changes.
func (s *Suite) changing(ctx context.Context) error {
	var errs []error
	for _, p := range patterns() {
		errs = append(errs, s.Steps.Do(ctx, harness.Step{Name: "LatencyExperiment: " + p.step, Cost: "30 s",
			Cause: "agents or coordinator do not start: kubectl -n " + Namespace + " get lexp,jobs,pods"},
			func(ctx context.Context) error { return s.follow(ctx, p) }))
	}
	return errors.Join(errs...)
}

func (s *Suite) follow(ctx context.Context, p pattern) error {
	if p.before != "" {
		if err := s.Env.Apply(ctx, p.before); err != nil {
			return err
		}
	}
	if err := s.Env.Apply(ctx, changingManifest(p.name, p.percentile, p.workload, p.load, "")); err != nil {
		return err
	}
	l, err := s.finished(ctx, p.name, experimentLimit)
	if err != nil {
		return err
	}
	err = s.show(ctx, p.name)
	_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "lexp", p.name, "--wait=true")
	s.Got.SetFinite("lexp_"+p.name+"_worst_achieved_share", worstShare(l))
	return errors.Join(err, judgePattern(l, p), gone)
}

// lines of the table, as docs/guides/lancet.md has them.
const lines = `jsonpath={range .status.results[*]}{.startSeconds}s{"\t"}{.offeredRequestsPerSecond}/s{"\t"}{.achievedRequestsPerSecond}/s{"\t"}` +
	`{.observedMicroseconds}us{"\t"}{.observedLowMicroseconds}-{.observedHighMicroseconds}us{"\n"}{end}`

func (s *Suite) show(ctx context.Context, name string) error {
	short, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "lexp", name)
	long, failed := s.Env.Kubectl(ctx, "-n", Namespace, "get", "lexp", name, "-o", lines)
	s.Steps.Say("\n$ kubectl -n %s get lexp %s\n%s\n%s", Namespace, name, short, long)
	return errors.Join(err, failed)
}

// changingManifest asks for processors: what is judged is the service, not agents
// that came last on a busy node.
func changingManifest(name, percentile, workload, load, more string) string {
	return fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: LatencyExperiment
metadata: {name: %s, namespace: %s}
spec:
  target: {targetRef: {name: %s}}
  workload: {%s}
  load: %s
  agents: 2
  agentResources: {requests: {cpu: 300m, memory: 64Mi}}
  percentile: "%s"
%s`, name, Namespace, Service, workload, load, percentile, more)
}

// judgePattern holds the table to the pattern.
func judgePattern(l lexp, p pattern) error {
	if c := l.condition("Conclusive"); c.Status != "Unknown" || c.Reason != "Followed" {
		return fmt.Errorf("%s: Conclusive=%s (%s: %s); a load that changes is Unknown, Followed", p.name, c.Status, c.Reason, c.Message)
	}
	if len(l.Status.Results) != len(p.want) {
		return fmt.Errorf("%s: %d results, want %d", p.name, len(l.Status.Results), len(p.want))
	}
	var errs []error
	var observed []float64
	for i, r := range l.Status.Results {
		if r.Start == nil || *r.Start != p.want[i].start || r.Offered != p.want[i].offered || r.Verdict != "Followed" {
			errs = append(errs, fmt.Errorf("%s: line %d is %+v, want start and load %+v", p.name, i, r, p.want[i]))
		}
		observed = append(observed, r.microseconds())
	}
	if share := worstShare(l); math.Abs(share-1) > 0.2 {
		errs = append(errs, fmt.Errorf("%s: a phase achieved %.2f of its load", p.name, share))
	}
	if finite(observed) != (strings.HasPrefix(l.Status.Observed, "up to ")) {
		errs = append(errs, fmt.Errorf("%s: observed %q, of percentiles %v", p.name, l.Status.Observed, observed))
	}
	return errors.Join(append(errs, p.shape(observed))...)
}

// worstShare is the achieved share of the offered load that is farthest from 1.
func worstShare(l lexp) float64 {
	worst := 1.0
	for _, r := range l.Status.Results {
		if share := float64(r.Achieved) / float64(r.Offered); math.Abs(share-1) > math.Abs(worst-1) || math.IsNaN(share) {
			worst = share
		}
	}
	return worst
}

func finite(all []float64) bool {
	for _, v := range all {
		if math.IsInf(v, 1) {
			return false
		}
	}
	return true
}

// microseconds of the percentile; infinite when it falls on requests that were
// never answered.
func (r result) microseconds() float64 {
	if r.Observed == nil {
		return math.Inf(1)
	}
	return float64(*r.Observed)
}

// overloaded: the step above the capacity stands out, and is over in the last.
func overloaded(p99 []float64) error {
	least := leastP99Of(1000 * 5)
	if p99[0] < least || p99[1] < 2*p99[0] || p99[3] > p99[1]/2 {
		return fmt.Errorf("p99 of the steps %v us: want at least %.0f, then twice as long, in the end half of that again", p99, least)
	}
	return nil
}

// leastP99Of is what the p99 of n answers, in microseconds, cannot be less than: the
// workers' exponential sleep alone, five standard deviations of its percentile below
// (one run in three million). Of 400 answers that is 33.6 ms, of 5,000 it is 40.7.
func leastP99Of(n float64) float64 {
	const share = 0.99
	low := share - 5*math.Sqrt(share*(1-share)/n)
	return -math.Log(1-low) * float64(sleep.Microseconds())
}

// notFaster: no phase, so many seconds long, has a p99 that the workers cannot reach.
func notFaster(phases []phase, seconds int64) func([]float64) error {
	return func(p99 []float64) error {
		for i, v := range p99 {
			if least := leastP99Of(float64(phases[i].offered * seconds)); v < least {
				return fmt.Errorf("line %d: p99 %.0f us, cannot be less than %.0f us at %d requests/s", i, v, least, phases[i].offered)
			}
		}
		return nil
	}
}

func atLeast(us int64) func([]float64) error {
	return func(all []float64) error {
		for i, v := range all {
			if v < float64(us) {
				return fmt.Errorf("line %d: %.0f us, cannot be less than %d us", i, v, us)
			}
		}
		return nil
	}
}

// wave is the lines of a sine: its value in the middle of every step.
func wave(mean, amplitude, period, seconds, step float64) (out []phase) {
	for t := 0.0; t < seconds; t += step {
		out = append(out, phase{int64(t), int64(math.Round(mean + amplitude*math.Sin(2*math.Pi*(t+step/2)/period)))})
	}
	return out
}
