// SPDX-License-Identifier: Apache-2.0

// Command faultpeer is a server and a load generator on the public Go library,
// in the place of bobtail-serve and bobtail-load: the same options as far as
// the fault rounds use them, the same logs and the same report.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	commands := map[string]func(context.Context, []string) error{"serve": serve, "load": runLoad}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "faultpeer: serve or load, then options")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "faultpeer:", err)
		os.Exit(1)
	}
}
