// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"testing"
)

// udpFrame is an IPv4 or IPv6 frame with a right UDP checksum.
func udpFrame(v6 bool, payload []byte) *packet {
	ip := make([]byte, 20)
	ip[0], ip[9] = 0x45, protoUDP
	kind := uint16(0x0800)
	if v6 {
		ip = make([]byte, ipv6Header)
		ip[0], ip[6] = 0x60, protoUDP
		kind = 0x86DD
	}
	for i := len(ip) - 8; i < len(ip); i++ {
		ip[i] = byte(i * 7)
	}
	frame := make([]byte, etherHeader)
	binary.BigEndian.PutUint16(frame[12:], kind)
	frame = append(frame, ip...)
	udp := make([]byte, udpHeader)
	binary.BigEndian.PutUint16(udp[4:], uint16(udpHeader+len(payload)))
	p := &packet{frame: append(append(frame, udp...), payload...)}
	classify(p)
	fixChecksum(p)
	return p
}

// checksumRight adds everything up: a datagram whose checksum is right sums to 0xffff.
func checksumRight(p *packet) bool {
	from := etherHeader + 12
	if p.frame[12] == 0x86 {
		from = etherHeader + 8
	}
	sum := sum16(protoUDP+uint32(len(p.frame)-p.udp), p.frame[from:])
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return sum == 0xffff
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name    string
		payload []byte
		want    Class
	}{
		{"first packet of a request", []byte{0xCC, 8, 0x00, 0xC0, 0, 1, 0, 1}, Req0},
		{"later packet of a request", []byte{0xCC, 8, 0x00, 0x40, 0, 1, 0, 1}, ReqN},
		{"reply", []byte{0xCC, 8, 0x10, 0xC0, 0, 1, 0, 1, 'x'}, Reply},
		{"FEEDBACK of the published server", []byte{0xCC, 0, 0x20, 0, 0, 0, 0, 0}, Feedback},
		{"REQRDY", []byte{0xCC, 8, 0x31, 0xC0, 0, 1, 0, 1}, ReqRdy},
		{"DROP", []byte{0xCC, 8, 0x41, 0xC0, 0, 1, 0, 1}, Drop},
		{"SACK", []byte{0xCC, 8, 0x80, 0xC0, 0, 1, 0, 1}, Sack},
		{"reserved type", []byte{0xCC, 8, 0xF0, 0xC0, 0, 1, 0, 1}, OtherUDP},
		{"other magic", []byte{0xCD, 8, 0x00, 0xC0, 0, 1, 0, 1}, OtherUDP},
		{"too short", []byte{0xCC, 8, 0x00}, OtherUDP},
	} {
		for _, v6 := range []bool{false, true} {
			if p := udpFrame(v6, c.payload); p.class != c.want || !bytes.Equal(p.payload(), c.payload) {
				t.Errorf("%s, IPv6 %v: %s with %d bytes, want %s with %d", c.name, v6, p.class, len(p.payload()), c.want, len(c.payload))
			}
		}
	}
	for _, frame := range [][]byte{nil, make([]byte, 14), make([]byte, 20), append(make([]byte, 12), 8, 0, 0x4F)} {
		if p := (&packet{frame: frame}); true {
			if classify(p); p.class != OtherIP {
				t.Errorf("%x: %s, want %s", frame, p.class, OtherIP)
			}
		}
	}
}

func TestFlip(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for bit := range uint64(200) {
			for _, mangle := range []bool{false, true} {
				p := udpFrame(v6, []byte{0xCC, 8, 0x20, 0xC0, 0, 1, 0, 1, 2, 3, 4})
				before := bytes.Clone(p.payload())
				flip(p, bit, mangle)
				changed := 0
				for i, b := range p.payload() {
					changed += bits.OnesCount8(b ^ before[i])
				}
				if changed != 1 || mangle && p.payload()[0] != 0xCC {
					t.Fatalf("bit %d, mangle %v: %d bits changed: %x", bit, mangle, changed, p.payload())
				}
				if checksumRight(p) != mangle {
					t.Fatalf("bit %d, mangle %v: checksum right %v", bit, mangle, !mangle)
				}
			}
		}
	}
}

// The n-th packet of a stream meets the same fate in every run of a seed, and
// chances are met on average.
func TestDecideIsAFunctionOfTheSeed(t *testing.T) {
	rule := Rule{From: Any, To: Any}.With(Lost, 0.1).With(Duplicated, 0.5)
	p := &packet{from: 1, to: 2, class: Reply}
	lost, doubled, differs := 0, 0, 0
	const n = 20000
	for i := range uint64(n) {
		a, b := decide(7, &rule, p, i), decide(7, &rule, p, i)
		if a != b {
			t.Fatalf("packet %d: %+v, then %+v", i, a, b)
		}
		lost += one(a.hit[Lost])
		doubled += one(a.hit[Duplicated])
		differs += one(a.hit != decide(8, &rule, p, i).hit)
	}
	if lost < n/10-300 || lost > n/10+300 || doubled < n/2-500 || doubled > n/2+500 {
		t.Errorf("%d lost and %d doubled of %d, want about a tenth and a half", lost, doubled, n)
	}
	if differs < n/4 {
		t.Errorf("another seed decides differently on %d of %d packets only", differs, n)
	}
	for _, k := range []Kind{Partitioned, Corrupted, Mangled, Delayed, Reordered} {
		if decide(7, &rule, p, 1).hit[k] {
			t.Errorf("%s without a chance", k)
		}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestRuleMatches(t *testing.T) {
	p := &packet{from: 1, to: 2, class: Feedback}
	for _, c := range []struct {
		rule Rule
		want bool
	}{
		{Rule{From: Any, To: Any}, true},
		{Rule{From: 1, To: Any}, true},
		{Rule{From: 2, To: Any}, false},
		{Rule{From: Any, To: 1}, false},
		{Rule{From: 1, To: 2, Classes: []Class{Reply}}, false},
		{Rule{From: 1, To: 2, Classes: []Class{Reply, Feedback}}, true},
	} {
		if got := c.rule.matches(p); got != c.want {
			t.Errorf("%+v: %v, want %v", c.rule, got, c.want)
		}
	}
	if (&Rule{From: Any, To: Any}).matches(&packet{class: ICMP}) {
		t.Error("a rule without classes is for R2P2 packets only")
	}
}
