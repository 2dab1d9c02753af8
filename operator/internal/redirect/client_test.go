// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net/netip"
	"testing"
)

func clientSYN(seq uint32) packet {
	return packet{src: testClient, dst: testVIP, sport: 5000, dport: 80, flags: syn, seq: seq, options: linuxSYN}
}

func redirectedSYNACK(to uint32, options []byte) packet {
	return packet{src: testDIP, dst: testClient, sport: 80, dport: 5000, flags: syn | ack, seq: 9, ack: to, options: options}
}

// C-10, C-22, C-71: the placeholder stands first, and every length and sum follows.
func TestSYNGetsPlaceholder(t *testing.T) { bothFamilies(t, testSYNGetsPlaceholder) }

func testSYNGetsPlaceholder(t *testing.T) {
	n := clientNode(t)
	full := bytes.Repeat([]byte{1}, 40-len(placeholder))
	cases := map[string]packet{
		"Linux":                  clientSYN(100),
		"no options":             {src: testClient, dst: testVIP, sport: 1, dport: 80, flags: syn},
		"ECN, C-20":              {src: testClient, dst: testVIP, sport: 2, dport: 80, flags: syn | 0xc0, options: linuxSYN},
		"data (TFO), C-23":       {src: testClient, dst: testVIP, sport: 3, dport: 80, flags: syn, options: linuxSYN, data: bytes.Repeat([]byte{1, 2, 3}, 400)},
		"odd data":               {src: testClient, dst: testVIP, sport: 4, dport: 80, flags: syn, data: []byte{1, 2, 3}},
		"as much as fits":        {src: testClient, dst: testVIP, sport: 6, dport: 80, flags: syn, options: full},
		"end of list in options": {src: testClient, dst: testVIP, sport: 7, dport: 80, flags: syn, options: []byte{2, 4, 5, 0xb4, 0, 0, 0, 0}},
	}
	if testFamily == four {
		cases["IP options, C-23"] = packet{src: testClient, dst: testVIP, sport: 5, dport: 80, flags: syn, options: linuxSYN, ipOptions: []byte{1, 1, 1, 0}}
	}
	for name, p := range cases {
		verdict, got := run(t, n, "crab_client_out", p)
		want := append(append([]byte{}, placeholder...), p.options...)
		if verdict != next || !bytes.Equal(got.options, want) || !bytes.Equal(got.data, p.data) || !got.sums || !got.lengths {
			t.Errorf("%s: verdict %d, options %x, sums %v, lengths %v", name, int32(verdict), got.options, got.sums, got.lengths)
		}
		if got.src != testClient || got.dst != testVIP {
			t.Errorf("%s: addresses %s > %s changed", name, got.src, got.dst)
		}
	}
	counted(t, n, map[string]uint64{"client_syn_marked": uint64(len(cases))})
}

// What must pass untouched, each with its reason.
func TestClientLeavesAlone(t *testing.T) { bothFamilies(t, testClientLeavesAlone) }

func testClientLeavesAlone(t *testing.T) {
	n := clientNode(t)
	base := clientSYN(1)
	type change = struct {
		reason string
		change func(*packet)
	}
	cases := map[string]change{
		"no VIP, C-24":            {"", func(p *packet) { p.dst = testDIP }},
		"other port":              {"", func(p *packet) { p.dport = 81 }},
		"4 bytes too many, C-8":   {"client_syn_no_space", func(p *packet) { p.options = bytes.Repeat([]byte{1}, 44-len(placeholder)) }},
		"own option, C-93":        {"client_syn_foreign_option", func(p *packet) { p.options = redirected }},
		"fragment":                {"fragment", func(p *packet) { p.fragment = 0x2000 }},
		"UDP":                     {"", func(p *packet) { p.proto = 17 }},
		"SYN-ACK to a VIP":        {"", func(p *packet) { p.flags = syn | ack }},
		"data without connection": {"", func(p *packet) { p.flags = ack; p.data = []byte("x") }},
	}
	if testFamily == six {
		cookie := []byte{34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1}
		md5 := append([]byte{2, 4, 5, 0xb4, 1, 1, 19, 18}, make([]byte, 16)...)
		cases["TFO cookie, C-9"] = change{"client_syn_no_space", func(p *packet) { p.options = append(append([]byte{}, linuxSYN...), cookie...) }}
		cases["TFO asks for a cookie, C-9"] = change{"client_syn_no_space", func(p *packet) { p.options = append(append([]byte{}, linuxSYN...), 34, 2, 1, 1) }}
		cases["MD5, C-9"] = change{"client_syn_no_space", func(p *packet) { p.options = md5 }}
		cases["extension header, C-9"] = change{"extension_header", func(p *packet) { p.ipOptions = []byte{1} }}
	}
	for name, c := range cases {
		p := base
		c.change(&p)
		before, _ := n.Counters()
		frame := p.bytes()
		verdict, out := runBytes(t, n, "crab_client_out", frame)
		if verdict != next || !bytes.Equal(out, frame) {
			t.Errorf("%s: verdict %d, changed %v", name, int32(verdict), !bytes.Equal(out, frame))
		}
		after, _ := n.Counters()
		if c.reason != "" && after[c.reason] != before[c.reason]+1 {
			t.Errorf("%s: %s was not counted", name, c.reason)
		}
	}
	counted(t, n, map[string]uint64{"client_syn_marked": 0})
}

// C-70, C-100: a redirect is accepted once; both directions are translated and the option is blanked.
func TestRedirectIsAccepted(t *testing.T) { bothFamilies(t, testRedirectIsAccepted) }

func testRedirectIsAccepted(t *testing.T) {
	for name, options := range map[string][]byte{
		"option first": append(append([]byte{}, redirected...), linuxSYN...),
		"option last":  append(append(append([]byte{}, linuxSYN...), 1, 1), redirected[:len(redirected)-2]...),
		"odd offset":   append(append([]byte{1}, redirected[:len(redirected)-1]...), linuxSYN...),
	} {
		n := clientNode(t)
		run(t, n, "crab_client_out", clientSYN(100))
		verdict, got := run(t, n, "crab_client_in", redirectedSYNACK(101, options))
		if verdict != next || got.src != testVIP || !got.sums || bytes.Contains(got.options, redirected[:2]) || len(got.options) != len(options) {
			t.Fatalf("%s: verdict %d, from %s, options %x, sums %v", name, int32(verdict), got.src, got.options, got.sums)
		}
		// On a pod's veth the host routes: the program only translates.
		verdict, got = run(t, n, "crab_client_out_pod", packet{src: testClient, dst: testVIP, sport: 5000, dport: 80, flags: ack, data: []byte("get")})
		if verdict != next || got.dst != testDIP || !got.sums {
			t.Errorf("%s: sent on to %s, verdict %d, sums %v", name, got.dst, int32(verdict), got.sums)
		}
		verdict, got = run(t, n, "crab_client_in", packet{src: testDIP, dst: testClient, sport: 80, dport: 5000, flags: ack, data: []byte("page!")})
		if verdict != next || got.src != testVIP || !got.sums {
			t.Errorf("%s: received from %s, verdict %d, sums %v", name, got.src, int32(verdict), got.sums)
		}
		counted(t, n, map[string]uint64{"client_synack_accepted": 1, "client_flow_created": 1, "client_to_server": 1, "client_from_server": 2})
	}
}

// C-90…C-95, C-101: what is not believed is dropped, and nothing is translated afterwards.
func TestRedirectIsRefused(t *testing.T) { bothFamilies(t, testRedirectIsRefused) }

func testRedirectIsRefused(t *testing.T) {
	cases := map[string]struct {
		reason string
		waits  bool
		change func(*packet)
	}{
		"nobody waits, C-101":      {"client_forged_no_pending", false, func(*packet) {}},
		"wrong ack, C-90":          {"client_forged_ack", true, func(p *packet) { p.ack++ }},
		"ack of the SYN, C-90":     {"client_forged_ack", true, func(p *packet) { p.ack-- }},
		"outside prefixes, C-91":   {"client_forged_dip", true, func(p *packet) { p.src = at("10.3.0.1") }},
		"other client port, C-101": {"client_forged_no_pending", true, func(p *packet) { p.dport++ }},
	}
	for name, c := range cases {
		n := clientNode(t)
		if c.waits {
			run(t, n, "crab_client_out", clientSYN(100))
		}
		p := redirectedSYNACK(101, redirected)
		c.change(&p)
		if verdict, _ := run(t, n, "crab_client_in", p); verdict != shot {
			t.Errorf("%s: verdict %d", name, int32(verdict))
		}
		counted(t, n, map[string]uint64{c.reason: 1, "client_synack_accepted": 0, "client_flow_created": 0})
	}
}

// C-92: a redirect never moves a connection that is established.
func TestLiveConnectionIsNotMoved(t *testing.T) { bothFamilies(t, testLiveConnectionIsNotMoved) }

func testLiveConnectionIsNotMoved(t *testing.T) {
	n := established(t)
	forged := redirectedSYNACK(101, redirected)
	forged.src = at("10.2.0.99")
	run(t, n, "crab_client_in", forged)
	forged.ack = 5555
	if verdict, _ := run(t, n, "crab_client_in", forged); verdict != shot {
		t.Errorf("verdict %d", int32(verdict))
	}
	_, got := run(t, n, "crab_client_out_pod", packet{src: testClient, dst: testVIP, sport: 5000, dport: 80, flags: ack})
	if got.dst != testDIP {
		t.Errorf("the connection goes to %s now", got.dst)
	}
	counted(t, n, map[string]uint64{"client_synack_accepted": 1, "client_synack_other_server": 1, "client_forged_no_pending": 1})
}

// established is a node with one redirected connection from port 5000.
func established(t *testing.T) *Node {
	n := clientNode(t)
	run(t, n, "crab_client_out", clientSYN(100))
	run(t, n, "crab_client_in", redirectedSYNACK(101, redirected))
	return n
}

// C-95: the prefixes are the VIP's own.
func TestPrefixesArePerVIP(t *testing.T) { bothFamilies(t, testPrefixesArePerVIP) }

func testPrefixesArePerVIP(t *testing.T) {
	n := clientNode(t)
	other := VIPKey{at("192.0.2.2"), 80}
	if err := n.SetVIP(VIP{VIPKey: other, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.9.0.0/16")}}); err != nil {
		t.Fatal(err)
	}
	p := clientSYN(100)
	p.dst = other.Addr
	run(t, n, "crab_client_out", p)
	hijack := redirectedSYNACK(101, option(other.Addr)) // from a server of the first VIP
	if verdict, _ := run(t, n, "crab_client_in", hijack); verdict != shot {
		t.Errorf("verdict %d", int32(verdict))
	}
	counted(t, n, map[string]uint64{"client_forged_dip": 1, "client_synack_accepted": 0})
}

// C-104: the same answer again is accepted, another server's is answered with RST.
func TestSecondSYNACK(t *testing.T) { bothFamilies(t, testSecondSYNACK) }

func testSecondSYNACK(t *testing.T) {
	n := established(t)
	verdict, got := run(t, n, "crab_client_in", redirectedSYNACK(101, redirected))
	if verdict != next || got.src != testVIP {
		t.Errorf("the same again: verdict %d, from %s", int32(verdict), got.src)
	}
	other := redirectedSYNACK(101, redirected)
	other.src = at("10.2.0.2")
	verdict, out := runBytes(t, n, "crab_client_in", other.bytes())
	reply := parse(t, out)
	if verdict != 7 || reply.flags != rst || reply.dst != other.src || reply.src != testClient || !reply.sums {
		t.Errorf("another server: verdict %d, flags %#x, %s > %s, sums %v", int32(verdict), reply.flags, reply.src, reply.dst, reply.sums)
	}
	counted(t, n, map[string]uint64{"client_synack_repeated": 1, "client_synack_other_server": 1})
}

// C-105: after two unanswered SYNs one leaves without placeholder; the VIP's own answer is then taken.
func TestThirdSYNIsUnmarked(t *testing.T) { bothFamilies(t, testThirdSYNIsUnmarked) }

func testThirdSYNIsUnmarked(t *testing.T) {
	n := clientNode(t)
	for i := range 3 {
		_, got := run(t, n, "crab_client_out", clientSYN(100))
		if marked := bytes.HasPrefix(got.options, placeholder); marked != (i < 2) {
			t.Errorf("SYN %d marked: %v", i+1, marked)
		}
	}
	answer := redirectedSYNACK(101, linuxSYN)
	answer.src = testVIP
	if verdict, got := run(t, n, "crab_client_in", answer); verdict != next || got.src != testVIP {
		t.Errorf("the VIP's answer: verdict %d", int32(verdict))
	}
	late := redirectedSYNACK(101, redirected) // the first SYN's server
	if verdict, _ := run(t, n, "crab_client_in", late); verdict != shot {
		t.Errorf("a late redirect: verdict %d", int32(verdict))
	}
	counted(t, n, map[string]uint64{"client_syn_unmarked_retry": 1, "client_fallback_synack": 1, "client_forged_no_pending": 1})
}

// The proof of concept's trap: a direct connection to the DIP that reuses the port must not be translated.
func TestStaleTranslationIsRemoved(t *testing.T) { bothFamilies(t, testStaleTranslationIsRemoved) }

func testStaleTranslationIsRemoved(t *testing.T) {
	n := established(t)
	direct := packet{src: testClient, dst: testDIP, sport: 5000, dport: 80, flags: syn, seq: 7}
	run(t, n, "crab_client_out", direct)
	_, got := run(t, n, "crab_client_in", redirectedSYNACK(8, nil))
	if got.src != testDIP {
		t.Errorf("the direct connection's answer seems to come from %s", got.src)
	}
	counted(t, n, map[string]uint64{"client_stale_removed": 1, "client_flow_removed": 1})
}

// Simultaneous reuse: a new SYN on the same 4-tuple replaces the old translation; the same SYN again keeps it.
func TestPortReuse(t *testing.T) { bothFamilies(t, testPortReuse) }

func testPortReuse(t *testing.T) {
	n := established(t)
	_, again := run(t, n, "crab_client_out_pod", clientSYN(100))
	if again.dst != testDIP || !bytes.HasPrefix(again.options, redirected) || !again.sums {
		t.Errorf("the same SYN goes to %s with %x", again.dst, again.options)
	}
	_, fresh := run(t, n, "crab_client_out", clientSYN(900))
	if fresh.dst != testVIP || !bytes.HasPrefix(fresh.options, placeholder) {
		t.Errorf("a new SYN goes to %s with %x", fresh.dst, fresh.options)
	}
	counted(t, n, map[string]uint64{"client_flow_removed": 1})
}

// A server of this node answers a client of another node: the redirect passes, for that node to judge.
func TestAnswersToOtherNodesPass(t *testing.T) { bothFamilies(t, testAnswersToOtherNodesPass) }

func testAnswersToOtherNodesPass(t *testing.T) {
	n := clientNode(t)
	frame := redirectedSYNACK(101, redirected).bytes()
	if verdict, out := runBytes(t, n, "crab_client_in_near", frame); verdict != next || !bytes.Equal(out, frame) {
		t.Errorf("verdict %d", int32(verdict))
	}
	run(t, n, "crab_client_out", clientSYN(100))
	if verdict, got := run(t, n, "crab_client_in_near", redirectedSYNACK(101, redirected)); verdict != next || got.src != testVIP {
		t.Errorf("a client of this node: verdict %d, from %s", int32(verdict), got.src)
	}
	run(t, n, "crab_client_out", clientSYN(200))
	if verdict, _ := run(t, n, "crab_client_in_near", redirectedSYNACK(999, redirected)); verdict != shot {
		t.Errorf("C-90: a wrong ack for a client of this node: verdict %d", int32(verdict))
	}
}
