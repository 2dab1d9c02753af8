// SPDX-License-Identifier: Apache-2.0

// Package monitor scrapes the pods of a real cluster with a real Prometheus, by the
// configuration that the documentation shows, and asks it every query of the
// documentation and of the dashboard (K-21, K-23, K-31).
package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Namespace of the two services, of which one is slower than the other: what mixes
// them up cannot show both times.
const (
	Namespace = "bobtail-monitor"
	fast      = "fast"
	slow      = "slow"
	slowTime  = 40 * time.Millisecond
	rate      = 100 // requests/s to each
)

// Suite is one run.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements

	page *Page
	prom *Prometheus
}

// Run plays all of it on a running cluster.
func (s *Suite) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "bobtail-prometheus")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if s.page, err = FindPage(filepath.Join(s.Env.Root, "docs")); err != nil {
		return err
	}
	if err := s.prepare(ctx, dir); err != nil {
		return errors.Join(err, s.stop())
	}
	err = s.fresh(ctx)
	if applied := s.apply(ctx); applied != nil {
		return errors.Join(err, applied, s.stop())
	}
	for _, part := range []func(context.Context) error{s.scraped, s.load, s.documented, s.panels, s.labels} {
		err = errors.Join(err, part(ctx))
	}
	return errors.Join(err, s.stop(), s.clear(ctx))
}

func (s *Suite) stop() error {
	if s.prom == nil {
		return nil
	}
	return s.prom.Stop()
}

func (s *Suite) prepare(ctx context.Context, dir string) error {
	for _, one := range []struct {
		harness.Step
		do func(context.Context) error
	}{
		{harness.Step{Name: "images of all components into the nodes", Cost: "15 s", Cause: "`make images` did not finish"}, s.images},
		{harness.Step{Name: "helm upgrade --install bobtail with CRAB, and no service", Cost: "30 s",
			Cause: "operator or agents do not become ready: kubectl -n " + harness.SystemNamespace + " get pods,events"},
			func(ctx context.Context) error {
				_, err := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--ignore-not-found", "--wait=true")
				return errors.Join(err, s.Env.Install(ctx, "--set", "crab.enabled=true", "--set", "crab.vipPool={10.99.0.240/28}"))
			}},
		{harness.Step{Name: "prometheus, by the configuration of " + s.page.Path, Cost: "5 s", Cause: "it ended: build/log/prometheus.log"},
			func(ctx context.Context) error { return s.start(ctx, dir) }},
	} {
		if err := s.Steps.Do(ctx, one.Step, one.do); err != nil {
			return err
		}
	}
	return nil
}

func (s *Suite) images(ctx context.Context) error {
	if err := s.Env.LoadImages(ctx); err != nil {
		return err
	}
	_, err := s.Env.Cluster(ctx, "load-image", filepath.Join(s.Env.Root, "build", "images", "agent.tar"))
	return err
}

// start lets the targets be found from here, as the user's kubeconfig has it, and
// Prometheus read them from the cluster's network.
func (s *Suite) start(ctx context.Context, dir string) error {
	raw, err := s.Env.Kubectl(ctx, "config", "view", "--raw", "--flatten", "--minify")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(raw), 0o600); err != nil {
		return err
	}
	files := filepath.Join(s.Env.Root, "charts", "bobtail", "files")
	scrape, discovery, err := s.page.Configs(kubeconfig, filepath.Join(dir, targetsFile),
		[]string{filepath.Join(files, "alerts.yaml"), filepath.Join(files, "recording-rules.yaml")})
	if err != nil {
		return err
	}
	s.prom, err = Start(ctx, s.Env, dir, scrape, discovery)
	return err
}

// allUp waits until every pod with metrics is a target that answers.
func (s *Suite) allUp(ctx context.Context, least int) (lacking []string, err error) {
	err = harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		want, err := scrapedPods(ctx, s.Env)
		if err != nil {
			return false, "", err
		}
		up, err := s.prom.Query(ctx, "up")
		if err != nil {
			return false, "", err
		}
		var wrong []string
		lacking, wrong = missing(want, up)
		return len(want) >= least && len(lacking)+len(wrong) == 0,
			fmt.Sprintf("%d pods with metrics; not scraped: %s; wrong: %s", len(want), list(lacking), list(wrong)), nil
	})
	return lacking, err
}

// fresh: nothing is used yet, and no alert fires or waits for its time.
func (s *Suite) fresh(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "operator and agents are scraped, and no alert is on its way", Cost: "30 s",
		Cause: "an alert takes a quiet operator for an absent one"}, func(ctx context.Context) error {
		if _, err := s.allUp(ctx, 4); err != nil {
			return err
		}
		// What was absent before the first scrape is let go at the next evaluation.
		err := harness.Until(ctx, 30*time.Second, time.Second, func(ctx context.Context) (bool, string, error) { return s.noAlerts(ctx) })
		for range 5 {
			time.Sleep(2 * time.Second)
			if err == nil {
				var why string
				if _, why, err = s.noAlerts(ctx); err == nil && why != "" {
					err = errors.New(why)
				}
			}
		}
		all, query := s.prom.Query(ctx, "ALERTS")
		if query == nil {
			s.Got.Set("alerts_firing_fresh", len(all))
		}
		return errors.Join(err, query)
	})
}

func (s *Suite) noAlerts(ctx context.Context) (bool, string, error) {
	all, err := s.prom.Query(ctx, "ALERTS")
	var names []string
	for _, a := range all {
		names = append(names, a.Labels["alertname"]+" "+a.Labels["alertstate"])
	}
	return err == nil && len(all) == 0, list(names), err
}

// clear leaves the cluster without services and CRAB.
func (s *Suite) clear(ctx context.Context) error {
	if _, err := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--timeout=90s"); err != nil {
		return err
	}
	return s.Env.Install(ctx, "--set", "crab.enabled=false")
}
