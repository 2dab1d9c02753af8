// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

var bound = netip.MustParseAddr("192.0.2.100")

// Agents of different releases must rank alike: the order is part of the protocol.
func TestRankIsPinned(t *testing.T) {
	for _, c := range []struct{ vip, want string }{
		{"192.0.2.100", "adcb"},
		{"192.0.2.101", "bcda"},
		{"2001:db8::5", "dcba"},
	} {
		vip := netip.MustParseAddr(c.vip)
		names := []string{"a", "b", "c", "d"}
		slices.SortFunc(names, func(a, b string) int {
			if before(vip, a, b) == before(vip, b, a) {
				t.Errorf("%s: %s and %s have no order", vip, a, b)
			}
			if before(vip, a, b) {
				return -1
			}
			return 1
		})
		got := ""
		for _, n := range names {
			got += n
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", vip, got, c.want)
		}
		if before(vip, "a", "a") {
			t.Errorf("%s: an agent comes before itself", vip)
		}
	}
}

// The times at which a decision turns, to the nanosecond; an agent starts at any time of its clock.
func TestTimesToTheNanosecond(t *testing.T) {
	const start, dead, hold = 5 * time.Second, time.Second, 10 * time.Second
	able := func(m *Machine, at time.Duration) bool { m.Step(at); return m.Say().Able }
	agent := func() *Machine {
		m := New(Config{Self: "a", DeadAfter: dead, Hold: hold}, start)
		m.Expect(true)
		m.Company(true)
		return m
	}
	for _, c := range []struct {
		name string
		at   time.Duration // from then on it is so, and not before
		is   func(m *Machine, at time.Duration) bool
	}{
		{"it has listened", start + dead, func(m *Machine, at time.Duration) bool { m.Expect(false); return able(m, at) }},
		{"the wire is asked", start + dead/2, func(m *Machine, at time.Duration) bool { return m.Ask(at) }},
		{"nobody is on the wire", start + dead*3/2, func(m *Machine, at time.Duration) bool { return m.alone(at) }},
		{"a silent agent is dead", start + dead, func(m *Machine, at time.Duration) bool {
			m.Hear(start, Message{From: "b"})
			m.Step(at)
			return len(m.Alive()) == 0
		}},
		{"a pause of its own is forgiven", start + dead/2 + 1, func(m *Machine, at time.Duration) bool {
			m.Step(start)
			m.Step(at)
			return m.wire != start
		}},
		{"it takes, after all others know that it is able", start + dead + dead/4, func(m *Machine, at time.Duration) bool {
			m.Expect(false)
			m.SetVIPs([]netip.Addr{bound})
			for _, step := range []time.Duration{start + dead/2, start + dead, at} {
				m.Step(step)
			}
			return len(m.Owned()) == 1
		}},
	} {
		for _, at := range []time.Duration{c.at - 1, c.at} {
			if got := c.is(agent(), at); got != (at == c.at) {
				t.Errorf("%s at %v: %v", c.name, at, got)
			}
		}
	}
}

// A better owner must have been there for the whole hold before a VIP moves to it.
func TestHoldToTheNanosecond(t *testing.T) {
	const dead, hold = time.Hour, 10 * time.Second
	better := "b"
	if before(bound, "a", "b") {
		better = "a"
	}
	worse := map[string]string{"a": "b", "b": "a"}[better]
	for _, c := range []struct {
		after time.Duration
		moved bool
	}{{hold - 1, false}, {hold, true}} {
		m := New(Config{Self: worse, DeadAfter: dead, Hold: hold}, -3*time.Hour)
		m.Step(-2 * time.Hour)
		m.SetVIPs([]netip.Addr{bound})
		m.Step(-time.Second)
		heard := time.Minute
		m.Hear(heard, Message{From: better, Able: true, VIPs: []Claim{{VIP: bound}}})
		m.Step(heard)
		if m.Step(heard + c.after); (len(m.Owned()) == 0) != c.moved {
			t.Errorf("%v after it was heard: owned %v", c.after, m.Owned())
		}
	}
}
