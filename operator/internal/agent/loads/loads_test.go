// SPDX-License-Identifier: Apache-2.0

package loads

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

var (
	web  = netip.MustParseAddrPort("192.0.2.1:80")
	also = netip.MustParseAddrPort("192.0.2.2:80")
	one  = netip.MustParseAddrPort("10.0.0.1:80")
	two  = netip.MustParseAddrPort("10.0.0.2:80")
)

func pools() []Pool {
	return []Pool{
		{VIP: web, Servers: []Server{{one, "a", 1}, {two, "b", 3}}},
		{VIP: also, Servers: []Server{{one, "a", 0}}},
	}
}

// C-62: the programs learn what a server's own node tells, for each pool it is in,
// as much as each unit of its weight carries.
func TestHear(t *testing.T) {
	table := NewTable()
	table.Set(0, pools())
	got := table.Hear(1, "a", []Load{{one, 5}, {two, 7}, {netip.MustParseAddrPort("10.0.0.1:81"), 1}})
	if want := []Update{{web, one.Addr(), 5}, {also, one.Addr(), 5}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for open, want := range map[uint32]uint32{0: 0, 1: 1, 3: 1, 7: 3, ^uint32(0): 0x55555555} {
		if got := table.Hear(1, "b", []Load{{two, open}}); len(got) != 1 || got[0].Open != want {
			t.Errorf("%d connections on a server of weight 3: %v, want %d", open, got, want)
		}
	}
	if c := table.Counters(); c != (Counters{Taken: 6, Foreign: 1, Unasked: 1}) {
		t.Errorf("%+v", c)
	}
}

// C-62: a report ages; who waits for the first one waits as long as after the last.
func TestAge(t *testing.T) {
	table := NewTable()
	table.Set(0, pools())
	if n := table.Stale(0); n != 2 {
		t.Errorf("%d stale before any report", n)
	}
	if s := table.Silence(Patience); len(s) != 0 {
		t.Errorf("told too early: %v", s)
	}
	table.Hear(Patience, "a", []Load{{one, 5}})
	now := Patience + 1
	want := map[netip.AddrPort]Silent{web: {Servers: 1, Of: 2, Nodes: []string{"b"}}}
	if s := table.Silence(now); !reflect.DeepEqual(s, want) || table.Stale(now) != 1 {
		t.Errorf("%v, want %v; %d stale", s, want, table.Stale(now))
	}
	if n := table.Stale(Patience + Life); n != 1 {
		t.Errorf("%d stale as old as a report may be", n)
	}
	if n := table.Stale(Patience + Life + 1); n != 2 {
		t.Errorf("%d stale when all are too old", n)
	}
	now = 3 * Patience
	want = map[netip.AddrPort]Silent{web: {Servers: 2, Of: 2, Nodes: []string{"a", "b"}}, also: {Servers: 1, Of: 1, Nodes: []string{"a"}}}
	if s := table.Silence(now); !reflect.DeepEqual(s, want) {
		t.Errorf("%v, want %v", s, want)
	}
	table.Set(now, pools()[:1])
	if s := table.Silence(now); len(s) != 1 {
		t.Errorf("a new plan made old servers new: %v", s)
	}
	leaving := pools()
	leaving[0].Leaving = true
	table.Set(now, leaving)
	if s, n := table.Silence(now), table.Stale(now); len(s) != 1 || s[also].Servers != 1 || n != 1 {
		t.Errorf("one VIP was given away: %v, %d stale", s, n)
	}
	if got := table.Hear(now, "b", []Load{{two, 3}}); len(got) != 1 {
		t.Errorf("who gave a VIP away balances on, by the loads it hears: %v", got)
	}
	table.Set(now, nil)
	table.Set(now, pools())
	if s := table.Silence(now + time.Second); len(s) != 0 {
		t.Errorf("a VIP that has just come is told of: %v", s)
	}
}

func TestByBalancer(t *testing.T) {
	served := []Served{{pools()[0], []string{"x"}}, {pools()[1], []string{"x", "a"}}, {Pool{VIP: also}, nil}}
	if got, want := Local("a", served), []netip.AddrPort{one}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := Local("b", served), []netip.AddrPort{two}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	got := ByBalancer("a", served, map[netip.AddrPort]uint32{one: 4, two: 9})
	if want := map[string][]Load{"x": {{one, 4}}, "a": {{one, 4}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ByBalancer("b", served, map[netip.AddrPort]uint32{one: 4}); len(got) != 0 {
		t.Errorf("a server nobody counted is told of: %v", got)
	}
}
