// SPDX-License-Identifier: Apache-2.0

// Package controlplane gives tests an API server and an etcd of their own.
package controlplane

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is how long each step of its start may take: on a busy machine it takes
// minutes, and a test waits for what happens and not for a time.
const patience = 5 * time.Minute

// At is a control plane of the programs in that folder, with the kinds in those files or
// folders. It is not started yet.
func At(assets string, crds ...string) *envtest.Environment {
	return &envtest.Environment{
		BinaryAssetsDirectory: assets, CRDDirectoryPaths: crds, ErrorIfCRDPathMissing: true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: time.Minute,
	}
}
