// SPDX-License-Identifier: Apache-2.0

// Package lab proves on a real cluster what else is said of objectives: a
// LatencyExperiment measures and leaves nothing behind, an objective below the
// service time is warned of, `kubectl bobtail` names the causes of an overload, and
// admission control spares classes and marks instead of refusing.
package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// The service: 2 replicas of 16 workers that sleep 10 ms (exponential), 3,200
// requests/s at most; marked requests take 2 ms. The objective is p99 <= 100 ms.
const (
	Namespace = "bobtail-lab"
	Service   = "work"
	Objective = "work-p99"

	sleep     = 10 * time.Millisecond
	nominal   = 3200
	overload  = nominal * 3 / 2
	objective = 100 * time.Millisecond
	// settling is the begin of a load that counts for nothing, window what the
	// routers are asked for.
	settling = 8 * time.Second
	window   = 15 * time.Second
	sockets  = 8
	timeout  = 5 * time.Second
)

// Suite is one run on a cluster with the chart.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	// Only names the parts to play; empty: all.
	Only []string
}

func (s *Suite) parts() []harness.Part {
	return []harness.Part{{Name: "experiment", Play: s.experiment}, {Name: "split", Play: s.split}, {Name: "changing", Play: s.changing}, {Name: "traced", Play: s.traced}, {Name: "floor", Play: s.floor}, {Name: "plugin", Play: s.plugin},
		{Name: "hedging", Play: s.hedging}, {Name: "cancels", Play: s.cancels}, {Name: "classes", Play: s.classes}, {Name: "degrade", Play: s.degrade}}
}

// Judge says what is wrong with Only.
func (s *Suite) Judge() error {
	_, err := harness.Choose(s.parts(), s.Only)
	return err
}

// Run plays every part, one after the other; one that fails hides none of the
// others.
func (s *Suite) Run(ctx context.Context) error {
	parts, err := harness.Choose(s.parts(), s.Only)
	if err != nil {
		return err
	}
	if err := s.apply(ctx); err != nil {
		return err
	}
	return errors.Join(harness.PlayAll(ctx, parts), s.clear(ctx))
}

func (s *Suite) apply(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl apply: RpcService " + Service + ", 32 workers that sleep 10 ms; SLO p99 <= 100 ms", Cost: "15 s",
		Cause: "pods of namespace " + Namespace + " do not start: kubectl -n " + Namespace + " describe rpcsvc " + Service},
		func(ctx context.Context) error {
			if err := s.Env.Apply(ctx, manifest(s.Env.Version)); err != nil {
				return err
			}
			return s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True")
		})
}

func manifest(version string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: 2
  workersPerReplica: 16
  server:
    image: localhost/bobtail/serve:%[4]s
    args: ["--service-time=exp:10ms", "--degraded-service-time=exp:2ms", --occupy=sleep]
    resources: {requests: {cpu: 50m, memory: 64Mi}}
  router: {replicas: 2, policy: JBSQ, workerQueueDepth: 2, maxQueueMilliseconds: 1000}
---
apiVersion: bobtail.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: %[3]s, namespace: %[1]s}
spec:
  targetRef: {name: %[2]s}
  percentile: "99"
  latencyMicroseconds: %[5]d
  windowSeconds: 15
`, Namespace, Service, Objective, version, objective.Microseconds())
}

// load offers requests of a class (0: none asked for) until it is finished.
func load(name string, rate, class int, measured time.Duration) harness.Load {
	return harness.Load{Namespace: Namespace, Name: "load-" + name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Priority: class, Duration: measured, Warmup: settling, Timeout: timeout, Sockets: sockets}
}

// clear removes the namespace, so that what follows has the machine for itself.
func (s *Suite) clear(ctx context.Context) error {
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "rpcsvc,slo,lexp", "--all", "--wait=true"); err != nil {
		return err
	}
	_, err := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--wait=true")
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
