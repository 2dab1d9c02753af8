//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// invalidManifests asserts that a user's mistakes are refused with the field's
// name, and that a mistake across objects is told in conditions.
func invalidManifests(ctx context.Context, t *testing.T, s *suite) {
	for _, c := range []struct{ patch, field string }{
		{`{"spec":{"router":{"workerQueueDepth":0}}}`, "workerQueueDepth"},
		{`{"spec":{"workersPerReplica":65}}`, "workersPerReplica"},
		{`{"spec":{"router":{"policy":"Fastest"}}}`, "policy"},
	} {
		_, err := s.env.Kubectl(ctx, "-n", namespace, "patch", "rpcsvc", service, "--type=merge", "-p", c.patch)
		if err == nil {
			t.Errorf("patch %s was accepted", c.patch)
		} else if !strings.Contains(err.Error(), c.field) {
			t.Errorf("patch %s: the message does not name %s: %v", c.patch, c.field, err)
		}
	}
	orphan := `{"apiVersion":"bobtail.dev/v1alpha1","kind":"ServiceLevelObjective","metadata":{"name":"orphan","namespace":"` + namespace + `"},
 "spec":{"targetRef":{"name":"nobody"},"percentile":"99","latencyMicroseconds":1000,"windowSeconds":10}}`
	check(t, s.env.Apply(ctx, orphan))
	err := harness.Until(ctx, 20*time.Second, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		o, err := s.env.Object(ctx, namespace, "slo", "orphan")
		c := o.Condition("Accepted")
		return c.Status == "False" && c.Reason == "TargetNotFound" && o.Condition("Met").Status == "Unknown", c.Status + " " + c.Reason, err
	})
	check(t, err)
	_, err = s.env.Kubectl(ctx, "-n", namespace, "delete", "slo", "orphan")
	check(t, err)
}
