// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command connectivity is in the pods of `kubectl bobtail connectivity test`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/bobtail-dev/bobtail/operator/internal/connectivity"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(connectivity.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
