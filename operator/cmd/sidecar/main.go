// SPDX-License-Identifier: Apache-2.0

// Command sidecar hands a dataplane its configuration and shows the operator
// and Prometheus what it does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/bobtail-dev/bobtail/operator/internal/sidecar"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(sidecar.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
