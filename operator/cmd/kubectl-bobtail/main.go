// SPDX-License-Identifier: Apache-2.0

// Command kubectl-bobtail is `kubectl bobtail`: what services do now, why an
// objective is not met, and how many workers a load needs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/bobtail-dev/bobtail/operator/internal/plugin"
)

// version is set by the build.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := plugin.Command(version, os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		plugin.Say(os.Stderr, err)
		os.Exit(1)
	}
}
