// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/cores"
	"github.com/bobtail-dev/bobtail/e2e/suites/crab"
	"github.com/bobtail-dev/bobtail/e2e/suites/demo"
	"github.com/bobtail-dev/bobtail/e2e/suites/devices"
	"github.com/bobtail-dev/bobtail/e2e/suites/firsthour"
	"github.com/bobtail-dev/bobtail/e2e/suites/groups"
	"github.com/bobtail-dev/bobtail/e2e/suites/lab"
	"github.com/bobtail-dev/bobtail/e2e/suites/monitor"
	"github.com/bobtail-dev/bobtail/e2e/suites/onswitch"
	"github.com/bobtail-dev/bobtail/e2e/suites/slo"
	"github.com/bobtail-dev/bobtail/e2e/suites/sriovpod"
)

// stage is what a play is given.
type stage struct {
	env     *harness.Env
	steps   *harness.Steps
	got     *harness.Measurements
	only    []string
	options options
}

// play is one row of what can be played.
type play struct {
	name  string
	judge func(only []string) error // refuses parts that it does not have; nil where it has none
	run   func(context.Context, stage) error
}

// plays are what can be played: a new suite adds a row.
var plays = []play{
	{name: "demo", run: playDemo},
	{name: "e2e-lab", judge: func(only []string) error { return (&lab.Suite{Only: only}).Judge() }, run: playLab},
	{name: "e2e-slo", run: func(ctx context.Context, s stage) error {
		return (&slo.Suite{Env: s.env, Steps: s.steps, Got: s.got, Setup: s.options.setup}).Run(ctx)
	}},
	{name: "e2e-crab-cluster", judge: func(only []string) error { return (&crab.Suite{Only: only}).Judge() },
		run: func(ctx context.Context, s stage) error {
			return (&crab.Suite{Env: s.env, Steps: s.steps, Got: s.got, Only: s.only}).Run(ctx)
		}},
	{name: "e2e-monitor", run: func(ctx context.Context, s stage) error {
		return (&monitor.Suite{Env: s.env, Steps: s.steps, Got: s.got}).Run(ctx)
	}},
	{name: "e2e-devices", judge: func(only []string) error { return (&devices.Suite{Only: only}).Judge() },
		run: func(ctx context.Context, s stage) error {
			return (&devices.Suite{Env: s.env, Steps: s.steps, Got: s.got, Only: s.only}).Run(ctx)
		}},
	{name: "e2e-sched", judge: func(only []string) error { return (&cores.Suite{Only: only}).Judge() },
		run: func(ctx context.Context, s stage) error {
			return (&cores.Suite{Env: s.env, Steps: s.steps, Got: s.got, Only: s.only}).Run(ctx)
		}},
	{name: "e2e-sriov-pod", run: playFunctions(false)},
	{name: "e2e-sriov-pod-short", run: playFunctions(true)},
	{name: "e2e-switch", judge: func(only []string) error { return (&onswitch.Suite{Only: only}).Judge() },
		run: func(ctx context.Context, s stage) error {
			return (&onswitch.Suite{Env: s.env, Steps: s.steps, Got: s.got, Only: s.only}).Run(ctx)
		}},
	{name: "e2e-first-hour", judge: func(only []string) error { return (&firsthour.Suite{Only: only}).Judge() },
		run: func(ctx context.Context, s stage) error {
			return (&firsthour.Suite{Env: s.env, Steps: s.steps, Got: s.got, Only: s.only}).Run(ctx)
		}},
	{name: "e2e-replica-cluster", judge: func(only []string) error { return (&groups.Suite{Only: only}).Judge() },
		run: func(ctx context.Context, s stage) error {
			return (&groups.Suite{Env: s.env, Steps: s.steps, Got: s.got, Only: s.only}).Run(ctx)
		}},
}

func playDemo(ctx context.Context, s stage) error {
	defer func() {
		s.got.Set("demo_wall_seconds", time.Since(s.options.started).Round(time.Second).Seconds())
	}()
	if err := s.env.UseRelease(filepath.Join(s.options.root, "build", "dist")); err != nil {
		return err
	}
	return (&demo.Demo{Env: s.env, Steps: s.steps, Got: s.got}).Run(ctx)
}

func playLab(ctx context.Context, s stage) error {
	if err := s.env.Prepare(ctx, s.steps, lab.Namespace, lab.Service, lab.Tracing); err != nil {
		return err
	}
	return (&lab.Suite{Env: s.env, Steps: s.steps, Got: s.got, Only: s.only}).Run(ctx)
}

func playFunctions(short bool) func(context.Context, stage) error {
	return func(ctx context.Context, s stage) error {
		return (&sriovpod.Suite{Env: s.env, Steps: s.steps, Got: s.got, Short: short, Started: s.options.started}).Run(ctx)
	}
}

func find(name string) (play, bool) {
	at := slices.IndexFunc(plays, func(p play) bool { return p.name == name })
	if at < 0 {
		return play{}, false
	}
	return plays[at], true
}

// inParts says whether --only means anything to it.
func (p play) inParts() bool { return p.judge != nil }

// judgeParts refuses parts that what is played does not have.
func (p play) judgeParts(only []string) error {
	if p.inParts() {
		return p.judge(only)
	}
	if len(only) > 0 {
		return fmt.Errorf("--only is for %s; %s has no parts", names(play.inParts), p.name)
	}
	return nil
}

// names of the plays that are meant, with commas between them.
func names(meant func(play) bool) string {
	var out []string
	for _, p := range plays {
		if meant(p) {
			out = append(out, p.name)
		}
	}
	return strings.Join(out, ", ")
}
