// SPDX-License-Identifier: Apache-2.0

// Command bobtail-cluster runs a real Kubernetes cluster (control plane and
// two or more nodes) in namespaces of one Linux machine, for demos and tests.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bobtail-cluster:", err)
		os.Exit(exitCode(err))
	}
}
