// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// crowd is a bounded kind of state whose map is filled by connections that come and go beside some that stay, and are silent.
type crowd struct {
	kind, early string
	node        func(*testing.T) *Node
	open        func(t *testing.T, n *Node, port uint16) // a connection from that port
	end         func(t *testing.T, n *Node, port uint16) // nil: it is dialled only, and never answered
	key         func(port uint16) programs.Tuple         // where it stands
}

const (
	crowdStays = 100
	crowdBatch = 64
	crowdGoes  = 40 * crowdBatch
)

// churn is connections that stay, then some hundreds that end; how many of the former are left.
func (c crowd) churn(t *testing.T, n *Node, lives Lives) (left int, evicted uint64) {
	t.Helper()
	for i := range crowdStays {
		c.open(t, n, uint16(1000+i))
	}
	for i := range crowdGoes {
		port := uint16(2000 + i)
		if c.end == nil {
			begin(t, n, port, linuxSYN)
		} else {
			c.open(t, n, port)
			c.end(t, n, port)
		}
		if i%crowdBatch != crowdBatch-1 {
			continue
		}
		time.Sleep(10 * time.Millisecond) // the coarse clock, too, has gone on
		e, err := n.Expire(lives)
		must(t, err)
		evicted = e.EvictedOf[c.kind]
	}
	for i := range crowdStays {
		value := make([]byte, n.m(testFamily, bounded[c.kind].table).ValueSize())
		if n.m(testFamily, bounded[c.kind].table).Lookup(c.key(uint16(1000+i)), &value) == nil {
			left++
		}
	}
	return left, evicted
}

func crowds() map[string]crowd {
	client := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(testClient, port) }
	toVIP := func(port uint16) programs.Tuple {
		return programs.Tuple{Client: client(port), Server: netip.AddrPortFrom(testVIP, 80)}
	}
	relays := func(t *testing.T) *Node {
		return balancing(t, openTest(t, Options{Sizes: Sizes{Relays: 1024}}), 2, func(v *VIP) { v.Backends[0].State, v.Backends[1].State = UpPlain, UpPlain })
	}
	relay := func(t *testing.T, n *Node, port uint16) { begin(t, n, port, linuxSYN).established(t, n) }
	return map[string]crowd{
		"translations": {"flows", "client_flow_early", clientNode, connect, func(t *testing.T, n *Node, port uint16) {
			p := clientEnds(rst | ack)
			p.sport = port
			run(t, n, "crab_client_out_pod", p)
		}, toVIP},
		"fall-back path": {"hashed", "server_dsr_early", serverNode, func(t *testing.T, n *Node, port uint16) { handshake(t, n, port, fallbackMark(testVIP), true) }, func(t *testing.T, n *Node, port uint16) {
			p := serverData()
			p.flags, p.dport = rst|ack, port
			run(t, n, "crab_server_out", p)
		}, func(port uint16) programs.Tuple {
			return programs.Tuple{Client: client(port), Server: netip.AddrPortFrom(testDIP, 80)}
		}},
		"relays": {"relays", "lb_relay_early", relays, relay, func(t *testing.T, n *Node, port uint16) {
			relayed(t, n, relayConn{port: port}.out(rst|ack, 101, 501, ""))
		}, toVIP},
		"relays, never answered": {"relays", "lb_relay_early", relays, relay, nil, toVIP},
	}
}

// C-72: what has ended, or never began, makes room before a full map pushes out what lives and is silent.
func TestEndedMakeRoom(t *testing.T) { bothFamilies(t, testEndedMakeRoom) }

func testEndedMakeRoom(t *testing.T) {
	onOneCPU(t)
	for name, c := range crowds() {
		n := c.node(t)
		if left, evicted := c.churn(t, n, Lives{Crowded: time.Millisecond}); left != crowdStays || evicted != 0 {
			t.Errorf("%s: %d of %d silent connections are left, %d were pushed out", name, left, crowdStays, evicted)
		}
		counters, err := n.Counters()
		must(t, err)
		if early := counters[c.early]; early < crowdGoes/2 || early > crowdGoes {
			t.Errorf("%s: %d of %d went early", name, early, crowdGoes)
		}
		n = c.node(t)
		if left, evicted := c.churn(t, n, Lives{Crowded: time.Hour}); left == crowdStays || evicted == 0 {
			t.Errorf("%s: nothing is pushed out where nothing makes room: %d are left, this test tells nothing", name, left)
		}
	}
}

// C-72: on the fall-back path the server's host alone sees the end: both FINs, or the server's RST. Anybody can forge the client's.
func TestExpireHashed(t *testing.T) { bothFamilies(t, testExpireHashed) }

func testExpireHashed(t *testing.T) {
	in := func(flags byte) func(*testing.T, *Node) {
		return func(t *testing.T, n *Node) {
			p := fromClient(101, 10)
			p.flags = flags
			run(t, n, "crab_server_in", p)
		}
	}
	out := func(flags byte) func(*testing.T, *Node) {
		return func(t *testing.T, n *Node) {
			p := serverData()
			p.flags = flags
			if _, got := run(t, n, "crab_server_out", p); got.src != testVIP || !got.sums {
				t.Errorf("a reply with flags %#x comes from %s (sums %v)", flags, got.src, got.sums)
			}
		}
	}
	steps := func(all ...func(*testing.T, *Node)) []func(*testing.T, *Node) { return all }
	for name, c := range map[string]struct {
		steps []func(*testing.T, *Node)
		gone  bool
	}{
		"open":                            {nil, false},
		"FIN of the server":               {steps(out(fin | ack)), false},
		"FIN of the client":               {steps(in(fin | ack)), false},
		"half closed, replies go on":      {steps(in(fin|ack), out(ack), out(ack)), false},
		"both FINs":                       {steps(in(fin|ack), out(ack), out(fin|ack)), true},
		"both FINs, the server first":     {steps(out(fin|ack), in(fin|ack), out(ack)), true},
		"RST of the server":               {steps(out(rst | ack)), true},
		"RST of the server, which stayed": {steps(out(rst|ack), out(ack)), false},
		"RST of the client":               {steps(in(rst | ack)), false},
	} {
		n := hashed(t)
		for _, s := range c.steps {
			s(t, n)
		}
		time.Sleep(10 * time.Millisecond)
		e, err := n.Expire(Lives{Ended: time.Millisecond})
		must(t, err)
		left, err := n.entries("crab_dsr")
		if err != nil || (left == 0) != c.gone || e.EvictedOf["hashed"] != 0 {
			t.Errorf("%s: %d left, %+v, %v", name, left, e, err)
		}
		if e, err = n.Expire(Lives{Idle: time.Millisecond}); err != nil || e.EvictedOf["hashed"] != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if left, err = n.entries("crab_dsr"); err != nil || left != 0 {
			t.Errorf("%s: %d left of an idle one: %v", name, left, err)
		}
		counted(t, n, map[string]uint64{"server_dsr_created": 1, "server_dsr_expired": 1, "server_dsr_early": 0})
	}
}

// An IP header of the other version is nobody's business here: it is counted, and left to the kernel, which knows what to do.
func TestOtherVersionInTheHeader(t *testing.T) { bothFamilies(t, testOtherVersionInTheHeader) }

func testOtherVersionInTheHeader(t *testing.T) {
	n := balancerNode(t, 2, func(v *VIP) { v.Roles |= RoleClient; v.Prefixes = []netip.Prefix{within("10.2.0.0/16")} })
	must(t, n.AllowEcho([]netip.Addr{testVIP}))
	flip := func(p packet) []byte {
		frame := p.bytes()
		frame[14] = frame[14]&0x0f | (0xa0 - frame[14]&0xf0)
		return frame
	}
	for _, c := range []struct {
		program string
		p       packet
		verdict uint32
		counts  uint64
	}{
		{"crab_client_out", clientSYN(100), next, 1},
		{"crab_server_in", serverSYN(redirected), next, 1},
		{"crab_balance_in", lbSYN(7, linuxSYN), next, 1},
		{"crab_lb_generic", lbSYN(8, marked()), 2, 0}, // tc counts it
		{"crab_lb_native", lbSYN(9, marked()), 2, 0},
	} {
		before, err := n.Counters()
		must(t, err)
		verdict, out := runBytes(t, n, c.program, flip(c.p))
		if verdict != c.verdict || string(out) != string(flip(c.p)) {
			t.Errorf("%s: verdict %d, %x of %x", c.program, int32(verdict), out, flip(c.p))
		}
		after, err := n.Counters()
		must(t, err)
		if got := after["header_malformed"] - before["header_malformed"]; got != c.counts {
			t.Errorf("%s counts %d malformed headers, want %d", c.program, got, c.counts)
		}
	}
	for _, table := range []string{"crab_pending", "crab_opening", "crab_syns"} {
		if left, err := n.entries(table); err != nil || left != 0 {
			t.Errorf("%s has %d entries: %v", table, left, err)
		}
	}
}
