// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/announce"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

var (
	one = netip.MustParseAddr("192.0.2.100")
	two = netip.MustParseAddr("192.0.2.101")
)

// rested is a machine that has listened for so long that it takes at once what nobody owns, and that no test runs
// long enough to take others for dead.
func rested() *ownership.Machine {
	m := ownership.New(ownership.Config{Self: "a", DeadAfter: time.Hour}, -24*time.Hour)
	m.Step(-12 * time.Hour)
	return m
}

// talking is a keeper that says what it says to one peer, and that has no wire to announce on.
func talking(t *testing.T, machine *ownership.Machine) (*Keeper, *[]ownership.Change) {
	t.Helper()
	var said []ownership.Change
	link, err := heartbeat.Listen(heartbeat.Options{Name: "a", Keys: [][]byte{[]byte("a key of 16 byte")}, Listen: netip.MustParseAddrPort("127.0.0.1:0"), Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	k := &Keeper{
		options: Options{Name: "a", Event: func(c ownership.Change) { said = append(said, c) }},
		link:    link, wire: &announce.Announcer{}, changed: make(chan struct{}, 1), machine: machine,
		announced: map[netip.Addr]bool{}, given: map[netip.Addr]time.Duration{}, renew: map[netip.Addr]bool{},
	}
	k.SetPeers([]heartbeat.Peer{{Name: "b", Addr: link.Addr()}})
	return k, &said
}

// woken takes what is in Changed.
func woken(k *Keeper) bool {
	select {
	case <-k.Changed():
		return true
	default:
		return false
	}
}

// A change is told at once and repeated soon; else a message goes out when it is due, and the next one an interval later.
func TestWhenMessagesAreDue(t *testing.T) {
	for _, c := range []struct {
		name    string
		vips    []netip.Addr
		next    time.Duration
		repeats int
		sent    uint64
		left    int
		later   time.Duration
	}{
		{"nothing is due", nil, time.Hour, 0, 0, 0, 0},
		{"it is time", nil, 0, 0, 1, 0, ownership.DefaultInterval},
		{"it is time for the last repeat", nil, 0, 1, 1, 0, ownership.RepeatInterval},
		{"it is time for a repeat", nil, 0, 2, 1, 1, ownership.RepeatInterval},
		{"something changes", []netip.Addr{one}, time.Hour, 0, 1, ownership.Repeats - 1, ownership.RepeatInterval},
	} {
		k, _ := talking(t, rested())
		if err := k.SetVIPs(c.vips); err != nil {
			t.Fatal(err)
		}
		k.next, k.repeats = c.next, c.repeats
		before := k.link.Now()
		k.step()
		after := k.link.Now()
		if sent := k.link.Counters()["sent"]; sent != c.sent || k.repeats != c.left {
			t.Errorf("%s: %d sent, %d repeats are left, want %d and %d", c.name, sent, k.repeats, c.sent, c.left)
		}
		if c.sent == 0 {
			before, after = c.next, c.next
		}
		if k.next < before+c.later || k.next > after+c.later {
			t.Errorf("%s: the next one at %v, want one %v after a time from %v to %v", c.name, k.next, c.later, before, after)
		}
	}
}

// What a decision does to what is announced, to what was given away, and to what is announced anew.
func TestChange(t *testing.T) {
	const now = 7 * time.Second
	for _, c := range []struct {
		action    ownership.Action
		announced map[netip.Addr]bool
		given     map[netip.Addr]time.Duration
		renew     map[netip.Addr]bool
	}{
		{ownership.Take, map[netip.Addr]bool{one: true, two: true}, map[netip.Addr]time.Duration{two: 2}, nil},
		{ownership.Yield, map[netip.Addr]bool{two: true}, map[netip.Addr]time.Duration{one: now, two: 2}, nil},
		{ownership.Renew, map[netip.Addr]bool{one: true, two: true}, map[netip.Addr]time.Duration{one: 1, two: 2}, map[netip.Addr]bool{one: true}},
	} {
		k, said := talking(t, rested())
		k.announced, k.given = map[netip.Addr]bool{one: true, two: true}, map[netip.Addr]time.Duration{one: 1, two: 2}
		change := ownership.Change{VIP: one, Action: c.action, Why: "so"}
		k.change(now, change)
		if !maps.Equal(k.announced, c.announced) || !maps.Equal(k.given, c.given) || !maps.Equal(k.renew, c.renew) {
			t.Errorf("%v: announced %v, given %v, renewed %v", c.action, k.announced, k.given, k.renew)
		}
		if !woken(k) || !slices.Equal(*said, []ownership.Change{change}) {
			t.Errorf("%v: told %v", c.action, *said)
		}
		k.options.Event = nil // nobody needs to listen
		k.change(now, change)
	}
}

// A VIP is balanced while it is owned, and for the time of grace after it was given away.
func TestBalancedFromTakenToTheEndOfGrace(t *testing.T) {
	k, _ := talking(t, rested())
	k.given = map[netip.Addr]time.Duration{one: k.link.Now() - Grace, two: k.link.Now() - Grace + time.Hour}
	k.step()
	if got, want := k.Balanced(), map[netip.Addr]bool{two: true}; !maps.Equal(got, want) || !woken(k) {
		t.Errorf("balanced %v, want %v", got, want)
	}
	if k.step(); woken(k) {
		t.Error("woken although nothing changed")
	}
	if err := k.SetVIPs([]netip.Addr{one, two}); err != nil {
		t.Fatal(err)
	}
	k.step()
	if got := k.Owned(); !slices.Equal(got, []netip.Addr{one, two}) || len(k.given) != 0 || k.Owner(one) != "a" {
		t.Errorf("owned %v, given %v", got, k.given)
	}
	if got, want := k.Balanced(), map[netip.Addr]bool{one: true, two: true}; !maps.Equal(got, want) {
		t.Errorf("balanced %v, want %v", got, want)
	}
}

// Who uses a keeper is woken by an agent that is heard for the first time, not by one that is known.
func TestWokenByWhoIsNew(t *testing.T) {
	k, _ := talking(t, rested())
	for _, c := range []struct {
		from  string
		woken bool
		alive []string
	}{{"c", true, []string{"c"}}, {"c", false, []string{"c"}}, {"b", true, []string{"b", "c"}}, {"b", false, []string{"b", "c"}}} {
		k.hear(ownership.Message{From: c.from, Able: true})
		if got := woken(k); got != c.woken || !slices.Equal(k.Alive(), c.alive) {
			t.Errorf("%s: woken %v, alive %v, want %v and %v", c.from, got, k.Alive(), c.woken, c.alive)
		}
	}
}

// So many VIPs fit into a heartbeat and no more; what is none any more is announced and balanced no longer.
func TestSetVIPs(t *testing.T) {
	k, _ := talking(t, rested())
	many := make([]netip.Addr, heartbeat.MaxVIPs+1)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})
	}
	if err := k.SetVIPs(many[1:]); err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf("%d VIPs to announce, at most %d", heartbeat.MaxVIPs+1, heartbeat.MaxVIPs)
	if err := k.SetVIPs(many); err == nil || err.Error() != want || len(k.vips) != heartbeat.MaxVIPs {
		t.Errorf("%v, want %s; %d VIPs", err, want, len(k.vips))
	}
	k.announced, k.given = map[netip.Addr]bool{one: true, two: true}, map[netip.Addr]time.Duration{one: 1, two: 2}
	if err := k.SetVIPs([]netip.Addr{two}); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(k.vips, map[netip.Addr]bool{two: true}) || !maps.Equal(k.announced, map[netip.Addr]bool{two: true}) || !maps.Equal(k.given, map[netip.Addr]time.Duration{two: 2}) {
		t.Errorf("VIPs %v, announced %v, given %v", k.vips, k.announced, k.given)
	}
}

// Silence means something only where other agents are configured.
func TestSetPeers(t *testing.T) {
	k, _ := talking(t, rested())
	k.machine.Company(true)
	for _, peers := range [][]heartbeat.Peer{{{Name: "b", Addr: k.link.Addr()}}, nil} {
		k.SetPeers(peers)
		if k.Expected() != len(peers) || k.machine.Ask(24*time.Hour) != (len(peers) > 0) {
			t.Errorf("%v: %d are expected, the wire is asked: %v", peers, k.Expected(), k.machine.Ask(24*time.Hour))
		}
	}
}

// Of the peers, and of the hosts of one family, only the first eight each are asked.
func TestQuestionsAreBounded(t *testing.T) {
	var peers []heartbeat.Peer
	var hosts, want []netip.Addr
	for i := range byte(askedAtMost + 1) {
		peers = append(peers, heartbeat.Peer{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, i}), 9440)})
		hosts = append(hosts, netip.AddrFrom4([4]byte{198, 51, 100, i}), netip.MustParseAddr("fe80::1"))
	}
	for i := range askedAtMost {
		want = append(want, peers[i].Addr.Addr())
	}
	for i := range askedAtMost {
		want = append(want, hosts[2*i])
	}
	if got := questions(false, netip.Addr{}, peers, hosts); !slices.Equal(got, want) {
		t.Errorf("asked are %v, want %v", got, want)
	}
}
