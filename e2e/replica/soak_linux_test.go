// SPDX-License-Identifier: Apache-2.0

//go:build replica && soak

package replica

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// soaks are the groups of a soak, each for its share of the time, with what can happen to it.
var soaks = []struct {
	name   string
	kind   Kind
	voters int
	events []event
}{
	{"Raft", Kind{}, 3, events},
	{"HovercRaft", Kind{HovercRaft: true, Repliers: "Random"}, 5, join(events, boxEvents)},
	{"HovercRaft++", Kind{HovercRaft: true, PlusPlus: true}, 3, join(events, boxEvents, aggregatorEvents)},
}

func join(lists ...[]event) (all []event) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// TestSoak: one fault after the other, drawn at random, for SOAK_MINUTES. It waits for events and measures no time, so it
// may run beside anything, with a low priority, too.
func TestSoak(t *testing.T) {
	minutes, err := strconv.Atoi(os.Getenv("SOAK_MINUTES"))
	if err != nil || minutes < 1 {
		t.Fatalf("SOAK_MINUTES must be a number of minutes; got %q: use make soak-replica", os.Getenv("SOAK_MINUTES"))
	}
	share := time.Duration(minutes) * time.Minute / time.Duration(len(soaks))
	for _, s := range soaks {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			p := begin(t, s.voters, s.voters, s.kind)
			n := 0
			for ; time.Since(began) < share; n++ {
				e := s.events[p.r.IntN(len(s.events))]
				t.Logf("%v: %s", time.Since(began).Round(time.Second), e.name)
				p.round(fmt.Sprintf("soak%d", n), func() { e.do(p) })
				p.must(p.g.AwaitReady(p.g.Members...))
				p.c.forgetAcks()
			}
			p.same(p.g.Members...)
			tally.soaked += time.Since(began)
			t.Logf("%d faults", n)
		})
	}
}
