// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

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

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, MaxVIPs} {
		want := Packet{Nonce: 1, Echo: 2, Sequence: 3, TakesReports: n > 0, NewerKey: n > 1, Message: ownership.Message{From: strings.Repeat("n", maxName), Able: n > 0, VIPs: vips(n)}}
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
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   Reason
	}{
		"magic":         {func(b []byte) []byte { b[0]++; return b }, Malformed},
		"version":       {func(b []byte) []byte { b[4]++; return b }, OtherVersion},
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

// FuzzParse: whatever comes in, what is read writes itself again.
func FuzzParse(f *testing.F) {
	for _, n := range []int{0, 2} {
		b, err := seal(key, Packet{Nonce: 1, Echo: 2, Sequence: 3, Message: ownership.Message{From: fmt.Sprint("node-", n), Able: true, VIPs: vips(n)}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-tagSize])
	}
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
