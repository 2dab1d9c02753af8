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

	points     []point
	rows       []row
	swept      float64 // requests/s within the objective, by the sweep; 0: no load met it
	cut        error   // why a load that matters was never offered
	guess      estimate
	additional string // in the names of figures; nothing for the setup that was asked for
}

// Run plays everything on a running cluster.
func (s *Suite) Run(ctx context.Context) error {
	if err := s.Env.Prepare(ctx, s.Steps, Namespace, Service); err != nil {
		return err
	}
	all, err := []*Suite{s}, s.whole(ctx)
	for _, service := range s.Setup.instead() {
		why := all[len(all)-1].cannotCarry()
		if err != nil || why == "" {
			break
		}
		s.Steps.Say("\n%s.\nThe whole again with %s, in addition.\n", why, service)
		one := s.again(service)
		if err = s.Env.RemoveService(ctx, Namespace, Service); err == nil {
			err = one.whole(ctx)
		}
		all = append(all, one)
	}
	for _, one := range all {
		s.Steps.Say("\n%s", one.table())
		one.record()
	}
	if text := summary(all); text != "" {
		s.Steps.Say("%s", text)
	}
	if why := s.cannotCarry(); err == nil && why != "" {
		err = errors.New(why)
	}
	return err
}

// whole plays everything with one service time. What an overload does is measured of
// every phase; one that fails hides none of the others.
func (s *Suite) whole(ctx context.Context) error {
	if err := s.apply(ctx); err != nil {
		return err
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	if s.swept == 0 || s.cut != nil {
		return nil // there is nothing to hold an overload against
	}
	var err error
	if s.guess, err = s.estimated(ctx); err != nil {
		return err
	}
	return errors.Join(
		s.overload(ctx, phase{name: "observe", mode: "Observe", duration: 20 * time.Second, tries: 1}),
		s.overload(ctx, phase{name: "track", mode: "Reject", controller: "Track", duration: overloadFor - settling, tries: sweepRounds}),
		s.overload(ctx, phase{name: "aiad", mode: "Reject", controller: "AIAD", duration: overloadFor - settling, tries: 1}))
}

func (s *Suite) apply(ctx context.Context) error {
	name := fmt.Sprintf("kubectl apply: RpcService %s, %s; SLO %s, p99 <= %s", Service, s.Setup, Objective, s.Setup.latency())
	return s.Steps.Do(ctx, harness.Step{Name: name, Cost: "15 s", Cause: "pods of namespace " + Namespace +
		" do not start, or a sidecar refuses the configuration: kubectl -n " + Namespace + " describe rpcsvc " + Service},
		func(ctx context.Context) error {
			if err := s.Env.Apply(ctx, s.Setup.manifest(s.Env.Version)); err != nil {
				return err
			}
			return s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True")
		})
}

// load offers a rate; what its first part does is not measured.
func (s *Suite) load(name string, rate int, warmup, measured time.Duration) harness.Load {
	return harness.Load{Namespace: Namespace, Name: "load-" + name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: measured, Warmup: warmup, Timeout: timeout, Sockets: sockets}
}
