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

// The group whose aggregator is a switch, and its clients: so many of them write so often at least.
const (
	ledger       = "ledger"
	ledgerAt     = "192.0.2.49"
	writers      = 8
	ledgerWrites = 1500
)

const ledgerManifest = `apiVersion: bobtail.dev/v1alpha1
kind: ReplicationGroup
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  members: 3
  protocol: HovercRaftPlusPlus
  aggregator: {placement: Switch, switch: {name: %[3]s, address: %[4]s, messages: BySource}}
  server:
    image: localhost/bobtail/replica:%[5]s
    resources: {requests: {cpu: 20m, memory: 64Mi}}
  storage: {policy: Volatile}
`

func (s *Suite) ledgerManifest() string {
	return fmt.Sprintf(ledgerManifest, ledger, Namespace, gatherer.name, ledgerAt, s.Env.Version)
}

func (s *Suite) ledgerClients() groups.Clients {
	return groups.Clients{Env: s.Env, Namespace: Namespace, Pod: "ledger-clients"}
}

// aggregated: a HovercRaft++ group whose entries and commits go by way of a switch. It loses its power and comes back, empty,
// while clients write.
func (s *Suite) aggregated(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("a ReplicationGroup with aggregator.placement Switch, and %d writes; the switch is emptied meanwhile", ledgerWrites), Cost: "2 min",
		Cause: "members do not reach the switch, or it does not hold the group: kubectl -n " + Namespace + " describe rg " + ledger + "; kubectl describe psw " + gatherer.name}, func(ctx context.Context) error {
		if err := groups.LoadImages(ctx, s.Env, "replica"); err != nil {
			return err
		}
		b, err := newBed(ctx, s.Env, gatherer)
		if err != nil {
			return err
		}
		if err = s.counted(ctx, b); err != nil {
			err = errors.Join(err, s.show(ctx, "-n", Namespace, "describe", "rg", ledger), s.show(ctx, "describe", "psw", gatherer.name))
			s.Steps.Say("     the switch: %s", b.tally("aggregate"))
		}
		_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "rg/"+ledger, "pod/"+s.ledgerClients().Pod, "--ignore-not-found", "--timeout=90s")
		_, psw := s.Env.Kubectl(ctx, "delete", "psw", gatherer.name, "--ignore-not-found", "--timeout=60s")
		if left := b.held(); err == nil && left > 0 {
			err = fmt.Errorf("the switch holds %d entries after its deletion", left)
		}
		return errors.Join(err, gone, psw, b.close(ctx))
	})
}

// counted has the group there, and plays.
func (s *Suite) counted(ctx context.Context, b *bed) error {
	if _, err := s.apply(ctx, gatherer); err != nil {
		return err
	}
	if err := s.Env.Apply(ctx, s.ledgerManifest()); err != nil {
		return err
	}
	for _, condition := range []string{"Ready=True", "Programmed=True"} {
		if err := s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "replicationgroups.bobtail.dev", ledger, condition); err != nil {
			return err
		}
	}
	clients := s.ledgerClients()
	if err := s.Env.Apply(ctx, clients.Manifest(ledger)); err != nil {
		return err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Ready", "pod/"+clients.Pod, "--timeout=60s"); err != nil {
		return err
	}
	if _, err := s.use(ctx, "InUse"); err != nil {
		return err
	}
	var begun string
	if err := clients.Order(ctx, &begun, "begin", ledger, fmt.Sprint(writers)); err != nil {
		return err
	}
	err := s.emptied(ctx, b)
	if err == nil {
		err = s.written(ctx, ledgerWrites)
	}
	var v groups.Verdict
	if ended := clients.Order(ctx, &v, "end"); err != nil || ended != nil {
		return errors.Join(err, ended)
	}
	return errors.Join(s.judgeWrites(v), s.show(ctx, "-n", Namespace, "get", "rg", "-o", "wide"), s.show(ctx, "get", "psw", "-o", "wide"))
}

// emptied: the switch goes while clients write, and comes back empty. The leader goes on in its term by itself, and then by
// the switch again.
func (s *Suite) emptied(ctx context.Context, b *bed) error {
	if err := s.written(ctx, ledgerWrites/3); err != nil {
		return err
	}
	before, err := s.use(ctx, "InUse")
	if err != nil {
		return err
	}
	b.kill()
	without, err := s.use(ctx, "Bypassed")
	if err == nil {
		err = s.written(ctx, ledgerWrites/2)
	}
	if err = errors.Join(err, b.revive()); err != nil {
		return err
	}
	after, err := s.use(ctx, "InUse")
	if err == nil && (without != before || after != before) {
		err = fmt.Errorf("leader and term were %q with the switch, %q without it, and %q with it again", before, without, after)
	}
	return err
}

// use waits until the leader makes that of its aggregator, and says who it is, in which term.
func (s *Suite) use(ctx context.Context, what string) (leader string, err error) {
	err = harness.Until(ctx, 2*time.Minute, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rg", ledger, "-o", "jsonpath={.status.aggregator} {.status.leader} {.status.term}")
		is, rest, _ := strings.Cut(out, " ")
		leader = rest
		return is == what, fmt.Sprintf("status.aggregator is %q, want %s", is, what), err
	})
	return leader, err
}

// written waits until clients have written that often.
func (s *Suite) written(ctx context.Context, least int64) error {
	return writtenBy(ctx, s.ledgerClients(), least)
}

func writtenBy(ctx context.Context, clients groups.Clients, least int64) error {
	return harness.Until(ctx, 4*time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		var c groups.Counts
		err := clients.Order(ctx, &c, "state")
		return c.Writes-c.FailedWrites >= least, fmt.Sprintf("%d of %d writes", c.Writes-c.FailedWrites, least), err
	})
}

func (s *Suite) judgeWrites(v groups.Verdict) error {
	s.Steps.Say("     %d writes, %d not answered within 10 s, the slowest took %d ms; %d reads; %d histories, %d not linearizable, %d acknowledged writes lost",
		v.Writes, v.FailedWrites, v.SlowestWriteMilliseconds, v.Reads, v.Checked, v.Bad, v.Lost)
	s.Got.Set("switch_aggregator_writes", v.Writes)
	s.Got.Set("switch_aggregator_writes_failed", v.FailedWrites)
	if v.FailedWrites+int64(v.Bad+v.Lost+v.Executed) > 0 || v.Checked == 0 {
		return fmt.Errorf("%d writes failed, %d histories of %d are not linearizable, %d acknowledged writes are lost, %d were executed wrongly: %s",
			v.FailedWrites, v.Bad, v.Checked, v.Lost, v.Executed, strings.Join(append(v.Says, v.Verdict...), "; "))
	}
	return nil
}
