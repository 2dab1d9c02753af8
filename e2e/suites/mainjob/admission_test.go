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

// stuckRollout asserts that an image nobody can pull is told as such, and that
// the service goes on meanwhile.
func stuckRollout(ctx context.Context, t *testing.T, s *suite) {
	patch := func(image string) {
		_, err := s.env.Kubectl(ctx, "-n", namespace, "patch", "rpcsvc", service, "--type=merge", "-p", `{"spec":{"server":{"image":"`+image+`"}}}`)
		check(t, err)
	}
	good := "localhost/bobtail/serve:" + s.env.Version
	job := steady("load-stuck")
	r := underLoad(ctx, t, s, job, func(ctx context.Context) error {
		patch("localhost/bobtail/nothing:0")
		defer patch(good)
		return harness.Until(ctx, 30*time.Second, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			o, err := s.env.Object(ctx, namespace, "rpcsvc", service)
			c := o.Condition("Ready")
			told := c.Status == "False" && c.Reason == "RollingOut" && strings.Contains(c.Message, "Image")
			return told, c.Status + " " + c.Reason + ": " + c.Message, err
		})
	})
	s.got.Set("rpcs_failed_stuck_rollout", r.Failed())
	if r.Failed() != 0 {
		t.Errorf("%d of %d requests failed while a rollout was stuck; want 0: %s", r.Failed(), r.Sent, r.Failures())
	}
	check(t, s.env.WaitCondition(ctx, 90*time.Second, namespace, "rpcsvc", service, "Ready=True"))
}
