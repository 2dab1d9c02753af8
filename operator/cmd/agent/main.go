// SPDX-License-Identifier: Apache-2.0

// Command agent is CRAB on one node of a cluster (see docs/guides/crab.md); `agent host` tells
// what a node has for devices (docs/guides/devices.md), and `agent frequency` lets idle processors
// run slower (docs/guides/operations.md).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bobtail-dev/bobtail/operator/internal/agent"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/frequency"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/host"
)

// version is set by the build.
var version string

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bobtail-agent:", err)
		if errors.Is(err, agent.ErrUsage) || errors.Is(err, host.ErrUsage) || errors.Is(err, frequency.ErrUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "remove" {
		return agent.Remove(args[1:])
	}
	if len(args) > 0 && args[0] == "host" {
		options, err := host.ParseOptions(args[1:])
		return start(err, options.LogLevel, func(ctx context.Context, config *rest.Config) error { return host.Run(ctx, config, options) })
	}
	if len(args) > 0 && args[0] == "frequency" {
		options, err := frequency.ParseOptions(args[1:])
		if err != nil {
			return err
		}
		log(options.LogLevel)
		return frequency.Run(ctrl.SetupSignalHandler(), options)
	}
	options, err := agent.ParseOptions(args, version)
	return start(err, options.LogLevel, func(ctx context.Context, config *rest.Config) error { return agent.Run(ctx, config, options) })
}

func start(usage error, level slog.Level, what func(context.Context, *rest.Config) error) error {
	if usage != nil {
		return usage
	}
	log(level)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	return what(ctrl.SetupSignalHandler(), config)
}

func log(level slog.Level) {
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	slog.SetDefault(slog.New(handler))
	ctrl.SetLogger(logr.FromSlogHandler(handler))
}
