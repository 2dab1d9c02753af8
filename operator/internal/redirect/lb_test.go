// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// balancerNode balances testVIP:80 over servers 10.2.0.1…n.
func balancerNode(t *testing.T, n int, change func(*VIP)) *Node {
	return balancing(t, sharedNode(t), n, change)
}

func balancing(t *testing.T, node *Node, n int, change func(*VIP)) *Node {
	v := VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleBalance, Backends: servers(n)}
	if change != nil {
		change(&v)
	}
	if err := node.SetVIP(v); err != nil {
		t.Fatal(err)
	}
	return node
}

func servers(n int) []Backend {
	all := make([]Backend, n)
	for i := range all {
		all[i] = Backend{Addr: at(fmt.Sprintf("10.2.%d.%d", i>>8, byte(i)+1)), State: UpCRAB}
	}
	return all
}

func lbSYN(port uint16, options []byte) packet {
	return packet{src: testClient, dst: testVIP, sport: port, dport: 80, flags: syn, seq: uint32(port) * 7, options: options}
}

// chosen is the server a SYN would go to. A test run has no route to any server,
// so the choice is read from what the balancer remembers (C-25).
func chosen(t *testing.T, n *Node, p packet) netip.Addr {
	t.Helper()
	run(t, n, "crab_lb_generic", p)
	key := synKey(p)
	var value programs.SYN
	if err := n.m(familyOf(p.src), "crab_syns").Lookup(key, &value); err != nil {
		return netip.Addr{}
	}
	return value.DIP
}

func synKey(p packet) []byte {
	key := append(p.src.AsSlice(), p.dst.AsSlice()...)
	key = binary.BigEndian.AppendUint16(key, p.sport)
	key = binary.BigEndian.AppendUint16(key, p.dport)
	return binary.NativeEndian.AppendUint32(key, p.seq)
}

func marked() []byte { return append(append([]byte{}, placeholder...), linuxSYN...) }

// distribution counts the choices for n SYNs.
func distribution(t *testing.T, node *Node, n int) map[netip.Addr]int {
	seen := map[netip.Addr]int{}
	for i := range n {
		seen[chosen(t, node, lbSYN(uint16(1000+i), marked()))]++
	}
	return seen
}

// C-62: weights are honoured, loads avoided, old reports not believed.
func TestWeightsAndReports(t *testing.T) { bothFamilies(t, testWeightsAndReports) }

func testWeightsAndReports(t *testing.T) {
	n := balancerNode(t, 2, func(v *VIP) { v.Backends[1].Weight = 3 })
	if seen := distribution(t, n, 80); seen[servers(2)[0].Addr] != 20 {
		t.Errorf("weights 1 and 3: %v", seen)
	}
	for _, policy := range []Policy{PowerOfTwo, Least} {
		n := balancerNode(t, 2, func(v *VIP) { v.Policy = policy; v.ReportLife = time.Hour })
		for i, open := range []uint32{100000, 0} {
			if err := n.Report(VIPKey{testVIP, 80}, servers(2)[i].Addr, Report{open}); err != nil {
				t.Fatal(err)
			}
		}
		seen := distribution(t, n, 100)
		if policy == Least && seen[servers(2)[0].Addr] != 0 || seen[servers(2)[0].Addr] > 45 { // p2c: 1/4 draw the same twice
			t.Errorf("%s sent %d of 100 to the loaded server", policy, seen[servers(2)[0].Addr])
		}
	}
	n = balancerNode(t, 2, func(v *VIP) { v.Policy = Least; v.ReportLife = time.Hour; v.Backends[1].Weight = 3 })
	for i, open := range []uint32{10, 0} { // of one part of the weight each, as agents' reports come in (loads.Table)
		if err := n.Report(VIPKey{testVIP, 80}, servers(2)[i].Addr, Report{open}); err != nil {
			t.Fatal(err)
		}
	}
	if seen := distribution(t, n, 30+80); seen[servers(2)[0].Addr] < 19 || seen[servers(2)[0].Addr] > 21 {
		t.Errorf("weights 1 and 3, the first with 10 connections: 30 SYNs make up for them, and of 80 more the first takes 20; it got %v", seen)
	}
	n = balancerNode(t, 2, func(v *VIP) { v.Policy = PowerOfTwo; v.ReportLife = 1 })
	for i, open := range []uint32{100000, 0} {
		if err := n.Report(VIPKey{testVIP, 80}, servers(2)[i].Addr, Report{open}); err != nil {
			t.Fatal(err)
		}
	}
	if seen := distribution(t, n, 100); seen[servers(2)[0].Addr] < 20 {
		t.Errorf("an old report was believed: %v", seen)
	}
	if c, _ := n.Counters(); c["lb_stale_report"] == 0 {
		t.Error("stale reports are not counted")
	}
}

// C-20, C-24: what is no SYN with placeholder to the VIP passes XDP untouched.
func TestXDPTakesOnlyItsOwn(t *testing.T) { bothFamilies(t, testXDPTakesOnlyItsOwn) }

func testXDPTakesOnlyItsOwn(t *testing.T) {
	n := balancerNode(t, 2, nil)
	for name, p := range map[string]packet{
		"no placeholder": lbSYN(1, linuxSYN),
		"SYN-ACK":        {src: testClient, dst: testVIP, sport: 2, dport: 80, flags: syn | ack, options: marked()},
		"RST":            {src: testClient, dst: testVIP, sport: 3, dport: 80, flags: syn | rst, options: marked()},
		"FIN":            {src: testClient, dst: testVIP, sport: 3, dport: 80, flags: syn | fin, options: marked()},
		"other port":     {src: testClient, dst: testVIP, sport: 4, dport: 81, flags: syn, options: marked()},
		"other address":  {src: testClient, dst: testDIP, sport: 5, dport: 80, flags: syn, options: marked()},
		"redirect, C-28": lbSYN(6, redirected),
		"fragment":       {src: testClient, dst: testVIP, sport: 7, dport: 80, flags: syn, options: marked(), fragment: 0x2000},
	} {
		frame := p.bytes()
		verdict, out := runBytes(t, n, "crab_lb_generic", frame)
		if verdict != 2 || !bytes.Equal(out, frame) {
			t.Errorf("%s: verdict %d", name, verdict)
		}
		if n.m(familyOf(p.src), "crab_syns").Lookup(synKey(p), new(programs.SYN)) == nil {
			t.Errorf("%s: a server was chosen", name)
		}
	}
	if !chosen(t, n, packet{src: testClient, dst: testVIP, sport: 9, dport: 80, flags: syn | 0xc0, options: marked()}).IsValid() {
		t.Error("C-20: an ECN SYN was not taken")
	}
}

// C-23: a damaged SYN is dropped; one whose checksum is left to the hardware is not.
func TestXDPChecksums(t *testing.T) { bothFamilies(t, testXDPChecksums) }

func testXDPChecksums(t *testing.T) {
	n := balancerNode(t, 2, nil)
	bad := lbSYN(1, marked()).bytes()
	bad[len(bad)-len(marked())-4] ^= 0x55
	if verdict, _ := runBytes(t, n, "crab_lb_native", bad); verdict != 1 {
		t.Errorf("a damaged SYN: verdict %d", verdict)
	}
	partial := lbSYN(2, marked()).bytes()
	tcp := partial[len(partial)-len(marked())-20:]
	binary.BigEndian.PutUint16(tcp[16:], sum(pseudo(partial[14:], len(tcp))))
	if verdict, _ := runBytes(t, n, "crab_lb_native", partial); verdict == 1 {
		t.Error("a SYN with an unfinished checksum was dropped")
	}
	counted(t, n, map[string]uint64{"lb_bad_checksum": 1})
}

// C-23: options of IP move the TCP header, and nothing else: the SYN is judged, chosen for and sent like any other.
func TestBalancerWithIPOptions(t *testing.T) {
	n := balancerNode(t, 2, nil)
	port := uint16(100)
	for _, length := range []int{4, 8, 36, 40} {
		p := lbSYN(port, marked())
		p.ipOptions = bytes.Repeat([]byte{1}, length)
		for _, program := range []string{"crab_lb_native", "crab_lb_generic"} {
			port++
			p.sport = port
			bad := p.bytes()
			bad[len(bad)-1] ^= 0x55
			if verdict, _ := runBytes(t, n, program, bad); verdict != 1 {
				t.Errorf("%s, %d bytes of options, damaged: verdict %d", program, length, verdict)
			}
			if verdict, out := runBytes(t, n, program, p.bytes()); verdict != 2 || !bytes.Equal(out, p.bytes()) {
				t.Errorf("%s, %d bytes of options: verdict %d", program, length, verdict)
			}
			var syn programs.SYN
			if err := n.m(four, "crab_syns").Lookup(synKey(p), &syn); err != nil || !syn.DIP.IsValid() {
				t.Errorf("%s, %d bytes of options: no server was chosen: %v", program, length, err)
			}
		}
		for _, data := range [][]byte{nil, []byte("abc")} {
			port++
			p.sport, p.data = port, data
			_, out := runBytes(t, n, "crab_balance_in", p.bytes())
			got, want := parse(t, out), append(append([]byte{}, redirected...), linuxSYN...)
			if got.dst != servers(2)[0].Addr && got.dst != servers(2)[1].Addr || !got.sums || !got.lengths || !bytes.Equal(got.options, want) ||
				!bytes.Equal(got.data, data) || !bytes.Equal(out[34:34+length], p.ipOptions) {
				t.Errorf("%d bytes of options are sent on as %+v", length, got)
			}
		}
	}
	counted(t, n, map[string]uint64{"lb_bad_checksum": 8, "header_malformed": 0})
}

// C-25: the same SYN goes to the same server; another ISS, or that server's end, is a new choice.
func TestRepeatedSYN(t *testing.T) { bothFamilies(t, testRepeatedSYN) }

func testRepeatedSYN(t *testing.T) {
	n := balancerNode(t, 3, nil)
	first := chosen(t, n, lbSYN(1, marked()))
	for range 5 {
		if again := chosen(t, n, lbSYN(1, marked())); again != first {
			t.Fatalf("the same SYN went to %s and %s", first, again)
		}
	}
	v := VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleBalance}
	for _, s := range servers(3) {
		if s.Addr != first {
			v.Backends = append(v.Backends, s)
		}
	}
	if err := n.SetVIP(v); err != nil {
		t.Fatal(err)
	}
	if now := chosen(t, n, lbSYN(1, marked())); now == first || !now.IsValid() {
		t.Errorf("C-26: a server that left was chosen: %s", now)
	}
}

// C-63: 4,096 servers; all get their turn.
func TestLargestPool(t *testing.T) {
	n := balancerNode(t, MaxBackends, nil)
	seen := map[netip.Addr]bool{}
	for i := range 5000 {
		p := lbSYN(uint16(1000+i), marked())
		seen[chosen(t, n, p)] = true
	}
	if len(seen) < 1024 { // the map of remembered SYNs holds 1,024 in tests, the choices do not depend on it
		t.Errorf("%d servers were used", len(seen))
	}
}

// C-43, C-40: pools nobody takes redirects in, and empty ones.
func TestPoolsWithoutCRAB(t *testing.T) { bothFamilies(t, testPoolsWithoutCRAB) }

func testPoolsWithoutCRAB(t *testing.T) {
	for _, state := range []State{Down, UpPlain, Draining} {
		n := balancerNode(t, 2, func(v *VIP) { v.Backends[0].State, v.Backends[1].State = state, state })
		if got := chosen(t, n, lbSYN(1, marked())); got.IsValid() {
			t.Errorf("%s: redirected to %s", state, got)
		}
		verdict, _ := run(t, n, "crab_balance_in", lbSYN(2, marked()))
		c, _ := n.Counters()
		switch state {
		case Down:
			if verdict != shot || c["lb_no_backend"] != 1 {
				t.Errorf("down: verdict %d", int32(verdict))
			}
		case UpPlain:
			if c["lb_relay_created"] != 1 || c["lb_fallback_to_stack"] != 0 {
				t.Errorf("plain: verdict %d", int32(verdict))
			}
		}
	}
}

// NodePort (C-24): what is no SYN with placeholder is kube-proxy's.
func TestStackFallback(t *testing.T) { bothFamilies(t, testStackFallback) }

func testStackFallback(t *testing.T) {
	n := balancerNode(t, 2, func(v *VIP) { v.Roles |= RoleStackFallback })
	for _, p := range []packet{lbSYN(1, linuxSYN), {src: testClient, dst: testVIP, sport: 2, dport: 80, flags: ack}} {
		frame := p.bytes()
		if verdict, out := runBytes(t, n, "crab_balance_in", frame); verdict != next || !bytes.Equal(frame, out) {
			t.Errorf("verdict %d", int32(verdict))
		}
	}
	if !chosen(t, n, lbSYN(3, marked())).IsValid() {
		t.Error("a SYN with placeholder was not redirected")
	}
	counted(t, n, map[string]uint64{"lb_fallback_to_stack": 2})
}

// VIPs come back as they were set, after the process has gone, too.
func TestReopen(t *testing.T) { bothFamilies(t, testReopen) }

func testReopen(t *testing.T) {
	n := balancing(t, openTest(t, Options{}), 3, func(v *VIP) { v.Backends[1].Weight = 5; v.Policy = Least; v.ReportLife = time.Minute })
	want, err := n.VIPs()
	if err != nil || len(want) != 1 || len(want[0].Backends) != 3 || want[0].Backends[1].Weight != 5 {
		t.Fatalf("%+v, %v", want, err)
	}
	n.Close()
	again, err := Open(Options{Root: n.root})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	got, err := again.VIPs()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %+v, want %+v, %v", got, want, err)
	}
	if err := again.DeleteVIP(want[0].VIPKey); err != nil {
		t.Fatal(err)
	}
	if got, err := again.VIPs(); err != nil || len(got) != 0 {
		t.Errorf("after deletion: %v, %v", got, err)
	}
}
