// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// translations counts what is left of connections: in the direction of the server, and in that of the client.
func translations(t *testing.T, n *Node) (out, in int) {
	t.Helper()
	for name, count := range map[string]*int{"crab_flows_out": &out, "crab_flows_in": &in} {
		it := n.m(testFamily, name).Iterate()
		var key, value []byte
		for it.Next(&key, &value) {
			*count++
		}
		must(t, it.Err())
	}
	return out, in
}

// serverEnds is the last the server sends.
func serverEnds(flags byte) packet {
	p := gotData(testDIP)
	p.flags, p.data = flags, nil
	return p
}

// C-72: a translation ends a while after RST or both FINs, and after a longer one without a packet; not before.
func TestExpireFlows(t *testing.T) { bothFamilies(t, testExpireFlows) }

func testExpireFlows(t *testing.T) {
	idle, ended := Lives{Idle: time.Millisecond, Ended: time.Hour}, Lives{Idle: time.Hour, Ended: time.Millisecond}
	type step func(*Node)
	toServer := func(flags byte) step {
		return func(n *Node) { run(t, n, "crab_client_out_pod", clientEnds(flags)) }
	}
	toClient := func(flags byte) step { return func(n *Node) { run(t, n, "crab_client_in", serverEnds(flags)) } }
	acknowledged := func(n *Node) {
		p := clientEnds(ack)
		p.ack = 11
		run(t, n, "crab_client_out_pod", p)
	}
	for name, c := range map[string]struct {
		steps       []step
		lives       Lives
		idle, ended int
	}{
		"open, fresh":                {nil, Lives{}, 0, 0},
		"open, silent":               {nil, idle, 1, 0},
		"open, silent for less":      {nil, ended, 0, 0},
		"RST of the client":          {[]step{toServer(rst | ack)}, ended, 0, 1},
		"RST of the client, fresh":   {[]step{toServer(rst | ack)}, Lives{}, 0, 0},
		"RST of the server":          {[]step{toClient(rst | ack)}, ended, 0, 1},
		"RST the client disbelieved": {[]step{toClient(rst | ack), toServer(ack)}, ended, 0, 0},
		"FIN of the client":          {[]step{toServer(fin | ack)}, ended, 0, 0},
		"FIN of the server":          {[]step{toClient(fin | ack)}, ended, 0, 0},
		"both FINs":                  {[]step{toServer(fin | ack), toClient(fin | ack), acknowledged}, ended, 0, 1},
		"both FINs, the other first": {[]step{toClient(fin | ack), acknowledged, toServer(fin | ack)}, ended, 0, 1},
		"both FINs, but not so long": {[]step{toServer(fin | ack), toClient(fin | ack), acknowledged}, idle, 0, 0},
		"a FIN the client never saw": {[]step{toServer(fin | ack), toClient(fin | ack), toServer(ack)}, ended, 0, 0},
	} {
		n := established(t)
		for _, s := range c.steps {
			s(n)
		}
		time.Sleep(2 * time.Millisecond)
		if c.lives == ended || c.lives == idle { // the coarse clock, by which a client's packet is noted, may be a tick behind
			time.Sleep(8 * time.Millisecond)
		}
		e, err := n.Expire(c.lives)
		gone := c.idle + c.ended
		if err != nil || e.Idle != c.idle || e.Ended != c.ended || e.Flows != 1-gone || e.Evicted != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if out, in := translations(t, n); out != 1-gone || in != 1-gone {
			t.Errorf("%s: %d and %d translations are left", name, out, in)
		}
		counted(t, n, map[string]uint64{"client_flow_expired": uint64(gone)})
	}
}

// C-72: a former version kept a time where the client's place is now. The server's RST or FIN ends no such translation
// before its client has said something, and every one after it; what missed its end goes when it is idle.
func TestEndsAfterAnUpgrade(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		for name, flags := range map[string]byte{"RST": rst | ack, "FIN": fin | ack} {
			n := answered(t)
			created, flows := uint64(0x1234567822334455), n.m(testFamily, "crab_flows_out")
			key := programs.Tuple{Client: netip.AddrPortFrom(testClient, 5000), Server: netip.AddrPortFrom(testVIP, 80)}
			var flow programs.Flow
			must(t, flows.Lookup(key, &flow))
			flow.CreatedS, flow.ACK = uint32(created), uint32(created>>32)
			must(t, flows.Put(key, flow))
			run(t, n, "crab_client_in", serverEnds(flags))
			time.Sleep(10 * time.Millisecond)
			if e, err := n.Expire(Lives{Ended: time.Millisecond}); err != nil || e.Flows != 1 {
				t.Fatalf("%s: %+v, %v", name, e, err)
			}
			worksAt(t, n, testDIP)
			run(t, n, "crab_client_out_pod", clientEnds(fin|ack))
			run(t, n, "crab_client_in", serverEnds(flags))
			if flags&fin != 0 {
				last := clientEnds(ack)
				last.ack = 11
				run(t, n, "crab_client_out_pod", last)
			}
			time.Sleep(10 * time.Millisecond)
			if e, err := n.Expire(Lives{Ended: time.Millisecond}); err != nil || e.Ended != 1 {
				t.Errorf("%s after the client's packet: %+v, %v", name, e, err)
			}
		}
	})
}

// connect makes the redirected connection of one client port.
func connect(t *testing.T, n *Node, from uint16) {
	t.Helper()
	p := clientSYN(uint32(from))
	p.sport = from
	run(t, n, "crab_client_out", p)
	answer := redirectedSYNACK(uint32(from)+1, redirected)
	answer.dport = from
	run(t, n, "crab_client_in", answer)
}

// C-72: what the full map pushes out is counted, and only that: not what was removed, replaced or expired.
func TestEvictionsAreCounted(t *testing.T) { bothFamilies(t, testEvictionsAreCounted) }

func testEvictionsAreCounted(t *testing.T) {
	n := clientNode(t)
	for i := range 100 {
		connect(t, n, uint16(2000+i))
	}
	for i := range 40 { // used again, each by a new connection
		p := clientSYN(90000)
		p.sport = uint16(2000 + i)
		run(t, n, "crab_client_out", p)
	}
	e, err := n.Expire(Lives{})
	if err != nil || e.Flows != 60 || e.Evicted != 0 {
		t.Fatalf("40 of 100 connections were replaced: %+v, %v", e, err)
	}
	time.Sleep(10 * time.Millisecond)
	if e, err = n.Expire(Lives{Idle: time.Millisecond}); err != nil || e.Idle != 60 || e.Flows != 0 || e.Evicted != 0 {
		t.Fatalf("60 expired: %+v, %v", e, err)
	}
	const made = 3000
	for i := range made {
		connect(t, n, uint16(3000+i))
	}
	out, _ := translations(t, n)
	e, err = n.Expire(Lives{})
	if err != nil || e.Flows != out || e.Evicted != uint64(made-out) || out > int(testSizes.Flows) {
		t.Errorf("%d connections, %d are left: %+v, %v", made, out, e, err)
	}
}

// What else is bounded is counted as well, each kind by itself.
func TestEvictionsOfEachKind(t *testing.T) {
	const made = 3000
	for kind, c := range map[string]struct {
		node func(*testing.T) *Node
		make func(n *Node, port uint16)
		size uint32
	}{
		"pending": {clientNode, func(n *Node, port uint16) {
			p := clientSYN(uint32(port))
			p.sport = port
			run(t, n, "crab_client_out", p)
			run(t, n, "crab_client_out", p) // again: no new one
		}, testSizes.Pending},
		"back":    {clientNode, func(n *Node, port uint16) { connect(t, n, port) }, testSizes.Flows},
		"opening": {serverNode, func(n *Node, port uint16) { handshake(t, n, port, redirected, false) }, testSizes.Echoes},
		"hashed":  {serverNode, func(n *Node, port uint16) { handshake(t, n, port, fallbackMark(testVIP), true) }, testSizes.DSR},
	} {
		n := c.node(t)
		for i := range 20 {
			c.make(n, uint16(2000+i))
		}
		time.Sleep(10 * time.Millisecond)
		short := Lives{Idle: time.Millisecond, Ended: time.Millisecond, Pending: time.Millisecond, Echo: time.Millisecond}
		for range 2 { // the second finds nothing to do, and no reason to count
			if e, err := n.Expire(short); err != nil || e.EvictedOf[kind] != 0 {
				t.Errorf("%s: nothing was pushed out: %+v, %v", kind, e, err)
			}
		}
		for i := range made {
			c.make(n, uint16(3000+i))
		}
		left, err := n.entries(bounded[kind].table)
		must(t, err)
		e, err := n.Expire(Lives{})
		if err != nil || e.EvictedOf[kind] != uint64(made-left) || left > int(c.size) {
			t.Errorf("%s: %d made, %d are left: %+v, %v", kind, made, left, e.EvictedOf, err)
		}
		for other, lost := range e.EvictedOf {
			if lost != 0 && other != kind && (kind != "back" || other != "flows") {
				t.Errorf("%s: %d of %s were pushed out as well", kind, lost, other)
			}
		}
	}
}

// SYNs within handshakes: what a full map pushes out is counted, and not what the server answered or what was over.
func TestEvictionsOfLaterSYNs(t *testing.T) { bothFamilies(t, testEvictionsOfLaterSYNs) }

func testEvictionsOfLaterSYNs(t *testing.T) {
	const made = 6000
	n := serverNode(t)
	within := func(port uint16, answer bool) {
		handshake(t, n, port, redirected, false)
		p := serverSYN(redirected)
		p.sport, p.seq = port, 700
		run(t, n, "crab_server_in", p)
		run(t, n, "crab_server_in", p) // again: no new one
		if a := serverSYNACK(linuxSYN); answer {
			a.dport, a.ack = port, 701
			run(t, n, "crab_server_out", a)
		}
	}
	for i := range 20 {
		within(uint16(1000+i), i%2 == 0)
	}
	counted(t, n, map[string]uint64{"server_later_created": 20, "server_later_removed": 10})
	time.Sleep(10 * time.Millisecond)
	if e, err := n.Expire(Lives{Echo: time.Millisecond}); err != nil || e.EvictedOf["later"] != 0 {
		t.Errorf("nothing was pushed out: %+v, %v", e, err)
	}
	counted(t, n, map[string]uint64{"server_later_expired": 10})
	for i := range made {
		within(uint16(2000+i), false)
	}
	left, err := n.entries("crab_later")
	must(t, err)
	e, err := n.Expire(Lives{})
	if err != nil || left > 4096*len(n.known()) || left < 1000 || e.EvictedOf["later"] != uint64(made-left) {
		t.Errorf("%d made, %d are left: %+v, %v", made, left, e.EvictedOf, err)
	}
}

// Ports of the VIP that relays take: each is counted when it is taken, given back, or lost with what pushes it out.
func TestEvictionsOfRelaysPorts(t *testing.T) {
	n := balancing(t, openTest(t, Options{Sizes: Sizes{Relays: 256}}), 2, func(v *VIP) { v.Backends[0].State, v.Backends[1].State = UpPlain, UpPlain })
	for i := range 20 {
		begin(t, n, uint16(1000+i), linuxSYN)
	}
	counted(t, n, map[string]uint64{"lb_relay_back_created": 20})
	time.Sleep(10 * time.Millisecond)
	if e, err := n.Expire(Lives{Pending: time.Millisecond}); err != nil || e.EvictedOf["ports"] != 0 {
		t.Errorf("nothing was pushed out: %+v, %v", e, err)
	}
	counted(t, n, map[string]uint64{"lb_relay_back_expired": 20})
	const made = 3000
	taken := map[relayConn]bool{}
	for i := range made {
		c := begin(t, n, uint16(2000+i), linuxSYN)
		taken[relayConn{seen: c.seen, server: c.server}] = true
	}
	left, err := n.entries("crab_relays_back")
	must(t, err)
	e, err := n.Expire(Lives{})
	if lost := int(e.EvictedOf["ports"]); err != nil || left > 512 || lost < len(taken)-left || lost > made-left {
		t.Errorf("%d made, at %d ports, %d are left: %+v, %v", made, len(taken), left, e.EvictedOf, err)
	}
}

// handshake is a SYN to a server from a port, and all that follows until it is a connection.
func handshake(t *testing.T, n *Node, port uint16, options []byte, finish bool) {
	t.Helper()
	p := serverSYN(options)
	p.sport = port
	run(t, n, "crab_server_in", p)
	answer := serverSYNACK(linuxSYN)
	answer.dport = port
	run(t, n, "crab_server_out", answer)
	if finish {
		last := fromClient(101, 10)
		last.sport = port
		run(t, n, "crab_server_in", last)
	}
}

// What a version without these counters left behind counts as made, and its retired maps go.
func TestEvictionsAfterAnUpgrade(t *testing.T) {
	n := openTest(t, Options{})
	must(t, n.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.2.0.0/16")}}))
	for i := range 30 {
		connect(t, n, uint16(2000+i))
	}
	old, err := n.maps["crab_opening"].Clone()
	must(t, err)
	defer old.Close()
	must(t, n.maps["crab_opening"].Unpin())
	retiredPin := filepath.Join(n.root, "crab_echoes")
	must(t, old.Pin(retiredPin))
	for i, name := range Reasons {
		if strings.HasPrefix(name, "client_back_") {
			must(t, n.maps["crab_counters"].Put(uint32(i), make([]uint64, ebpf.MustPossibleCPU())))
		}
	}
	must(t, n.Close())
	again, err := Open(Options{Root: n.root})
	must(t, err)
	defer again.Close()
	if _, err := os.Stat(retiredPin); err == nil {
		t.Error("a map nobody uses any more is pinned still")
	}
	counted(t, again, map[string]uint64{"client_back_created": 30, "client_flow_created": 30})
	if e, err := again.Expire(Lives{}); err != nil || e.EvictedOf["back"] != 0 || e.Flows != 30 {
		t.Errorf("%+v, %v", e, err)
	}
}
