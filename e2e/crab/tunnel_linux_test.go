// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

// checkSources makes the network drop what a host sends with another's address.
func (b *Bed) checkSources(h *Host, own ...string) {
	b.t.Helper()
	table := "own" + h.Name
	b.hub("nft", "add table netdev "+table+"; add chain netdev "+table+" in { type filter hook ingress device v"+h.Name+" priority 0; }; "+
		"add rule netdev "+table+" in meta protocol "+b.either("ip", "ip6")+" "+b.either("ip", "ip6")+" saddr != { "+strings.Join(own, ", ")+" } "+
		b.either("", "ip6 saddr != fe80::/10 ")+"counter drop")
}

var droppedPackets = regexp.MustCompile(`counter packets (\d+)`)

// droppedOf is how many packets of a host had another's address.
func (b *Bed) droppedOf(h *Host) string {
	b.t.Helper()
	out := b.run("nsenter", "--net=/var/run/netns/"+b.ns("hub"), "--", "nft", "list", "table", "netdev", "own"+h.Name)
	return droppedPackets.FindStringSubmatch(out)[1]
}

// ways are the tunnels from a host to the servers of others.
func ways(from *Host, to map[*Host][]*Host) map[string]any {
	all := map[string]any{}
	for node, servers := range to {
		for _, s := range servers {
			all[s.Addr] = map[string]string{"from": from.Addr, "to": node.Addr}
		}
	}
	return all
}

func addrs(hosts ...*Host) (all []string) {
	for _, h := range hosts {
		all = append(all, h.Addr)
	}
	return all
}

// C-80: in a network that lets nobody send with another's address redirected SYNs reach the servers' hosts in tunnels, and
// whoever cannot be redirected is relayed.
func TestTunnel(t *testing.T) { eachFamily(t, 2, testTunnel) }

func testTunnel(t *testing.T, b *Bed) {
	lb, n1, n2 := nodesWithPods(b)
	client, near, far := n1.pod("pc", b.podAddr(66)), n1.pod("pw", b.podAddr(67)), n2.pod("pf", b.podAddr(130))
	stranger := b.Host("client")
	for h, own := range map[*Host][]string{lb: {lb.Addr, b.vip}, n1: addrs(n1, client, near), n2: addrs(n2, far), stranger: addrs(stranger)} {
		b.checkSources(h, own...)
	}
	vips := b.podVIP("Balance", "UpCRAB", near, far)
	lb.config = Config{Devices: uplink("balancer"), VIPs: vips}
	n1.config = Config{Devices: podDevices([]string{"client", "server"}, "pc", "pw"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	n2.config = Config{Devices: podDevices([]string{"client", "server"}, "pf"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	for _, h := range []*Host{lb, n1, n2} {
		h.Start()
	}
	near.Echo(port)
	far.Echo(port)
	if s, err := client.dialWithin(b.target(), 2*time.Second); err == nil {
		t.Fatalf("without a tunnel %s answers: the network checks nothing", s.server)
	}
	if b.droppedOf(lb) == "0" {
		t.Fatalf("nothing of the balancer was dropped\n%s", b.told())
	}
	for node, server := range map[*Host]*Host{n1: near, n2: far} {
		node.Apply(func(c *Config) {
			c.Devices[0]["duties"] = []string{"client", "server", "tunnel"}
			c.Tunnels = map[string]any{"peers": addrs(lb), "own": addrs(node), "servers": addrs(server)}
		})
	}
	lb.Apply(func(c *Config) {
		c.VIPs[0]["roles"] = "Balance+Tunnel"
		c.Tunnels = map[string]any{"ways": ways(lb, map[*Host][]*Host{n1: {near}, n2: {far}})}
	})
	b.redirectsByTunnel(t, client, []*Host{lb, n1, n2})
	b.relaysByTunnel(t, stranger, lb)
	b.opensNoOther(t, stranger, n2)
}

// redirectsByTunnel: one packet of a connection goes by the balancer, and the servers' hosts take it out of its tunnel.
func (b *Bed) redirectsByTunnel(t *testing.T, client *Host, nodes []*Host) {
	t.Helper()
	lb, n1, n2 := nodes[0], nodes[1], nodes[2]
	client.mustTalk(t, 2) // so that hosts know each other: until then a first ACK goes the VIP's way (C-103)
	dropped, w := b.droppedOf(lb), b.Watch(lb.Name)
	const n = 20
	sent, seen := lb.Counter("lb_syn_tunnelled"), client.mustTalk(t, n)
	if len(seen) != 2 {
		t.Errorf("the servers were %v, want both\n%s", seen, b.told())
	}
	if got := lb.Counter("lb_syn_tunnelled") - sent; got < n || lb.Counter("lb_tunnel_too_long") != 0 {
		t.Errorf("%d of %d SYNs left by a tunnel\n%s", got, n, b.told())
	}
	if n1.Counter("tunnel_opened") == 0 || n2.Counter("tunnel_opened") == 0 || n1.Counter("tunnel_refused")+n2.Counter("tunnel_refused") != 0 {
		t.Errorf("tunnels were not opened on both\n%s", b.told())
	}
	in, out := w.Frames(func(f Frame) bool { return f.ToHost }), w.Frames(func(f Frame) bool { return !f.ToHost })
	if len(in) < n || len(in) > n+n/10 || len(out) != 0 {
		t.Errorf("the balancer got %d TCP packets of %d connections and sent %d outside of tunnels: only SYNs should come by\n%v\n%v", len(in), n, len(out), in, out)
	}
	if now := b.droppedOf(lb); now != dropped {
		t.Errorf("the network dropped packets of the balancer: %s, before the tunnels %s", now, dropped)
	}
}

// relaysByTunnel: whose host knows no redirects the balancer stands in for.
func (b *Bed) relaysByTunnel(t *testing.T, stranger, lb *Host) {
	t.Helper()
	dropped := b.droppedOf(lb)
	s, err := stranger.dial(b.target())
	if err == nil {
		err = s.ask(strings.Repeat("r", 3000))
		s.Close()
	}
	if err != nil || lb.Counter("lb_relay_created") == 0 {
		t.Errorf("a client without agent: %v\n%s", err, b.told())
	}
	if now := b.droppedOf(lb); now != dropped {
		t.Errorf("the network dropped packets of the balancer: %s, before %s", now, dropped)
	}
}

// opensNoOther: what a host that balances nothing sends to the tunnels' port is nobody's SYN.
func (b *Bed) opensNoOther(t *testing.T, stranger, node *Host) {
	t.Helper()
	before, opened := node.Counter("tunnel_foreign"), node.Counter("tunnel_opened")
	err := stranger.Inside(func() error {
		c, err := net.Dial("udp", net.JoinHostPort(node.Addr, "6080"))
		if err == nil {
			_, err = c.Write(make([]byte, 60))
			c.Close()
		}
		return err
	})
	for end := time.Now().Add(patience); err == nil && node.Counter("tunnel_foreign") == before && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil || node.Counter("tunnel_foreign") == before || node.Counter("tunnel_opened") != opened {
		t.Errorf("a stranger's datagram: %v\n%s", err, b.told())
	}
}
