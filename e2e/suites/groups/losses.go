// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// play is a part: a step in which something is done to the group while clients write.
func (s *Suite) play(ctx context.Context, name string, least int64, step harness.Step, what func(context.Context) error) (v verdict, err error) {
	err = s.Steps.Do(ctx, step, func(ctx context.Context) (err error) {
		v, err = s.under(ctx, name, least, what)
		return err
	})
	return v, err
}

// killed: the leader's pod is deleted at once, and then, when all is well, a follower's.
func (s *Suite) killed(ctx context.Context) error {
	_, err := s.play(ctx, "killed", someWrites, harness.Step{Name: "the leader's pod is deleted without grace, then a follower's", Cost: "40 s",
		Cause: "the pod that came again does not find its group: kubectl -n " + Namespace + " logs -l bobtail.dev/component=member"},
		func(ctx context.Context) error {
			for _, of := range []func(group) string{func(g group) string { return g.Status.Leader }, func(g group) string { return followers(g)[0] }} {
				g, err := s.read(ctx)
				if err != nil {
					return err
				}
				if err := s.deletePod(ctx, of(g), "--grace-period=0", "--force"); err != nil {
					return err
				}
				if err := s.wholeWithout(ctx, g); err != nil {
					return err
				}
			}
			return nil
		})
	return err
}

// deletePod waits until another pod of that name is there.
func (s *Suite) deletePod(ctx context.Context, pod string, more ...string) error {
	before, err := s.uids(ctx)
	if err != nil {
		return err
	}
	if _, err := s.Env.Kubectl(ctx, append([]string{"-n", Namespace, "delete", "pod", pod, "--wait=false"}, more...)...); err != nil {
		return err
	}
	return harness.Until(ctx, time.Minute, 200*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		now, err := s.uids(ctx)
		return now[pod] != "" && now[pod] != before[pod], "no new pod " + pod, err
	})
}

// wholeWithout waits until the group is ready, with the members that it had: nobody lost a disk.
func (s *Suite) wholeWithout(ctx context.Context, before group) error {
	if err := s.ready(ctx, settles); err != nil {
		return err
	}
	now, err := s.read(ctx)
	if err == nil && fmt.Sprint(now.Status.Members) != fmt.Sprint(before.Status.Members) {
		err = fmt.Errorf("members are %v, and were %v", now.Status.Members, before.Status.Members)
	}
	return err
}

// drained: a node with a member goes for maintenance and comes back. Its member moves, with its disk.
func (s *Suite) drained(ctx context.Context) error {
	_, err := s.play(ctx, "drained", someWrites, harness.Step{Name: "kubectl drain of a node with a member", Cost: "60 s",
		Cause: "the budget never has room, or the member does not start on another node: kubectl -n " + Namespace + " get pdb,pods -o wide"},
		func(ctx context.Context) (failed error) {
			g, err := s.read(ctx)
			if err != nil {
				return err
			}
			node, err := s.otherNode(ctx, g)
			if err != nil {
				return err
			}
			defer func() {
				_, back := s.Env.Kubectl(context.WithoutCancel(ctx), "uncordon", node)
				failed = errors.Join(failed, back)
			}()
			if _, err := s.Env.Kubectl(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s"); err != nil {
				return err
			}
			left, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/component=member", "--field-selector", "spec.nodeName="+node, "-o", "name")
			if err == nil && left != "" {
				err = fmt.Errorf("%s is still on %s", strings.TrimSpace(left), node)
			}
			return errors.Join(err, s.wholeWithout(ctx, g))
		})
	return err
}

// otherNode is one with a member, the leader's if the clients are not on it.
func (s *Suite) otherNode(ctx context.Context, g group) (string, error) {
	out := ""
	for _, pod := range append([]string{g.Status.Leader}, followers(g)...) {
		node, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
		if err != nil {
			return "", err
		}
		if node != "node-a" && node != "" && out == "" {
			out = node
		}
	}
	if out == "" {
		return "", errors.New("all members are on node-a, where the clients are (the suite needs three nodes)")
	}
	return out, nil
}

// diskLost: a follower's claim and pod are deleted, as the guide says. Its pod comes back as a new member.
func (s *Suite) diskLost(ctx context.Context) error {
	_, err := s.play(ctx, "disk", someWrites, harness.Step{Name: "a follower's disk is lost: its claim and its pod are deleted", Cost: "40 s",
		Cause: "the new member is not taken in, or the old one not removed: kubectl -n " + Namespace + " describe rg " + Group},
		func(ctx context.Context) error {
			before, err := s.read(ctx)
			if err != nil {
				return err
			}
			pod := followers(before)[0]
			if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pvc", "data-"+pod, "--wait=false"); err != nil {
				return err
			}
			if err := s.deletePod(ctx, pod); err != nil {
				return err
			}
			return harness.Until(ctx, settles, time.Second, func(ctx context.Context) (bool, string, error) {
				now, err := s.read(ctx)
				if err != nil || len(now.Status.Members) != 3 {
					return false, fmt.Sprintf("members %v", now.Status.Members), err
				}
				for _, m := range now.Status.Members {
					for _, o := range before.Status.Members {
						if m.Pod == pod && o.Pod == pod && m.Number != o.Number && m.Name != o.Name {
							return true, "", s.ready(ctx, settles)
						}
					}
				}
				return false, fmt.Sprintf("%s is the member that it was", pod), nil
			})
		})
	return err
}

// absent: the operator is away. The group serves, without the pod that was deleted meanwhile; then all is mended.
func (s *Suite) absent(ctx context.Context) error {
	_, err := s.play(ctx, "absent", someWrites, harness.Step{Name: "the operator is away; the leader's pod is deleted", Cost: "60 s",
		Cause: "the group needs its operator to serve: kubectl -n " + Namespace + " logs -l bobtail.dev/component=member"},
		func(ctx context.Context) (failed error) {
			replicas, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "get", "deployment", "bobtail-operator", "-o", "jsonpath={.spec.replicas}")
			if err != nil {
				return err
			}
			scale := func(ctx context.Context, n string) error {
				_, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "scale", "deployment/bobtail-operator", "--replicas="+n)
				return err
			}
			back := func() error { return scale(context.WithoutCancel(ctx), replicas) }
			if err := scale(ctx, "0"); err != nil {
				return err
			}
			defer func() { failed = errors.Join(failed, back()) }()
			if _, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator", "--timeout=60s"); err != nil {
				return err
			}
			g, err := s.read(ctx)
			if err != nil {
				return err
			}
			if err := s.deletePod(ctx, g.Status.Leader); err != nil {
				return err
			}
			var c counts
			if err := s.order(ctx, &c, "state"); err != nil {
				return err
			}
			if err := s.written(ctx, c.Writes-c.FailedWrites+someWrites); err != nil {
				return fmt.Errorf("without its operator: %w", err)
			}
			return errors.Join(back(), s.wholeWithout(ctx, g))
		})
	return err
}
