// SPDX-License-Identifier: Apache-2.0

// Command bobtail-e2e plays the demo, or one of the suites, against the
// embedded cluster. The Makefile starts it through e2e/run, which builds what
// it needs first. What can be played stands in plays.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/slo"
)

// options of the command line.
type options struct {
	root, play string
	only       string
	started    time.Time
	setup      slo.Setup
}

func main() {
	o := options{}
	flag.StringVar(&o.root, "root", ".", "top of the repository")
	flag.StringVar(&o.play, "play", "demo", "what is played: "+names(func(play) bool { return true }))
	flag.StringVar(&o.only, "only", "", names(play.inParts)+": the parts to play, with commas between them; all when empty")
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
	played, found := find(o.play)
	if !found {
		return fmt.Errorf("--play must be one of %s; got %q", names(func(play) bool { return true }), o.play)
	}
	only := strings.FieldsFunc(o.only, func(c rune) bool { return c == ',' })
	if err := errors.Join(o.setup.Judge(), played.judgeParts(only)); err != nil {
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
	failed := played.run(ctx, stage{env: env, steps: steps, got: got, only: only, options: o})
	if err := got.Write(o.root, o.play); err != nil {
		return err
	}
	return failed
}
