// SPDX-License-Identifier: Apache-2.0

// Command bobtail-e2e plays the demo against the embedded cluster. The
// Makefile starts it through e2e/run, which builds what it needs first.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/demo"
)

func main() {
	root := flag.String("root", ".", "top of the repository")
	started := flag.Int64("started", time.Now().Unix(), "UNIX time at which the user typed the command")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *root, time.Unix(*started, 0)); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, started time.Time) error {
	steps, err := harness.NewSteps(root, "demo", os.Stdout)
	if err != nil {
		return err
	}
	env, err := harness.NewEnv(ctx, root, steps.Log())
	if err != nil {
		return err
	}
	d := &demo.Demo{Env: env, Steps: steps, Got: &harness.Measurements{}}
	failed := d.Run(ctx)
	d.Got.Set("demo_wall_seconds", time.Since(started).Round(time.Second).Seconds())
	if err := d.Got.Write(root, "demo"); err != nil {
		return err
	}
	return failed
}
