// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// over is a context whose time is over: who rests in it does not wait.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// what a refusal teaches. Who is busy or hands the leadership over is asked again; a leader that is named is asked
// next; any other refusal makes the leader unknown.
func TestWhatARefusalTeaches(t *testing.T) {
	a, b, none := netip.MustParseAddrPort("10.0.0.1:8000"), netip.MustParseAddrPort("10.0.0.2:8000"), netip.AddrPort{}
	for _, c := range []struct {
		name      string
		reason    Reason
		leader    netip.AddrPort
		known     netip.AddrPort
		redirects uint64
		rests     bool
	}{
		{"another leads", NotLeader, b, b, 1, false},
		{"it names itself", NotLeader, a, none, 0, true},
		{"nobody is known to lead", NotLeader, none, none, 0, true},
		{"busy", Busy, none, a, 0, true},
		{"busy, and it names another", Busy, b, a, 0, true},
		{"the leadership moves", Moving, none, a, 0, true},
		{"no group yet", Forming, none, none, 0, true},
		{"its disk failed", DiskFault, b, none, 0, true},
	} {
		asking := asking{c: &Client{leader: a}, pause: 2 * time.Millisecond, deadline: time.Now().Add(time.Hour)}
		why := drop(c.reason, c.leader)[len("DROP"):]
		if _, done, err := asking.dropped(over(), a, &r2p2.DroppedError{Why: why}); done || err != nil {
			t.Errorf("%s: ended with %v", c.name, err)
		}
		_, redirects, _, refused := asking.c.Counters()
		if asking.c.leader != c.known || redirects != c.redirects || refused != 1 || (asking.pause > 2*time.Millisecond) != c.rests {
			t.Errorf("%s: leader %v, %d redirects, %d refused, pause %v; want %+v", c.name, asking.c.leader, redirects, refused, asking.pause, c)
		}
	}
}

// A request that is refused rests twice as long each time, and no longer than 50 ms.
func TestRestsGrow(t *testing.T) {
	a := asking{c: &Client{}, pause: 2 * time.Millisecond, deadline: time.Now().Add(time.Hour)}
	for _, want := range []time.Duration{4, 8, 16, 32, 50, 50} {
		if a.rest(over()); a.pause != want*time.Millisecond {
			t.Errorf("pause %v, want %d ms", a.pause, want)
		}
	}
}

// Only who leads is forgotten, and members are asked one after the other while nobody is known to.
func TestWhomToAsk(t *testing.T) {
	say := always(wire.Reply, []byte("\x00ok"))
	c := dial(t, time.Minute, silence, newMember(t, say), newMember(t, say))
	all := c.r2p2.Routers()
	if len(all) != 2 {
		t.Fatalf("%v", all)
	}
	c.turn = 0
	for i := range 4 {
		if got := c.next(); got != all[(i+1)%2] {
			t.Errorf("turn %d: %v of %v", i, got, all)
		}
	}
	a := asking{c: c}
	for silent, want := range []time.Duration{silence, silence, 2 * silence, 2 * silence, 4 * silence} { // each round asks both
		if a.silent = silent; a.patience() != want {
			t.Errorf("after %d attempts without an answer: %v, want %v", silent, a.patience(), want)
		}
	}
	c.learn(all[0], all[0])
	if c.learn(all[1], netip.AddrPort{}); c.next() != all[0] {
		t.Error("a member that does not lead made the leader unknown")
	}
	if c.learn(all[1], all[1]); c.next() != all[1] {
		t.Error("a new leader was not learned")
	}
	if c.learn(all[1], netip.AddrPort{}); c.leader.IsValid() {
		t.Error("the leader is still known")
	}
}

// How long is waited when nobody says so.
func TestDefaults(t *testing.T) {
	m := newMember(t, always(silent, nil))
	for _, unset := range []time.Duration{0, -1} {
		if c := dial(t, unset, unset, m); c.cfg.Timeout != 5*time.Second || c.cfg.Attempt != 400*time.Millisecond {
			t.Errorf("%+v", c.cfg)
		}
	}
}

// One member can be asked alone; a client that is closed asks nobody.
func TestReadAt(t *testing.T) {
	m := newMember(t, always(wire.Reply, []byte("now")))
	c := dial(t, time.Minute, time.Minute, m)
	if r, err := c.ReadAt(t.Context(), m.addr, nil); err != nil || string(r) != "now" {
		t.Errorf("%q, %v", r, err)
	}
	c.Close()
	if _, err := c.ReadAt(t.Context(), m.addr, nil); !errors.Is(err, r2p2.ErrClosed) {
		t.Errorf("of a client that is closed: %v", err)
	}
}

// What a member says is read when it is whole and of the version that is known; a reason of a newer member has no text.
func TestReasons(t *testing.T) {
	leader := netip.MustParseAddrPort("10.0.0.2:8000")
	whole := drop(Busy, leader)[len("DROP"):]
	newer := append([]byte{2}, whole[1:]...)
	for name, c := range map[string]struct {
		err    error
		reason Reason
		leader netip.AddrPort
	}{
		"whole":           {&r2p2.DroppedError{Why: whole}, Busy, leader},
		"a byte short":    {&r2p2.DroppedError{Why: whole[:len(whole)-1]}, 0, netip.AddrPort{}},
		"nothing":         {&r2p2.DroppedError{}, 0, netip.AddrPort{}},
		"another version": {&r2p2.DroppedError{Why: newer}, 0, netip.AddrPort{}},
		"no reason":       {r2p2.ErrDropped, 0, netip.AddrPort{}},
	} {
		if reason, leader := why(c.err); reason != c.reason || leader != c.leader {
			t.Errorf("%s: %v, %v", name, reason, leader)
		}
	}
	for r, want := range map[Reason]string{0: "no reason given", Refused: "not a member", Unordered: "what is not ordered goes to a member, not to a box", Unordered + 1: "unknown reason", 255: "unknown reason"} {
		if r.String() != want {
			t.Errorf("%d: %q, want %q", r, r, want)
		}
	}
}
