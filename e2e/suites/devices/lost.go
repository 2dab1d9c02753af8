// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// lost: the interface of a running server is deleted. Its program ends and says why, its pod is
// evicted, and another one serves in its place.
func (s *Suite) lost(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the interface of a running server is deleted: its pod is named, and replaced", Cost: "40 s",
		Cause: "kubectl -n " + Namespace + " describe rpcsvc,pods"}, func(ctx context.Context) error {
		pod, err := s.loseInterface(ctx)
		if err != nil {
			return err
		}
		err = harness.Until(ctx, 3*time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
			left, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pod", pod, "--ignore-not-found", "-o", "name")
			said, failed := s.Env.Kubectl(ctx, "-n", Namespace, "get", "events", "--field-selector=reason=DeviceLost", "-o", "jsonpath={.items[*].message}")
			told := strings.Contains(said, "pod "+pod+" was evicted") && strings.Contains(said, "interface net1 was taken away")
			return left == "" && told, fmt.Sprintf("pod %q is left, and the events are %q", left, said), errors.Join(err, failed)
		})
		return errors.Join(err, s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True"),
			s.Env.WaitCondition(ctx, time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "DeviceAsAsked=True"))
	})
}

// loseInterface deletes that of one server, from outside, as whoever owns the network might.
func (s *Suite) loseInterface(ctx context.Context) (string, error) {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/component=server", "-o", "jsonpath={.items[0].metadata.name} {.items[0].metadata.uid}")
	name, uid, _ := strings.Cut(out, " ")
	if err != nil {
		return "", err
	}
	pids := harness.PodProcesses(uid, "bobtail-serve")
	if len(pids) != 1 {
		return "", fmt.Errorf("pod %s has %d processes of its program, want 1", name, len(pids))
	}
	_, err = s.Env.Run(ctx, "", "nsenter", "--net", "--target", fmt.Sprint(pids[0]), "ip", "link", "del", "net1")
	return name, err
}
