// SPDX-License-Identifier: Apache-2.0

// Command bobtail-e2e plays the demo, or the overload with enforcement, against
// the embedded cluster. The Makefile starts it through e2e/run, which builds
// what it needs first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/crab"
	"github.com/bobtail-dev/bobtail/e2e/suites/demo"
	"github.com/bobtail-dev/bobtail/e2e/suites/devices"
	"github.com/bobtail-dev/bobtail/e2e/suites/groups"
	"github.com/bobtail-dev/bobtail/e2e/suites/lab"
	"github.com/bobtail-dev/bobtail/e2e/suites/monitor"
	"github.com/bobtail-dev/bobtail/e2e/suites/slo"
)

// options of the command line.
type options struct {
	root, play string
	only       string
	started    time.Time
	setup      slo.Setup
}

// plays are what can be played.
var plays = []string{"demo", "e2e-lab", "e2e-slo", "e2e-crab-cluster", "e2e-monitor", "e2e-devices", "e2e-replica-cluster"}

func main() {
	o := options{}
	flag.StringVar(&o.root, "root", ".", "top of the repository")
	flag.StringVar(&o.play, "play", "demo", "what is played: "+strings.Join(plays, ", "))
	flag.StringVar(&o.only, "only", "", "e2e-lab, e2e-crab-cluster, e2e-replica-cluster: the parts to play, with commas between them; all when empty")
	started := flag.Int64("started", time.Now().Unix(), "UNIX time at which the user typed the command")
	flag.IntVar(&o.setup.Replicas, "replicas", 4, "e2e-slo: server pods")
	flag.IntVar(&o.setup.Workers, "workers", 16, "e2e-slo: workers in each of them")
	flag.DurationVar(&o.setup.Service, "service", 5*time.Millisecond, "e2e-slo: mean time a worker sleeps for a request; the objective is 10 times that")
	flag.Parse()
	o.started = time.Unix(*started, 0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", o.play, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if !slices.Contains(plays, o.play) {
		return fmt.Errorf("--play must be one of %s; got %q", strings.Join(plays, ", "), o.play)
	}
	only := strings.FieldsFunc(o.only, func(c rune) bool { return c == ',' })
	if err := errors.Join(o.setup.Judge(), judge(o.play, only)); err != nil {
		return err
	}
	steps, err := harness.NewSteps(o.root, o.play, os.Stdout)
	if err != nil {
		return err
	}
	env, err := harness.NewEnv(ctx, o.root, steps.Log())
	if err != nil {
		return err
	}
	got := &harness.Measurements{}
	var failed error
	switch o.play {
	case "demo":
		failed = (&demo.Demo{Env: env, Steps: steps, Got: got}).Run(ctx)
		got.Set("demo_wall_seconds", time.Since(o.started).Round(time.Second).Seconds())
	case "e2e-lab":
		if failed = env.Prepare(ctx, steps, lab.Namespace, lab.Service, lab.Tracing); failed == nil {
			failed = (&lab.Suite{Env: env, Steps: steps, Got: got, Only: only}).Run(ctx)
		}
	case "e2e-crab-cluster":
		failed = (&crab.Suite{Env: env, Steps: steps, Got: got, Only: only}).Run(ctx)
	case "e2e-devices":
		failed = (&devices.Suite{Env: env, Steps: steps, Got: got}).Run(ctx)
	case "e2e-replica-cluster":
		failed = (&groups.Suite{Env: env, Steps: steps, Got: got, Only: only}).Run(ctx)
	case "e2e-monitor":
		failed = (&monitor.Suite{Env: env, Steps: steps, Got: got}).Run(ctx)
	default:
		failed = (&slo.Suite{Env: env, Steps: steps, Got: got, Setup: o.setup}).Run(ctx)
	}
	if err := got.Write(o.root, o.play); err != nil {
		return err
	}
	return failed
}

// judge refuses parts that what is played does not have.
func judge(play string, only []string) error {
	switch {
	case play == "e2e-crab-cluster":
		return (&crab.Suite{Only: only}).Judge()
	case play == "e2e-replica-cluster":
		return (&groups.Suite{Only: only}).Judge()
	case play == "e2e-lab":
		return (&lab.Suite{Only: only}).Judge()
	case len(only) > 0:
		return fmt.Errorf("--only is for e2e-lab, e2e-crab-cluster and e2e-replica-cluster; %s has no parts", play)
	}
	return nil
}
