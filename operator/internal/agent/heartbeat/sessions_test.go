// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

const life = time.Second

// side is one agent of a pair.
type side struct {
	name string
	*sessions
	sequence uint64
}

func said(name string) ownership.Message { return ownership.Message{From: name, Able: true} }

var nonces uint64

func newSide(name string) *side {
	return &side{name: name, sessions: newSessions(name, life, func() uint64 { nonces++; return nonces })}
}

func (s *side) to(now time.Duration, other *side) Packet {
	nonce, echo := s.address(now, other.name)
	s.sequence++
	return Packet{Nonce: nonce, Echo: echo, Sequence: s.sequence, TakesReports: true, Message: said(s.name)}
}

func want(t *testing.T, what string, got, want Reason) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// meet makes both sides trust each other and returns what a sent to b.
func meet(t *testing.T, now time.Duration, a, b *side) []Packet {
	t.Helper()
	first := a.to(now, b)
	want(t, "the first", b.accept(now, first), Hello)
	want(t, "its answer", a.accept(now, b.to(now, a)), "")
	second := a.to(now, b)
	want(t, "the second", b.accept(now, second), "")
	return []Packet{first, second}
}

func TestMeeting(t *testing.T) {
	a, b := newSide("a"), newSide("b")
	old := meet(t, 0, a, b)
	want(t, "the second again", b.accept(1, old[1]), Replayed)
	want(t, "the first again", b.accept(1, old[0]), Replayed)
	want(t, "our own", b.accept(1, b.to(1, a)), OwnName)
}

// A dead agent cannot be kept alive, or raised, with what it once said.
func TestReplayOfTheDead(t *testing.T) {
	a, b := newSide("a"), newSide("b")
	old := meet(t, 0, a, b)
	for i := range 20 {
		p := a.to(time.Duration(i), b)
		old = append(old, p)
		want(t, "alive", b.accept(time.Duration(i), p), "")
	}
	now := 2 * life // a is dead
	for range 2 {
		for i, p := range old {
			if r := b.accept(now, p); r == "" {
				t.Fatalf("datagram %d of a dead agent was taken", i)
			}
			now += life / 4
		}
	}
}

// An agent that starts again is heard when its former life is over, and nothing
// of that life counts any more; nor can it keep the new one out.
func TestRestart(t *testing.T) {
	a, b := newSide("a"), newSide("b")
	old := meet(t, 0, a, b)
	a = newSide("a")
	want(t, "at once", b.accept(life/2, a.to(life/2, b)), OtherSession)
	now := 2 * life
	want(t, "later", b.accept(now, a.to(now, b)), Hello)
	want(t, "an old one in between", b.accept(now, old[1]), Hello)
	want(t, "b's answer to that", a.accept(now, b.to(now, a)), Hello)
	want(t, "a says it again", b.accept(now, a.to(now, b)), "")
	want(t, "b's answer", a.accept(now, b.to(now, a)), "")
	want(t, "an old one", b.accept(now, old[1]), OtherSession)
}

// One way only is no session: who is not heard does not count others as alive for long.
func TestOneWay(t *testing.T) {
	a, b := newSide("a"), newSide("b")
	meet(t, 0, a, b)
	alive := time.Duration(0)
	for now := time.Duration(0); now < 5*life; now += life / 4 { // b is deaf
		if a.accept(now, b.to(now, a)) == "" {
			alive = now
		}
	}
	if alive > 2*life {
		t.Errorf("a took b, which is deaf, for alive until %v", alive)
	}
	now := 5 * life
	b.accept(now, a.to(now, b))
	a.accept(now, b.to(now, a))
	want(t, "after it", b.accept(now, a.to(now, b)), "")
	want(t, "and back", a.accept(now, b.to(now, a)), "")
}

func TestKeep(t *testing.T) {
	a := newSide("a")
	a.address(0, "b")
	a.address(0, "c")
	a.keep(map[string]bool{"c": true})
	if len(a.peers) != 1 || a.peers["c"] == nil {
		t.Errorf("%v are left, want c", a.peers)
	}
}
