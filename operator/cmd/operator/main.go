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
	options, err := manager.ParseOptions(os.Args[1:], version)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bobtail-operator:", err)
		os.Exit(2)
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	config, err := ctrl.GetConfig()
	if err == nil {
		err = manager.Run(ctrl.SetupSignalHandler(), config, options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bobtail-operator:", err)
		os.Exit(1)
	}
}
