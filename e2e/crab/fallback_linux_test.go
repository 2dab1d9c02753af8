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
		c, err := h.dial(h.bed.target())
		if err != nil {
			t.Fatalf("connection %d: %v\n%s", i, err, h.bed.told())
		}
		must(t, c.ask(strings.Repeat("z", 3000)))
		if got := c.RemoteAddr().String(); got != h.bed.target() {
			t.Errorf("C-70: the client sees %s", got)
		}
		seen[c.server]++
		c.Close()
	}
	return seen
}

// C-40…C-42: a client without agent is served by hash and answered from the VIP,
// beside one that takes redirects.
func TestClientWithoutAgent(t *testing.T) {
	t.Parallel()
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

// C-105: a middlebox that drops SYNs with the option, and one that blanks it.
func TestMiddlebox(t *testing.T) {
	t.Parallel()
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
