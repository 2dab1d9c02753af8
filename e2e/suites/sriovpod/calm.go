// SPDX-License-Identifier: Apache-2.0

package sriovpod

import (
	"context"
	_ "embed" // for the policy
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

//go:embed calm.yaml
var calmPolicy string

// probing is a router's pod as far as the policy sees one; it is never made.
const probing = `apiVersion: v1
kind: Pod
metadata: {name: probing, namespace: ` + Namespace + `, labels: {bobtail.dev/component: router}}
spec:
  containers:
  - {name: router, image: none, readinessProbe: {exec: {command: [none]}}, livenessProbe: {exec: {command: [none]}}}
`

// calm has the routers' pods changed at their creation. On a function a router looks for packets all the time, and two of them
// would take both processors of this machine from the emulated one, which then stands still.
func (s *Suite) calm(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "an admission policy: routers sleep while nothing arrives", Cost: "2 s",
		Cause: "the API server has no MutatingAdmissionPolicy"}, func(ctx context.Context) error {
		if err := s.Env.Apply(ctx, calmPolicy); err != nil {
			return err
		}
		return harness.Until(ctx, time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			out, err := s.Env.Run(ctx, probing, "kubectl", "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.spec.containers[0].command}")
			return strings.Contains(out, "--idle=sleep"), "a router's pod begins with " + out, err
		})
	})
}

// disturb takes the policy away again.
func (s *Suite) disturb(ctx context.Context) error {
	_, err := s.Env.Kubectl(ctx, "delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", Namespace+"-calm", "--ignore-not-found")
	return err
}
