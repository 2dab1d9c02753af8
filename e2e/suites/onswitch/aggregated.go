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
)

// ledger is the group whose aggregator is a switch.
func ledger() written {
	return written{name: "ledger", protocol: "HovercRaftPlusPlus", component: "aggregator", at: gatherer, address: "192.0.2.49", control: "aggregate",
		figure: "switch_aggregator_writes", who: "members", meanwhile: "; the switch is emptied meanwhile", before: (*Suite).used, amid: (*Suite).emptied}
}

// aggregated: a HovercRaft++ group whose entries and commits go by way of a switch. It loses its power and comes back, empty,
// while clients write.
func (s *Suite) aggregated(ctx context.Context) error { return s.playWritten(ctx, ledger()) }

// used waits until entries go by way of the switch.
func (s *Suite) used(ctx context.Context) error {
	_, err := s.use(ctx, "InUse")
	return err
}

// emptied: the switch goes while clients write, and comes back empty. The leader goes on in its term by itself, and then by
// the switch again.
func (s *Suite) emptied(ctx context.Context, b *bed) error {
	if err := s.untilWritten(ctx, ledger(), writes/3); err != nil {
		return err
	}
	before, err := s.use(ctx, "InUse")
	if err != nil {
		return err
	}
	b.kill()
	without, err := s.use(ctx, "Bypassed")
	if err == nil {
		err = s.untilWritten(ctx, ledger(), writes/2)
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
		out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rg", ledger().name, "-o", "jsonpath={.status.aggregator} {.status.leader} {.status.term}")
		is, rest, _ := strings.Cut(out, " ")
		leader = rest
		return is == what, fmt.Sprintf("status.aggregator is %q, want %s", is, what), err
	})
	return leader, err
}
