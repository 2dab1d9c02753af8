// SPDX-License-Identifier: Apache-2.0

// Package demo is the main job as a stranger sees it: apply an RpcService and an
// SLO on a real cluster, offer light load, 1.5 times the capacity, light load
// again, and read what kubectl shows in each phase.
package demo

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// The service of examples/demo.yaml: 2 replicas x 8 workers that sleep 20 ms
// (exponential) a request, which makes 800 requests/s; SLO p99 <= 200 ms over 20 s.
const (
	Namespace = "bobtail-demo"
	Service   = "echo"
	SLO       = "echo-p99"
	Capacity  = 800
	Window    = 20 * time.Second

	lightRate    = Capacity * 2 / 5
	overloadRate = Capacity * 3 / 2
)

// Demo is one run.
type Demo struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
}

// Run plays the whole demo on a running cluster.
func (d *Demo) Run(ctx context.Context) error {
	if err := d.install(ctx); err != nil {
		return err
	}
	if err := d.light(ctx); err != nil {
		return err
	}
	if err := d.overload(ctx); err != nil {
		return err
	}
	if err := d.recover(ctx); err != nil {
		return err
	}
	d.explain()
	return nil
}

func (d *Demo) install(ctx context.Context) error {
	if err := d.Env.Prepare(ctx, d.Steps, Namespace, Service); err != nil {
		return err
	}
	return d.Steps.Do(ctx, harness.Step{Name: "kubectl apply -f examples/demo.yaml (RpcService " + Service + ", SLO " + SLO + ")", Cost: "10 s",
		Cause: "pods of namespace " + Namespace + " do not start, or a sidecar refuses the configuration: kubectl describe rpcsvc " + Service},
		func(ctx context.Context) error {
			took, err := d.Env.ApplyService(ctx, filepath.Join(d.Env.Root, "examples", "demo.yaml"), Namespace, Service)
			if err == nil {
				d.Got.Set("apply_to_programmed_seconds", took.Round(10*time.Millisecond).Seconds())
			}
			return err
		})
}

// load is one phase's Job; the phase ends it.
func load(name string, rate int, duration time.Duration) harness.Load {
	return harness.Load{Namespace: Namespace, Name: name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: duration, Warmup: 2 * time.Second, Timeout: 2 * time.Second, Sockets: 4}
}

// lightTries is how often the light load is offered: one pause of the machine of a quarter of a second is more than 1 % of
// a window, so a window that misses the objective says less about the service than the next one that does too.
const lightTries = 3

func (d *Demo) light(ctx context.Context) error {
	step := harness.Step{Name: fmt.Sprintf("light load: %d requests/s, 40 %% of the capacity", lightRate), Cost: "40 s",
		Cause: "the machine was too busy to answer within the objective, or no samples reach the operator: kubectl describe slo " + SLO}
	return d.Steps.Do(ctx, step, func(ctx context.Context) error {
		var err error
		for try := 1; try <= lightTries; try++ {
			if err = d.offerLight(ctx); err == nil || ctx.Err() != nil {
				return err
			}
			d.Steps.Say("     try %d of %d: %v", try, lightTries, err)
		}
		return err
	})
}

// offerLight plays the phase once.
func (d *Demo) offerLight(ctx context.Context) error {
	job := load("load-light", lightRate, Window+10*time.Second)
	if err := d.Env.StartLoad(ctx, job); err != nil {
		return err
	}
	observed, err := d.watchLight(ctx, job)
	if err != nil {
		return err
	}
	result, err := d.Env.FinishLoad(ctx, job)
	if err != nil {
		return err
	}
	d.Got.Set("slo_observed_p99_us_light", observed)
	client := result.Percentile("99")
	if math.IsInf(client, 1) {
		return fmt.Errorf("more than 1 %% of the light load was not answered: %+v", result)
	}
	d.Got.Set("client_p99_us_light", client)
	d.Got.Set("slo_observed_over_client_p99", float64(observed)/client)
	d.Got.Set("rpcs_failed_light", result.Failed())
	return nil
}

// watchLight waits until a whole window lies inside the phase, then reads the
// SLO while the load still runs.
func (d *Demo) watchLight(ctx context.Context, job harness.Load) (int64, error) {
	if err := sleep(ctx, job.Warmup+Window+5*time.Second); err != nil {
		return 0, err
	}
	slo, err := d.waitMet(ctx, "True", 15*time.Second)
	d.Got.Set("slo_met_light", err == nil)
	d.show(ctx)
	if err != nil {
		return 0, err
	}
	if slo.Status.ObservedMicroseconds == nil {
		return 0, fmt.Errorf("slo %s is Met but shows no observed latency", SLO)
	}
	return *slo.Status.ObservedMicroseconds, nil
}

func (d *Demo) overload(ctx context.Context) error {
	job := load("load-overload", overloadRate, Window+10*time.Second)
	step := harness.Step{Name: fmt.Sprintf("overload: %d requests/s, 1.5 times the capacity", overloadRate), Cost: "40 s",
		Cause: "the load job could not offer its rate: kubectl -n " + Namespace + " logs job/load-overload"}
	return d.Steps.Do(ctx, step, func(ctx context.Context) error {
		if err := d.Env.StartLoad(ctx, job); err != nil {
			return err
		}
		if err := sleep(ctx, job.Warmup+Window+2*time.Second); err != nil {
			return err
		}
		_, err := d.waitMet(ctx, "False", 10*time.Second)
		d.Got.Set("slo_met_overload", err != nil)
		d.show(ctx)
		if err != nil {
			return err
		}
		result, err := d.Env.FinishLoad(ctx, job)
		if err == nil {
			d.Got.Set("rpcs_rejected_overload", result.Dropped)
			d.Got.Set("client_p99_us_overload", fmt.Sprintf("%.0f", result.Percentile("99")))
		}
		return err
	})
}

func (d *Demo) recover(ctx context.Context) error {
	job := load("load-light-again", lightRate, 2*Window)
	step := harness.Step{Name: "light load again: the objective must be met without anybody's help", Cost: "40 s",
		Cause: "a backlog that does not drain: kubectl describe slo " + SLO}
	return d.Steps.Do(ctx, step, func(ctx context.Context) error {
		ended := time.Now()
		if err := d.Env.StartLoad(ctx, job); err != nil {
			return err
		}
		_, err := d.waitMet(ctx, "True", Window+30*time.Second)
		d.Got.Set("slo_recovered_seconds", time.Since(ended).Round(100*time.Millisecond).Seconds())
		d.show(ctx)
		if stop := d.Env.StopLoad(ctx, job); err == nil {
			err = stop
		}
		return err
	})
}

// waitMet waits until the SLO's condition Met has that status.
func (d *Demo) waitMet(ctx context.Context, status string, limit time.Duration) (harness.Object, error) {
	var slo harness.Object
	err := harness.Until(ctx, limit, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		var err error
		slo, err = d.Env.Object(ctx, Namespace, "slo", SLO)
		met := slo.Condition("Met")
		return met.Status == status, fmt.Sprintf("slo/%s: Met=%s (%s: %s)", SLO, met.Status, met.Reason, met.Message), err
	})
	return slo, err
}

// show prints what a user would see now.
func (d *Demo) show(ctx context.Context) {
	out, err := d.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc,slo")
	if err != nil {
		d.Steps.Say("     kubectl get rpcsvc,slo: %v", err)
		return
	}
	d.Steps.Say("\n$ kubectl -n %s get rpcsvc,slo\n%s", Namespace, out)
}

func (d *Demo) explain() {
	d.Steps.Say(`What happened
  examples/demo.yaml asked for 2 replicas x 8 workers behind two JBSQ(2) routers; each worker sleeps 20 ms
  (exponential) a request, so 16 workers serve %d requests/s. A Job sent an open-loop Poisson stream through the
  routers. OBSERVED is the p99 of the routers' own histograms (REQ0 to FEEDBACK) merged over the last %s.
  At 40 %% load requests hardly wait. At 150 %% the routers' central queues fill; requests that would wait longer than
  400 ms get DROP (REJECTED), the rest wait, and the objective of 200 ms is missed. Light load again, and the
  window forgets the overload.
Look further
  eval "$(build/bin/bobtail-cluster env)"        # KUBECONFIG and PATH of the embedded cluster
  kubectl -n %s describe rpcsvc %s              # conditions, routers, workers
  kubectl -n %s describe slo %s             # samples, source, share rejected
  make demo-down                                 # remove everything and prove that nothing is left`,
		Capacity, Window, Namespace, Service, Namespace, SLO)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
