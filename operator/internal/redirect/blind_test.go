// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"
	"testing"
	"time"
)

// blindSYN is what somebody sends who knows addresses and ports of a connection, and no sequence number.
func blindSYN(from, to netip.Addr, fromClient bool, options []byte) packet {
	p := packet{src: from, dst: to, sport: 80, dport: 5000, flags: syn, seq: 0x77665544, options: options}
	if fromClient {
		p.sport, p.dport = p.dport, p.sport
	}
	return p
}

// worksAt fails unless the client's connection is translated in both directions.
func worksAt(t *testing.T, n *Node, server netip.Addr) {
	t.Helper()
	if _, got := run(t, n, "crab_client_out_pod", sentData()); got.dst != server {
		t.Errorf("the client's data goes to %s, want %s", got.dst, server)
	}
	if _, got := run(t, n, "crab_client_in", gotData(server)); got.src != testVIP {
		t.Errorf("the client sees %s", got.src)
	}
}

// end is what the client's side sends last.
func clientEnds(flags byte) packet {
	p := sentData()
	p.flags, p.data = flags, nil
	return p
}

// C-92: a SYN from the server's address and port belongs to the live connection, whose TCP answers with a challenge ACK.
func TestBlindSYNToTheClient(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		for range 3 {
			verdict, got := run(t, n, "crab_client_in", blindSYN(testDIP, testClient, false, linuxSYN))
			if verdict != next || got.src != testVIP || !got.sums {
				t.Errorf("the SYN: verdict %d, from %s, sums %v", int32(verdict), got.src, got.sums)
			}
			worksAt(t, n, testDIP)
		}
		counted(t, n, map[string]uint64{"client_syn_from_server": 3, "client_stale_removed": 0, "client_flow_removed": 0})
	})
}

// C-92: a forged RST before the SYN does not help.
func TestBlindRSTAndSYNToTheClient(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := answered(t)
		forged := gotData(testDIP)
		forged.flags, forged.data = rst, nil
		run(t, n, "crab_client_in", forged)
		run(t, n, "crab_client_in", blindSYN(testDIP, testClient, false, linuxSYN))
		worksAt(t, n, testDIP)
	})
}

// C-72, C-92: RSTs and FINs of somebody who knows no sequence number end nothing, however long the client is silent then,
// and open no way for a SYN: not on a connection that is idle, nor on one that its client has half closed.
func TestBlindEndsToTheClient(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		for name, before := range map[string]func(*Node){
			"idle": func(*Node) {}, "half closed": func(n *Node) { run(t, n, "crab_client_out_pod", clientEnds(fin|ack)) },
		} {
			n := answered(t)
			before(n)
			tries := uint64(0)
			for i := range uint32(31) { // once around, but for the client's place
				seq := 10 + (i+1)<<27
				for _, flags := range []byte{rst, rst | ack, fin, fin | ack} {
					p := serverEnds(flags)
					p.seq = seq
					if _, got := run(t, n, "crab_client_in", p); got.src != testVIP || got.flags != flags {
						t.Fatalf("the client's TCP must judge it: %+v", got)
					}
				}
				run(t, n, "crab_client_in", blindSYN(testDIP, testClient, false, linuxSYN))
				tries++
			}
			if e, err := n.Expire(Lives{Ended: 1}); err != nil || e.Flows != 1 || tries < 31 {
				t.Errorf("%s: %+v, %v after %d tries", name, e, err, tries)
			}
			worksAt(t, n, testDIP)
			counted(t, n, map[string]uint64{"client_rst_not_near": 2 * tries, "client_stale_removed": 0})
		}
	})
}

// C-72: FINs that somebody forges, before the server's own and behind it, do not hide that one.
func TestBlindFINsHideNoEnd(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		forge := func() {
			for i := range uint32(31) {
				p := serverEnds(fin | ack)
				p.seq = 10 + (i+1)<<27
				run(t, n, "crab_client_in", p)
			}
		}
		run(t, n, "crab_client_out_pod", clientEnds(fin|ack))
		forge()
		p := serverEnds(fin | ack)
		p.seq = 10 + 32<<20 // behind data that went by recent answers
		run(t, n, "crab_client_in", p)
		forge()
		last := clientEnds(ack)
		last.ack = p.seq + 1
		run(t, n, "crab_client_out_pod", last)
		time.Sleep(10 * time.Millisecond)
		if e, err := n.Expire(Lives{Ended: time.Millisecond}); err != nil || e.Ended != 1 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// C-72: the server's RST ends a translation though data has passed since the client was looked at last.
func TestServerResetsBehindRecentData(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := answered(t)
		p := serverEnds(rst)
		p.seq = 10 + 8<<20
		run(t, n, "crab_client_in", p)
		time.Sleep(10 * time.Millisecond)
		if e, err := n.Expire(Lives{Ended: time.Millisecond}); err != nil || e.Ended != 1 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// C-24: what is dialled after its VIP has gone is left alone, although the port had a connection through it.
func TestDeletedVIP(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		must(t, n.DeleteVIP(VIPKey{testVIP, 80}))
		worksAt(t, n, testDIP)
		run(t, n, "crab_client_out", clientSYN(900))
		if _, got := run(t, n, "crab_client_out_pod", sentData()); got.dst != testVIP {
			t.Errorf("the new connection's data goes to %s", got.dst)
		}
		if _, got := run(t, n, "crab_client_in", gotData(testDIP)); got.src != testDIP {
			t.Errorf("the client sees %s", got.src)
		}
	})
}

// C-72: what both sides have closed, or the client has reset, is over: the server's own connection is left alone.
func TestServerConnectsAfterTheEnd(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		for name, end := range map[string]func(*Node){
			"RST of the client": func(n *Node) { run(t, n, "crab_client_out_pod", clientEnds(rst|ack)) },
			"both FINs": func(n *Node) {
				run(t, n, "crab_client_out_pod", clientEnds(fin|ack))
				last := gotData(testDIP)
				last.flags, last.data = fin|ack, nil
				run(t, n, "crab_client_in", last)
				seen := clientEnds(ack)
				seen.ack = 11
				run(t, n, "crab_client_out_pod", seen)
			},
		} {
			n := answered(t)
			end(n)
			if _, got := run(t, n, "crab_client_in", blindSYN(testDIP, testClient, false, linuxSYN)); got.src != testDIP {
				t.Errorf("%s: the client sees %s", name, got.src)
			}
			counted(t, n, map[string]uint64{"client_stale_removed": 1, "client_flow_removed": 1})
		}
	})
}

// direct is a SYN past the VIP, from the port of the connection through it.
func direct() packet {
	p := clientSYN(300)
	p.dst = testDIP
	return p
}

// C-92: a direct connection from the port of a live one harms nothing: the server's TCP does not begin anew.
func TestDirectSYNFromALivePort(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		for range 3 {
			if verdict, got := run(t, n, "crab_client_out", direct()); verdict != next || got.dst != testDIP {
				t.Errorf("the SYN: verdict %d, to %s", int32(verdict), got.dst)
			}
			worksAt(t, n, testDIP)
			if _, got := run(t, n, "crab_client_in", redirectedSYNACK(999, nil)); got.src != testVIP { // of neither
				t.Errorf("a SYN-ACK that answers another SYN comes from %s", got.src)
			}
			worksAt(t, n, testDIP)
		}
		counted(t, n, map[string]uint64{"client_syn_port_in_use": 3, "client_stale_removed": 0, "client_flow_removed": 0})
	})
}

// C-72: where the server knows nothing of the former connection it answers the direct SYN, and the translation ends.
func TestDirectSYNIsConfirmed(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		run(t, n, "crab_client_out", direct())
		if _, got := run(t, n, "crab_client_in", redirectedSYNACK(301, linuxSYN)); got.src != testDIP {
			t.Errorf("the answer comes from %s", got.src)
		}
		if _, got := run(t, n, "crab_client_in", gotData(testDIP)); got.src != testDIP {
			t.Errorf("data comes from %s", got.src)
		}
		counted(t, n, map[string]uint64{"client_stale_removed": 1, "client_flow_removed": 1, "client_fallback_synack": 0})
	})
}

// C-92: a second VIP's SYN from the same port may meet the same server; the first VIP's connection goes on until
// the server begins anew.
func TestTwoVIPsOneServerOnePort(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		other := VIPKey{at("192.0.2.2"), 80}
		must(t, n.SetVIP(VIP{VIPKey: other, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.2.0.0/16")}}))
		second := clientSYN(700)
		second.dst = other.Addr
		for range 4 {
			run(t, n, "crab_client_out", second)
			challenge := gotData(testDIP)
			challenge.data = nil
			run(t, n, "crab_client_in", challenge)
			worksAt(t, n, testDIP)
		}
		run(t, n, "crab_client_in", redirectedSYNACK(701, option(other.Addr)))
		if _, got := run(t, n, "crab_client_in", gotData(testDIP)); got.src != other.Addr {
			t.Errorf("after the server's SYN-ACK the client sees %s", got.src)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
