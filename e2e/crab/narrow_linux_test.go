// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
	"time"
)

// behind puts a namespace behind a router of its own, to which a link of 1300 bytes leads; nobody there knows of it but
// that router and the host.
func (h *Host) behind(name, addr, router string) *Host {
	hop := h.pod(name+"r", router)
	h.Run("ip", "link", "set", "p"+hop.Name, "mtu", "1300")
	hop.Run("ip", "link", "set", "eth0", "mtu", "1300")
	if isSix(router) { // a neighbour is asked for, on behalf of others, by a link-local address only
		hop.Run("ip", "addr", "add", "fe80::2/64", "dev", "eth0", "nodad")
	}
	p := hop.pod(name, addr)
	h.Run("ip", "route", "add", only(addr), "via", router, "dev", "p"+hop.Name)
	return p
}

// dialAs makes a connection that is redirected, if it has to be: where a slow machine answers two SYNs too late, one is
// hashed (C-105).
func (h *Host) dialAs(t *testing.T, node *Host, redirected bool) *session {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := accepted(node)
		s, err := h.dialWithin(h.bed.target(), patience/2)
		if err != nil {
			t.Fatalf("%s: %v\n%s", h.Name, err, h.bed.told())
		}
		if !redirected || accepted(node) > before {
			return s
		}
		s.Close()
	}
	t.Fatalf("%s is not redirected\n%s", h.Name, h.bed.told())
	return nil
}

// C-103: where a hop is narrower than both ends know, its router tells who sent too much, which learns it whatever its
// packets were renamed to: clients and servers of redirects, of hashed and of relayed connections.
func TestNarrowHops(t *testing.T) { eachFamily(t, 2, testNarrowHops) }

func testNarrowHops(t *testing.T, b *Bed) {
	r := b.join("r", "9")
	lb, n1, n2 := nodesWithPods(b)
	for _, h := range b.all {
		if h != r {
			h.Run("ip", "route", "add", b.podNet(192, 26), "via", r.Addr)
		}
	}
	client, far := n1.pod("pc", b.podAddr(66)), n1.behind("pcn", b.podAddr(67), b.podAddr(68))
	wide, narrow := n2.pod("pw", b.podAddr(130)), n2.behind("pn", b.podAddr(131), b.podAddr(132))
	plain := r.behind("pp", b.podAddr(195), b.podAddr(196))
	lb.config = Config{Devices: uplink("balancer"), VIPs: b.podVIP("Balance", "UpCRAB")}
	n1.config = Config{Devices: podDevices([]string{"client", "server"}, "pc", "pcnr"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	n2.config = Config{Devices: podDevices([]string{"client", "server"}, "pw", "pnr"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	for _, h := range []*Host{lb, n1, n2} {
		h.Start()
	}
	wide.Echo(port)
	narrow.Echo(port)
	for _, c := range []struct {
		what           string
		from, to, tell *Host
		state, counter string
	}{
		{"redirected, to the server", client, narrow, n1, "UpCRAB", "client_error_in"},
		{"redirected, to the client", far, wide, n1, "UpCRAB", "client_error_out"},
		{"hashed, to the client", plain, wide, lb, "UpCRAB", "lb_error_to_server"},
		{"relayed, to the server", r, narrow, lb, "UpPlain", "lb_error_to_client"},
		{"relayed, to the client", plain, wide, lb, "UpPlain", "lb_error_to_server"},
	} {
		lb.Apply(func(f *Config) { f.VIPs[0]["backends"] = inState(c.state, []*Host{c.to}) })
		c.from.Run("ip", b.either("-4", "-6"), "route", "flush", "cache") // of what a hop said before
		before := c.tell.Counter(c.counter)
		s := c.from.dialAs(t, n1, c.tell == n1)
		if err := s.ask(strings.Repeat("n", 30000)); err != nil {
			t.Fatalf("%s: %v\n%s", c.what, err, b.told())
		}
		s.Close()
		if c.tell.Counter(c.counter) == before {
			t.Errorf("%s: no error was translated; is the hop narrow?\n%s", c.what, b.told())
		}
	}
}
