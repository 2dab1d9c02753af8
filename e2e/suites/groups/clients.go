// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Clients are a pod that writes to a group, and judges what came of it.
type Clients struct {
	Env            *harness.Env
	Namespace, Pod string
	Speaks         string // an order of grouppeer; "": the built-in service's
	Target         string // whom they ask; "": the group by its name
}

// Verdict is what clients say at the end; Counts what they have got so far.
type (
	Verdict = verdict
	Counts  = counts
)

// LoadImages puts the clients' image on all nodes, and those of components.
func LoadImages(ctx context.Context, env *harness.Env, components ...string) error {
	return env.LoadPeer(ctx, "grouppeer", image, components...)
}

// Manifest of the pod, for a group of its namespace. It is ready once it takes orders.
func (c Clients) Manifest(group string) string {
	speaks, target := cmp.Or(c.Speaks, builtIn), cmp.Or(c.Target, fmt.Sprintf("%s.%s.svc.cluster.local:8000", group, c.Namespace))
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, spec: {nodeName: node-a, terminationGracePeriodSeconds: 0,
  containers: [{name: clients, image: %q, args: [%s, %q],
    readinessProbe: {exec: {command: [/grouppeer, ready]}, periodSeconds: 1}}]}}`, c.Pod, c.Namespace, image, speaks, target)
}

// Order has the pod do something: begin NAME CLIENTS, state, or end; and reads what it says.
func (c Clients) Order(ctx context.Context, into any, args ...string) error {
	out, err := c.Env.Kubectl(ctx, append([]string{"-n", c.Namespace, "exec", c.Pod, "--", "/grouppeer"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}
