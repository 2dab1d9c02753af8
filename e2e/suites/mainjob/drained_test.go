//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// drained drains each node in turn under load (K-4, K-26): with two servers no request
// is lost; with one a drain is never blocked, and what is lost is said. Only the
// service's pods are moved: the load's own pod stays.
func drained(ctx context.Context, t *testing.T, s *suite) {
	nodes, err := s.env.Kubectl(ctx, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
	check(t, err)
	blocked := 0
	each := func(ctx context.Context) (err error) {
		for _, node := range strings.Fields(nodes) {
			if drain := s.drain(ctx, node); drain != nil {
				blocked++
				err = errors.Join(err, drain)
			}
		}
		return err
	}
	twice := func(ctx context.Context) error { return errors.Join(each(ctx), each(ctx)) } // once is too soon over for 10,000
	two := underLoad(ctx, t, s, steady("load-drain"), twice)
	s.got.Set("rpcs_failed_drain", two.Failed())
	s.got.Set("rpcs_sent_drain", two.Sent)
	if two.Failed() != 0 || two.Sent < 10000 {
		t.Errorf("%d of %d requests failed while nodes were drained; want 0 of at least 10000: %s", two.Failed(), two.Sent, two.Failures())
	}
	check(t, s.scaled(ctx, 1))
	one := underLoad(ctx, t, s, steady("load-drain-one"), each)
	s.got.Set("rpcs_failed_drain_one_replica", one.Failed())
	s.got.Set("drains_blocked", blocked)
	s.steps.Say("     with one replica %d of %d requests failed while its node was drained: %s", one.Failed(), one.Sent, one.Failures())
	check(t, s.scaled(ctx, 2))
}

// drain moves the service's pods off a node, gives it back and waits until the service
// is whole; the error is that of a drain that did not come to its end.
func (s *suite) drain(ctx context.Context, node string) error {
	_, drain := s.env.Kubectl(ctx, "drain", node, "--pod-selector=bobtail.dev/service="+service, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=2m")
	_, back := s.env.Kubectl(ctx, "uncordon", node)
	whole := s.env.WaitCondition(ctx, 2*time.Minute, namespace, "rpcsvc", service, "Ready=True")
	if err := errors.Join(drain, back, whole); err != nil {
		return fmt.Errorf("drain of %s: %w", node, err)
	}
	return nil
}

// scaled waits until so many servers serve.
func (s *suite) scaled(ctx context.Context, replicas int) error {
	if _, err := s.env.Kubectl(ctx, "-n", namespace, "scale", "rpcsvc/"+service, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	if _, err := s.env.Kubectl(ctx, "-n", namespace, "wait", fmt.Sprintf("--for=jsonpath={.status.desiredWorkers}=%d", replicas*8), "rpcsvc/"+service, "--timeout=1m"); err != nil {
		return err
	}
	return s.env.WaitCondition(ctx, 2*time.Minute, namespace, "rpcsvc", service, "Ready=True")
}
