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

// Its clients: so many of them write so often at least.
const (
	writers = 8
	writes  = 1500
)

// written is a group that has a switch for one of its components, and that clients write to.
type written struct {
	name, protocol, component string
	at                        site
	// address of the group at the switch, and what of the program counts its packets.
	address, control string
	// figure is how often clients wrote; that with _failed, how often in vain.
	figure string
	// target is whom clients ask; "": the group by its name.
	target string
	// who has to reach the switch, and what happens meanwhile: for people.
	who, meanwhile string
	// before holds the clients back until the switch is used, and amid is played while they write; nil: there is no such thing.
	before func(*Suite, context.Context) error
	amid   func(*Suite, context.Context, *bed) error
}

const writtenManifest = `apiVersion: bobtail.dev/v1alpha1
kind: ReplicationGroup
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  members: 3
  protocol: %[3]s
  %[4]s: {placement: Switch, switch: {name: %[5]s, address: %[6]s, messages: BySource}}
  server:
    image: localhost/bobtail/replica:%[7]s
    resources: {requests: {cpu: 20m, memory: 64Mi}}
  storage: {policy: Volatile}
`

func (s *Suite) manifestOf(g written) string {
	return fmt.Sprintf(writtenManifest, g.name, Namespace, g.protocol, g.component, g.at.name, g.address, s.Env.Version)
}

func (s *Suite) clientsOf(g written) groups.Clients {
	return groups.Clients{Env: s.Env, Namespace: Namespace, Pod: g.name + "-clients", Target: g.target}
}

// playWritten has the group's switch there, plays, and takes all of it away.
func (s *Suite) playWritten(ctx context.Context, g written) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("a ReplicationGroup with %s.placement Switch, and %d writes%s", g.component, writes, g.meanwhile), Cost: "2 min",
		Cause: g.who + " do not reach the switch, or it does not hold the group: kubectl -n " + Namespace + " describe rg " + g.name + "; kubectl describe psw " + g.at.name}, func(ctx context.Context) error {
		if err := groups.LoadImages(ctx, s.Env, "replica"); err != nil {
			return err
		}
		b, err := newBed(ctx, s.Env, g.at)
		if err != nil {
			return err
		}
		if err = s.write(ctx, g, b); err != nil {
			err = errors.Join(err, s.show(ctx, "-n", Namespace, "describe", "rg", g.name), s.show(ctx, "describe", "psw", g.at.name))
		}
		s.Steps.Say("     the switch: %s", b.tally(g.control))
		_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "rg/"+g.name, "pod/"+s.clientsOf(g).Pod, "--ignore-not-found", "--timeout=90s")
		_, psw := s.Env.Kubectl(ctx, "delete", "psw", g.at.name, "--ignore-not-found", "--timeout=60s")
		if left := b.held(); err == nil && left > 0 {
			err = fmt.Errorf("the switch holds %d entries after its deletion", left)
		}
		return errors.Join(err, gone, psw, b.close(ctx))
	})
}

// write has clients write as often as they shall, and judges what they saw.
func (s *Suite) write(ctx context.Context, g written, b *bed) error {
	if err := s.begin(ctx, g); err != nil {
		return err
	}
	var err error
	if g.amid != nil {
		err = g.amid(s, ctx, b)
	}
	if err == nil {
		err = s.untilWritten(ctx, g, writes)
	}
	var v groups.Verdict
	if ended := s.clientsOf(g).Order(ctx, &v, "end"); err != nil || ended != nil {
		return errors.Join(err, ended)
	}
	return errors.Join(s.judgeWrites(g, v), s.show(ctx, "-n", Namespace, "get", "rg", "-o", "wide"), s.show(ctx, "get", "psw", "-o", "wide"))
}

// begin has the group there, and clients that write.
func (s *Suite) begin(ctx context.Context, g written) error {
	if _, err := s.apply(ctx, g.at); err != nil {
		return err
	}
	if err := s.Env.Apply(ctx, s.manifestOf(g)); err != nil {
		return err
	}
	for _, condition := range []string{"Ready=True", "Programmed=True"} {
		if err := s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "replicationgroups.bobtail.dev", g.name, condition); err != nil {
			return err
		}
	}
	clients := s.clientsOf(g)
	if err := s.Env.Apply(ctx, clients.Manifest(g.name)); err != nil {
		return err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Ready", "pod/"+clients.Pod, "--timeout=60s"); err != nil {
		return err
	}
	if g.before != nil {
		if err := g.before(s, ctx); err != nil {
			return err
		}
	}
	var begun string
	return clients.Order(ctx, &begun, "begin", g.name, fmt.Sprint(writers))
}

// untilWritten waits until clients have written that often.
func (s *Suite) untilWritten(ctx context.Context, g written, least int64) error {
	return harness.Until(ctx, 4*time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		var c groups.Counts
		err := s.clientsOf(g).Order(ctx, &c, "state")
		return c.Writes-c.FailedWrites >= least, fmt.Sprintf("%d of %d writes", c.Writes-c.FailedWrites, least), err
	})
}

func (s *Suite) judgeWrites(g written, v groups.Verdict) error {
	s.Steps.Say("     %d writes, %d not answered within 10 s, the slowest took %d ms; %d reads; %d histories, %d not linearizable, %d acknowledged writes lost",
		v.Writes, v.FailedWrites, v.SlowestWriteMilliseconds, v.Reads, v.Checked, v.Bad, v.Lost)
	s.Got.Set(g.figure, v.Writes)
	s.Got.Set(g.figure+"_failed", v.FailedWrites)
	if v.FailedWrites+int64(v.Bad+v.Lost+v.Executed) > 0 || v.Checked == 0 {
		return fmt.Errorf("%d writes failed, %d histories of %d are not linearizable, %d acknowledged writes are lost, %d were executed wrongly: %s",
			v.FailedWrites, v.Bad, v.Checked, v.Lost, v.Executed, strings.Join(append(v.Says, v.Verdict...), "; "))
	}
	return nil
}
