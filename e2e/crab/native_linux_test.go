// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// peerProgram gives the far end of a host's link an XDP program: a veth sends what XDP_TX gives back only with one there.
func (b *Bed) peerProgram(t *testing.T, host string) link.Link {
	t.Helper()
	var l link.Link
	must(t, (&Host{bed: b, NS: b.ns("hub")}).Inside(func() error {
		index, err := ifindex("v" + host)
		if err == nil {
			l, err = link.AttachXDP(link.XDPOptions{Program: stranger(t, ebpf.XDP, 2), Interface: index, Flags: link.XDPDriverMode})
		}
		return err
	}))
	return l
}

// The balancer sends redirected SYNs in native XDP where the device does send, and in generic where it does not.
func TestNativeXDP(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	peer := b.peerProgram(t, "lb")
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	lb, client := b.Host("lb"), b.Host("client")
	lb.Apply(func(c *Config) { c.Devices[0]["xdp"] = "Native" })
	if !strings.Contains(lb.Log(), "balancer on eth0: XDP Native") {
		t.Fatalf("the balancer is not native: %s", lb.Log())
	}
	for _, h := range []*Host{client, b.add("plain", network+"9")} { // redirected, and hashed
		if seen := h.mustTalk(t, 10); len(seen) == 0 {
			t.Error("nobody answered")
		}
	}
	counters := lb.Show().Counters
	if counters["lb_syn_redirected"] < 10 || counters["lb_fallback_syn"] < 10 { // on a busy machine some come again
		t.Errorf("%d SYNs redirected, %d hashed; want 10 each or more\n%s", counters["lb_syn_redirected"], counters["lb_fallback_syn"], b.told())
	}
	must(t, peer.Close()) // from now on the device sends nothing
	lb.Kill()
	lb.Restart()
	if !strings.Contains(lb.Log(), "balancer on eth0: XDP Generic Native XDP: ") {
		t.Errorf("the balancer does not say why it is not native any more: %s", lb.Log())
	}
	client.mustTalk(t, 10)
}
