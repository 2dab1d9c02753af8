// SPDX-License-Identifier: Apache-2.0

//go:build linux

package onswitch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/groups"
)

// The group whose flow-control box is a switch.
const (
	counter   = "counter"
	counterAt = "192.0.2.65"
)

const counterManifest = `apiVersion: bobtail.dev/v1alpha1
kind: ReplicationGroup
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  members: 3
  protocol: HovercRaft
  box: {placement: Switch, switch: {name: %[3]s, address: %[4]s, messages: BySource}}
  server:
    image: localhost/bobtail/replica:%[5]s
    resources: {requests: {cpu: 20m, memory: 64Mi}}
  storage: {policy: Volatile}
`

func (s *Suite) counterManifest() string {
	return fmt.Sprintf(counterManifest, counter, Namespace, doorkeeper.name, counterAt, s.Env.Version)
}

func (s *Suite) counterClients() groups.Clients {
	return groups.Clients{Env: s.Env, Namespace: Namespace, Pod: "counter-clients", Target: counterAt + ":8000"}
}

// boxed: a HovercRaft group whose clients ask a switch. It counts what is in the group, and sends each request to every
// member.
func (s *Suite) boxed(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("a ReplicationGroup with box.placement Switch, and %d writes", ledgerWrites), Cost: "2 min",
		Cause: "clients do not reach the switch, or it does not hold the group: kubectl -n " + Namespace + " describe rg " + counter + "; kubectl describe psw " + doorkeeper.name}, func(ctx context.Context) error {
		if err := groups.LoadImages(ctx, s.Env, "replica"); err != nil {
			return err
		}
		b, err := newBed(ctx, s.Env, doorkeeper)
		if err != nil {
			return err
		}
		if err = s.asked(ctx); err != nil {
			err = errors.Join(err, s.show(ctx, "-n", Namespace, "describe", "rg", counter), s.show(ctx, "describe", "psw", doorkeeper.name))
		}
		s.Steps.Say("     the switch: %s", b.tally("admit"))
		_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "rg/"+counter, "pod/"+s.counterClients().Pod, "--ignore-not-found", "--timeout=90s")
		_, psw := s.Env.Kubectl(ctx, "delete", "psw", doorkeeper.name, "--ignore-not-found", "--timeout=60s")
		if left := b.held(); err == nil && left > 0 {
			err = fmt.Errorf("the switch holds %d entries after its deletion", left)
		}
		return errors.Join(err, gone, psw, b.close(ctx))
	})
}

// asked has the group there, and plays.
func (s *Suite) asked(ctx context.Context) error {
	if _, err := s.apply(ctx, doorkeeper); err != nil {
		return err
	}
	if err := s.Env.Apply(ctx, s.counterManifest()); err != nil {
		return err
	}
	for _, condition := range []string{"Ready=True", "Programmed=True"} {
		if err := s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "replicationgroups.bobtail.dev", counter, condition); err != nil {
			return err
		}
	}
	clients := s.counterClients()
	if err := s.Env.Apply(ctx, clients.Manifest(counter)); err != nil {
		return err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Ready", "pod/"+clients.Pod, "--timeout=60s"); err != nil {
		return err
	}
	var begun string
	if err := clients.Order(ctx, &begun, "begin", counter, fmt.Sprint(writers)); err != nil {
		return err
	}
	err := writtenBy(ctx, clients, ledgerWrites)
	var v groups.Verdict
	if ended := clients.Order(ctx, &v, "end"); err != nil || ended != nil {
		return errors.Join(err, ended)
	}
	s.Steps.Say("     %d writes, %d not answered within 10 s, the slowest took %d ms; %d reads; %d histories, %d not linearizable, %d acknowledged writes lost",
		v.Writes, v.FailedWrites, v.SlowestWriteMilliseconds, v.Reads, v.Checked, v.Bad, v.Lost)
	s.Got.Set("switch_box_writes", v.Writes)
	s.Got.Set("switch_box_writes_failed", v.FailedWrites)
	if v.FailedWrites+int64(v.Bad+v.Lost+v.Executed) > 0 || v.Checked == 0 {
		return fmt.Errorf("%d writes failed, %d histories of %d are not linearizable, %d acknowledged writes are lost, %d were executed wrongly: %s",
			v.FailedWrites, v.Bad, v.Checked, v.Lost, v.Executed, strings.Join(append(v.Says, v.Verdict...), "; "))
	}
	return errors.Join(s.show(ctx, "-n", Namespace, "get", "rg", "-o", "wide"), s.show(ctx, "get", "psw", "-o", "wide"))
}
