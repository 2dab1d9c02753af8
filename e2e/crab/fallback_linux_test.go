// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
)

// hub runs a command in the bridge's namespace.
func (b *Bed) hub(name string, args ...string) {
	b.t.Helper()
	(&Host{bed: b, NS: b.ns("hub"), Name: "hub"}).Run(name, args...)
}

// session that must work in spite of what stands in the way.
func (h *Host) mustTalk(t *testing.T, n int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for i := range n {
		c, err := h.dial(VIP + ":" + itoa(port))
		if err != nil {
			t.Fatalf("connection %d: %v\n%s", i, err, h.bed.told())
		}
		must(t, c.ask(strings.Repeat("z", 3000)))
		if got := c.RemoteAddr().String(); got != VIP+":"+itoa(port) {
			t.Errorf("the client sees %s", got)
		}
		seen[c.server]++
		c.Close()
	}
	return seen
}

// C-40…C-42: a client without agent is served by hash and answered from the VIP,
// beside one that takes redirects.
func TestClientWithoutAgent(t *testing.T) {
	b := New(t, 2)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	plain := b.add("plain", network+"9")
	t.Log(plain.mustTalk(t, 20), b.Host("client").mustTalk(t, 20))
	lb := b.Host("lb").Show().Counters
	if lb["lb_fallback_syn"] != 20 || lb["lb_syn_redirected"] != 20 {
		t.Errorf("hash path %d SYNs, redirects %d; want 20 each", lb["lb_fallback_syn"], lb["lb_syn_redirected"])
	}
}

// C-43, C-42: servers without agent are reached by the node's own DNAT; in a
// mixed pool redirects go to the capable one only.
func TestServerWithoutAgent(t *testing.T) {
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
	lb := b.Host("lb")
	lb.Run("nft", "add table ip fallback; add chain ip fallback pre { type nat hook prerouting priority -100; }; "+
		"add rule ip fallback pre ip daddr "+VIP+" tcp dport "+itoa(port)+" dnat to "+s2.Addr+"; "+
		"add chain ip fallback post { type nat hook postrouting priority 100; }; add rule ip fallback post ip daddr "+s2.Addr+" masquerade")
	if seen := b.Host("client").mustTalk(t, 10); seen["s1"] != 10 {
		t.Errorf("C-43: redirects went to %v, want all to s1", seen)
	}
	lb.Apply(func(c *Config) {
		c.VIPs[0]["backends"] = []map[string]any{{"addr": s2.Addr, "state": "UpPlain"}}
	})
	if seen := b.Host("client").mustTalk(t, 10); seen["s2"] != 10 {
		t.Errorf("C-42: got %v, want all from s2", seen)
	}
	if n := lb.Counter("lb_fallback_to_stack"); n == 0 {
		t.Error("nothing was left to the node's DNAT")
	}
}

// C-105: a middlebox that drops SYNs with the option, and one that blanks it.
func TestMiddlebox(t *testing.T) {
	for name, rule := range map[string]string{"drops": "tcp option 42 exists counter drop", "strips": "tcp option 42 exists counter reset tcp option 42"} {
		t.Run(name, func(t *testing.T) {
			b := New(t, 1)
			b.StartAll(port, nil)
			b.Host("s1").Echo(port)
			b.hub("nft", "add table netdev box; add chain netdev box in { type filter hook ingress device vclient priority 0; }; add rule netdev box in "+rule)
			b.Host("client").mustTalk(t, 2)
			lb := b.Host("lb").Show().Counters
			if lb["lb_fallback_syn"] == 0 || lb["lb_syn_redirected"] != 0 {
				t.Errorf("hash path %d SYNs, redirects %d", lb["lb_fallback_syn"], lb["lb_syn_redirected"])
			}
			if n := b.Host("client").Counter("client_syn_unmarked_retry"); name == "drops" && n == 0 {
				t.Error("no SYN left without placeholder after two unanswered ones")
			}
		})
	}
}
