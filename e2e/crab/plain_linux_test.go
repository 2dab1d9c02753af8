// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
)

// C-42, C-43: a server without agent, and a VIP that no stack knows, as kube-proxy leaves one with ipMode Proxy. In a
// mixed pool redirects go to the capable server only, other clients to both; where nobody is capable all are relayed.
func TestServerWithoutAgent(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	b.StartAll(port, func(vip map[string]any) {
		vip["backends"].([]map[string]any)[1]["state"] = "UpPlain"
	})
	s2 := b.Host("s2")
	s2.Kill()
	b.run(b.tool, "remove", "--root", s2.root())
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	lb, plain := b.Host("lb"), b.add("plain", network+"9")
	if seen := b.Host("client").mustTalk(t, 10); seen["s1"] != 10 {
		t.Errorf("C-43: redirects went to %v, want all to s1", seen)
	}
	if seen := plain.mustTalk(t, 30); seen["s1"] == 0 || seen["s2"] == 0 || seen["s1"]+seen["s2"] != 30 {
		t.Errorf("C-43: who knows no redirects met %v, want both servers", seen)
	}
	lives, err := plain.dial(VIP + ":" + itoa(port))
	must(t, err)
	lb.Apply(func(c *Config) {
		c.VIPs[0]["backends"] = []map[string]any{{"addr": s2.Addr, "state": "UpPlain"}}
	})
	for _, h := range []*Host{b.Host("client"), plain} {
		if seen := h.mustTalk(t, 10); seen["s2"] != 10 {
			t.Errorf("C-42: %s got %v, want all from s2", h.Name, seen)
		}
	}
	if lives.server == "s2" {
		must(t, lives.ask(strings.Repeat("after the change", 1000)))
	}
	evil := b.add("evil", network+"66")
	c, err := plain.dial(VIP + ":" + itoa(port))
	must(t, err)
	if broke := b.attack(t, evil, c); broke != 0 {
		t.Error("C-92: forged SYNs break a relayed connection")
	}
	if n := lb.Counter("lb_relay_created"); n < 20 {
		t.Errorf("%d connections were relayed", n)
	}
}

// nodesWithPods are the hosts as a routed CNI and kube-proxy leave them: what conntrack calls invalid is dropped, and
// nothing translates the VIP. lb is one of them.
func nodesWithPods(b *Bed) (lb, n1, n2 *Host) {
	lb, n1, n2 = b.Host("lb"), b.Host("s1"), b.Host("s2")
	for i, node := range []*Host{lb, n1, n2} {
		for _, h := range b.all {
			if h != node {
				h.Run("ip", "route", "add", b.podNet(64*i, 26), "via", node.Addr)
			}
		}
		node.forwards()
		node.Run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=2", "net.ipv4.conf.eth0.rp_filter=2")
		node.dropInvalid()
	}
	// The agent's part on the owner: a route and a neighbour, so that its own SYNs reach the device.
	lb.Run("ip", "route", "add", only(b.vip), "dev", "eth0")
	lb.Run("ip", "neigh", "add", b.vip, "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent")
	return lb, n1, n2
}

// C-42 in Kubernetes: a Service whose pods are on a node without a working agent is reached by pods with agent, on the
// balancer's node too, by pods of that very node, by nodes, and from outside of the cluster.
func TestPodsWithoutAgent(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	lb, n1, n2 := nodesWithPods(b)
	near, client := lb.pod("pnear", pods+"2"), n1.pod("pc", pods+"66")
	mute, other := n2.pod("pmute", pods+"130"), n2.pod("pother", pods+"131")
	all := []string{"client", "server", "balancer"}
	lb.config = Config{Devices: podDevices(all, "pnear"), VIPs: b.podVIP("Client+Balance", "UpPlain", mute), AllowEcho: []string{b.vip}}
	n1.config = Config{Devices: podDevices(all, "pc"), VIPs: b.podVIP("Client", "UpPlain", mute), AllowEcho: []string{b.vip}}
	lb.Start()
	n1.Start()
	mute.Echo(port)
	for _, h := range []*Host{client, near, other, lb, n1, n2, b.add("outside", network+"9")} {
		if seen := h.mustTalk(t, 5); seen["pmute"] != 5 {
			t.Errorf("%s met %v", h.Name, seen)
		}
	}
}
