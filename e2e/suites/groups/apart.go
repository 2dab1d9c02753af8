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

// pause between two looks.
const pause = 500 * time.Millisecond

// apart: a HovercRaft and a HovercRaft++ group under load. The pods of the leader, of the box and of the aggregator are
// deleted without grace, one after the other.
func (s *Suite) apart(ctx context.Context) error {
	writes := int64(0)
	defer func() {
		s.plays = first
		s.Got.Set("apart_writes", writes)
	}()
	for _, one := range []struct{ name, protocol string }{{"hover", "HovercRaft"}, {"plus", "HovercRaftPlusPlus"}} {
		s.plays = target{group: one.name, clients: "clients-" + one.name, speaks: builtIn}
		for _, step := range []struct {
			harness.Step
			do func(context.Context) error
		}{
			{harness.Step{Name: "a ReplicationGroup with protocol: " + one.protocol, Cost: "40 s", Cause: "kubectl -n " + Namespace + " describe rg " + one.name},
				func(ctx context.Context) error { return s.begin(ctx, one.protocol) }},
			{harness.Step{Name: "pods of its leader, its box and its aggregator are deleted", Cost: "90 s",
				Cause: "clients do not find the box, or members do not: kubectl -n " + Namespace + " logs -l bobtail.dev/component=box --all-containers"},
				func(ctx context.Context) error {
					v, err := s.under(ctx, one.name, someWrites, s.withoutThem)
					writes += v.Writes
					return err
				}},
			{harness.Step{Name: "kubectl delete rg " + one.name, Cost: "20 s", Cause: "a pod does not end: kubectl -n " + Namespace + " get pods"}, s.away},
		} {
			if err := s.Steps.Do(ctx, step.Step, step.do); err != nil {
				return errors.Join(err, s.describe(ctx)) // of this group: Run describes the first one
			}
		}
	}
	return nil
}

func (s *Suite) begin(ctx context.Context, protocol string) error {
	err := s.Env.Apply(ctx, fmt.Sprintf(`{apiVersion: bobtail.dev/v1alpha1, kind: ReplicationGroup, metadata: {name: %s, namespace: %s}, spec: {members: 3, protocol: %s,
  server: {image: "localhost/bobtail/replica:%s", resources: {requests: {cpu: 20m, memory: 64Mi}}}, storage: {policy: Always, sizeMebibytes: 1024}}}`,
		s.plays.group, Namespace, protocol, s.Env.Version))
	if err != nil {
		return err
	}
	if err := s.ready(ctx, settles); err != nil {
		return err
	}
	if err := s.peer(ctx, s.plays.clients, s.plays.group); err != nil {
		return err
	}
	return errors.Join(s.inUse(ctx), s.show(ctx))
}

// peer starts clients of a group, and waits for their pod.
func (s *Suite) peer(ctx context.Context, name, group string) error {
	if err := s.Env.Apply(ctx, peerPod(name, group, s.plays.speaks)); err != nil {
		return err
	}
	_, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=60s")
	return err
}

// inUse waits until the leader sends by way of the aggregator, where there is one.
func (s *Suite) inUse(ctx context.Context) error {
	return harness.Until(ctx, settles, pause, func(ctx context.Context) (bool, string, error) {
		g, err := s.read(ctx)
		return g.Status.Aggregator != "Bypassed", "the aggregator is bypassed", err
	})
}

func (s *Suite) withoutThem(ctx context.Context) error {
	g, err := s.read(ctx)
	if err != nil {
		return err
	}
	if err := s.deletePod(ctx, g.Status.Leader, "--grace-period=0", "--force"); err != nil {
		return err
	}
	if err := s.wholeWithout(ctx, g); err != nil {
		return err
	}
	components := []string{"box"}
	if g.Status.Aggregator != "" {
		components = append(components, "aggregator")
	}
	for _, component := range components {
		if err := s.replaced(ctx, component); err != nil {
			return fmt.Errorf("the %s's pod is deleted: %w", component, err)
		}
	}
	return nil
}

// replaced: a component's pod is deleted. Another one comes, the group is whole with it, and clients go on writing.
func (s *Suite) replaced(ctx context.Context, component string) error {
	before, err := s.podsOf(ctx, component)
	if err != nil || len(before) != 1 {
		return errors.Join(err, fmt.Errorf("there is not one %s: %v", component, before))
	}
	var c counts
	if err := s.order(ctx, &c, "state"); err != nil {
		return err
	}
	var forgotten string
	if err := s.order(ctx, &forgotten, "forget"); err != nil {
		return err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pod", before[0], "--wait=false", "--grace-period=0", "--force"); err != nil {
		return err
	}
	err = harness.Until(ctx, settles, pause, func(ctx context.Context) (bool, string, error) {
		now, err := s.podsOf(ctx, component)
		return len(now) == 1 && now[0] != before[0], "no other pod: " + strings.Join(now, ", "), err
	})
	if err != nil {
		return err
	}
	if err := s.ready(ctx, settles); err != nil {
		return err
	}
	if err := errors.Join(s.inUse(ctx), s.written(ctx, c.Writes-c.FailedWrites+someWrites/2)); err != nil {
		return err
	}
	err = s.order(ctx, &c, "state")
	s.Steps.Say("     the %s's pod is deleted: no write was answered for %d ms", component, c.PauseMilliseconds)
	s.Got.Set(component+"_lost_pause_ms", c.PauseMilliseconds)
	return err
}

func (s *Suite) podsOf(ctx context.Context, component string) ([]string, error) {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/service="+s.plays.group+",bobtail.dev/component="+component, "-o", "jsonpath={.items[*].metadata.name}")
	return strings.Fields(out), err
}

// away takes the group and all that it had out of the way of the next part.
func (s *Suite) away(ctx context.Context) error {
	_, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pod/"+s.plays.clients, "rg/"+s.plays.group, "--wait=true", "--timeout=60s")
	if err != nil {
		return err
	}
	left := harness.Until(ctx, settles, pause, func(ctx context.Context) (bool, string, error) {
		out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", made, "-l", "bobtail.dev/service="+s.plays.group, "-o", "name")
		return out == "", "left over: " + out, err
	})
	_, claims := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pvc", "-l", "bobtail.dev/service="+s.plays.group, "--wait=true", "--timeout=60s")
	return errors.Join(left, claims)
}
