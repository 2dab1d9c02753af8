// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

func (s *Suite) apply(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl apply: two services, one of them slow, and an objective for each", Cost: "20 s",
		Cause: "pods of namespace " + Namespace + " do not start"}, func(ctx context.Context) error {
		if err := s.Env.Apply(ctx, s.manifest()); err != nil {
			return err
		}
		for _, name := range []string{fast, slow} {
			if err := s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcservices.bobtail.dev", name, "Ready=True"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Suite) manifest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", Namespace)
	for name, took := range map[string]time.Duration{fast: time.Millisecond, slow: slowTime} {
		fmt.Fprintf(&b, `---
apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: 2
  workersPerReplica: 8
  server:
    image: localhost/bobtail/serve:%[3]s
    args: ["--service-time=fixed:%[4]s", --occupy=sleep]
    resources: {requests: {cpu: 50m, memory: 64Mi}}
---
apiVersion: bobtail.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: %[1]s-p99, namespace: %[2]s}
spec:
  targetRef: {name: %[1]s}
  percentile: "99"
  latencyMicroseconds: 500000
  windowSeconds: 15
`, name, Namespace, s.Env.Version, took)
	}
	return b.String()
}

// scraped: each pod of operator, agents, routers and servers is a target that answers.
func (s *Suite) scraped(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "every pod with metrics is scraped", Cost: "10 s",
		Cause: "a pod lacks a label that the documented configuration asks for: kubectl get pods -A --show-labels"}, func(ctx context.Context) error {
		lacking, err := s.allUp(ctx, 12) // 2 operators, 2 agents, and 2 routers and 2 servers of each service
		s.Got.Set("scrape_targets_missing", len(lacking))
		return err
	})
}

// load is offered to both services at once; what was measured of it stays in Prometheus.
func (s *Suite) load(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d requests/s to each service", rate), Cost: "60 s",
		Cause: "the load's pods do not run: kubectl -n " + Namespace + " get pods"}, func(ctx context.Context) error {
		for _, name := range []string{fast, slow} {
			if err := s.Env.StartLoad(ctx, offered(name)); err != nil {
				return err
			}
		}
		want := fmt.Sprintf(`count by (service) (rate(bobtail_latency_seconds_count{namespace=%q, source="Router"}[30s]) > %d)`, Namespace, rate/10)
		return harness.Until(ctx, 2*time.Minute, 2*time.Second, func(ctx context.Context) (bool, string, error) {
			busy, err := s.prom.Query(ctx, want)
			ready, objectives := s.prom.Query(ctx, fmt.Sprintf(`bobtail_slo_observed_seconds{namespace=%q} > 0`, Namespace))
			return len(busy) == 2 && len(ready) == 2, fmt.Sprintf("%d services busy, %d objectives measured", len(busy), len(ready)), errors.Join(err, objectives)
		})
	})
}

func offered(name string) harness.Load {
	return harness.Load{Namespace: Namespace, Name: "load-" + name, Target: name + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: 5 * time.Minute, Warmup: 2 * time.Second, Timeout: 2 * time.Second, Sockets: 4}
}

// documented: the page's own queries keep the two services apart, and no answer of the
// slow one is faster than its sleep.
func (s *Suite) documented(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("the %d queries of %s, service by service", len(s.page.Queries), s.page.Path), Cost: "5 s",
		Cause: "series of two services are merged: a label is lost on the way"}, func(ctx context.Context) error {
		if len(s.page.Queries) == 0 {
			return errors.New("the page shows no query")
		}
		var errs []error
		for _, q := range s.page.Queries {
			got, err := s.prom.Query(ctx, q)
			seen := map[string]bool{}
			for _, sample := range got {
				seen[sample.Labels["service"]] = sample.Labels["namespace"] == Namespace
			}
			if err == nil && (!seen[fast] || !seen[slow]) {
				err = fmt.Errorf("%s: not both services are told apart: %v", q, got)
			}
			errs = append(errs, err)
		}
		got, err := s.prom.Query(ctx, fmt.Sprintf(`histogram_quantile(0.01, sum by (namespace, service, le) (rate(bobtail_latency_seconds_bucket{namespace=%q, source="Router"}[1m])))`, Namespace))
		for _, sample := range got {
			// Bounds lie within a factor of 1.5 of each other.
			if isSlow := sample.Value > slowTime.Seconds()/1.5; isSlow != (sample.Labels["service"] == slow) {
				errs = append(errs, fmt.Errorf("1 %% of %s is within %g s: services are mixed", sample.Labels["service"], sample.Value))
			}
		}
		return errors.Join(append(errs, err)...)
	})
}

// panels: each query of the dashboard finds something.
func (s *Suite) panels(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "every query of the dashboard finds series", Cost: "10 s",
		Cause: "a metric or a label of the query is not what is exposed"}, func(ctx context.Context) error {
		queries, err := PanelQueries(filepath.Join(s.Env.Root, "charts", "bobtail", "files", "dashboard.json"))
		if err != nil {
			return err
		}
		var errs []error
		for _, q := range queries {
			got, err := s.prom.Query(ctx, q.Expr)
			if err == nil && len(got) == 0 {
				err = errors.New("is empty")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("panel %s: %s: %w", q.Panel, q.Expr, err))
			}
		}
		s.Got.Set("dashboard_queries_empty", len(errs))
		s.Steps.Say("     %d queries", len(queries))
		return errors.Join(errs...)
	})
}

// labels: no series of a router or server lacks the names of its service.
func (s *Suite) labels(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "every series of the dataplane names its service", Cost: "5 s",
		Cause: "a series was added without them"}, func(ctx context.Context) error {
		of := fmt.Sprintf(`namespace=%q, pod!="", __name__=~"bobtail_.*", __name__!~"bobtail_slo_.*"`, Namespace)
		all, err := s.prom.Query(ctx, "count({"+of+"})")
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return errors.New("no series of the dataplane")
		}
		bad, err := s.prom.Query(ctx, "count by (__name__) ({"+of+`, service=""})`)
		if err != nil {
			return err
		}
		for _, b := range bad {
			err = errors.Join(err, fmt.Errorf("%g series %s name no service", b.Value, b.Labels["__name__"]))
		}
		s.Steps.Say("     %g series", all[0].Value)
		return err
	})
}
