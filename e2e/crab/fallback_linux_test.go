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

// C-105: a middlebox that drops packets with the option, or blanks it: in what the
// client sends (SYNs), and in what the server sends (SYN-ACKs with the echo).
func TestMiddlebox(t *testing.T) {
	t.Parallel()
	const drops, strips = "tcp option 42 exists counter drop", "tcp option 42 exists counter reset tcp option 42"
	for _, box := range []struct {
		name, device, rule string
		redirects, retries bool // SYNs reach the balancer with their placeholder; the third one goes without
	}{
		{"drops SYNs", "vclient", drops, false, true},
		{"strips SYNs", "vclient", strips, false, false},
		{"drops SYN-ACKs", "vs1", drops, true, true},
		{"strips SYN-ACKs", "vs1", strips, true, true},
	} {
		t.Run(box.name, func(t *testing.T) {
			b := New(t, 1)
			b.StartAll(port, nil)
			b.Host("s1").Echo(port)
			b.hub("nft", "add table netdev box; add chain netdev box in { type filter hook ingress device "+box.device+" priority 0; }; add rule netdev box in "+box.rule)
			b.Host("client").mustTalk(t, 2)
			lb := b.Host("lb").Show().Counters
			if lb["lb_fallback_syn"] == 0 || (lb["lb_syn_redirected"] != 0) != box.redirects {
				t.Errorf("hash path %d SYNs, redirects %d", lb["lb_fallback_syn"], lb["lb_syn_redirected"])
			}
			if n := b.Host("client").Counter("client_syn_unmarked_retry"); box.retries && n == 0 {
				t.Error("no SYN left without placeholder after two unanswered ones")
			}
		})
	}
}
