// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownAddress is one of the test's host, where a server of the VIP may be.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	own := at("10.2.0.77")
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	must(t, netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(own.BitLen(), own.BitLen())}}))
	isLocal := func() bool { // IPv6 adds the route a little later
		routes, err := netlink.RouteGet(own.AsSlice())
		return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
	}
	for end := time.Now().Add(time.Minute); !isLocal(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not become an address of the host", own)
		}
	}
	return own
}

const redirectVerdict = 7

// turned sends a packet out by a device and expects it to be let in there, from the VIP to the other side.
func turned(t *testing.T, n *Node, device int, p packet, to netip.Addr) {
	t.Helper()
	verdict, out := runOn(t, n, "crab_client_out", device, p.bytes())
	got := parse(t, out)
	if verdict != redirectVerdict || got.src != testVIP || got.dst != to || !got.sums || !bytes.Equal(out[:6], out[6:12]) {
		t.Errorf("%s to the VIP: verdict %d, and leaves as %s to %s", p.src, int32(verdict), got.src, got.dst)
	}
}

// C-70: a server in the network of its client's own host. Each side is the VIP to the other.
func TestServerOfOwnHost(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		device, _ := routed(t)
		own, n := ownAddress(t), established(t)
		sent := clientSYN(200)
		sent.sport = 5001
		run(t, n, "crab_client_out", sent)
		back := packet{src: testClient, dst: own, sport: 5001, dport: 80, flags: syn, seq: 200, options: append(append([]byte{}, redirected...), 1, 1, 1, 1)}
		wrong, foreign := back, back
		wrong.seq++
		foreign.dst = testDIP // another host's, to which it would go on
		for _, p := range []packet{wrong, foreign} {
			frame := p.bytes()
			if verdict, out := runOn(t, n, "crab_client_in", device, frame); verdict != next || !bytes.Equal(out, frame) {
				t.Errorf("a SYN %+v is touched: verdict %d", p, int32(verdict))
			}
		}
		verdict, out := runOn(t, n, "crab_client_in", device, back.bytes())
		if got := parse(t, out); verdict != next || got.src != testVIP || got.dst != own || !got.sums {
			t.Fatalf("the SYN comes in as %s to %s: verdict %d", got.src, got.dst, int32(verdict))
		}
		answer := packet{src: own, dst: testVIP, sport: 80, dport: 5001, flags: syn | ack, seq: 9, ack: 201, options: linuxSYN}
		turned(t, n, device, answer, testClient)
		answer.src, answer.dst = testVIP, testClient
		frame := answer.bytes()
		if verdict, out := runOn(t, n, "crab_client_in", device, frame); verdict != next || !bytes.Equal(out, frame) {
			t.Errorf("the SYN-ACK from the VIP: verdict %d", int32(verdict))
		}
		request := packet{src: testClient, dst: testVIP, sport: 5001, dport: 80, flags: ack, seq: 201, ack: 10, data: []byte("get")}
		reply := packet{src: own, dst: testVIP, sport: 80, dport: 5001, flags: ack, seq: 10, ack: 204, data: []byte("page")}
		turned(t, n, device, sent, own) // it comes again: nobody else is asked
		turned(t, n, device, request, own)
		turned(t, n, device, reply, testClient)
		ownHostPort(t, n, device, back)
		request.flags, reply.flags = fin|ack, fin|ack
		turned(t, n, device, request, own)
		turned(t, n, device, reply, testClient)
		counted(t, n, map[string]uint64{"client_own_host": 7, "client_own_host_port": 1})
		if e, err := n.Expire(Lives{Ended: 1}); err != nil || e.Ended != 2 || e.Flows != 1 {
			t.Errorf("after both FINs %+v, %v; want both sides to be over", e, err)
		}
	})
}

// ownHostPort has another client of the host use the same port for the same server: to that one both would be the VIP.
func ownHostPort(t *testing.T, n *Node, device int, back packet) {
	t.Helper()
	other := clientSYN(300)
	other.src, other.sport = at("10.1.0.99"), back.sport
	run(t, n, "crab_client_out", other)
	back.src, back.seq = other.src, other.seq
	if verdict, _ := runOn(t, n, "crab_client_in", device, back.bytes()); verdict != shot {
		t.Errorf("another client's SYN from the same port: verdict %d", int32(verdict))
	}
}

// ownHostFrom connects a port of a client to the server of the own host, as far as the SYN-ACK.
func ownHostFrom(t *testing.T, n *Node, device int, own netip.Addr, from netip.AddrPort, seq uint32) {
	t.Helper()
	client, sport := from.Addr(), from.Port()
	sent := clientSYN(seq)
	sent.src, sent.sport = client, sport
	run(t, n, "crab_client_out", sent)
	back := packet{src: client, dst: own, sport: sport, dport: 80, flags: syn, seq: seq, options: append(append([]byte{}, redirected...), 1, 1, 1, 1)}
	verdict, out := runOn(t, n, "crab_client_in", device, back.bytes())
	if got := parse(t, out); verdict != next || got.src != testVIP || got.dst != own {
		t.Fatalf("the SYN of %s:%d comes in as %s to %s: verdict %d", client, sport, got.src, got.dst, int32(verdict))
	}
	answer := packet{src: own, dst: testVIP, sport: 80, dport: sport, flags: syn | ack, seq: 9, ack: seq + 1, options: linuxSYN}
	turned(t, n, device, answer, client)
}

// turnedError is an error to the VIP that must be let in by the device it would leave by, from the VIP to the other side.
func turnedError(t *testing.T, n *Node, device int, p packet, want told) {
	t.Helper()
	want.sums, want.from = true, testVIP
	verdict, out := runOn(t, n, "crab_client_out", device, tooBig(p))
	if got := readError(out); verdict != redirectVerdict || got != want || !bytes.Equal(out[:6], out[6:12]) {
		t.Errorf("C-103: an error about %s:%d to %s:%d: verdict %d, and becomes %+v, want %+v", p.src, p.sport, p.dst, p.dport, int32(verdict), got, want)
	}
}

// C-103: an error about a connection to a server of the own host finds the end that sent the segment, and seems to come
// from the VIP, as all else does there.
func TestErrorsOfOwnHost(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		device, _ := routed(t)
		own, n := ownAddress(t), clientNode(t)
		ownHostFrom(t, n, device, own, netip.AddrPortFrom(testClient, 5001), 200)
		data := bytes.Repeat([]byte{7}, 40)
		page := packet{src: testVIP, dst: testClient, sport: 80, dport: 5001, flags: ack, seq: 10, ack: 201, data: data}
		request := packet{src: testVIP, dst: own, sport: 5001, dport: 80, flags: ack, seq: 201, ack: 10, data: data}
		turnedError(t, n, device, page, told{to: own, src: own, dst: testVIP, sport: 80, dport: 5001})
		turnedError(t, n, device, request, told{to: testClient, src: testClient, dst: testVIP, sport: 5001, dport: 80})
		counted(t, n, map[string]uint64{"client_error_own_host": 2, "client_error_out": 0, "client_no_route": 0})
		cutShort(t, n, "crab_client_out", tooBig(page))
		other := page
		other.dport++
		passes(t, n, "crab_client_out", "of another connection", tooBig(other))
	})
}

// C-72: a client that half-closed its connection to a server of the own host and uses the port again leaves nothing that
// keeps the port from other clients; nor does it take what another one has by then.
func TestPortOfOwnHostIsUsedAgain(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		device, _ := routed(t)
		own, other, n := ownAddress(t), at("10.1.0.99"), clientNode(t)
		last := packet{src: testClient, dst: testVIP, sport: 5001, dport: 80, flags: fin | ack, seq: 201, ack: 10}
		again := clientSYN(900)
		again.sport = 5001
		ownHostFrom(t, n, device, own, netip.AddrPortFrom(testClient, 5001), 200)
		turned(t, n, device, last, own)
		if _, got := run(t, n, "crab_client_out", again); got.dst != testVIP || !bytes.HasPrefix(got.options, placeholder) {
			t.Errorf("the new SYN goes to %s with %x", got.dst, got.options)
		}
		ownHostFrom(t, n, device, own, netip.AddrPortFrom(other, 5001), 300)
		counted(t, n, map[string]uint64{"client_own_host_port": 0, "client_flow_created": 4, "client_flow_removed": 2})

		reset := packet{src: other, dst: testVIP, sport: 5001, dport: 80, flags: rst, seq: 301}
		turned(t, n, device, reset, own)
		ownHostFrom(t, n, device, own, netip.AddrPortFrom(testClient, 5001), 950) // takes the port of one that is over
		again.src, again.seq = other, 960
		run(t, n, "crab_client_out", again)
		reply := packet{src: own, dst: testVIP, sport: 80, dport: 5001, flags: ack, seq: 10, ack: 951, data: []byte("page")}
		turned(t, n, device, reply, testClient)
	})
}
