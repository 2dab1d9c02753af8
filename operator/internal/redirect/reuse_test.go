// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net/netip"
	"testing"
)

// dialsAgain sends the SYN of a new connection from the port of the old one, which the balancer must see.
func dialsAgain(t *testing.T, n *Node, iss uint32) {
	t.Helper()
	verdict, got := run(t, n, "crab_client_out", clientSYN(iss))
	if verdict != next || got.dst != testVIP || !bytes.HasPrefix(got.options, placeholder) || !got.sums {
		t.Errorf("the new SYN: verdict %d, to %s with %x, sums %v", int32(verdict), got.dst, got.options, got.sums)
	}
}

// untouched is a packet that must reach the client's TCP, or the server's, as it is.
func untouched(t *testing.T, n *Node, program, what string, p packet) {
	t.Helper()
	frame := p.bytes()
	if verdict, out := runBytes(t, n, program, frame); verdict != next || !bytes.Equal(out, frame) {
		t.Errorf("%s: verdict %d, changed %v", what, int32(verdict), !bytes.Equal(out, frame))
	}
}

// becomes has a server accept the new connection, which is the only one then.
func becomes(t *testing.T, n *Node, iss uint32, server netip.Addr) {
	t.Helper()
	answer := redirectedSYNACK(iss+1, redirected)
	answer.src = server
	if verdict, got := run(t, n, "crab_client_in", answer); verdict != next || got.src != testVIP {
		t.Errorf("the redirect to %s: verdict %d, from %s", server, int32(verdict), got.src)
	}
	worksAt(t, n, server)
	if out, in := translations(t, n); out != 1 || in != 1 {
		t.Errorf("%d and %d translations, want one connection's", out, in)
	}
}

// C-101: a client that gives up within the handshake and dials again from its port is redirected by the answer to its
// new SYN; the answer to the old one is not believed, however often it comes, whether before or behind the new one.
func TestSecondSYNWithinTheRoundTrip(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		for _, server := range []netip.Addr{testDIP, at("10.2.0.2")} {
			n := clientNode(t)
			run(t, n, "crab_client_out", clientSYN(100))
			dialsAgain(t, n, 900)
			for range 2 {
				if verdict, _ := run(t, n, "crab_client_in", redirectedSYNACK(101, redirected)); verdict != shot {
					t.Errorf("the answer to the SYN that was given up: verdict %d", int32(verdict))
				}
			}
			counted(t, n, map[string]uint64{"client_forged_ack": 2, "client_flow_created": 0})
			becomes(t, n, 900, server)
			if verdict, _ := run(t, n, "crab_client_in", redirectedSYNACK(101, redirected)); verdict != shot {
				t.Errorf("the old answer behind the new one: verdict %d", int32(verdict))
			}
			worksAt(t, n, server)
		}
	})
}

// C-72: the new SYN comes when the redirect was believed and nothing else was said, when the client has closed and the
// server has not, and after a RST of either side. The old server's challenge reaches the client's TCP, and its RST the
// server: that is how the new SYN, sent again, is answered.
func TestPortIsUsedAgain(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		for name, end := range map[string]func(*Node){
			"within the handshake": func(*Node) {},
			"half closed":          func(n *Node) { run(t, n, "crab_client_out_pod", clientEnds(fin|ack)) },
			"reset by the client":  func(n *Node) { run(t, n, "crab_client_out_pod", clientEnds(rst|ack)) },
			"reset by the server":  func(n *Node) { run(t, n, "crab_client_in", serverEnds(rst|ack)) },
		} {
			for _, server := range []netip.Addr{testDIP, at("10.2.0.2")} {
				n := established(t)
				end(n)
				dialsAgain(t, n, 900)
				if out, in := translations(t, n); out != 0 || in != 0 {
					t.Errorf("%s: %d and %d translations are left", name, out, in)
				}
				untouched(t, n, "crab_client_in", name+": the old server's data", gotData(testDIP))
				reset := packet{src: testClient, dst: testDIP, sport: 5000, dport: 80, flags: rst, seq: 101}
				untouched(t, n, "crab_client_out", name+": the RST it draws", reset)
				dialsAgain(t, n, 900)
				becomes(t, n, 900, server)
				counted(t, n, map[string]uint64{"client_flow_created": 2, "client_flow_removed": 1})
				if t.Failed() {
					t.Fatalf("%s, then at %s", name, server)
				}
			}
		}
	})
}

// C-92: a SYN that somebody on the wire forges with the address of a host's pod, and sends to the VIP through that host,
// is not its client's: it ends no live connection, and is not marked.
func TestForgedSYNThroughTheClientsHost(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		uplink, pod := routed(t)
		n := answered(t)
		forged := blindSYN(testClient, testVIP, true, linuxSYN).bytes()
		for range 3 {
			if verdict, out := runThrough(t, n, "crab_client_out", uplink, uplink, forged); verdict != next || !bytes.Equal(out, forged) {
				t.Errorf("the SYN: verdict %d, changed %v", int32(verdict), !bytes.Equal(out, forged))
			}
			worksAt(t, n, testDIP)
		}
		counted(t, n, map[string]uint64{"client_syn_in_transit": 3, "client_flow_removed": 0, "client_syn_marked": 1})
		run(t, n, "crab_client_out_pod", clientEnds(rst|ack)) // what is over would translate the next one's data
		runThrough(t, n, "crab_client_out", uplink, uplink, forged)
		if out, in := translations(t, n); out != 0 || in != 0 {
			t.Errorf("%d and %d translations are left", out, in)
		}
		verdict, out := runThrough(t, n, "crab_client_out", pod, uplink, clientSYN(300).bytes())
		if got := parse(t, out); verdict != next || !bytes.HasPrefix(got.options, placeholder) {
			t.Errorf("a pod's SYN: verdict %d, options %x", int32(verdict), got.options)
		}
	})
}
