// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	experimentName = "work-p99"
	// experimentRate makes a mean gap of 3 ms between the requests of an agent. With
	// shorter ones the hundreds of microseconds by which neighbours make agents late
	// are enough for arrivals that are not Poisson's.
	experimentRate = 600
	// splitRate is offered where one agent does nothing but make the load.
	splitRate = 1500
	// widest interval asked for; that of 10,000 samples is about 4 ms.
	experimentWidth = 20 * time.Millisecond
	// experimentLimit leaves room for rounds at a half and at a quarter of the
	// sampling rate, or at a fifth, after the first, which takes 83 s. A pause of the
	// machine of 50 ms makes six samples in a row slow, out of a hundred that may be:
	// where neighbours cause many of these, one round alone is never conclusive.
	experimentLimit = 600 * time.Second
	// splitLimit leaves room for one at a fifth.
	splitLimit = 240 * time.Second
	// The p99 of an exponential of mean 10 ms is 46 ms; nothing can be faster.
	// Waiting at 19 or 47 % load adds next to nothing, a busy machine some.
	leastP99 = 44 * time.Millisecond
)

// lexp is what is read of a LatencyExperiment.
type lexp struct {
	Status struct {
		Observed   string              `json:"observed"`
		Results    []result            `json:"results"`
		Conditions []harness.Condition `json:"conditions"`
	} `json:"status"`
}

// result is one load of the table.
type result struct {
	Start    *int64 `json:"startSeconds"`
	Offered  int64  `json:"offeredRequestsPerSecond"`
	Achieved int64  `json:"achievedRequestsPerSecond"`
	Observed *int64 `json:"observedMicroseconds"`
	Low      *int64 `json:"observedLowMicroseconds"`
	High     *int64 `json:"observedHighMicroseconds"`
	Verdict  string `json:"verdict"`
	Reason   string `json:"reason"`
}

func (l lexp) condition(kind string) harness.Condition {
	for _, c := range l.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return harness.Condition{Type: kind, Status: "Unknown", Reason: "Absent"}
}

// experiment runs a LatencyExperiment to its end, and three that cannot be run.
func (s *Suite) experiment(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("LatencyExperiment: p99 at %d requests/s, two agents", experimentRate), Cost: "2 min, or up to 10 beside busy neighbours",
		Cause: "agents or coordinator do not start: kubectl -n " + Namespace + " get lexp,jobs,pods"},
		func(ctx context.Context) error {
			if err := s.refused(ctx); err != nil {
				return err
			}
			if err := s.Env.Apply(ctx, experimentManifest(experimentName, Service, "", experimentRate, experimentLimit)); err != nil {
				return err
			}
			l, err := s.finished(ctx, experimentName, experimentLimit)
			if err != nil {
				return err
			}
			out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "lexp", experimentName)
			s.Steps.Say("\n$ kubectl -n %s get lexp %s\n%s", Namespace, experimentName, out)
			return errors.Join(err, s.record(l), s.removed(ctx, experimentName))
		})
}

// split runs one whose first agent only measures, at a rate of its own, while the
// other one makes the load.
func (s *Suite) split(ctx context.Context) error {
	const name = "quiet-p99"
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("LatencyExperiment: p99 at %d requests/s, one agent loads, one measures", splitRate), Cost: "40 s, or 4 min beside busy neighbours",
		Cause: "agents or coordinator do not start: kubectl -n " + Namespace + " get lexp,jobs,pods"},
		func(ctx context.Context) error {
			manifest := experimentManifest(name, Service, "", splitRate, splitLimit) + "  latencyAgents: 1\n  latencyRequestsPerSecond: 400\n  arrivalGaps: 300\n"
			if err := s.Env.Apply(ctx, manifest); err != nil {
				return err
			}
			l, err := s.finished(ctx, name, splitLimit)
			if err != nil {
				return err
			}
			out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "lexp", name)
			s.Steps.Say("\n$ kubectl -n %s get lexp %s\n%s", Namespace, name, out)
			for _, r := range l.Status.Results {
				s.Steps.Say("     %s %s", r.Verdict, r.Reason)
			}
			_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "lexp", name, "--wait=true")
			return errors.Join(err, judge(l, splitRate), gone)
		})
}

// experimentManifest gives each agent connections for ten times the requests that
// are under way: with the 16 of the default and 12 under way, arrivals wait for
// connections, and are no longer Poisson's.
func experimentManifest(name, target, workload string, rate int64, limit time.Duration) string {
	return fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: LatencyExperiment
metadata: {name: %s, namespace: %s}
spec:
  target: {targetRef: {name: %s}}
  workload: {connectionsPerAgent: 128, %s}
  load: {requestsPerSecond: %d}
  agents: 2
  percentile: "99"
  widthMicroseconds: %d
  limitSeconds: %d
`, name, Namespace, target, workload, rate, experimentWidth.Microseconds(), int(limit.Seconds()))
}

// refused asserts that what cannot be run is told before any pod is made.
func (s *Suite) refused(ctx context.Context) error {
	for _, c := range []struct{ name, target, workload, reason, word string }{
		{"bad-size", Service, `requestBytes: "enormous"`, "InvalidExperiment", "enormous"},
		{"bad-target", "nobody", "", "TargetNotFound", "nobody"},
	} {
		if err := s.Env.Apply(ctx, experimentManifest(c.name, c.target, c.workload, experimentRate, experimentLimit)); err != nil {
			return err
		}
		err := harness.Until(ctx, 30*time.Second, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			var l lexp
			err := s.Env.Get(ctx, &l, "-n", Namespace, "lexp", c.name)
			a := l.condition("Accepted")
			ok := a.Status == "False" && a.Reason == c.reason && strings.Contains(a.Message, c.word)
			return ok, fmt.Sprintf("lexp %s: Accepted=%s (%s: %s)", c.name, a.Status, a.Reason, a.Message), err
		})
		if err != nil {
			return err
		}
		if jobs, err := s.made(ctx, c.name); err != nil || jobs != "" {
			return errors.Join(err, fmt.Errorf("experiment %s was refused, yet these were made for it: %q", c.name, jobs))
		}
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "lexp", c.name); err != nil {
			return err
		}
	}
	err := s.Env.Apply(ctx, strings.Replace(experimentManifest("bad-percentile", Service, "", experimentRate, experimentLimit), `"99"`, `"100"`, 1))
	if err == nil || !strings.Contains(err.Error(), "percentile") {
		return fmt.Errorf("an experiment about percentile 100 must be refused by the API server, naming the field; got %w", err)
	}
	return nil
}

// finished waits for as long as the experiment may take, and its pods to come and go.
func (s *Suite) finished(ctx context.Context, name string, limit time.Duration) (lexp, error) {
	var l lexp
	err := harness.Until(ctx, limit+2*time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		err := s.Env.Get(ctx, &l, "-n", Namespace, "lexp", name)
		c := l.condition("Ready")
		return c.Status == "True", fmt.Sprintf("lexp %s: Ready=%s (%s: %s)", name, c.Status, c.Reason, c.Message), err
	})
	return l, err
}

func (s *Suite) record(l lexp) error {
	if err := judge(l, experimentRate); err != nil {
		return err
	}
	r := l.Status.Results[0]
	s.Steps.Say("     %s; Conclusive=%s %s", r.Verdict, l.condition("Conclusive").Status, r.Reason)
	s.Got.Set("lexp_conclusive", r.Verdict == "Conclusive")
	s.Got.Set("lexp_achieved_share", float64(r.Achieved)/experimentRate)
	if r.Observed != nil {
		s.Got.Set("lexp_p99_ms", float64(*r.Observed)/1000)
	}
	return nil
}

// statistic is a number with a decimal point, as every check that failed quotes.
var statistic = regexp.MustCompile(`\d+\.\d+|\d+ of \d+|limit`)

// judge holds the table to what is known of the service, and the verdict to its
// own reasons: neighbours may make an experiment inconclusive, never silent.
func judge(l lexp, rate int64) error {
	if len(l.Status.Results) != 1 {
		return fmt.Errorf("the status holds %d results; want 1", len(l.Status.Results))
	}
	r, c := l.Status.Results[0], l.condition("Conclusive")
	if r.Offered != rate || r.Observed == nil || r.Low == nil || *r.Low > *r.Observed || r.High != nil && *r.High < *r.Observed {
		return fmt.Errorf("the table's only line makes no sense: %+v", r)
	}
	if *r.Observed < leastP99.Microseconds() {
		return fmt.Errorf("p99 is %d us; the service alone takes %s", *r.Observed, leastP99)
	}
	return judgeVerdict(l, r, c)
}

// judgeVerdict: a conclusive result is within the width asked for, an inconclusive one names the statistic it failed by.
func judgeVerdict(l lexp, r result, c harness.Condition) error {
	conclusive := c.Status == "True" && r.High != nil && *r.High-*r.Low <= experimentWidth.Microseconds() && l.Status.Observed != ""
	inconclusive := c.Status == "False" && statistic.MatchString(r.Reason) && l.Status.Observed == ""
	if r.Verdict == "Conclusive" && conclusive || r.Verdict == "Inconclusive" && inconclusive {
		return nil
	}
	return fmt.Errorf("verdict %q, but Conclusive=%s, observed %q, reason %q (an inconclusive one names a statistic): %+v",
		r.Verdict, c.Status, l.Status.Observed, r.Reason, r)
}

// made lists what carries an experiment's label.
func (s *Suite) made(ctx context.Context, name string) (string, error) {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "jobs,pods,services,secrets,configmaps,networkpolicies", "-l", "bobtail.dev/experiment="+name, "-o", "name")
	return strings.Join(strings.Fields(out), " "), err
}

// removed deletes the experiment and counts what stays.
func (s *Suite) removed(ctx context.Context, name string) error {
	before, err := s.made(ctx, name)
	if err != nil {
		return err
	}
	if len(strings.Fields(before)) < 5 {
		return fmt.Errorf("only %q carries the label of experiment %s: the search must be wrong", before, name)
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "lexp", name, "--wait=true"); err != nil {
		return err
	}
	var left string
	err = harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		var err error
		left, err = s.made(ctx, name)
		return left == "", left, err
	})
	s.Got.Set("objects_left_after_experiment", len(strings.Fields(left)))
	return err
}
