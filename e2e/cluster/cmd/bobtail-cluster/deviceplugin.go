// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bobtail-dev/bobtail/e2e/cluster/deviceplugin"
)

// devicePluginCommand is the hidden subcommand of a pod that is a device plugin.
const devicePluginCommand = "internal-device-plugin"

// devicePlugin hands out devices of a resource until it is told to end.
func devicePlugin(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s RESOURCE ID...: %w", devicePluginCommand, errUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return (&deviceplugin.Plugin{Resource: args[0], IDs: args[1:]}).Serve(ctx)
}
