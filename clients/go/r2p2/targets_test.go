// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// A literal address is none to resolve again, with its port and without; a name is.
func TestLiteralTargets(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "10.0.0.1:9": "10.0.0.1", "[::1]:9": "::1", "::1": "::1", "[::ffff:10.0.0.1]:9": "10.0.0.1", "echo:9": "invalid IP", "echo": "invalid IP",
	} {
		one, err := parseTarget(text)
		if err != nil || one.ip.String() != want {
			t.Errorf("%q: %v, %v", text, one.ip, err)
		}
		all, err := newTargets([]string{text}, net.DefaultResolver)
		if err != nil || all.literal() != one.ip.IsValid() {
			t.Errorf("%q: literal %v, %v", text, all.literal(), err)
		}
	}
}

// A name that does not resolve hides none behind it; of both families IPv4 is kept, and IPv6 where there is no other.
func TestWhatNamesResolveTo(t *testing.T) {
	resolver := &names{ips: map[string][]netip.Addr{
		"both": {netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}, "six": {netip.MustParseAddr("fd00::2")},
	}}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"gone", "both"}, "[10.0.0.1:8000 10.0.0.2:8000]"}, {[]string{"both", "gone", "10.0.0.1"}, "[10.0.0.1:8000 10.0.0.2:8000]"},
		{[]string{"six"}, "[[fd00::2]:8000]"}, {[]string{"six", "both"}, "[10.0.0.1:8000 10.0.0.2:8000]"}, {[]string{"gone"}, "[]"},
	} {
		all, err := newTargets(c.names, resolver)
		if err != nil {
			t.Fatal(err)
		}
		err = all.refresh(t.Context())
		if got := fmt.Sprint(all.all()); got != c.want || (err == nil) != (c.want != "[]") {
			t.Errorf("%v: %s, %v", c.names, got, err)
		}
	}
}

// Sockets begin at one router after the other, and go from one that failed to the next, from the last to the first.
func TestOneTargetAfterTheOther(t *testing.T) {
	all := &targets{}
	none := netip.MustParseAddrPort("10.0.0.9:1")
	if all.another(none) != none || all.spread(1, 1).IsValid() {
		t.Error("out of nothing")
	}
	at := func(i int) netip.AddrPort { return netip.AddrPortFrom(loopback, uint16(i)) }
	all.list = []netip.AddrPort{at(2), at(4), at(6)}
	for failed, want := range map[int]int{2: 4, 4: 6, 6: 2, 1: 2, 3: 4, 5: 6, 7: 2} {
		if got := all.another(at(failed)); got != at(want) {
			t.Errorf("behind %d: %v, want %d", failed, got, want)
		}
	}
	for i, want := range []int{4, 6, 2, 4} {
		if got := all.spread(1, i); got != at(want) {
			t.Errorf("socket %d: %v, want %d", i, got, want)
		}
	}
}

// M-23: no peer has port 0, a group's or nobody's address, that of all, or our own.
func TestHonestAddresses(t *testing.T) {
	s := &socket{local: netip.MustParseAddrPort("10.0.0.1:8000")}
	for from, want := range map[string]bool{
		"10.0.0.2:8000": true, "10.0.0.1:8001": true, "[fd00::1]:1": true, "10.0.0.2:0": false, "224.0.0.1:1": false, "[ff02::1]:1": false,
		"0.0.0.0:1": false, "[::]:1": false, "255.255.255.255:1": false, "10.0.0.1:8000": false,
	} {
		if s.honest(netip.MustParseAddrPort(from)) != want {
			t.Errorf("%s: %v", from, !want)
		}
	}
}
