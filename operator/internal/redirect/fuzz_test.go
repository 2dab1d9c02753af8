// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
)

// every program that reads options.
var readers = []string{"crab_client_out", "crab_client_in", "crab_server_in", "crab_server_out", "crab_lb_native", "crab_lb_generic", "crab_balance_in", "crab_balance_out"}

// C-4: option lists that would make a careless parser loop or run over the end.
func TestMalformedOptions(t *testing.T) { bothFamilies(t, testMalformedOptions) }

func testMalformedOptions(t *testing.T) {
	n := everything(t)
	for _, options := range [][]byte{
		{42, 0, 0, 0}, {42, 1, 1, 1}, {2, 0, 0, 0}, {8, 0, 42, 6}, {42, 41, 0, 0}, {42, 255, 1, 2}, {1, 1, 1, 42}, {2, 4, 5, 0xb4, 3, 255, 42, 6}, {1, 1, 1, 3}, {42, 18, 1, 2}, {42, 20, 0, 0},
	} {
		before, _ := n.Counters()
		for _, program := range readers {
			p := lbSYN(1, options)
			run(t, n, program, p)
			p.flags = syn | ack
			p.src, p.dst, p.sport, p.dport = testDIP, testClient, 80, 1
			run(t, n, program, p)
		}
		if after, _ := n.Counters(); after["option_malformed"] == before["option_malformed"] {
			t.Errorf("%x was not counted", options)
		}
	}
	counted(t, n, map[string]uint64{"client_synack_accepted": 0, "server_syn_seen": 0, "lb_syn_redirected": 0})
}

// everything is a node with all roles.
func everything(t *testing.T) *Node {
	n := balancerNode(t, 3, func(v *VIP) { v.Roles |= RoleClient })
	if err := n.AllowEcho([]netip.Addr{testVIP}); err != nil {
		t.Fatal(err)
	}
	return n
}

// damage is what packets are damaged by, and how many of them: the same 4,000 each
// time, or what make fuzz-crab asks for.
func damage(t *testing.T) (*rand.Rand, int) {
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q: %v; give a number", name, text, err)
		}
		return n
	}
	seed, packets := number("CRAB_FUZZ_SEED", 42), number("CRAB_FUZZ_PACKETS", 4000)
	t.Logf("CRAB_FUZZ_SEED=%d CRAB_FUZZ_PACKETS=%d", seed, packets)
	return rand.New(rand.NewPCG(seed, 6)), int(packets)
}

// believer checks from outside which redirects a client's host believes (C-90, C-91): it keeps the SYNs that left with a
// placeholder, and knows nothing else of the program.
type believer struct {
	n                *Node
	waiting          map[netip.AddrPort]uint32 // by the client: the initial sequence number of its last SYN with one
	prefix           netip.Prefix
	marked, accepted uint64
}

// count reads one counter: a sum of all of them for each packet takes too long.
func (b *believer) count(t *testing.T, reason string) (sum uint64) {
	t.Helper()
	var cpus []uint64
	must(t, b.n.maps["crab_counters"].Lookup(uint32(slices.Index(Reasons[:], reason)), &cpus))
	for _, c := range cpus {
		sum += c
	}
	return sum
}

// ends are those of a TCP packet, and its numbers, found as the programs find them.
func ends(frame []byte) (from, to netip.AddrPort, seq, acks uint32) {
	at, size, l4 := 26, 4, 14+int(frame[14]&15)*4
	if testFamily == six {
		at, size, l4 = 22, 16, 54
	}
	src, _ := netip.AddrFromSlice(frame[at : at+size])
	dst, _ := netip.AddrFromSlice(frame[at+size : at+2*size])
	tcp := frame[l4:]
	return netip.AddrPortFrom(src, binary.BigEndian.Uint16(tcp)), netip.AddrPortFrom(dst, binary.BigEndian.Uint16(tcp[2:])),
		binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
}

// sees looks at what one frame did: no program but the two of the client may mark or believe anything.
func (b *believer) sees(t *testing.T, program string, frame []byte) {
	t.Helper()
	if now := b.count(t, "client_syn_marked"); now != b.marked {
		from, to, seq, _ := ends(frame)
		if b.marked = now; program != "crab_client_out" || to != netip.AddrPortFrom(testVIP, 80) {
			t.Fatalf("%s marked %x; replay with the seed above", program, frame)
		}
		b.waiting[from] = seq
	}
	if now := b.count(t, "client_synack_accepted"); now != b.accepted {
		from, to, _, acks := ends(frame)
		iss, waits := b.waiting[to]
		if b.accepted = now; program != "crab_client_in" || !b.prefix.Contains(from.Addr()) || from.Port() != 80 || !waits || acks != iss+1 {
			t.Fatalf("%s believed %x, of %s to %s: it acknowledges %d, and a SYN waits: %v, %d; replay with the seed above", program, frame, from, to, acks, waits, iss)
		}
		delete(b.waiting, to) // it is believed once
	}
}

// damagedFrame is a packet to a program of those, with damage that leaves some of them whole.
func damagedFrame(rng *rand.Rand, programs []string) (program string, frame []byte) {
	p := lbSYN(uint16(rng.IntN(4)), [][]byte{placeholder, redirected, linuxSYN, fallbackMark(testVIP), marked()}[rng.IntN(5)])
	p.flags = [...]byte{syn, syn | ack, ack, rst, fin | ack, 0xff}[rng.IntN(6)]
	p.seq += uint32(rng.IntN(2))
	program = programs[rng.IntN(len(programs))]
	if rng.IntN(2) == 0 {
		p.src, p.dst, p.sport, p.dport = testDIP, testClient, 80, p.sport
	}
	switch rng.IntN(12) { // handshakes, more of them than chance would make
	case 0, 1:
		p.src, p.dst, p.sport, p.dport = testClient, testVIP, uint16(rng.IntN(4)), 80
		p.flags, p.options, program = syn, linuxSYN, "crab_client_out"
	case 2, 3, 4:
		p.src, p.dst, p.sport, p.dport = [...]netip.Addr{testDIP, testDIP, at("10.9.0.1")}[rng.IntN(3)], testClient, 80, uint16(rng.IntN(4))
		p.flags, p.options, program = syn|ack, redirected, "crab_client_in"
		p.ack = uint32(p.dport)*7 + uint32(rng.IntN(3))
	}
	if rng.IntN(30) == 0 {
		p.fragment = 0x2000
	}
	if rng.IntN(3) == 0 {
		p.data = make([]byte, rng.IntN(1400))
	}
	return program, harm(rng, p.bytes())
}

// harm writes into a frame and cuts it short, or neither.
func harm(rng *rand.Rand, frame []byte) []byte {
	for range max(0, rng.IntN(9)-3) { // IP and TCP headers, where the parsers look
		at := 14 + rng.IntN(min(len(frame)-14, 90))
		if testFamily == six && rng.IntN(2) == 0 { // most of its longer header is addresses
			at = 54 + rng.IntN(min(len(frame)-54, 60))
		}
		frame[at] = byte(rng.IntN(256))
	}
	if rng.IntN(4) == 0 {
		shortest := map[family]int{four: 34, six: 54}[testFamily] // the kernel refuses to run less
		frame = frame[:max(shortest, len(frame)-rng.IntN(40))]
	}
	return frame
}

// C-4, C-90, C-91: random damage to whole packets: every program ends, with a verdict it has, and no redirect is
// believed but one from the VIP's prefixes that acknowledges a SYN which left.
func TestDamagedPackets(t *testing.T) { bothFamilies(t, testDamagedPackets) }

func testDamagedPackets(t *testing.T) {
	b := &believer{waiting: map[netip.AddrPort]uint32{}, prefix: within("10.2.0.0/16")}
	b.n = balancerNode(t, 3, func(v *VIP) { v.Roles |= RoleClient; v.Prefixes = []netip.Prefix{b.prefix} })
	must(t, b.n.AllowEcho([]netip.Addr{testVIP}))
	must(t, b.n.Watch([]netip.AddrPort{netip.AddrPortFrom(testVIP, 80), testServer()}))
	all := append([]string{"crab_watch_in", "crab_watch_out"}, readers...)
	rng, packets := damage(t)
	legal := map[uint32]bool{next: true, 0: true, 1: true, shot: true, 3: true, 7: true}
	for range packets {
		program, frame := damagedFrame(rng, all)
		if verdict, _ := runBytes(t, b.n, program, frame); !legal[verdict] {
			t.Fatalf("%s: verdict %d for %x; replay with the seed above", program, int32(verdict), frame)
		}
		b.sees(t, program, frame)
	}
	c, err := b.n.Counters()
	must(t, err)
	if c["option_malformed"] < 10 || c["header_malformed"] < 10 || c["fragment"] < 10 {
		t.Errorf("too little damage met a parser: %v", c)
	}
	if c["client_synack_accepted"] < 10 || c["client_forged_ack"] < 10 || c["client_forged_dip"] < 5 || c["client_forged_no_pending"] < 10 {
		t.Errorf("too few redirects to believe, or not to: %v", c)
	}
}
