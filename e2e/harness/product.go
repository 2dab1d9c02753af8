// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"path/filepath"
	"time"
)

// SystemNamespace is where the chart is installed.
const SystemNamespace = "bobtail-system"

// Components are the images that the demo loads into the nodes.
var Components = []string{"operator", "sidecar", "router", "serve", "load"}

// LoadImages imports the locally built image archives into every node.
func (e *Env) LoadImages(ctx context.Context) error {
	args := []string{"load-image"}
	for _, c := range Components {
		args = append(args, filepath.Join(e.Root, "build", "images", c+".tar"))
	}
	_, err := e.Cluster(ctx, args...)
	return err
}

// Install installs or upgrades the chart and waits until the operator is ready.
func (e *Env) Install(ctx context.Context) error {
	_, err := e.Helm(ctx, "upgrade", "--install", "bobtail", filepath.Join(e.Root, "charts", "bobtail"),
		"--namespace", SystemNamespace, "--create-namespace", "--wait", "--timeout", "180s")
	return err
}

// Uninstall removes the chart; CRDs are kept by policy.
func (e *Env) Uninstall(ctx context.Context) error {
	_, err := e.Helm(ctx, "uninstall", "bobtail", "--namespace", SystemNamespace, "--wait", "--timeout", "120s")
	return err
}

// RemoveService deletes an RpcService and its objectives, if there are any, and
// waits until its pods are gone, so that what follows starts from nothing.
func (e *Env) RemoveService(ctx context.Context, namespace, name string) error {
	if _, err := e.Kubectl(ctx, "-n", namespace, "delete", "rpcsvc,slo,jobs", "--all", "--ignore-not-found", "--wait=true"); err != nil {
		return err
	}
	_, err := e.Kubectl(ctx, "-n", namespace, "wait", "--for=delete", "pod", "-l", "bobtail.dev/service="+name, "--timeout=90s")
	return err
}

// ApplyService applies a manifest file and returns how long the RpcService took
// from the apply to Programmed=True.
func (e *Env) ApplyService(ctx context.Context, file, namespace, name string) (time.Duration, error) {
	start := time.Now()
	if _, err := e.Kubectl(ctx, "apply", "-f", file); err != nil {
		return 0, err
	}
	if err := e.WaitCondition(ctx, 2*time.Minute, namespace, "rpcservices.bobtail.dev", name, "Programmed", "True"); err != nil {
		return 0, err
	}
	programmed := time.Since(start)
	_, err := e.Kubectl(ctx, "-n", namespace, "wait", "--for=condition=Ready", "rpcservices.bobtail.dev/"+name, "--timeout=60s")
	return programmed, err
}
