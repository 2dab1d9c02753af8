// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/announce"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

var key = []byte("a key of 16 byte")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func up(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetUp(l))
	return l
}

// wired puts the test into a network namespace of its own, with the uplink eth0 (192.0.2.1/24), at whose other end
// only the returned host speaks.
func wired(t *testing.T) (uplink netlink.Link, host *announce.Announcer) {
	t.Helper()
	privileged.Need(t, "makes network namespaces")
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	home, err := netns.New()
	must(t, err)
	t.Cleanup(func() { home.Close() })
	up(t, "lo")
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "host"}
	v.Name = "eth0"
	must(t, netlink.LinkAdd(v))
	for _, name := range []string{"host", "eth0"} { // without addresses of IPv6 neither kernel's end speaks
		l, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetIP6AddrGenMode(l, 1))
	}
	other := up(t, "host")
	uplink = up(t, "eth0")
	for _, name := range []string{"host", "eth0"} { // before that, what is sent is lost
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if l, err := netlink.LinkByName(name); err == nil && l.Attrs().OperState == netlink.OperUp {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s does not come up", name)
			}
		}
	}
	addr, err := netlink.ParseAddr("192.0.2.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(uplink, addr))
	host, err = announce.Open(other.Attrs().Index)
	must(t, err)
	t.Cleanup(func() { _ = host.Close() })
	return uplink, host
}

func open(t *testing.T, uplink netlink.Link, o Options) *Keeper {
	t.Helper()
	o.Name, o.Uplink, o.Keys, o.Listen = "a", uplink.Attrs().Index, [][]byte{key}, netip.MustParseAddrPort("127.0.0.1:0")
	k, err := New(o)
	must(t, err)
	k.machine = rested()
	return k
}

// Who leaves says so once and repeats it, and owns nothing then.
func TestRunAndLeave(t *testing.T) {
	uplink, _ := wired(t)
	ctx, cancel := context.WithCancel(t.Context())
	var said []ownership.Change
	k := open(t, uplink, Options{Event: func(c ownership.Change) {
		if said = append(said, c); c.Action == ownership.Take {
			cancel()
		}
	}})
	must(t, k.SetVIPs([]netip.Addr{one}))
	k.Run(ctx)
	want := []ownership.Change{
		{VIP: one, Action: ownership.Take, Why: "no live agent owns it and this one comes first"},
		{VIP: one, Action: ownership.Yield, Why: "this agent is leaving"},
	}
	if !slices.Equal(said, want) || len(k.Owned()) != 0 {
		t.Errorf("%v, want %v; owned %v", said, want, k.Owned())
	}

	k = open(t, uplink, Options{Balanced: []netip.Addr{two}})
	if !k.Balanced()[two] || len(k.Balanced()) != 1 {
		t.Errorf("what a former process balanced: %v", k.Balanced())
	}
	k.SetPeers([]heartbeat.Peer{{Name: "b", Addr: k.link.Addr()}})
	k.next = time.Hour // nothing is due but what leaving says
	k.Run(ctx)
	if sent := k.link.Counters()["sent"]; sent < 1+ownership.Repeats {
		t.Errorf("leaving was said %d times, want %d", sent, 1+ownership.Repeats)
	}
}

// A node owns nothing while its uplink has no carrier.
func TestCarrier(t *testing.T) {
	uplink, _ := wired(t)
	var said []ownership.Change
	k := open(t, uplink, Options{Event: func(c ownership.Change) { said = append(said, c) }})
	defer func() { _, _ = k.link.Close(), k.wire.Close() }()
	must(t, k.SetVIPs([]netip.Addr{one}))
	k.look()
	must(t, netlink.LinkSetDown(uplink))
	k.look()
	want := []ownership.Change{
		{VIP: one, Action: ownership.Take, Why: "no live agent owns it and this one comes first"},
		{VIP: one, Action: ownership.Yield, Why: "the uplink has no carrier"},
	}
	if !slices.Equal(said, want) {
		t.Errorf("%v, want %v", said, want)
	}
}

// An announcement goes out once for each time that a VIP is taken or renewed, and for owned ones only.
func TestAnnounceOnce(t *testing.T) {
	uplink, _ := wired(t)
	k := open(t, uplink, Options{})
	defer func() { _, _ = k.link.Close(), k.wire.Close() }()
	must(t, k.SetVIPs([]netip.Addr{one}))
	k.step()
	for _, c := range []struct {
		name             string
		announced, renew bool
		balanced         []netip.Addr
		want             bool
	}{
		{"taken", false, false, []netip.Addr{one}, true},
		{"announced already", true, false, []netip.Addr{one}, false},
		{"renewed", true, true, []netip.Addr{one}, true},
		{"not owned", false, false, []netip.Addr{two}, false},
		{"behind one that is not owned", false, false, []netip.Addr{two, one}, true},
		{"not balanced yet", false, false, nil, false},
	} {
		k.wire.Withdraw(one) // ends the repeats of the row before
		k.announced, k.renew = map[netip.Addr]bool{}, map[netip.Addr]bool{}
		if c.announced {
			k.announced[one] = true
		}
		if c.renew {
			k.renew[one] = true
		}
		before := k.wire.Counters(announce.ARP)["announced"]
		k.Announce(c.balanced)
		told := k.wire.Counters(announce.ARP)["announced"] > before
		if told != c.want || k.announced[one] != (c.want || c.announced) || len(k.renew) != 0 {
			t.Errorf("%s: told %v, announced %v, renewed %v", c.name, told, k.announced, k.renew)
		}
	}
}

// The wire is asked when nothing was heard for long, somebody is there who would answer, and not again at once.
func TestWhenTheWireIsAsked(t *testing.T) {
	uplink, host := wired(t)
	k := open(t, uplink, Options{})
	ran := make(chan struct{})
	go func() { defer close(ran); k.wire.Run() }()
	defer func() { _, _ = k.link.Close(), k.wire.Close(); <-ran }()
	peers := []heartbeat.Peer{{Name: "b", Addr: netip.MustParseAddrPort("192.0.2.2:9440")}}
	look := func(name string, peers []heartbeat.Peer, asked time.Duration, packet bool, want uint64) {
		t.Helper()
		k.machine = ownership.New(ownership.Config{Self: "a", DeadAfter: time.Hour}, -24*time.Hour)
		k.SetPeers(peers)
		state, err := devices.State(k.options.Uplink)
		must(t, err)
		if k.received, k.asked = state.Received, asked; packet {
			k.received--
		}
		before, from := k.wire.Counters(announce.ARP)["asked"], k.link.Now()
		k.look()
		if got := k.wire.Counters(announce.ARP)["asked"] - before; got != want || k.received != state.Received {
			t.Errorf("%s: %d are asked, want %d; %d packets of %d", name, got, want, k.received, state.Received)
		}
		if now := k.link.Now(); want == 0 && k.asked != asked || want > 0 && (k.asked < from || k.asked > now) {
			t.Errorf("%s: asked at %v", name, k.asked)
		}
	}
	look("nobody who would answer", peers, -time.Hour, false, 0)
	host.Ask(netip.MustParseAddr("192.0.2.9"), []netip.Addr{netip.MustParseAddr("192.0.2.8")})
	for end := time.Now().Add(10 * time.Second); len(k.wire.Hosts()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the host is not heard")
		}
	}
	look("silence", peers, -time.Hour, false, 2) // the peer and the host
	look("silence, and asked just now", peers, time.Hour, false, 0)
	look("a packet came", peers, -time.Hour, true, 0)
	look("no other agents", nil, -time.Hour, false, 0)
}
