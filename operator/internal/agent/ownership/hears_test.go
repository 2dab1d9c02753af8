// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"net/netip"
	"testing"
	"time"
)

// A carrier that comes back makes an agent listen again; one that was there all the time, or goes, does not.
func TestListensWhenTheCarrierComesBack(t *testing.T) {
	m := New(Config{Self: "a", DeadAfter: time.Second}, 0)
	for i, c := range []struct {
		up    bool
		since time.Duration
	}{{true, 0}, {false, 0}, {false, 0}, {true, 4}, {true, 4}} {
		if m.SetLink(time.Duration(i+1), c.up); m.since != c.since {
			t.Errorf("step %d: it listens since %v, want %v", i, m.since, c.since)
		}
	}
}

// The wire is asked where others should be heard and somebody is known to answer.
func TestWhenTheWireIsAsked(t *testing.T) {
	for _, expect := range []bool{false, true} {
		for _, company := range []bool{false, true} {
			m := New(Config{Self: "a", DeadAfter: time.Second}, 0)
			m.Expect(expect)
			m.Company(company)
			if got := m.Ask(time.Hour); got != (expect && company) {
				t.Errorf("others expected %v, company %v: %v", expect, company, got)
			}
		}
	}
}

// An agent that did not run for a while forgives others, and the wire, as long as that.
func TestPausesAreForgiven(t *testing.T) {
	const start, dead, gap = 10 * time.Second, time.Second, 5 * time.Second
	m := New(Config{Self: "a", DeadAfter: dead}, start)
	m.Hear(start, Message{From: "b"})
	m.Step(start)
	m.Step(start + gap)
	if m.wire != start+gap || m.peers["b"] == nil || m.peers["b"].heard != start+gap {
		t.Errorf("the wire was heard at %v, peers %+v", m.wire, m.peers)
	}
}

// A VIP waits for the better owner that it waits for: another one is waited for anew, the same one is not.
func TestEachBetterOwnerIsWaitedFor(t *testing.T) {
	const hold = 10 * time.Second
	var names []string // from the best to the worst
	for _, n := range []string{"a", "b", "c"} {
		at := 0
		for at < len(names) && before(bound, names[at], n) {
			at++
		}
		names = append(names[:at], append([]string{n}, names[at:]...)...)
	}
	m := New(Config{Self: names[2], DeadAfter: time.Hour, Hold: hold}, -3*time.Hour)
	m.Step(-2 * time.Hour)
	m.SetVIPs([]netip.Addr{bound})
	m.Step(-time.Second)
	hear := func(from string, at time.Duration) {
		m.Hear(at, Message{From: from, Able: true, VIPs: []Claim{{VIP: bound}}})
		m.Step(at)
	}
	hear(names[1], time.Second)
	hear(names[0], 6*time.Second)
	for _, c := range []struct {
		at    time.Duration
		owned bool
	}{{time.Second + hold, true}, {6*time.Second + hold - 1, true}, {6*time.Second + hold, false}} {
		if m.Step(c.at); (len(m.Owned()) == 1) != c.owned {
			t.Errorf("at %v: owned %v", c.at, m.Owned())
		}
	}
}
