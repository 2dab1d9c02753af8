// SPDX-License-Identifier: Apache-2.0

// Command bobtail-cluster runs a real Kubernetes cluster (control plane and
// two or more nodes) in namespaces of one Linux machine, for demos and tests.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bobtail-dev/bobtail/e2e/cluster/networks"
	"github.com/bobtail-dev/bobtail/e2e/cluster/sriov"
)

func main() {
	// A container runtime runs it as a CNI plugin, which has a name of its own and no arguments.
	if plugin := map[string]func(){networks.Type: networks.Main, sriov.Type: sriov.Main}[filepath.Base(os.Args[0])]; plugin != nil {
		plugin()
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bobtail-cluster:", err)
		os.Exit(exitCode(err))
	}
}
