// SPDX-License-Identifier: Apache-2.0

// Command operator makes RpcServices real and measures ServiceLevelObjectives.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/manager"
)

// version is set by the build.
var version string

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bobtail-operator:", err)
		if errors.Is(err, manager.ErrUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	check := len(args) > 0 && args[0] == "check"
	var options manager.Options
	if !check {
		var err error
		if options, err = manager.ParseOptions(args, version); err != nil {
			return err
		}
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: options.LogLevel})))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if check {
		return manager.Check(ctrl.SetupSignalHandler(), config, args[1:])
	}
	manager.KeepWithin()
	return manager.Run(ctrl.SetupSignalHandler(), config, options)
}
