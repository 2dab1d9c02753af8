// SPDX-License-Identifier: Apache-2.0

// bobtail-redirect runs CRAB on a host without Kubernetes, from a file, and shows
// what any node's redirect state holds.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/command"
)

func main() {
	if err := command.New().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bobtail-redirect:", err)
		os.Exit(1)
	}
}
