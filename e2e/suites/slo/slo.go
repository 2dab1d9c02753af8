// SPDX-License-Identifier: Apache-2.0

// Package slo shows an objective that holds: on a real cluster it measures what
// a service can take within its objective, offers 1.5 times what its workers can
// do, first with nothing enforced, then with spec.enforcement and each of its
// controllers, and judges latency and goodput of what was admitted.
package slo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// The service that is loaded.
const (
	Namespace = "bobtail-slo"
	Service   = "work"
	Objective = "work-p99"
)

// How long each load lasts, and how much of its begin counts for nothing.
const (
	overloadFor = 60 * time.Second
	settling    = 10 * time.Second
	worstOf     = 5 * time.Second
	sockets     = 8
	// timeout of a request; far above the longest wait in a router's queue.
	timeout = 5 * time.Second
)

// Suite is one run.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	// Setup is the service and its objective.
	Setup Setup

	points []point
	rows   []row
	swept  float64 // requests/s within the objective, by the sweep
	guess  estimate
}

// Run plays everything on a running cluster.
func (s *Suite) Run(ctx context.Context) error {
	if err := s.Env.Prepare(ctx, s.Steps, Namespace, Service); err != nil {
		return err
	}
	if err := s.apply(ctx); err != nil {
		return err
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	var err error
	if s.guess, err = s.estimated(ctx); err != nil {
		return err
	}
	// What an overload does is measured of every phase; one that fails hides none of the others.
	err = errors.Join(
		s.overload(ctx, phase{name: "observe", mode: "Observe", duration: 20 * time.Second}),
		s.overload(ctx, phase{name: "track", mode: "Reject", controller: "Track", duration: overloadFor - settling}),
		s.overload(ctx, phase{name: "aiad", mode: "Reject", controller: "AIAD", duration: overloadFor - settling}))
	s.Steps.Say("\n%s", s.table())
	return errors.Join(err, s.record())
}

func (s *Suite) apply(ctx context.Context) error {
	name := fmt.Sprintf("kubectl apply: RpcService %s, %s; SLO %s, p99 <= %s", Service, s.Setup, Objective, s.Setup.latency())
	return s.Steps.Do(ctx, harness.Step{Name: name, Cost: "15 s", Cause: "pods of namespace " + Namespace +
		" do not start, or a sidecar refuses the configuration: kubectl -n " + Namespace + " describe rpcsvc " + Service},
		func(ctx context.Context) error {
			if err := s.Env.Apply(ctx, s.Setup.manifest(s.Env.Version)); err != nil {
				return err
			}
			return s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready", "True")
		})
}

// load offers a rate; what its first part does is not measured.
func (s *Suite) load(name string, rate int, warmup, measured time.Duration) harness.Load {
	return harness.Load{Namespace: Namespace, Name: "load-" + name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: measured, Warmup: warmup, Timeout: timeout, Sockets: sockets}
}
