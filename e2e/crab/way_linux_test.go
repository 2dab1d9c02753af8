// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
	"time"
)

// moves gives the host another MAC address, of which it tells its neighbours.
func (h *Host) moves(mac string) {
	h.bed.t.Helper()
	h.Run("sysctl", "-qw", "net.ipv4.conf.eth0.arp_notify=1", "net.ipv6.conf.eth0.ndisc_notify=1",
		"net.ipv6.conf.eth0.keep_addr_on_down=1", "net.ipv6.conf.eth0.accept_dad=0")
	h.Run("ip", "link", "set", "eth0", "address", mac)
	h.Run("ip", "link", "set", "eth0", "down")
	h.Run("ip", "link", "set", "eth0", "up")
}

// C-103: the way to the server is looked up anew. The client's host forwards, as a node does: it keeps the next hop of a
// connection for half a second, and follows a server that takes another MAC address.
func TestServerMovesToAnotherMAC(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	client, s1 := b.Host("client"), b.Host("s1")
	client.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.eth0.send_redirects=0")
	b.StartAll(port, nil)
	s1.Echo(port)
	w := b.Watch("client")
	c, err := client.dial(VIP + ":" + itoa(port))
	must(t, err)
	for i := range 200 {
		must(t, c.ask("before "+itoa(i)))
	}
	sent := w.Frames(func(f Frame) bool { return !f.ToHost && f.Data > 0 })
	if len(sent) < 200 {
		t.Errorf("%d of 200 requests left the client: they took another way", len(sent))
	}
	for _, f := range sent {
		if f.Dst.Addr().String() != s1.Addr {
			t.Fatalf("a request went to %s, not to the server", f.Dst)
		}
	}
	const moved = "02:00:00:00:00:99"
	s1.moves(moved)
	start := time.Now()
	for i := range 50 {
		must(t, c.ask("after "+itoa(i)))
	}
	t.Logf("50 requests after the move in %s", time.Since(start).Round(time.Millisecond))
	if out := client.Run("ip", "neigh", "show", s1.Addr); !strings.Contains(out, moved) {
		t.Errorf("the client's host does not know of the move: %s", out)
	}
}
