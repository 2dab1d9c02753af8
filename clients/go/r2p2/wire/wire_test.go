// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// R-16 names the sizes; §4 the cut.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		n, count int
	}{{0, 1}, {1, 1}, {1464, 1}, {1465, 2}, {1478, 2}, {1479, 3}, {4096, 4}, {16384, 13}, {1 << 20, 718}, {14 + 65534*1464, 65535}, {15 + 65534*1464, 0}} {
		s := SplitRequest(c.n, 1464, 1464)
		if s.Count != c.count {
			t.Errorf("a request of %d bytes needs %d packets, want %d", c.n, s.Count, c.count)
		}
		if c.n > 1<<20 {
			continue
		}
		message := bytes.Repeat([]byte{7}, c.n)
		for i := range message {
			message[i] = byte(i)
		}
		var joined []byte
		for i := range s.Count {
			joined = append(joined, s.Piece(message, i)...)
		}
		if !bytes.Equal(joined, message) {
			t.Errorf("the pieces of %d bytes do not join", c.n)
		}
		if s.Count > 1 && len(s.Piece(message, 0)) != RequestFirst {
			t.Errorf("REQ0 carries %d bytes, want 14", len(s.Piece(message, 0)))
		}
	}
	for n, want := range map[int]Split{1463: {1, 1463, 1472}, 1464: {1, 1464, 1472}, 1465: {2, 1464, 1472}, 1464 + 1472: {2, 1464, 1472}, 1465 + 1472: {3, 1464, 1472}} {
		if s := SplitReply(n, 1464, 1472); s != want {
			t.Errorf("a reply of %d bytes is full from its first packet: %+v, want %+v", n, s, want)
		}
	}
}

// 64 bytes of header are written and read, one option more is not; each message of a buffer is padded by itself.
func TestHeaderMayHave64Bytes(t *testing.T) {
	h := Header{Type: Request, First: true, Last: true, Count: 1}
	h.Options = Options{Present: HasForwarded | HasTag | HasClass | HasTrace | HasRouterID | HasFlow, Forwarded: netip.MustParseAddrPort("[fd00::1]:9")}
	for _, before := range []int{0, 1, 2, 3} {
		b, ok := h.Append(make([]byte, before))
		var again Header
		if m := again.Decode(b[before:], RoleServer); !ok || len(b) != before+HeaderMax || m != OK || again.Options.Present != h.Options.Present {
			t.Errorf("behind %d bytes: %d bytes, %v, %v", before, len(b), ok, m)
		}
	}
	h.Options.Present |= HasCopy
	if b, ok := h.Append([]byte{7}); ok || len(b) != 1 {
		t.Errorf("%d bytes were written", len(b))
	}
	long := []byte{magic, HeaderMax + 4, 0, flagF | flagL | flagX, 0, 1, 0, 1, 70: 0}
	if m := h.Decode(long, RoleServer); m != OptionSize {
		t.Errorf("a header of 68 bytes: %v", m)
	}
}

// F-31: windows and silences share a number; 0, which nobody sends, is a silence of one period.
func TestFlowSignal(t *testing.T) {
	for s, want := range map[FlowSignal]struct {
		tokens  int
		silence time.Duration
		silent  bool
	}{
		0: {0, FlowPeriod, true}, 1: {1, 0, false}, 0x7fff: {0x7fff, 0, false},
		0x8000: {0, 0, true}, 0x8001: {0, time.Microsecond, true}, 0xffff: {0, 0x7fff * time.Microsecond, true},
	} {
		if silence, silent := s.Silence(); s.Tokens() != want.tokens || silence != want.silence || silent != want.silent {
			t.Errorf("%#x: %d tokens, silent %v for %v, want %+v", uint16(s), s.Tokens(), silent, silence, want)
		}
	}
}

// what IP and UDP need is taken off the MTU.
func TestDatagramMax(t *testing.T) {
	if v4, v6 := DatagramMax(1500, true), DatagramMax(1500, false); v4 != 1472 || v6 != 1452 {
		t.Errorf("%d by IPv4, %d by IPv6", v4, v6)
	}
}

func TestCasesHaveNames(t *testing.T) {
	for c, want := range map[Case]string{OK: "OK", M1: "M-1", M27: "M-27", BadTag: "TAG", Cases: "?", Cases + 1: "?"} {
		if c.String() != want {
			t.Errorf("%q, want %q", c.String(), want)
		}
	}
}

// more than 64 bytes of header cannot be written. The known options fit.
func TestAllOptionsFit(t *testing.T) {
	h := Header{Type: Request, First: true, Last: true, Count: 1}
	h.Options = Options{Present: HasForwarded | HasTag | HasClass | HasTrace | HasRouterID, Forwarded: netip.MustParseAddrPort("[fd00::1]:9")}
	b, ok := h.Append(nil)
	if !ok || len(b) != 60 || h.Size != 60 {
		t.Errorf("%d bytes, %v", len(b), ok)
	}
}

func TestAppendSackStopsAtItsBound(t *testing.T) {
	var s SackMsg
	if m := s.Decode(AppendSack(nil, SackReply, []int{5, 6, 5 + 1023, 5 + 1024, 9000})); m != OK || !slices.Equal(s.Missing(), []int{5, 6, 1028}) {
		t.Errorf("%v %v", m, s.Missing())
	}
}

// Keys are numbered from 1 to 255, and a file of another number is not even read.
func TestReadKeyring(t *testing.T) {
	dir, key := t.TempDir(), "000102030405060708090a0b0c0d0e0f\n"
	for name, text := range map[string]string{
		"0": key, "1": key, "255": key, "256": key, "-1": key, "2": "00", "3": strings.Repeat("g", 32), "5": strings.Repeat("0", 34),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ring, err := ReadKeyring(dir, []int{255, 1})
	if err != nil || len(ring) != 2 || ring[0].ID != 255 || ring[1].ID != 1 || ring[0].Bytes[15] != 15 {
		t.Errorf("%v %v", ring, err)
	}
	for _, id := range []int{-1, 0, 2, 3, 4, 5, 256} {
		if _, err := ReadKeyring(dir, []int{1, id}); err == nil {
			t.Errorf("key %d was read", id)
		}
	}
}

// What a SACK may say at most, and what it says one step beyond (M-20, M-25).
func TestSackBounds(t *testing.T) {
	payload := func(what byte, base, bits uint16, bytes int) []byte {
		p := binary.BigEndian.AppendUint16([]byte{what, 0}, base)
		return append(binary.BigEndian.AppendUint16(p, bits), make([]byte, bytes)...)
	}
	for _, c := range []struct {
		name    string
		payload []byte
		want    Case
	}{
		{"no whole header", payload(SackRequest, 0, 1, 0)[:5], M20},
		{"a header alone", payload(SackRequest, 0, 1, 0), M20},
		{"one bit", payload(SackRequest, 0, 1, 1), OK},
		{"of a reply", payload(SackReply, 0, 1, 1), OK},
		{"of nothing known", payload(SackReply+1, 0, 1, 1), M20},
		{"no bit", payload(SackRequest, 0, 0, 0), M20},
		{"a whole byte", payload(SackRequest, 0, 8, 1), OK},
		{"a bit of the next one", payload(SackRequest, 0, 9, 2), OK},
		{"which is missing", payload(SackRequest, 0, 9, 1), M20},
		{"a byte more", payload(SackRequest, 0, 8, 2), M25},
		{"as many as there may be", payload(SackRequest, 0, SackBitsMax, SackBitsMax/8), OK},
		{"one more", payload(SackRequest, 0, SackBitsMax+1, SackBitsMax/8+1), M20},
		{"the last packet there is", payload(SackRequest, 65535, 1, 1), OK},
		{"one behind it", payload(SackRequest, 65535, 2, 1), M20},
	} {
		var s SackMsg
		if got := s.Decode(c.payload); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Options that nobody knows are passed over, one without a value too; one that must be understood or is cut off is not.
func TestUnknownOptions(t *testing.T) {
	for _, c := range []struct {
		bytes []byte
		want  Case
	}{
		{[]byte{0x7f, 2}, OK}, {[]byte{0x7f, 2, kindPad, 0x7e, 3, 9}, OK},
		{[]byte{0x7f}, OptionTruncated}, {[]byte{0x7f, 1}, OptionTruncated}, {[]byte{0x7f, 4, 9}, OptionTruncated},
		{[]byte{0x7f, 2, 0xff, 2}, OptionCritical}, {[]byte{0x7f, 2, 0x7e}, OptionTruncated}, {[]byte{0x7f, 2, 0x7e, 4, 9}, OptionTruncated},
	} {
		var o Options
		if got := o.decode(c.bytes, 0); got != c.want {
			t.Errorf("% x: %v, want %v", c.bytes, got, c.want)
		}
	}
}
