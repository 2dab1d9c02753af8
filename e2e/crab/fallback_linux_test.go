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
func testClientWithoutAgent(t *testing.T, b *Bed) {
	before := b.balancer.counted()
	t.Log(b.Host("plain").mustTalk(t, 20), b.Host("client").mustTalk(t, 20))
	if n := b.balancer.counted().since(before); n.hashed != 20 || n.redirected != 20 {
		t.Errorf("hash path %d SYNs, redirects %d; want 20 each", n.hashed, n.redirected)
	}
}

// C-53, C-105: a middlebox that drops packets with the option, or blanks it: in what the
// client sends (SYNs), and in what the server sends it (SYN-ACKs with the echo). The
// balancer's probes meet none of them, and the client is redirected again without it.
func testMiddlebox(t *testing.T, b *Bed) {
	const drops, strips = "tcp option 42 exists counter drop", "tcp option 42 exists counter reset tcp option 42"
	for _, box := range []struct {
		name, device, rule string
		redirects, retries bool // SYNs reach the balancer with their placeholder; the third one goes without
	}{
		{"drops SYNs", "vclient", drops, false, true},
		{"strips SYNs", "vclient", strips, false, false},
		{"drops SYN-ACKs", "vs1", b.toClient() + drops, true, true},
		{"strips SYN-ACKs", "vs1", b.toClient() + strips, true, true},
	} {
		client, before := b.Host("client"), b.balancer.counted()
		retried := client.Counter("client_syn_unmarked_retry")
		b.hub("nft", "add table netdev box; add chain netdev box in { type filter hook ingress device "+box.device+" priority 0; }; add rule netdev box in "+box.rule)
		client.mustTalk(t, 1)
		b.hub("nft", "delete table netdev box")
		n := b.balancer.counted().since(before)
		if n.hashed == 0 || (n.redirected != 0) != box.redirects {
			t.Errorf("%s: hash path %d SYNs, redirects %d\n%s", box.name, n.hashed, n.redirected, b.told())
		}
		if box.retries && client.Counter("client_syn_unmarked_retry") == retried {
			t.Errorf("%s: no SYN left without placeholder after two unanswered ones", box.name)
		}
		client.redirected(t)
	}
}

// redirected fails if a connection is not.
func (h *Host) redirected(t *testing.T) {
	t.Helper()
	before := accepted(h)
	h.mustTalk(t, 1)
	if accepted(h) == before {
		t.Errorf("C-53: %s: a connection was not redirected\n%s", h.Name, h.bed.told())
	}
}

// A rule of nft about packets to the client, or from it, begins with these.
func (b *Bed) toClient() string {
	return b.either("ip", "ip6") + " daddr " + b.Host("client").Addr + " "
}
func (b *Bed) fromClient() string {
	return b.either("ip", "ip6") + " saddr " + b.Host("client").Addr + " "
}
