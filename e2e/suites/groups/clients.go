// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/bobtail-dev/bobtail/e2e/cluster/ociimage"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Clients are a pod that writes to a group, and judges what came of it.
type Clients struct {
	Env            *harness.Env
	Namespace, Pod string
	Speaks         string // an order of grouppeer; "": the built-in service's
}

// Verdict is what clients say at the end; Counts what they have got so far.
type (
	Verdict = verdict
	Counts  = counts
)

// LoadImages puts the clients' image on all nodes, and those of components.
func LoadImages(ctx context.Context, env *harness.Env, components ...string) error {
	archive := filepath.Join(env.Root, "build", "grouppeer.tar")
	peer := ociimage.Image{
		Name: image, Entrypoint: []string{"/grouppeer"}, Files: map[string]string{"/grouppeer": filepath.Join(env.Root, "build", "bin", "grouppeer")},
	}
	if err := peer.Write(archive); err != nil {
		return err
	}
	args := []string{"load-image", archive}
	for _, c := range components {
		args = append(args, filepath.Join(env.Root, "build", "images", c+".tar"))
	}
	_, err := env.Cluster(ctx, args...)
	return err
}

// Manifest of the pod, for a group of its namespace.
func (c Clients) Manifest(group string) string {
	speaks := cmp.Or(c.Speaks, builtIn)
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, spec: {nodeName: node-a, terminationGracePeriodSeconds: 0,
  containers: [{name: clients, image: %q, args: [%s, "%s.%s.svc.cluster.local:8000"]}]}}`, c.Pod, c.Namespace, image, speaks, group, c.Namespace)
}

// Order has the pod do something: begin NAME CLIENTS, state, or end; and reads what it says.
func (c Clients) Order(ctx context.Context, into any, args ...string) error {
	out, err := c.Env.Kubectl(ctx, append([]string{"-n", c.Namespace, "exec", c.Pod, "--", "/grouppeer"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}
