// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// ownHost has clients of several places talk to a server in the network of the node n1.
func (b *Bed) ownHost(t *testing.T, n1 *Host, clients ...*Host) {
	t.Helper()
	n1.Echo(port)
	for _, h := range clients {
		before := h.bed.Host("lb").Counter("lb_syn_redirected")
		if seen := h.mustTalk(t, 5); seen[n1.Name] != 5 {
			t.Errorf("%s met %v", h.Name, seen)
		}
		if n := b.Host("lb").Counter("lb_syn_redirected") - before; n < 5 {
			t.Errorf("%s: %d SYNs were redirected, want one for each connection", h.Name, n)
		}
	}
}

// hostVIP is the VIP of a server that has no network of its own.
func (b *Bed) hostVIP(roles string, server *Host) []map[string]any {
	return []map[string]any{{"addr": b.vip, "port": port, "roles": roles, "policy": "RoundRobin", "prefixes": []string{b.nets}, "backends": inState("UpCRAB", []*Host{server})}}
}

// refuses has the node's firewall answer a client of its own with an ICMP error, until the returned function is called.
func (h *Host) refuses() func() {
	family := h.bed.either("ip", "ip6")
	h.Run("nft", "add table "+family+" no; add chain "+family+" no in { type filter hook input priority 0; }; add rule "+family+" no in tcp dport "+
		itoa(port)+" reject with "+h.bed.either("icmp", "icmpv6")+" type port-unreachable")
	return func() { h.Run("nft", "delete", "table", family, "no") }
}

// C-103: ICMP errors about such connections reach both ends: the server learns of a narrow hop on the way to its client,
// and a client that the node's firewall refuses knows it at once.
func (b *Bed) ownHostErrors(t *testing.T, n1 *Host, far *Host, clients ...*Host) {
	t.Helper()
	before := n1.Counter("client_error_own_host")
	s, err := far.dial(b.target())
	if err != nil {
		t.Fatalf("%s: %v\n%s", far.Name, err, b.told())
	}
	if err := s.ask(strings.Repeat("n", 30000)); err != nil {
		t.Fatalf("%s: %v\n%s", far.Name, err, b.told())
	}
	s.Close()
	if n1.Counter("client_error_own_host") == before {
		t.Errorf("no error was told to the server; is the hop narrow?\n%s", b.told())
	}
	defer n1.refuses()()
	for _, h := range clients {
		before := n1.Counter("client_error_own_host")
		_, err := h.dial(b.target())
		if !errors.Is(err, syscall.ECONNREFUSED) || n1.Counter("client_error_own_host") == before {
			t.Errorf("%s, which is refused: %v\n%s", h.Name, err, b.told())
		}
	}
}

// C-70, C-82: a server in the network of its client's own node, whose answers cross no device that leads to the VIP, for
// pods and for what runs in the node's own network, on the balancer's node as well; where reverse paths are looked at.
func TestServerOfTheClientsOwnHost(t *testing.T) { eachFamily(t, 2, testServerOfTheClientsOwnHost) }

func testServerOfTheClientsOwnHost(t *testing.T, b *Bed) {
	lb, n1, _ := nodesWithPods(b)
	client, second, near := n1.pod("pc", b.podAddr(66)), n1.pod("pd", b.podAddr(67)), lb.pod("pnear", b.podAddr(2))
	far := n1.behind("pn", b.podAddr(68), b.podAddr(69))
	all := []string{"client", "server", "balancer"}
	lb.config = Config{Devices: podDevices(all, "pnear"), VIPs: b.hostVIP("Client+Balance", n1), AllowEcho: []string{b.vip}}
	n1.config = Config{Devices: podDevices(all, "pc", "pd", "pnr"), VIPs: b.hostVIP("Client", n1), AllowEcho: []string{b.vip}}
	lb.Start()
	n1.Start()
	b.ownHost(t, n1, near, lb, client, second, n1)
	if n := n1.Counter("client_own_host"); n < 15*6 {
		t.Errorf("%d packets of 15 connections were let in by the uplink", n)
	}
	b.ownHostErrors(t, n1, far, client, n1)
	n1.noInvalid(t)
	lb.Apply(func(c *Config) { c.VIPs = b.hostVIP("Client+Balance", lb) })
	lb.Echo(port)
	for _, h := range []*Host{lb, near, client} {
		if seen := h.mustTalk(t, 3); seen["lb"] != 3 {
			t.Errorf("%s met %v, want the balancer's own server", h.Name, seen)
		}
	}
}
