// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// update: another environment variable for the members, whose pods are restarted one at a time, the leader's last.
func (s *Suite) update(ctx context.Context) error {
	v, err := s.play(ctx, "update", leastWrites, harness.Step{Name: "a rolling update", Cost: "90 s",
		Cause: "a pod is not evicted, or one that came again does not catch up: kubectl -n " + Namespace + " describe rg " + Group}, s.roll)
	s.Got.Set("rolling_update_failed_writes", v.FailedWrites)
	s.Got.Set("rolling_update_writes", v.Writes)
	return err
}

func (s *Suite) roll(ctx context.Context) error {
	g, err := s.read(ctx)
	if err != nil {
		return err
	}
	before, err := s.uids(ctx)
	if err != nil {
		return err
	}
	_, err = s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rg", Group, "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"server":{"env":[{"name":"ROLLED","value":"%d"}]}}}`, time.Now().Unix()))
	if err != nil {
		return err
	}
	var order []string
	err = harness.Until(ctx, settles, 200*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		now, err := s.uids(ctx)
		for pod, uid := range now {
			if uid != before[pod] && !slices.Contains(order, pod) {
				order = append(order, pod)
			}
		}
		return len(order) == len(before), "restarted so far: " + strings.Join(order, ", "), err
	})
	s.Steps.Say("     %s led; restarted in this order: %s", g.Status.Leader, strings.Join(order, ", "))
	if err == nil && order[len(order)-1] != g.Status.Leader {
		err = fmt.Errorf("the leader %s was not the last to be restarted: %v", g.Status.Leader, order)
	}
	return errors.Join(err, s.wholeWithout(ctx, g))
}

// scale: two members more, and two less.
func (s *Suite) scale(ctx context.Context) error {
	v, err := s.play(ctx, "scale", leastWrites, harness.Step{Name: "kubectl scale rg --replicas=5, then 3", Cost: "2 min", Cause: notWalked},
		func(ctx context.Context) error { return s.walk(ctx, 5, 3) })
	s.Got.Set("scale_failed_writes", v.FailedWrites)
	s.Got.Set("scale_writes", v.Writes)
	return err
}

const notWalked = "a member is not taken in, promoted or removed: kubectl -n " + Namespace + " describe rg " + Group

// nine: as many members as there may be, asked for at once, and seven, five and three again.
func (s *Suite) nine(ctx context.Context) error {
	v, err := s.play(ctx, "nine", someWrites, harness.Step{Name: "kubectl scale rg --replicas=9, then 7, 5 and 3", Cost: "4 min", Cause: notWalked},
		func(ctx context.Context) error { return s.walk(ctx, 9, 7, 5, 3) })
	s.Got.Set("nine_failed_writes", v.FailedWrites)
	return err
}

// walk asks for so many members, one number after the other, and waits until the group has got there.
func (s *Suite) walk(ctx context.Context, numbers ...int) error {
	for _, n := range numbers {
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "scale", "rg", Group, fmt.Sprintf("--replicas=%d", n)); err != nil {
			return err
		}
		if err := s.isOf(ctx, n); err != nil {
			return err
		}
		if err := s.ready(ctx, settles); err != nil {
			return err
		}
		if err := s.show(ctx); err != nil {
			return err
		}
	}
	return nil
}

// isOf: so many voters, pods and claims, no more.
func (s *Suite) isOf(ctx context.Context, n int) error {
	return harness.Until(ctx, 2*settles, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		g, err := s.read(ctx)
		if err != nil {
			return false, "", err
		}
		pods, err := s.uids(ctx)
		if err != nil {
			return false, "", err
		}
		claims, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pvc", "-o", "name")
		return g.Status.VotersInForce == n && g.Status.HealthyVoters == n && len(pods) == n && len(strings.Fields(claims)) == n,
			fmt.Sprintf("%d voters, %d of them healthy, %d pods, %d claims; want %d", g.Status.VotersInForce, g.Status.HealthyVoters, len(pods), len(strings.Fields(claims)), n), err
	})
}

// made are the kinds of which a group has objects.
const made = "pods,statefulsets,deployments,replicasets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,controllerrevisions,endpointslices"

// end: the group is deleted. Its disks stay until their claims are deleted; nothing else does.
func (s *Suite) end(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl delete rg, and what is left", Cost: "60 s",
		Cause: "something is held by a pod that does not end: kubectl -n " + Namespace + " get pods"}, func(ctx context.Context) error {
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "rg", Group, "--timeout=60s"); err != nil {
			return err
		}
		left := ""
		err := harness.Until(ctx, 90*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
			var err error
			left, err = s.Env.Kubectl(ctx, "-n", Namespace, "get", made, "-l", "bobtail.dev/service="+Group, "-o", "name")
			return left == "", "left over: " + left, err
		})
		claims, listed := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pvc", "-o", "name")
		if listed == nil && len(strings.Fields(claims)) != 3 {
			listed = fmt.Errorf("a deleted group leaves its disks: want 3 claims, there are %q", claims)
		}
		_, deleted := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--timeout=120s")
		volumes, folders := "", []string(nil)
		emptied := harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
			var err, globbed error
			volumes, err = s.Env.Kubectl(ctx, "get", "pv", "-o", "name")
			folders, globbed = s.volumes.Left()
			return volumes == "" && len(folders) == 0, fmt.Sprintf("left over: %s %v", volumes, folders), errors.Join(err, globbed)
		})
		s.Got.Set("leftovers", len(strings.Fields(left))+len(strings.Fields(volumes))+len(folders))
		return errors.Join(err, listed, deleted, emptied, s.Env.Uninstall(ctx))
	})
}
