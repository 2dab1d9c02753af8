// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

var (
	vip  = netip.MustParseAddr("192.0.2.1")
	mine = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	his  = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

func TestAnswer(t *testing.T) {
	request := frame{op: opRequest, senderMAC: his, sender: netip.MustParseAddr("192.0.2.9"), targetMAC: noMAC, target: vip}
	got, ok := parseARP(append(request.bytes(), make([]byte, 18)...)) // as padded by the device
	if !ok {
		t.Fatal("a request was not read")
	}
	want := []byte{0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 2, 0, 0, 0, 0, 2, 192, 0, 2, 9}
	if b := answer(got, mine).bytes(); !bytes.Equal(b, want) {
		t.Errorf("answer %x, want %x", b, want)
	}
}

func TestGratuitous(t *testing.T) {
	for _, f := range gratuitous(vip, mine) {
		if f.sender != vip || f.target != vip || !bytes.Equal(f.senderMAC, mine) {
			t.Errorf("%+v does not announce %s at %s", f, vip, mine)
		}
	}
}

func TestParseARPRefuses(t *testing.T) {
	good := answer(frame{op: opRequest, senderMAC: his, sender: vip, target: vip}, mine).bytes()
	for i := range 6 { // kinds and sizes
		b := bytes.Clone(good)
		b[i]++
		if _, ok := parseARP(b); ok {
			t.Errorf("byte %d changed: still read", i)
		}
	}
	for i := range good {
		if _, ok := parseARP(good[:i]); ok {
			t.Errorf("%d bytes were read", i)
		}
	}
}

// FuzzParse: what is read writes itself again.
func FuzzParseARP(f *testing.F) {
	f.Add(answer(frame{op: opRequest, senderMAC: his, sender: vip, target: vip}, mine).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, ok := parseARP(b); ok && !bytes.Equal(got.bytes(), b[:frameSize]) {
			t.Fatalf("%x became %x", b, got.bytes())
		}
	})
}
