// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// plainNode balances testVIP:80 over servers whose host has no agent.
func plainNode(t *testing.T) *Node {
	return balancerNode(t, 2, func(v *VIP) { v.Backends[0].State, v.Backends[1].State = UpPlain, UpPlain })
}

// relayed sends a packet through the balancer: what is left of it, and its ports.
func relayed(t *testing.T, n *Node, p packet) (got parsed, sport, dport uint16) {
	t.Helper()
	_, frame := runBytes(t, n, "crab_balance_in", p.bytes())
	got = parse(t, frame)
	tcp := frame[len(frame)-len(got.data)-len(got.options)-20:]
	if !got.sums {
		t.Errorf("wrong checksums: %+v", got)
	}
	return got, binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint16(tcp[2:])
}

// relayConn is a connection through the balancer: the client's port, and what the server sees.
type relayConn struct {
	port, seen uint16
	server     netip.Addr
}

func (c relayConn) out(flags byte, seq, acks uint32, data string) packet {
	return packet{src: testClient, dst: testVIP, sport: c.port, dport: 80, flags: flags, seq: seq, ack: acks, data: []byte(data)}
}

func (c relayConn) back(flags byte, seq, acks uint32, data string) packet {
	return packet{src: c.server, dst: testVIP, sport: 80, dport: c.seen, flags: flags, seq: seq, ack: acks, data: []byte(data)}
}

// begin opens a connection; the server's first byte is 501, the client's 101.
func begin(t *testing.T, n *Node, port uint16, options []byte) relayConn {
	t.Helper()
	c := relayConn{port: port}
	p := c.out(syn, 100, 0, "")
	p.options = options
	got, seen, dport := relayed(t, n, p)
	c.seen, c.server = seen, got.dst
	if got.src != testVIP || seen < 61000 || dport != 80 || got.dst != servers(2)[0].Addr && got.dst != servers(2)[1].Addr {
		t.Fatalf("the server would see %s:%d to %s:%d", got.src, seen, got.dst, dport)
	}
	return c
}

func (c relayConn) established(t *testing.T, n *Node) relayConn {
	t.Helper()
	relayed(t, n, c.back(syn|ack, 500, 101, ""))
	relayed(t, n, c.out(ack, 101, 501, ""))
	return c
}

func (c relayConn) goesOn(t *testing.T, n *Node, when string) {
	t.Helper()
	if got, sport, dport := relayed(t, n, c.out(ack, 101, 501, "ask")); got.src != testVIP || got.dst != c.server || sport != c.seen || dport != 80 || string(got.data) != "ask" {
		t.Errorf("%s: the server sees %s:%d to %s:%d %q", when, got.src, sport, got.dst, dport, got.data)
	}
	if got, sport, dport := relayed(t, n, c.back(ack, 501, 104, "tell")); got.src != testVIP || got.dst != testClient || sport != 80 || dport != c.port || string(got.data) != "tell" {
		t.Errorf("%s: the client sees %s:%d to %s:%d %q", when, got.src, sport, got.dst, dport, got.data)
	}
}

// C-42, C-43: where no server's host can answer from the VIP the balancer stands in between, for clients with agent and without.
func TestRelay(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := plainNode(t)
		for i, options := range [][]byte{linuxSYN, marked(), nil} {
			c := begin(t, n, uint16(5000+i), options).established(t, n)
			c.goesOn(t, n, "new")
			if again := begin(t, n, c.port, options); again != c {
				t.Errorf("the SYN comes again: %+v, was %+v", again, c)
			}
		}
		counted(t, n, map[string]uint64{"lb_relay_created": 3, "lb_fallback_syn": 0, "lb_fallback_to_stack": 0})
		stray := relayConn{port: 1, seen: 65000, server: servers(1)[0].Addr}.back(ack, 1, 1, "")
		if got, _, dport := relayed(t, n, stray); got.dst != testVIP || dport != 65000 {
			t.Errorf("a packet of nobody's was changed: %+v", got)
		}
	})
}

// C-26, C-43: a pool that changes, or finds that its servers echo after all, moves no relayed connection.
func TestRelayOutlivesThePool(t *testing.T) {
	n := plainNode(t)
	c := begin(t, n, 5000, linuxSYN).established(t, n)
	for _, state := range []State{UpCRAB, Draining, Down} {
		balancing(t, n, 3, func(v *VIP) {
			for i := range v.Backends {
				v.Backends[i].State = state
			}
		})
		c.goesOn(t, n, state.String())
	}
}

func (n *Node) relays(t *testing.T, l Lives) (left int) {
	t.Helper()
	if _, err := n.Expire(l); err != nil {
		t.Fatal(err)
	}
	left, err := n.entries("crab_relays")
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// C-72, C-92: only segments that stand where the sender's next byte is end a relayed connection; SYNs never do.
func TestRelayEnds(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n, soon := plainNode(t), Lives{Ended: 1}
		c := begin(t, n, 5000, linuxSYN).established(t, n)
		for _, seq := range []uint32{0, 101 + 1<<21, 0x77665544, 0xffffffff} {
			for _, flags := range []byte{rst, rst | ack, fin | ack, syn} {
				relayed(t, n, c.out(flags, seq, 0, ""))
				relayed(t, n, c.back(flags, seq, 0, ""))
				relayed(t, n, c.back(syn|ack, seq, seq, ""))
			}
			c.goesOn(t, n, "after forged segments")
		}
		if left := n.relays(t, soon); left != 1 {
			t.Fatalf("%d connections are left of 1 that lives", left)
		}
		relayed(t, n, c.out(fin|ack, 104, 505, ""))
		if left := n.relays(t, soon); left != 1 {
			t.Fatalf("%d connections are left of one that is half closed", left)
		}
		relayed(t, n, c.back(fin|ack, 505, 105, ""))
		if left := n.relays(t, soon); left != 0 {
			t.Errorf("%d connections are left after both FINs", left)
		}
		begin(t, n, 5001, nil).established(t, n)
		relayed(t, n, relayConn{port: 5001}.out(rst, 101, 0, ""))
		begin(t, n, 5002, nil).established(t, n)
		begin(t, n, 5003, nil)
		for _, step := range []struct {
			lives Lives
			left  int
		}{{Lives{Ended: time.Hour}, 3}, {soon, 2}, {Lives{Pending: 1}, 1}, {Lives{Idle: 1}, 0}} {
			if left := n.relays(t, step.lives); left != step.left {
				t.Errorf("%+v: %d connections are left, want %d", step.lives, left, step.left)
			}
		}
		if back, err := n.entries("crab_relays_back"); err != nil || back != 0 {
			t.Errorf("%d entries are left of the way back, %v", back, err)
		}
	})
}

// C-72: a connection is begun when the server has answered its client's SYN and the client that answer, by their numbers.
func TestRelayOpens(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := plainNode(t)
		for name, forge := range map[string]func(relayConn){
			"an ACK of nothing":      func(c relayConn) { relayed(t, n, c.out(ack, 101, 0, "")) },
			"data that acks nothing": func(c relayConn) { relayed(t, n, c.out(ack, 101, 0, "ask")) },
			"a SYN-ACK for no SYN":   func(c relayConn) { relayed(t, n, c.back(syn|ack, 500, 0, "")); relayed(t, n, c.out(ack, 101, 501, "")) },
			"a SYN-ACK from far": func(c relayConn) {
				relayed(t, n, c.back(syn|ack, 500, 100, ""))
				relayed(t, n, c.out(ack, 101, 501, ""))
			},
			"a refusal that is none":    func(c relayConn) { relayed(t, n, c.back(rst|ack, 0, 0, "")) },
			"another number is dialled": func(c relayConn) { relayed(t, n, c.out(syn, 900, 0, "")); relayed(t, n, c.back(syn|ack, 500, 101, "")) },
		} {
			c := begin(t, n, 5000, nil)
			forge(c)
			relayed(t, n, c.out(ack, 101, 501, ""))
			if left := n.relays(t, Lives{Ended: 1}); left != 1 {
				t.Errorf("%s: %d handshakes are left", name, left)
			}
			if left := n.relays(t, Lives{Pending: 1}); left != 0 {
				t.Errorf("%s opens a connection", name)
			}
		}
		for name, answer := range map[string]func(relayConn){
			"again": func(c relayConn) {
				relayed(t, n, c.back(syn|ack, 500, 101, ""))
				relayed(t, n, c.back(syn|ack, 500, 101, ""))
			},
			"by two cookies": func(c relayConn) {
				relayed(t, n, c.back(syn|ack, 77, 101, ""))
				relayed(t, n, c.out(syn, 100, 0, ""))
				relayed(t, n, c.back(syn|ack, 500, 101, ""))
			},
			"to another number": func(c relayConn) {
				relayed(t, n, c.out(syn, 900, 0, ""))
				relayed(t, n, c.back(syn|ack, 500, 901, ""))
			},
			"to data of the SYN": func(c relayConn) { relayed(t, n, c.back(syn|ack, 500, 1101, "")) },
		} {
			c := begin(t, n, 5001, nil)
			answer(c)
			relayed(t, n, c.out(ack, 101, 501, ""))
			if left := n.relays(t, Lives{Pending: 1}); left != 1 {
				t.Errorf("answered %s: %d connections are open", name, left)
			}
			n.relays(t, Lives{Idle: 1})
		}
		refused := begin(t, n, 5002, nil)
		relayed(t, n, refused.back(rst|ack, 0, 101, ""))
		if left := n.relays(t, Lives{Ended: 1}); left != 0 {
			t.Error("a refused connection is left")
		}
	})
}

// C-72, C-92: a segment that stands a little ahead moves nothing if it does not acknowledge what the other side sent, so
// that a RST behind it is none; and a RST whose sender goes on was forged.
func TestRelayEndsByNoTwoSegments(t *testing.T) {
	n, soon := plainNode(t), Lives{Ended: 1}
	c := begin(t, n, 5000, linuxSYN).established(t, n)
	c.goesOn(t, n, "new")
	for i := uint32(1); i <= 16; i++ {
		for _, guess := range []uint32{0x40000000, 0x80000000, 0xc0000000} {
			relayed(t, n, c.back(ack, 505+i<<16, guess, ""))
			relayed(t, n, c.back(rst, 505+i<<16, 0, ""))
			relayed(t, n, c.out(ack, 104+i<<16, guess, ""))
			relayed(t, n, c.out(rst, 104+i<<16, 0, ""))
		}
	}
	if left := n.relays(t, soon); left != 1 {
		t.Fatal("forged segments ended it")
	}
	for name, step := range map[string]struct{ forged, goesOn packet }{
		"server": {c.back(rst, 505, 0, ""), c.back(ack, 505, 104, "")}, "client": {c.out(rst, 104, 0, ""), c.out(ack, 104, 505, "")},
	} {
		relayed(t, n, step.forged)
		relayed(t, n, step.goesOn)
		if left := n.relays(t, soon); left != 1 {
			t.Fatalf("the %s's RST ended it, and it went on", name)
		}
	}
	relayed(t, n, c.back(rst|ack, 505, 104, ""))
	relayed(t, n, c.out(ack, 104, 505, "in flight"))
	if left := n.relays(t, soon); left != 0 {
		t.Error("the server's RST did not end it")
	}
}

// Of two entries that do not belong together nothing is translated.
func TestRelayOfAnotherServer(t *testing.T) {
	n := plainNode(t)
	c := begin(t, n, 5000, nil).established(t, n)
	stray := c
	stray.server = at("10.2.0.77")
	key := programs.Tuple{Client: netip.AddrPortFrom(testVIP, c.seen), Server: netip.AddrPortFrom(stray.server, 80)}
	must(t, n.m(four, "crab_relays_back").Put(key, programs.RelayBack{Client: netip.AddrPortFrom(testClient, c.port)}))
	if verdict, _ := run(t, n, "crab_balance_in", stray.back(ack, 501, 101, "forged")); verdict != shot {
		t.Errorf("verdict %d", int32(verdict))
	}
	counted(t, n, map[string]uint64{"lb_relay_unknown": 1})
	c.goesOn(t, n, "after another server's packet")
}

// C-72: handshakes that nobody ends take no port from live connections, and keep none from new ones.
func TestRelayUnderAFlood(t *testing.T) {
	n := balancerNode(t, 1, func(v *VIP) { v.Backends[0].State = UpPlain })
	var live []relayConn
	for i := range uint16(50) {
		live = append(live, begin(t, n, 2000+i, nil).established(t, n))
	}
	for i := range uint16(10000) { // of 4,536 ports
		relayed(t, n, begin(t, n, 10000+i, nil).out(ack, 101, 0, ""))
	}
	for _, c := range live {
		c.goesOn(t, n, "after the flood")
	}
	begin(t, n, 3000, nil).established(t, n).goesOn(t, n, "begun after the flood")
	if left := n.relays(t, Lives{Pending: 1}); left != 51 {
		t.Errorf("%d connections are left of 51", left)
	}
	counted(t, n, map[string]uint64{"lb_relay_full": 0, "lb_relay_unknown": 0})
}

// A service whose port is one of those that relays use is not hidden by them.
func TestRelayLeavesServedPorts(t *testing.T) {
	n := plainNode(t)
	for port := uint16(61000); port < 61500; port++ {
		if err := n.SetVIP(VIP{VIPKey: VIPKey{testVIP, port}, Roles: RoleClient}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint16(300) {
		if c := begin(t, n, 5000+i, nil); c.seen < 61500 {
			t.Fatalf("port %d is served", c.seen)
		}
	}
}
