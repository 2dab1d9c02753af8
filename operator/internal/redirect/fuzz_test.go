// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"math/rand/v2"
	"net/netip"
	"os"
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

// C-4: random damage to whole packets: every program ends, with a verdict it has,
// and no redirect is believed for a SYN that never left.
func TestDamagedPackets(t *testing.T) { bothFamilies(t, testDamagedPackets) }

func testDamagedPackets(t *testing.T) {
	n := everything(t)
	if err := n.Watch([]netip.AddrPort{netip.AddrPortFrom(testVIP, 80), testServer()}); err != nil {
		t.Fatal(err)
	}
	all := append([]string{"crab_watch_in", "crab_watch_out"}, readers...)
	rng, packets := damage(t)
	shortest := map[family]int{four: 34, six: 54}[testFamily] // the kernel refuses to run less
	legal := map[uint32]bool{next: true, 0: true, 1: true, shot: true, 3: true, 7: true}
	for range packets {
		p := lbSYN(uint16(rng.IntN(4)), [][]byte{placeholder, redirected, linuxSYN, fallbackMark(testVIP), marked()}[rng.IntN(5)])
		p.flags = [...]byte{syn, syn | ack, ack, rst, fin | ack, 0xff}[rng.IntN(6)]
		if rng.IntN(2) == 0 {
			p.src, p.dst, p.sport, p.dport = testDIP, testClient, 80, p.sport
		}
		if rng.IntN(30) == 0 {
			p.fragment = 0x2000
		}
		if rng.IntN(3) == 0 {
			p.data = make([]byte, rng.IntN(1400))
		}
		frame := p.bytes()
		for range rng.IntN(6) { // IP and TCP headers, where the parsers look
			at := 14 + rng.IntN(min(len(frame)-14, 90))
			if testFamily == six && rng.IntN(2) == 0 { // most of its longer header is addresses
				at = 54 + rng.IntN(min(len(frame)-54, 60))
			}
			frame[at] = byte(rng.IntN(256))
		}
		if rng.IntN(4) == 0 {
			frame = frame[:max(shortest, len(frame)-rng.IntN(40))]
		}
		program := all[rng.IntN(len(all))]
		if verdict, _ := runBytes(t, n, program, frame); !legal[verdict] {
			t.Fatalf("%s: verdict %d for %x; replay with the seed above", program, int32(verdict), frame)
		}
	}
	c, err := n.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c["option_malformed"] < 10 || c["header_malformed"] < 10 || c["fragment"] < 10 {
		t.Errorf("too little damage met a parser: %v", c)
	}
}
