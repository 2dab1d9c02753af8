// SPDX-License-Identifier: Apache-2.0

// Package firsthour plays the tutorials from their pages' own blocks: a service of the
// reader's own from a new folder to a measured objective, what it bears, and what to do
// when it is slow. Then a real Prometheus scrapes the cluster (suites/monitor).
package firsthour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/monitor"
)

// The pages, and what the first of them makes.
const (
	ownPage   = "docs/start/your-own-service.md"
	cPage     = "docs/start/your-own-service-in-c.md"
	slowPage  = "docs/start/when-it-is-slow.md"
	bearsPage = "docs/start/load-it-bears.md"

	namespace, service, objective = "default", "shop", "shop-p99"
	folder                        = "build/shop"
)

// Suite is one run.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	Only  []string
}

// parts in their order. Those after `own` need its service.
func (s *Suite) parts() []harness.Part {
	return []harness.Part{
		{Name: "own", Play: s.own},
		{Name: "c", Play: func(ctx context.Context) error { return s.playPage(ctx, cPage) }},
		{Name: "paths", Play: s.paths},
		{Name: "bears", Play: s.bears},
		{Name: "slow", Play: func(ctx context.Context) error { return s.playPage(ctx, slowPage) }},
		{Name: "monitor", Play: s.monitored},
	}
}

// Judge refuses parts that there are not.
func (s *Suite) Judge() error {
	_, err := harness.Choose(s.parts(), s.Only)
	return err
}

// Run plays them on a running cluster.
func (s *Suite) Run(ctx context.Context) error {
	chosen, err := harness.Choose(s.parts(), s.Only)
	if err != nil {
		return err
	}
	s.Env.AddPath(filepath.Join(s.Env.Root, "build", "bin"))
	if err := s.Env.Prepare(ctx, s.Steps, namespace, service); err != nil {
		return err
	}
	return harness.PlayAll(ctx, chosen)
}

// own counts the page's commands and how long they take, from the first to the last.
func (s *Suite) own(ctx context.Context) error {
	blocks, err := ReadPage(filepath.Join(s.Env.Root, ownPage))
	if err != nil {
		return err
	}
	commands := Commands(blocks)
	if err := errors.Join(Judge(commands), os.RemoveAll(filepath.Join(s.Env.Root, folder))); err != nil {
		return err
	}
	s.Got.Set("first_hour_commands", len(commands))
	began := time.Now()
	if err := s.playPage(ctx, ownPage); err != nil {
		return err
	}
	s.Got.Set("first_hour_wall_seconds", time.Since(began).Round(time.Second).Seconds())
	return s.measured(ctx)
}

// measured: the objective was judged by what the routers saw.
func (s *Suite) measured(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the objective has been measured", Cost: "1 s", Cause: "no samples reach the operator: kubectl describe slo " + objective},
		func(ctx context.Context) error {
			return harness.Until(ctx, 30*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
				slo, err := s.Env.Object(ctx, namespace, "slo", objective)
				met := slo.Condition("Met")
				return slo.Status.ObservedMicroseconds != nil && met.Status != "Unknown", fmt.Sprintf("Met=%s (%s: %s)", met.Status, met.Reason, met.Message), err
			})
		})
}

// playPage writes the files that a page has its reader save, and runs its commands.
func (s *Suite) playPage(ctx context.Context, page string) error {
	blocks, err := ReadPage(filepath.Join(s.Env.Root, page))
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if name := b.File(); name != "" {
			path := filepath.Join(s.Env.Root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(b.Body), 0o644)); err != nil {
				return err
			}
		}
		for i, command := range b.Commands() {
			step := harness.Step{Name: command, Cost: "as the page says", Cause: fmt.Sprintf("the page is out of date: %s:%d", page, b.Line+1+i)}
			err := s.Steps.Do(ctx, step, func(ctx context.Context) error {
				_, err := s.Env.Run(ctx, "", "bash", "-c", command)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s:%d: %w", page, b.Line+1, err)
			}
		}
	}
	return nil
}

// paths: from each node to each other.
func (s *Suite) paths(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl bobtail connectivity test", Cost: "30 s", Cause: "a path between nodes is cut, or a pod does not start: the table above"},
		func(ctx context.Context) error {
			out, err := s.Env.Kubectl(ctx, "bobtail", "connectivity", "test", "-o", "json")
			tried, failed, read := count(out)
			if read != nil {
				return errors.Join(err, read)
			}
			s.Got.Set("connectivity_paths_tried", tried)
			s.Got.Set("connectivity_paths_failed", len(failed))
			s.Steps.Say("     %d paths; failed: %q", tried, failed)
			return err
		})
}

// count gives how many paths were tried, and those that failed.
func count(out string) (tried int, failed []string, err error) {
	var answer struct {
		Verdicts []struct{ Subject, Outcome, Says string }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return 0, nil, fmt.Errorf("kubectl bobtail connectivity test -o json: %w", err)
	}
	for _, v := range answer.Verdicts {
		if strings.Contains(v.Says, "answered") {
			tried++
		}
		if v.Outcome == "FAILED" {
			failed = append(failed, v.Subject+": "+v.Says)
		}
	}
	return tried, failed, nil
}

// bears plays the page, then makes room: its last experiment is over.
func (s *Suite) bears(ctx context.Context) error {
	err := s.playPage(ctx, bearsPage)
	_, deleted := s.Env.Kubectl(ctx, "-n", namespace, "delete", "lexp", "--all", "--ignore-not-found", "--wait=true", "--timeout=90s")
	return errors.Join(err, deleted)
}

// monitored removes the service, so that the installation is as fresh as it was.
func (s *Suite) monitored(ctx context.Context) error {
	if err := s.Env.RemoveService(ctx, namespace, service); err != nil {
		return err
	}
	return (&monitor.Suite{Env: s.Env, Steps: s.Steps, Got: s.Got}).Run(ctx)
}
