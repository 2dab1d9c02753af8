// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
)

// tunnelled makes a node balance over one server, which is on another host: 10.3.0.1 here, 10.3.0.2 there.
func tunnelled(t *testing.T) *Node {
	t.Helper()
	n := balancerNode(t, 1, func(v *VIP) { v.Roles |= RoleTunnel })
	setTunnels(t, n, Tunnels{Ways: map[netip.Addr]Tunnel{servers(1)[0].Addr: {at("10.3.0.1"), at("10.3.0.2")}}})
	return n
}

func setTunnels(t *testing.T, n *Node, all Tunnels) {
	t.Helper()
	if err := n.Tunnels(all); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { _ = n.Tunnels(Tunnels{}) })
}

// datagram takes the outer headers off a frame; it fails on whatever is wrong with them.
func datagram(t *testing.T, frame []byte) (from, to netip.Addr, port uint16, inner []byte) {
	t.Helper()
	ip := frame[14:]
	head, proto, total := 20, ip[9], int(binary.BigEndian.Uint16(ip[2:]))
	from, _ = netip.AddrFromSlice(ip[12:16])
	to, _ = netip.AddrFromSlice(ip[16:20])
	if ip[0]>>4 == 6 {
		head, proto, total = 40, ip[6], 40+int(binary.BigEndian.Uint16(ip[4:]))
		from, _ = netip.AddrFromSlice(ip[8:24])
		to, _ = netip.AddrFromSlice(ip[24:40])
	} else if sum(ip[:20]) != 0xffff || ip[6] != 0x40 {
		t.Errorf("outer header % x: wrong checksum, or it may be taken apart", ip[:20])
	}
	udp := ip[head:]
	if proto != 17 || total != len(ip) || int(binary.BigEndian.Uint16(udp[4:])) != len(udp) {
		t.Fatalf("protocol %d, %d of %d bytes, UDP %d of %d", proto, total, len(ip), binary.BigEndian.Uint16(udp[4:]), len(udp))
	}
	check := binary.BigEndian.Uint16(udp[6:])
	if ip[0]>>4 == 4 && check != 0 || ip[0]>>4 == 6 && sum(append(append(append([]byte{}, ip[8:40]...), 0, 17, byte(len(udp)>>8), byte(len(udp))), udp...)) != 0xffff {
		t.Errorf("UDP checksum %04x", check)
	}
	return from, to, binary.BigEndian.Uint16(udp[2:]), append(append([]byte{}, frame[:14]...), udp[8:]...)
}

// C-80: a redirected SYN leaves in a datagram between the hosts, and is inside as it would have left without.
func TestTunnel(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		plain := balancerNode(t, 1, nil)
		_, want := runBytes(t, plain, "crab_balance_in", lbSYN(5000, marked()).bytes())
		n := tunnelled(t)
		before, _ := n.Counters()
		_, frame := runBytes(t, n, "crab_balance_in", lbSYN(5001, marked()).bytes())
		from, to, port, inner := datagram(t, frame)
		if from != at("10.3.0.1") || to != at("10.3.0.2") || port != 6080 {
			t.Errorf("it goes from %s to %s port %d", from, to, port)
		}
		got, plainly := parse(t, inner), parse(t, want)
		if got.src != testClient || got.dst != servers(1)[0].Addr || !got.sums || !got.lengths || got.ttl != 63 || !bytes.Equal(got.options, plainly.options) {
			t.Errorf("inside is %+v, without a tunnel %+v", got, plainly)
		}
		after, _ := n.Counters()
		for _, reason := range []string{"lb_tunnel_too_long", "rewrite_failed"} {
			if after[reason] != before[reason] {
				t.Errorf("%s was counted", reason)
			}
		}
		if verdict, out := runBytes(t, n, "crab_lb_generic", lbSYN(5002, marked()).bytes()); verdict != 2 || !bytes.Equal(out, lbSYN(5002, marked()).bytes()) {
			t.Errorf("XDP does not leave it alone: verdict %d", verdict)
		}
	})
}

// C-80: what knows no redirects is relayed, for a server may not answer from the VIP there.
func TestTunnelRelaysOthers(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := tunnelled(t)
		got, _, _ := relayed(t, n, lbSYN(5003, linuxSYN))
		if got.src != testVIP || got.dst != servers(1)[0].Addr {
			t.Errorf("a SYN without placeholder goes from %s to %s", got.src, got.dst)
		}
	})
}

// C-80: the server's host lets out what a balancer sent, and nothing else.
func TestTunnelOpens(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := tunnelled(t)
		_, good := runBytes(t, n, "crab_balance_in", lbSYN(5004, marked()).bytes())
		_, _, _, inner := datagram(t, good)
		here := Tunnels{Peers: []netip.Addr{at("10.3.0.1")}, Own: []netip.Addr{at("10.3.0.2")}, Servers: []netip.Addr{servers(1)[0].Addr}}
		open := func(what string, all Tunnels, frame, left []byte, verdict uint32, reason string) {
			t.Helper()
			setTunnels(t, n, all)
			before, _ := n.Counters()
			got, out := runBytes(t, n, "crab_tunnel_in", frame)
			after, _ := n.Counters()
			if got != verdict || left != nil && !bytes.Equal(out, left) || reason != "" && after[reason] != before[reason]+1 {
				t.Errorf("%s: verdict %d, want %d; %s counted %d times; left is\n% x, want\n% x", what, got, verdict, reason, after[reason]-before[reason], out, left)
			}
		}
		with := func(change func(*Tunnels)) Tunnels {
			all := here
			change(&all)
			return all
		}
		// wrapped is another packet in the same outer headers.
		wrapped := func(p packet) []byte {
			frame := append([]byte{}, good[:len(good)-len(inner)+14]...)
			return append(frame, p.bytes()[14:]...)
		}
		redirected := packet{src: testClient, dst: servers(1)[0].Addr, sport: 1, dport: 80, flags: syn, options: option(testVIP)}
		open("a balancer's", here, good, inner, next, "tunnel_opened")
		open("of a stranger", with(func(t *Tunnels) { t.Peers = []netip.Addr{at("10.3.0.9")} }), good, good, next, "tunnel_foreign")
		open("for another host", with(func(t *Tunnels) { t.Own = nil }), good, good, next, "")
		open("nobody has tunnels", Tunnels{}, good, good, next, "")
		open("for another server", with(func(t *Tunnels) { t.Servers = []netip.Addr{at("10.2.9.9")} }), good, nil, shot, "tunnel_refused")
		plain, other, early, notTCP := redirected, redirected, redirected, redirected
		plain.options, other.flags, early.flags, notTCP.proto = linuxSYN, ack, syn|ack, 17
		for what, p := range map[string]packet{"without a redirect": plain, "no SYN": other, "a SYN-ACK": early, "no TCP": notTCP} {
			open(what, here, wrapped(p), nil, shot, "tunnel_refused")
		}
		inside, outside := wrapped(redirected), wrapped(redirected)
		inside[len(good)-len(inner)+14] ^= 4<<4 ^ 6<<4
		outside[14] ^= 4<<4 ^ 6<<4
		open("inside is another version of IP", here, inside, nil, shot, "tunnel_refused")
		open("outside is another version of IP", here, outside, outside, next, "")
		setTunnels(t, n, here)
		for length := 60; length < len(good); length++ { // shorter ones no test run takes
			if got, _ := runBytes(t, n, "crab_tunnel_in", good[:length]); got != next && got != shot {
				t.Errorf("%d bytes of it: verdict %d", length, got)
			}
		}
	})
}

// What cannot be a tunnel is named.
func TestTunnelsRefused(t *testing.T) {
	server, four, six := netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("10.3.0.1"), netip.MustParseAddr("fd00::1")
	for want, all := range map[string]Tunnels{
		"tunnels.ways[10.2.0.1].to":   {Ways: map[netip.Addr]Tunnel{server: {four, six}}},
		"tunnels.ways[10.2.0.1].from": {Ways: map[netip.Addr]Tunnel{server: {six, four}}},
		"tunnels.peers[1]":            {Peers: []netip.Addr{four, netip.IPv4Unspecified()}},
		"tunnels.own[0]":              {Own: []netip.Addr{{}}},
		"tunnels.servers[0]":          {Servers: []netip.Addr{netip.MustParseAddr("fe80::1")}},
	} {
		n := &Node{}
		var field *FieldError
		if err := n.Tunnels(all); !errors.As(err, &field) || field.Field != want {
			t.Errorf("%+v: %v, want %s", all, err, want)
		}
	}
}

// C-80: random damage to what comes by a tunnel, from end to end of it: a verdict each time, and nothing is let out that is
// no SYN with a redirect to a server of this host.
func TestDamagedTunnels(t *testing.T) { bothFamilies(t, testDamagedTunnels) }

func testDamagedTunnels(t *testing.T) {
	n := tunnelled(t)
	_, good := runBytes(t, n, "crab_balance_in", lbSYN(5005, marked()).bytes())
	setTunnels(t, n, Tunnels{Peers: []netip.Addr{at("10.3.0.1")}, Own: []netip.Addr{at("10.3.0.2")}, Servers: []netip.Addr{servers(1)[0].Addr}})
	rng, packets := damage(t)
	before, _ := n.Counters()
	for range packets {
		frame := append([]byte{}, good...)
		for range 1 + rng.IntN(4) {
			frame[14+rng.IntN(len(frame)-14)] = byte(rng.IntN(256))
		}
		if rng.IntN(3) == 0 {
			frame = frame[:60+rng.IntN(len(frame)-60)]
		}
		verdict, left := runBytes(t, n, "crab_tunnel_in", frame)
		if verdict != next && verdict != shot {
			t.Fatalf("verdict %d for %x; replay with the seed above", int32(verdict), frame)
		}
		if verdict == next && !bytes.Equal(left, frame) {
			if got := parse(t, left); got.dst != servers(1)[0].Addr || got.flags&(syn|ack|rst|fin) != syn || !bytes.Contains(got.options, option(testVIP)[:1]) {
				t.Fatalf("%+v was let out of %x; replay with the seed above", got, frame)
			}
		}
	}
	after, _ := n.Counters()
	for _, reason := range []string{"tunnel_opened", "tunnel_refused"} {
		if after[reason]-before[reason] < uint64(packets)/100 {
			t.Errorf("%s: %d of %d", reason, after[reason]-before[reason], packets)
		}
	}
}
