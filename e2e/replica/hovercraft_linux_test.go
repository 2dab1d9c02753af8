// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"fmt"
	"testing"
	"time"
)

// kinds of HovercRaft groups, each of which meets faults.
func hovercrafts() []Kind {
	return []Kind{{HovercRaft: true}, {HovercRaft: true, Multicast: true, Repliers: "Random"}}
}

func (k Kind) String() string {
	how := "one by one"
	if k.Multicast {
		how = "multicast"
	}
	return fmt.Sprintf("%s %s", how, k.Repliers)
}

// The leader of a HovercRaft group is killed again and again, requests coming one
// by one or by multicast.
func TestHovercRaftKills(t *testing.T) {
	for _, kind := range hovercrafts() {
		t.Run(kind.String(), func(t *testing.T) { kills(t, kind, 2, 50) })
	}
}

// kills: the leader again and again; it comes back with its disk.
func kills(t *testing.T, kind Kind, short, long int) {
	p := begin(t, 3, 3, kind)
	for i := range rounds(short, long) {
		var killed *Member
		p.round(fmt.Sprintf("kill%d", i), func() {
			killed = p.leader()
			p.c.forgetAcks()
			at := time.Now()
			killed.Kill()
			var took time.Duration
			p.must(until("a write after a kill", func() (ok bool) { took, ok = p.c.firstAckAsked(at); return ok }))
			tally.failovers = append(tally.failovers, float64(took.Microseconds())/1000)
			p.must(p.g.Start(killed))
		})
		p.must(p.g.AwaitReady(killed))
	}
	p.same(p.g.Members...)
}
