// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

var key = []byte("0123456789abcdef")

// unseal checks the tag and reads a heartbeat.
func unseal(keys [][]byte, b []byte) (Packet, Reason) {
	body, sum, reason := split(b)
	if reason != "" {
		return Packet{}, reason
	}
	if newKeyring(keys).opens(0, body, sum) < 0 {
		return Packet{}, BadTag
	}
	return parse(body)
}

func vips(n int) []ownership.Claim {
	var all []ownership.Claim
	for i := range n {
		all = append(all, ownership.Claim{VIP: netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), Owned: i%3 == 0})
	}
	return all
}

// sixes are VIPs of IPv6.
func sixes(n int) []ownership.Claim {
	var all []ownership.Claim
	for i := range n {
		all = append(all, ownership.Claim{VIP: netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)}), Owned: i%3 == 0})
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	for _, all := range [][]ownership.Claim{nil, vips(1), vips(MaxVIPs), sixes(1), sixes(MaxVIPs), append(vips(MaxVIPs-1), sixes(1)...)} {
		n := len(all)
		want := Packet{Nonce: 1, Echo: 2, Sequence: 3, TakesReports: n > 0, NewerKey: n > 1, ReadsSix: n == 1, Message: ownership.Message{From: strings.Repeat("n", maxName), Able: n > 0, VIPs: all}}
		b, err := seal(key, want)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > maxSize {
			t.Errorf("%d bytes, the receiver reads %d", len(b), maxSize)
		}
		got, reason := unseal([][]byte{[]byte("another key......"), key}, b)
		if reason != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("%d VIPs: %q, %+v", n, reason, got)
		}
		if six := n > 0 && all[n-1].VIP.Is6(); b[4] != map[bool]byte{false: versionFour, true: versionBoth}[six] {
			t.Errorf("%d VIPs, of IPv6 %v: version %d", n, six, b[4])
		}
	}
	if _, err := seal(key, Packet{Message: ownership.Message{From: "a", VIPs: vips(MaxVIPs + 1)}}); err == nil {
		t.Error("a message with too many VIPs was written")
	}
	if _, err := seal(key, Packet{}); err == nil {
		t.Error("a message without name was written")
	}
}

// Every byte counts: no datagram that was changed on the way is taken.
func TestEveryByteIsSigned(t *testing.T) {
	good, err := seal(key, Packet{Nonce: 1, Message: ownership.Message{From: "node-a", VIPs: vips(2)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 1
		if _, reason := unseal([][]byte{key}, b); reason != BadTag {
			t.Errorf("byte %d changed: %q", i, reason)
		}
		if _, reason := unseal([][]byte{key}, good[:i]); reason != BadTag && reason != TooShort {
			t.Errorf("cut to %d bytes: %q", i, reason)
		}
	}
	if _, reason := unseal([][]byte{[]byte("another key......")}, good); reason != BadTag {
		t.Errorf("another key: %q", reason)
	}
}

// What carries a good tag may still be nonsense of another version.
func TestParseRefuses(t *testing.T) {
	good, err := seal(key, Packet{Nonce: 1, Message: ownership.Message{From: "node-a", VIPs: vips(2)}})
	if err != nil {
		t.Fatal(err)
	}
	const claimSize = 5
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   Reason
	}{
		"magic":         {func(b []byte) []byte { b[0]++; return b }, Malformed},
		"version":       {func(b []byte) []byte { b[4] = 3; return b }, OtherVersion},
		"version 2":     {func(b []byte) []byte { b[4] = versionBoth; return b }, Malformed},
		"more VIPs":     {func(b []byte) []byte { b[7]++; return b }, Malformed},
		"longer name":   {func(b []byte) []byte { b[32]++; return b }, Malformed},
		"no name":       {func(b []byte) []byte { b[32] = 0; return b }, Malformed},
		"no nonce":      {func(b []byte) []byte { copy(b[8:16], make([]byte, 8)); return b }, Malformed},
		"a byte behind": {func(b []byte) []byte { return append(b, 0) }, Malformed},
		"a VIP twice":   {func(b []byte) []byte { copy(b[len(b)-claimSize:], b[len(b)-2*claimSize:]); return b }, Malformed},
		"nothing":       {func([]byte) []byte { return nil }, TooShort},
	} {
		if _, reason := parse(c.change(bytes.Clone(good[:len(good)-tagSize]))); reason != c.want {
			t.Errorf("%s: %q, want %q", name, reason, c.want)
		}
	}
}

// The same of what names VIPs of both families.
func TestParseRefusesSix(t *testing.T) {
	good, err := seal(key, Packet{Nonce: 1, Message: ownership.Message{From: "node-a", VIPs: append(vips(1), sixes(2)...)}})
	if err != nil {
		t.Fatal(err)
	}
	good = good[:len(good)-tagSize]
	const claimSize = 17
	count := len(good) - 2*claimSize - countSize
	for name, change := range map[string]func(b []byte) []byte{
		"version 1":     func(b []byte) []byte { b[4] = versionFour; return b },
		"more VIPs":     func(b []byte) []byte { b[count+1]++; return b },
		"fewer VIPs":    func(b []byte) []byte { b[count+1]--; return b },
		"too many VIPs": func(b []byte) []byte { b[count] = 0xff; return append(b, make([]byte, 0xff00*claimSize)...) },
		"no IPv6":       func(b []byte) []byte { return append(b[:count], 0, 0) },
		"cut":           func(b []byte) []byte { return b[:count+1] },
		"a VIP twice":   func(b []byte) []byte { copy(b[len(b)-claimSize:], b[len(b)-2*claimSize:]); return b },
		"IPv4 in IPv6":  func(b []byte) []byte { copy(b[count+2:], []byte{9: 0, 10: 0xff, 11: 0xff}); b[count+2] = 0; return b },
		"a byte behind": func(b []byte) []byte { return append(b, 0) },
	} {
		if _, reason := parse(change(bytes.Clone(good))); reason != Malformed {
			t.Errorf("%s: %q", name, reason)
		}
	}
	if _, reason := parse(good); reason != "" {
		t.Errorf("a good one: %q", reason)
	}
}

// Who has not said that it reads version 2 is told of IPv4 alone, so that agents of
// two versions agree about that during an upgrade.
func TestOlderAgentsAreToldOfIPv4(t *testing.T) {
	m := ownership.Message{From: "a", Able: true, VIPs: append(vips(2), sixes(1)...)}
	all := []loads.Load{{Server: netip.MustParseAddrPort("10.0.0.1:80"), Open: 1}, {Server: netip.MustParseAddrPort("[fd00::1]:80"), Open: 2}}
	for _, reads := range []bool{false, true} {
		e := newExchange("a", [][]byte{key}, time.Second, func() uint64 { return 7 })
		if reason := e.sessions.accept(0, Packet{Nonce: 9, Sequence: 1, TakesReports: true, ReadsSix: reads, Message: ownership.Message{From: "b"}}); reason == "" {
			t.Fatal("a stranger was heard")
		}
		if _, err := e.heartbeat(0, "b", m); err != nil {
			t.Fatal(err)
		}
		if reason := e.sessions.accept(0, Packet{Nonce: 9, Echo: 7, Sequence: 2, TakesReports: true, ReadsSix: reads, Message: ownership.Message{From: "b"}}); reason != "" {
			t.Fatalf("b is not heard: %s", reason)
		}
		b, err := e.heartbeat(0, "b", m)
		if err != nil {
			t.Fatal(err)
		}
		told, reason := unseal([][]byte{key}, b)
		if want := map[bool]int{false: 2, true: 3}[reads]; reason != "" || len(told.Message.VIPs) != want || !told.ReadsSix {
			t.Errorf("reads version 2 %v: told of %+v, %q", reads, told, reason)
		}
		reports, err := e.reports(0, "b", all)
		if want := map[bool]int{false: 1, true: 2}[reads]; err != nil || len(reports) != want {
			t.Errorf("reads version 2 %v: %d reports, %v", reads, len(reports), err)
		}
	}
}

// FuzzParse: whatever comes in, what is read writes itself again.
func FuzzParse(f *testing.F) {
	for _, n := range []int{0, 2} {
		b, err := seal(key, Packet{Nonce: 1, Echo: 2, Sequence: 3, Message: ownership.Message{From: fmt.Sprint("node-", n), Able: true, VIPs: vips(n)}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-tagSize])
	}
	six, err := seal(key, Packet{Nonce: 1, ReadsSix: true, Message: ownership.Message{From: "node", VIPs: append(vips(1), sixes(2)...)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(six[:len(six)-tagSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		p, reason := parse(b)
		if reason != "" {
			return
		}
		again, err := seal(key, p)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", p, err)
		}
		q, reason := unseal([][]byte{key}, again)
		if reason != "" || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v became %+v (%s)", p, q, reason)
		}
	})
}
