// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

var testRouter = map[bool]netip.Addr{true: netip.MustParseAddr("10.9.9.9"), false: netip.MustParseAddr("fd99::9")}

// tooBig is what a router tells the sender of a segment that does not fit, with room for 28 bytes of it behind IP.
func tooBig(p packet) []byte {
	segment := p.bytes()[14:]
	six := p.src.Is6()
	quoted, kind, icmp := segment[:min(len(segment), 20+28)], byte(1), []byte{3, 4, 0, 0, 0, 0, 5, 0x14}
	if six {
		quoted, kind, icmp = segment[:min(len(segment), 40+28)], 58, []byte{2, 0, 0, 0, 0, 0, 5, 0x14}
	}
	from := testRouter[!six]
	outer := packet{src: from, dst: p.src, proto: kind}
	icmp = append(icmp, quoted...)
	ip := outer.ip4(len(icmp))
	if six {
		ip = outer.ip6(len(icmp))
	}
	binary.BigEndian.PutUint16(icmp[2:], ^errorSum(ip, icmp))
	ethertype := []byte{8, 0}
	if six {
		ethertype = []byte{0x86, 0xdd}
	}
	frame := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, ethertype...)
	return append(append(frame, ip...), icmp...)
}

// errorSum is over ICMP, and with IPv6 over its pseudo header.
func errorSum(ip, icmp []byte) uint16 {
	if ip[0]>>4 == 4 {
		return sum(icmp)
	}
	head := append(append([]byte{}, ip[8:40]...), 0, 0, byte(len(icmp)>>8), byte(len(icmp)), 0, 0, 0, 58)
	return sum(append(head, icmp...))
}

// told is an error as a program left it.
type told struct {
	to, src, dst netip.Addr
	sport, dport uint16
	sums         bool
	from         netip.Addr
}

func readError(frame []byte) told {
	ip := frame[14:]
	head, at, size := 20, 12, 4
	if ip[0]>>4 == 6 {
		head, at, size = 40, 8, 16
	}
	icmp, addr := ip[head:], func(b []byte) netip.Addr { a, _ := netip.AddrFromSlice(b[:size]); return a }
	quoted := icmp[8:]
	good := errorSum(ip, icmp) == 0xffff
	if size == 4 {
		good = good && sum(ip[:20]) == 0xffff && sum(quoted[:20]) == 0xffff
	}
	sport, dport := binary.BigEndian.Uint16(quoted[head:]), binary.BigEndian.Uint16(quoted[head+2:])
	return told{addr(ip[at+size:]), addr(quoted[at:]), addr(quoted[at+size:]), sport, dport, good, addr(ip[at:])}
}

// tells sends an error about p through a program and compares what it says behind it.
func tells(t *testing.T, n *Node, program string, p packet, want told) {
	t.Helper()
	want.sums, want.from = true, testRouter[p.src.Is4()]
	before := tooBig(p)
	_, after := runBytes(t, n, program, before)
	if got := readError(after); got != want {
		t.Errorf("C-103: %s: an error about %s:%d to %s:%d becomes %+v, want %+v", program, p.src, p.sport, p.dst, p.dport, got, want)
	}
}

// passes is an error that must stay as it is.
func passes(t *testing.T, n *Node, program, why string, frame []byte) {
	t.Helper()
	if verdict, out := runBytes(t, n, program, frame); verdict != next || !bytes.Equal(out, frame) {
		t.Errorf("C-103: %s: %s: verdict %d, changed %v", program, why, int32(verdict), !bytes.Equal(out, frame))
	}
}

// cutShort: what is left of an error is changed as the whole would be, or not at all.
func cutShort(t *testing.T, n *Node, program string, frame []byte) {
	t.Helper()
	_, whole := runBytes(t, n, program, frame)
	if bytes.Equal(whole, frame) {
		t.Fatalf("%s leaves the whole error as it is", program)
	}
	for cut := 54; cut < len(frame); cut++ {
		if _, out := runBytes(t, n, program, frame[:cut]); !bytes.Equal(out, frame[:cut]) && !bytes.Equal(out, whole[:cut]) {
			t.Errorf("C-103: %s: %d bytes of an error become %x", program, cut, out)
		}
	}
}

// C-103: a hop on the way to the DIP that is too narrow is told to the client, which knows the VIP; one behind the
// client's host is told to the server.
func TestErrorsOfRedirected(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := established(t)
		data := bytes.Repeat([]byte{7}, 40)
		sent := packet{src: testClient, dst: testDIP, sport: 5000, dport: 80, flags: ack, seq: 101, ack: 10, data: data}
		tells(t, n, "crab_client_in", sent, told{to: testClient, src: testClient, dst: testVIP, sport: 5000, dport: 80})
		tells(t, n, "crab_client_in_near", sent, told{to: testClient, src: testClient, dst: testVIP, sport: 5000, dport: 80}) // the hop is a pod
		got := packet{src: testVIP, dst: testClient, sport: 80, dport: 5000, flags: ack, seq: 10, ack: 101, data: data}
		tells(t, n, "crab_client_out_pod", got, told{to: testDIP, src: testDIP, dst: testClient, sport: 80, dport: 5000})
		counted(t, n, map[string]uint64{"client_error_in": 2, "client_error_out": 1})

		other := sent
		other.sport++
		passes(t, n, "crab_client_in", "of another connection", tooBig(other))
		other = got
		other.dport++
		passes(t, n, "crab_client_out_pod", "of another connection", tooBig(other))
		astray := tooBig(sent)
		astray[map[bool]int{true: 33, false: 53}[sent.src.Is4()]] ^= 1
		passes(t, n, "crab_client_in", "told to somebody else", astray)
		cutShort(t, n, "crab_client_in", tooBig(sent))
		cutShort(t, n, "crab_client_out_pod", tooBig(got))
	})
}

// C-103, C-42: what a narrow hop says to the VIP goes to the end that sent the segment, by the name it has there.
func TestErrorsToldToTheVIP(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		answer := func(dport uint16) packet {
			return packet{src: testVIP, dst: testClient, sport: 80, dport: dport, flags: ack, data: bytes.Repeat([]byte{7}, 40)}
		}
		n := plainNode(t)
		c := begin(t, n, 5000, linuxSYN).established(t, n)
		tells(t, n, "crab_balance_in", answer(c.port), told{to: c.server, src: c.server, dst: testVIP, sport: 80, dport: c.seen})
		asked := packet{src: testVIP, dst: c.server, sport: c.seen, dport: 80, flags: ack, data: bytes.Repeat([]byte{7}, 40)}
		tells(t, n, "crab_balance_in", asked, told{to: testClient, src: testClient, dst: testVIP, sport: c.port, dport: 80})
		asked.sport = 65001
		passes(t, n, "crab_balance_in", "of a port that is nobody's", tooBig(asked))

		n = balancerNode(t, 2, func(*VIP) {})
		for port := range uint16(8) {
			_, got := run(t, n, "crab_balance_in", packet{src: testClient, dst: testVIP, sport: 6000 + port, dport: 80, flags: ack})
			tells(t, n, "crab_balance_in", answer(6000+port), told{to: got.dst, src: got.dst, dst: testClient, sport: 80, dport: 6000 + port})
		}
		other := answer(6000)
		other.sport = 81
		passes(t, n, "crab_balance_in", "of no VIP", tooBig(other))
	})
}
