// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import "testing"

// C-70, C-82: a pod that is redirected to a pod of its own node, where reverse paths are looked at. The answer crosses no
// uplink and bears the VIP's address, which is behind the uplink: it must not seem to come from the pod's veth.
func TestPodOfTheClientsOwnNode(t *testing.T) { eachFamily(t, 2, testPodOfTheClientsOwnNode) }

func testPodOfTheClientsOwnNode(t *testing.T, b *Bed) {
	lb, n1, _ := nodesWithPods(b)
	client, server, near := n1.pod("pc", b.podAddr(66)), n1.pod("pserver", b.podAddr(67)), lb.pod("pnear", b.podAddr(2))
	all := []string{"client", "server", "balancer"}
	lb.config = Config{Devices: podDevices(all, "pnear"), VIPs: b.podVIP("Client+Balance", "UpCRAB", server), AllowEcho: []string{b.vip}}
	n1.config = Config{Devices: podDevices(all, "pc", "pserver"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	lb.Start()
	n1.Start()
	server.Echo(port)
	for _, strictness := range []string{"2", "1"} { // the uplink's is 2: a SYN comes back by it
		n1.looksAtReversePaths(strictness, "all", "ppc", "ppserver")
		before := n1.Counter("client_by_uplink")
		for _, h := range []*Host{near, client} {
			if seen := h.mustTalk(t, 5); seen["pserver"] != 5 {
				t.Errorf("rp_filter=%s: %s met %v", strictness, h.Name, seen)
			}
		}
		if n := n1.Counter("client_by_uplink") - before; n < 5*3 {
			t.Errorf("rp_filter=%s: %d packets of 5 connections of one node came in by its uplink", strictness, n)
		}
	}
	n1.noInvalid(t)
}

// C-82: a pod of the balancer's own node as the server of clients from elsewhere, with an agent and without: what the balancer
// sends to it has to pass conntrack, or the pod's answer is INVALID there and dropped.
func TestPodOfTheBalancersNode(t *testing.T) { eachFamily(t, 2, testPodOfTheBalancersNode) }

func testPodOfTheBalancersNode(t *testing.T, b *Bed) {
	lb, n1, _ := nodesWithPods(b)
	server, client := lb.pod("pserver", b.podAddr(2)), n1.pod("pc", b.podAddr(66))
	all := []string{"client", "server", "balancer"}
	lb.config = Config{Devices: podDevices(all, "pserver"), VIPs: b.podVIP("Client+Balance", "UpCRAB", server), AllowEcho: []string{b.vip}}
	n1.config = Config{Devices: podDevices(all, "pc"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	lb.Start()
	n1.Start()
	server.Echo(port)
	plain := b.join("plain", "77")
	plain.Run("ip", "route", "add", b.podNet(0, 26), "via", lb.Addr)
	for _, h := range []*Host{client, plain} {
		if seen := h.mustTalk(t, 5); seen["pserver"] != 5 {
			t.Errorf("%s met %v\n%s", h.Name, seen, b.told())
		}
	}
	lb.noInvalid(t)
	if redirected, hashed := lb.Counter("lb_syn_redirected"), lb.Counter("lb_fallback_syn"); redirected < 5 || hashed < 5 { // more when the pod's router took a second to answer its ARP
		t.Errorf("%d SYNs were redirected and %d hashed, want at least 5 of each\n%s", redirected, hashed, b.told())
	}
}

// looksAtReversePaths sets rp_filter; for IPv6, which has none, it is rules that CNIs write.
func (h *Host) looksAtReversePaths(strictness string, devices ...string) {
	h.bed.t.Helper()
	for _, device := range devices {
		switch {
		case !h.bed.six():
			h.Run("sysctl", "-qw", "net.ipv4.conf."+device+".rp_filter="+strictness)
		case device == "all":
			h.Run("nft", "add table ip6 rpf; add chain ip6 rpf pre { type filter hook prerouting priority raw; }; flush chain ip6 rpf pre")
		default:
			by := map[string]string{"1": "saddr . iif", "2": "saddr"}[strictness]
			h.Run("nft", "add rule ip6 rpf pre iifname "+device+" meta l4proto tcp fib "+by+" oif missing drop")
		}
	}
}
