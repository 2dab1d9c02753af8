// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net/netip"
	"testing"
)

// selfNode has testClient as a server of the VIP that it dials.
func selfNode(t *testing.T) *Node {
	t.Helper()
	n := sharedNode(t)
	must(t, n.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient, Prefixes: []netip.Prefix{netip.PrefixFrom(testClient, testClient.BitLen())}}))
	return n
}

// sentBack is a SYN of a client that the balancer has sent to the client itself.
func sentBack(sent packet) packet {
	sent.dst = sent.src
	sent.options = append(append([]byte{}, redirected...), 1, 1, 1, 1)
	return sent
}

// K-1, C-107: who serves what it dials gets its own SYN from the VIP and without a redirect to echo; to both sides the
// other one is the VIP. No route is asked for that.
func TestServerDialsItself(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		device, _ := routed(t)
		n := selfNode(t)
		sent := clientSYN(200)
		sent.sport = 5001
		run(t, n, "crab_client_out", sent)
		back := sentBack(sent)
		wrong, foreign := back, back
		wrong.seq++
		foreign.src, foreign.dst = testDIP, testDIP // waits for nothing
		for _, p := range []packet{wrong, foreign} {
			frame := p.bytes()
			if verdict, out := runOn(t, n, "crab_client_in", device, frame); verdict != next || !bytes.Equal(out, frame) {
				t.Errorf("a SYN %+v is touched: verdict %d", p, int32(verdict))
			}
		}
		verdict, out := runOn(t, n, "crab_client_in", device, back.bytes())
		got := parse(t, out)
		if verdict != next || got.src != testVIP || got.dst != testClient || !got.sums || !bytes.Equal(got.options, bytes.Repeat([]byte{1}, len(got.options))) {
			t.Fatalf("the SYN comes in as %s to %s with %x: verdict %d", got.src, got.dst, got.options, int32(verdict))
		}
		answer := packet{src: testClient, dst: testVIP, sport: 80, dport: 5001, flags: syn | ack, seq: 9, ack: 201, options: linuxSYN}
		request := packet{src: testClient, dst: testVIP, sport: 5001, dport: 80, flags: ack, seq: 201, ack: 10, data: []byte("get")}
		reply := packet{src: testClient, dst: testVIP, sport: 80, dport: 5001, flags: ack, seq: 10, ack: 204, data: []byte("page")}
		for _, p := range []packet{answer, sent, request, reply} {
			turned(t, n, device, p, testClient)
		}
		counted(t, n, map[string]uint64{"client_own_host": 5, "client_flow_created": 2, "client_fallback_synack": 0})
	})
}

// K-1: from the very port that it serves, a client would be both sides by one name.
func TestServerDialsItselfFromItsPort(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		device, _ := routed(t)
		n := selfNode(t)
		sent := clientSYN(200)
		sent.sport = 80
		run(t, n, "crab_client_out", sent)
		if verdict, _ := runOn(t, n, "crab_client_in", device, sentBack(sent).bytes()); verdict != shot {
			t.Errorf("verdict %d, want the SYN dropped", int32(verdict))
		}
		counted(t, n, map[string]uint64{"client_own_host_port": 1, "client_flow_created": 0})
	})
}

// K-1: a client whose hash leads to itself is relayed, since its host could not answer it from the VIP.
func TestHashLeadsToTheClient(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := balancerNode(t, 1, func(v *VIP) { v.Backends[0].Addr = testClient })
		got, seen, _ := relayed(t, n, lbSYN(7000, linuxSYN))
		if got.src != testVIP || got.dst != testClient || seen < 61000 {
			t.Errorf("the SYN leaves from %s:%d to %s", got.src, seen, got.dst)
		}
		counted(t, n, map[string]uint64{"lb_relay_created": 1, "lb_fallback_syn": 0})
	})
}

// K-1: what the balancer's own host sends to itself comes in by the uplink, where it is told apart; by the way of the
// route it would reach its sender with the sender's own address.
func TestBalancersOwnServerDialsItself(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		device, _ := routed(t)
		n := balancerNode(t, 1, func(v *VIP) { v.Backends[0].Addr = testClient })
		verdict, out := runOn(t, n, "crab_balance_out", device, lbSYN(7001, marked()).bytes())
		if got := parse(t, out); verdict != redirectVerdict || got.dst != testClient || got.src != testClient || !bytes.Equal(out[:6], out[6:12]) {
			t.Errorf("verdict %d, from %s to %s", int32(verdict), got.src, got.dst)
		}
		counted(t, n, map[string]uint64{"lb_syn_redirected": 1})
	})
}
