// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
)

// C-70, C-82: a pod that is redirected to a pod of its own node, where reverse paths are looked at. The answer crosses no
// uplink and bears the VIP's address, which is behind the uplink: it must not seem to come from the pod's veth.
func TestPodOfTheClientsOwnNode(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	lb, n1, _ := nodesWithPods(b)
	client, server, near := n1.pod("pc", pods+"66"), n1.pod("pserver", pods+"67"), lb.pod("pnear", pods+"2")
	all := []string{"client", "server", "balancer"}
	lb.config = Config{Devices: podDevices(all, "pnear"), VIPs: b.podVIP("Client+Balance", "UpCRAB", server), AllowEcho: []string{b.vip}}
	n1.config = Config{Devices: podDevices(all, "pc", "pserver"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	lb.Start()
	n1.Start()
	server.Echo(port)
	for _, strictness := range []string{"2", "1"} { // the uplink's is 2: a SYN comes back by it
		for _, device := range []string{"all", "ppc", "ppserver"} {
			n1.Run("sysctl", "-qw", "net.ipv4.conf."+device+".rp_filter="+strictness)
		}
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
	if out := n1.Run("nft", "list", "counter", "ip", "kp", "invalid"); !strings.Contains(out, "packets 0 ") {
		t.Errorf("conntrack met packets it calls invalid: %s", out)
	}
}
