// SPDX-License-Identifier: Apache-2.0

// Command agent is CRAB on one node of a cluster (see docs/guides/crab.md).
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bobtail-dev/bobtail/operator/internal/agent"
)

// version is set by the build.
var version string

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bobtail-agent:", err)
		if errors.Is(err, agent.ErrUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "remove" {
		return agent.Remove(args[1:])
	}
	options, err := agent.ParseOptions(args, version)
	if err != nil {
		return err
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: options.LogLevel})
	slog.SetDefault(slog.New(handler))
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	return agent.Run(ctrl.SetupSignalHandler(), config, options)
}
