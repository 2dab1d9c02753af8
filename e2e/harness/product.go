// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"path/filepath"
	"slices"
	"time"
)

// SystemNamespace is where the chart is installed.
const SystemNamespace = "bobtail-system"

// Components are the images that the demo loads into the nodes.
var Components = []string{"operator", "sidecar", "lancet", "router", "serve", "load"}

// LoadImages imports the locally built image archives into every node.
func (e *Env) LoadImages(ctx context.Context) error {
	args := []string{"load-image"}
	for _, c := range Components {
		args = append(args, filepath.Join(e.Root, "build", "images", c+".tar"))
	}
	_, err := e.Cluster(ctx, args...)
	return err
}

// Install installs or upgrades the chart, with its default values but for those
// given, and waits until the operator is ready.
func (e *Env) Install(ctx context.Context, values ...string) error {
	chart, pinned := filepath.Join(e.Root, "charts", "bobtail"), []string(nil)
	if e.release != nil {
		chart, pinned = e.release.chart, e.release.values()
	}
	_, err := e.Helm(ctx, slices.Concat([]string{"upgrade", "--install", "bobtail", chart,
		"--namespace", SystemNamespace, "--create-namespace", "--wait", "--timeout", "180s"}, pinned, values)...)
	return err
}

// Prepare brings the images and the chart with those values into the cluster and
// removes what an earlier run left of a service, each as a step of its own.
func (e *Env) Prepare(ctx context.Context, steps *Steps, namespace, service string, values ...string) error {
	for _, one := range []struct {
		step Step
		do   func(context.Context) error
	}{
		{Step{Name: "import the images into both nodes", Cost: "15 s", Cause: "`make images` did not finish"}, e.LoadImages},
		{Step{Name: "helm upgrade --install bobtail " + e.chartName(), Cost: "20 s",
			Cause: "the operator pods do not become ready: kubectl -n " + SystemNamespace + " get pods,events"}, func(ctx context.Context) error { return e.Install(ctx, values...) }},
		{Step{Name: "remove the service of an earlier run, if there is one", Cost: "1 s, or 20 s",
			Cause: "pods of namespace " + namespace + " do not end"}, func(ctx context.Context) error {
			return e.RemoveService(ctx, namespace, service)
		}},
	} {
		if err := steps.Do(ctx, one.step, one.do); err != nil {
			return err
		}
	}
	return nil
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
	if err := e.WaitCondition(ctx, 2*time.Minute, namespace, "rpcservices.bobtail.dev", name, "Programmed=True"); err != nil {
		return 0, err
	}
	programmed := time.Since(start)
	_, err := e.Kubectl(ctx, "-n", namespace, "wait", "--for=condition=Ready", "rpcservices.bobtail.dev/"+name, "--timeout=60s")
	return programmed, err
}
