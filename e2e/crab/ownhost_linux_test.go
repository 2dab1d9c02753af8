// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
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

// C-70, C-82: a server in the network of its client's own node, whose answers cross no device that leads to the VIP, for
// pods and for what runs in the node's own network, on the balancer's node as well; where reverse paths are looked at.
func TestServerOfTheClientsOwnHost(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	lb, n1, _ := nodesWithPods(b)
	client, second, near := n1.pod("pc", pods+"66"), n1.pod("pd", pods+"67"), lb.pod("pnear", pods+"2")
	all := []string{"client", "server", "balancer"}
	lb.config = Config{Devices: podDevices(all, "pnear"), VIPs: b.hostVIP("Client+Balance", n1), AllowEcho: []string{b.vip}}
	n1.config = Config{Devices: podDevices(all, "pc", "pd"), VIPs: b.hostVIP("Client", n1), AllowEcho: []string{b.vip}}
	lb.Start()
	n1.Start()
	b.ownHost(t, n1, near, lb, client, second, n1)
	if n := n1.Counter("client_own_host"); n < 15*6 {
		t.Errorf("%d packets of 15 connections were let in by the uplink", n)
	}
	if out := n1.Run("nft", "list", "counter", "ip", "kp", "invalid"); !strings.Contains(out, "packets 0 ") {
		t.Errorf("conntrack met packets it calls invalid: %s", out)
	}
	lb.Apply(func(c *Config) { c.VIPs = b.hostVIP("Client+Balance", lb) })
	lb.Echo(port)
	for _, h := range []*Host{lb, near, client} {
		if seen := h.mustTalk(t, 3); seen["lb"] != 3 {
			t.Errorf("%s met %v, want the balancer's own server", h.Name, seen)
		}
	}
}

// C-9: the same with IPv6.
func TestServerOfTheClientsOwnHost6(t *testing.T) {
	t.Parallel()
	b := New6(t, 2)
	lb, n1 := b.Host("lb"), b.Host("s1")
	n1.Run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
	lb.config = Config{Devices: uplink("client", "server", "balancer"), VIPs: b.hostVIP("Balance", n1), AllowEcho: []string{b.vip}}
	n1.config = Config{Devices: uplink("client", "server", "balancer"), VIPs: b.hostVIP("Client", n1), AllowEcho: []string{b.vip}}
	lb.Start()
	n1.Start()
	b.ownHost(t, n1, n1)
	if n := n1.Counter("client_own_host"); n < 5*6 {
		t.Errorf("%d packets of 5 connections were let in by the uplink", n)
	}
}
