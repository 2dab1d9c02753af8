// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

var (
	vip6 = netip.MustParseAddr("2001:db8::5")
	host = netip.MustParseAddr("2001:db8::9")
)

func resum(b []byte) []byte {
	b[ipv6Header+2], b[ipv6Header+3] = 0, 0
	m := b[ipv6Header:]
	sum := icmpSum(netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), m)
	b[ipv6Header+2], b[ipv6Header+3] = byte(sum>>8), byte(sum)
	return b
}

// The bytes are those Linux writes.
func TestAnswerNDP(t *testing.T) {
	request, ok := parseNDP(append(solicit(host, vip6, his).bytes(), make([]byte, 6)...)) // as padded by the device
	if !ok || request.dst.String() != "ff02::1:ff00:5" || groupMAC(request.dst).String() != "33:33:ff:00:00:05" || !bytes.Equal(request.mac, his) {
		t.Fatalf("a solicitation was read as %+v, %v", request, ok)
	}
	got := answerNDP(request, mine)
	want, _ := hex.DecodeString(strings.Join([]string{
		"6000000000203aff", "20010db8000000000000000000000005", "20010db8000000000000000000000009",
		"8800", "", "60000000", "20010db8000000000000000000000005", "0201020000000001"}, ""))
	b := got.bytes()
	if without := append(append([]byte{}, b[:42]...), b[44:]...); !bytes.Equal(without, want) {
		t.Errorf("answer %x, want %x", without, want)
	}
	if again, ok := parseNDP(b); !ok || !reflect.DeepEqual(again, got) {
		t.Errorf("%+v was read as %+v, %v", got, again, ok)
	}
}

// Who looks whether the address is free is told that it is not, and all others with it.
func TestDuplicateAddressDetectionIsAnswered(t *testing.T) {
	look := neighbourMessage{kind: solicitation, src: nobody, dst: solicitedNode(vip6), target: vip6}
	request, ok := parseNDP(look.bytes())
	if !ok {
		t.Fatal("a look for a free address was not read")
	}
	got := answerNDP(request, mine)
	if got.dst != allNodes || got.solicited || got.src != vip6 || got.target != vip6 || !bytes.Equal(got.mac, mine) || got.bytes()[ipv6Header+4] != flagOverride {
		t.Errorf("answered by %+v", got)
	}
}

func TestParseNDPRefuses(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"IPv4":                     func(b []byte) []byte { b[0] = 0x45; return b },
		"TCP":                      func(b []byte) []byte { b[6] = 6; return b },
		"routed":                   func(b []byte) []byte { b[7] = 254; return b },
		"longer than the frame":    func(b []byte) []byte { b[5] += 8; return resum(b) },
		"shorter than a message":   func(b []byte) []byte { b[5] = 20; return b },
		"damaged":                  func(b []byte) []byte { b[60]++; return b },
		"an echo":                  func(b []byte) []byte { b[40] = 128; return resum(b) },
		"a code":                   func(b []byte) []byte { b[41] = 1; return resum(b) },
		"a group as target":        func(b []byte) []byte { b[48] = 0xff; return resum(b) },
		"a group as sender":        func(b []byte) []byte { b[8] = 0xff; return resum(b) },
		"an option without length": func(b []byte) []byte { b[65] = 0; return resum(b) },
		"an option beyond the end": func(b []byte) []byte { b[65] = 2; return resum(b) },
		"an option of nobody":      func(b []byte) []byte { copy(b[8:24], make([]byte, 16)); return resum(b) },
		"solicited and to everybody": func([]byte) []byte {
			return neighbourMessage{kind: advert, src: host, dst: allNodes, target: vip6, mac: his, solicited: true}.bytes()
		},
		"nobody asks us alone": func([]byte) []byte {
			return neighbourMessage{kind: solicitation, src: nobody, dst: vip6, target: vip6}.bytes()
		},
	} {
		good := solicit(host, vip6, his).bytes()
		if _, ok := parseNDP(good); !ok {
			t.Fatal("a good one was refused")
		}
		if m, ok := parseNDP(change(good)); ok {
			t.Errorf("%s: read as %+v", name, m)
		}
	}
	good := solicit(host, vip6, his).bytes()
	for i := range good {
		if _, ok := parseNDP(good[:i]); ok {
			t.Errorf("%d bytes were read", i)
		}
	}
}

// FuzzParseNDP: what is read writes itself again, without options nobody needs.
func FuzzParseNDP(f *testing.F) {
	f.Add(solicit(host, vip6, his).bytes())
	f.Add(unsolicited(vip6, mine).bytes())
	f.Add(answerNDP(solicit(host, vip6, his), mine).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseNDP(b)
		if !ok {
			return
		}
		if again, ok := parseNDP(m.bytes()); !ok || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v became %+v, %v", m, again, ok)
		}
	})
}
