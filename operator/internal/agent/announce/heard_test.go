// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// quiet is an announcer of two VIPs that sends nothing.
func quiet() *Announcer {
	counters := map[Protocol]map[string]uint64{ARP: {}, NDP: {}}
	return &Announcer{device: &net.Interface{HardwareAddr: mine}, owned: map[netip.Addr]*announced{vip: {}, vip6: {}}, counters: counters}
}

// Hosts are remembered by their address, the latest first and each once, so many of them; who speaks as we do is none.
func TestWhoSpokeLately(t *testing.T) {
	a := quiet()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
	for _, c := range []struct {
		addr netip.Addr
		mac  net.HardwareAddr
		want string
	}{
		{at(10), his, "10=2 "}, {at(11), his, "11=2 10=2 "}, {at(10), his, "10=2 11=2 "}, {at(10), his, "10=2 11=2 "}, {at(10), net.HardwareAddr{2, 0, 0, 0, 0, 9}, "10=9 11=2 "},
		{at(11), net.HardwareAddr{2, 0, 0, 0, 0, 8}, "11=8 10=9 "}, {vip, his, "11=8 10=9 "}, {netip.Addr{}, his, "11=8 10=9 "}, {netip.IPv4Unspecified(), his, "11=8 10=9 "},
	} {
		a.hear(c.addr, c.mac)
		got := ""
		for _, h := range a.Hosts() {
			got += fmt.Sprintf("%d=%d ", h.Addr.As4()[3], h.MAC[5])
		}
		if got != c.want {
			t.Errorf("after %v at %v: %s, want %s", c.addr, c.mac, got, c.want)
		}
	}
	for i := range 100 {
		a.hear(at(100+i), his)
	}
	if all := a.Hosts(); len(all) != hostsKept || all[0].Addr != at(199) || all[hostsKept-1].Addr != at(199-hostsKept+1) {
		t.Errorf("%v", all)
	}
}

// Another's claim is counted each time, and answered every ten seconds; what nobody claims from us is no conflict.
func TestConflicts(t *testing.T) {
	a, now := quiet(), time.Unix(1000, 0)
	for _, c := range []struct {
		after time.Duration
		tell  bool
	}{{0, true}, {defendEvery - 1, false}, {defendEvery, true}, {defendEvery + 1, false}} {
		if a.conflict(vip, now.Add(c.after)) != c.tell {
			t.Errorf("after %v: %v", c.after, !c.tell)
		}
	}
	if a.conflict(netip.MustParseAddr("192.0.2.77"), now) || a.Counters(ARP)["conflict"] != 4 {
		t.Errorf("%v", a.Counters(ARP))
	}
}

// Who asks for another's address is counted; an answer, our own frame, and a packet that is none, ask for nothing.
func TestFramesThatAreNotAnswered(t *testing.T) {
	now, other := time.Unix(1000, 0), netip.MustParseAddr("192.0.2.77")
	for name, c := range map[string]struct {
		f    frame
		from net.HardwareAddr
		want string
	}{
		"asks for another's": {frame{op: opRequest, senderMAC: his, sender: other, targetMAC: noMAC, target: other}, his, "not_ours"},
		"answers":            {frame{op: opReply, senderMAC: his, sender: other, targetMAC: mine, target: other}, his, ""},
		"our own":            {frame{op: opRequest, senderMAC: mine, sender: other, targetMAC: noMAC, target: other}, mine, ""},
	} {
		a := quiet()
		a.takeARP(c.f.bytes(), c.from, now)
		if got := a.Counters(ARP); c.want != "" && (got[c.want] != 1 || len(got) != 1) || c.want == "" && len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	a := quiet()
	a.takeARP([]byte{1}, his, now)
	a.takeNDP([]byte{1}, his, now)
	a.takeNDP(solicit(host, host.Next(), his).bytes(), his, now)
	a.takeNDP(unsolicited(host, his).bytes(), his, now)
	a.takeNDP(solicit(host, host.Next(), mine).bytes(), mine, now)
	if arp, ndp := a.Counters(ARP), a.Counters(NDP); arp["malformed"] != 1 || ndp["malformed"] != 1 || ndp["not_ours"] != 1 || len(ndp) != 2 {
		t.Errorf("%v, %v", arp, ndp)
	}
	if _, ok := parseARP(answer(frame{op: opRequest, senderMAC: his, sender: vip, target: vip}, mine).bytes()); !ok {
		t.Error("a frame without padding is none")
	}
	// A flag that only an advertisement has says nothing in a solicitation.
	b := solicit(host, vip6, his).bytes()
	b[ipv6Header+4] = flagSolicit
	if m, ok := parseNDP(resum(b)); !ok || m.solicited {
		t.Errorf("%+v, %v", m, ok)
	}
}
