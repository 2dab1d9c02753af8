// SPDX-License-Identifier: Apache-2.0

// Command lancet measures the tail latency of a service and says how far the
// figure may be trusted.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
