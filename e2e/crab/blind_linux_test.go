// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"net"
	"net/netip"
	"testing"
)

// forgedSYNs are what somebody sends who knows a connection's addresses and ports and guesses no sequence number:
// to both of its ends and to the balancer, with each option that could matter there.
func (b *Bed) forgedSYNs(client, server netip.AddrPort) map[string]Segment {
	vip, redirect := atPort(b.vip, port), b.option(b.vip)
	mark := []byte(b.either("\x2a\x08\x0a\x61\x64\x01\x00\x01", markOfVIP6))
	to := func(dst netip.AddrPort, options []byte) Segment {
		return Segment{Src: client, Dst: dst, Flags: synFlag, Options: options}
	}
	return map[string]Segment{
		"to the client":                   {Src: server, Dst: client, Flags: synFlag},
		"to the client, redirect":         {Src: server, Dst: client, Flags: synFlag, Options: redirect},
		"to the client, from the VIP":     {Src: vip, Dst: client, Flags: synFlag},
		"to the server":                   to(server, nil),
		"to the server, redirect":         to(server, redirect),
		"to the server, fall-back mark":   to(server, mark),
		"to the server, foreign redirect": to(server, b.option(b.foreign())),
		"to the VIP":                      to(vip, nil),
		"to the VIP, placeholder":         to(vip, b.option(b.either("0.0.0.0", "::"))),
	}
}

// attack sends all of them against one live connection; it says how many kinds broke it.
func (b *Bed) attack(t *testing.T, evil *Host, c *session) (broke int) {
	t.Helper()
	client := netip.MustParseAddrPort(c.LocalAddr().String())
	for kind, s := range b.forgedSYNs(client, atPort(b.Host(c.server).Addr, port)) {
		for i := range uint32(5) {
			s.Seq = i * 0x3fffffff
			must(t, evil.Inject(s))
		}
		if err := c.ask("after a SYN " + kind); err != nil {
			broke++
			t.Errorf("C-92: a forged SYN %s breaks a connection with %s: %v\n%s", kind, c.RemoteAddr(), err, b.told())
			return broke
		}
	}
	return broke
}

// attackAll does so against connections of each kind: redirected, hashed, and past the VIP.
func (b *Bed) attackAll(t *testing.T, evil *Host) (broke int) {
	t.Helper()
	plain := b.Host("plain")
	for _, live := range []struct {
		from *Host
		to   string
	}{{b.Host("client"), b.vip}, {plain, b.vip}, {b.Host("client"), b.Host("s1").Addr}, {plain, b.Host("s2").Addr}} {
		c, err := live.from.dial(net.JoinHostPort(live.to, itoa(port)))
		must(t, err)
		broke += b.attack(t, evil, c)
		c.Close()
	}
	return broke
}

// C-92: somebody on the clients' wire sends a SYN with a pod's address to the VIP by way of the pod's node, which forwards it:
// what is known of the pod's live connection stays.
func TestForgedSYNThroughTheClientsNode(t *testing.T) {
	eachFamily(t, 2, testForgedSYNThroughTheClientsNode)
}

func testForgedSYNThroughTheClientsNode(t *testing.T, b *Bed) {
	lb, n1, n2 := nodesWithPods(b)
	client, evil := n1.pod("pc", b.podAddr(66)), b.join("evil", "66")
	evil.Run("ip", "route", "add", only(b.vip), "via", n1.Addr)
	lb.config = Config{Devices: uplink("balancer"), VIPs: b.hostVIP("Balance", n2)}
	n1.config = Config{Devices: podDevices([]string{"client", "server"}, "pc"), VIPs: b.hostVIP("Client", n2)}
	n2.config = Config{Devices: uplink("server"), AllowEcho: []string{b.vip}}
	for _, h := range []*Host{lb, n1, n2} {
		h.Start()
	}
	n2.Echo(port)
	c := client.dialAs(t, n1, true)
	forged := Segment{Src: netip.MustParseAddrPort(c.LocalAddr().String()), Dst: netip.MustParseAddrPort(b.target()), Flags: synFlag}
	for i := range uint64(5) {
		forged.Seq = uint32(i) * 0x3fffffff
		must(t, evil.Inject(forged))
		eventually(t, "the node forwards the SYN", func() bool { return n1.Counter("client_syn_in_transit") > i })
		if err := c.ask("after a SYN through the node"); err != nil {
			t.Fatalf("%v\n%s", err, b.told())
		}
	}
}
