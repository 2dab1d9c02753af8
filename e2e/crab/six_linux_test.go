// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	network6 = "fd97::"
	vip6     = "fd97:100::1"
	// markOfVIP6 is what the node's programs write into SYNs that are hashed (C-9).
	markOfVIP6 = "\x2a\x08\x1e\xbb\x09\x06\x00\x01"
)

// New6 is New with hosts that speak IPv6 to each other and to the VIP (C-9).
func New6(t testing.TB, servers int) *Bed {
	b := New(t, servers)
	b.vip, b.nets = vip6, network6+"/64"
	for _, h := range b.all {
		h.speakSix()
	}
	return b
}

func (h *Host) speakSix() {
	h.bed.t.Helper()
	h.Addr = network6 + strings.TrimPrefix(h.Addr, network)
	h.Run("ip", "addr", "add", h.Addr+"/64", "dev", "eth0", "nodad")
	if h.Name == "lb" {
		h.Run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
		return
	}
	h.Run("ip", "route", "add", "fd97:100::/64", "via", network6+"2")
}

// target is what clients dial.
func (b *Bed) target() string { return net.JoinHostPort(b.vip, itoa(port)) }

// C-9 from end to end: redirects, what the balancer sees of them, agents that are
// killed under live connections, and clients that take the fall-back.
func TestSix(t *testing.T) {
	t.Parallel()
	b := New6(t, 2)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	client, lb := b.Host("client"), b.Host("lb")
	w := b.Watch("lb")
	const n = 20
	if seen := client.mustTalk(t, n); seen["s1"] != n/2 || seen["s2"] != n/2 {
		t.Errorf("round robin gave %v", seen)
	}
	in := w.Frames(func(f Frame) bool { return f.ToHost && f.Dst.Addr().Is6() })
	out := w.Frames(func(f Frame) bool { return !f.ToHost && f.Dst.Addr().Is6() })
	if len(in) != n || len(out) != n {
		t.Errorf("the balancer got %d packets and sent %d for %d connections", len(in), len(out), n)
	}
	if len(out) > 0 && (out[0].Options[0] != 42 || out[0].Options[1] != 18) {
		t.Errorf("C-9: a SYN left the balancer with options %x", out[0].Options)
	}
	Measure(t, "crab_lb_packets_per_connection_ipv6", float64(len(in))/n)
	b.killAgents6(t)
	b.fallBack6(t, lb)
}

func (b *Bed) killAgents6(t *testing.T) {
	t.Helper()
	all, err := b.Host("client").dialMany(b.target(), 300)
	must(t, err)
	for _, h := range b.all {
		h.Kill()
	}
	if bad, first := broken(all, "agents killed"); bad > 0 {
		t.Errorf("%d of %d connections broken: %v", bad, len(all), first)
	}
	for _, h := range b.all {
		h.Restart()
	}
	if bad, first := broken(all, "agents replaced"); bad > 0 {
		t.Errorf("%d of %d connections broken: %v", bad, len(all), first)
	}
	if flows := b.Host("client").Show().Flows; flows < len(all) {
		t.Errorf("%d translations for %d connections", flows, len(all))
	}
	for _, s := range all {
		s.Close()
	}
}

// C-9, C-42: a SYN with Fast Open has no 20 bytes left, and a client without agent marks none; both are hashed.
func (b *Bed) fallBack6(t *testing.T, lb *Host) {
	t.Helper()
	client, before := b.Host("client"), lb.Show().Counters["lb_fallback_syn"]
	for _, s := range b.Servers() {
		s.Run("sysctl", "-qw", "net.ipv4.tcp_fastopen=3")
	}
	client.Run("sysctl", "-qw", "net.ipv4.tcp_fastopen=1")
	for range 2 { // the first asks for a cookie, the second may have one and send data
		if err := client.talk(func(fd int) error {
			return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
		}, false); err != nil {
			t.Errorf("TFO: %v\n%s", err, b.told())
		}
	}
	if got := client.Counter("client_syn_no_space"); got < 2 {
		t.Errorf("C-9: %d SYNs had no room, want 2", got)
	}
	w := b.Watch("lb")
	b.join("plain", "9").mustTalk(t, 5)
	if f := w.Frames(func(f Frame) bool { return !f.ToHost && f.Flags == synFlag }); len(f) == 0 || !bytes.Contains(f[0].Options, []byte(markOfVIP6)) {
		t.Errorf("C-9: hashed SYNs left the balancer as %v", f)
	}
	if got := lb.Counter("lb_fallback_syn") - before; got < 7 {
		t.Errorf("C-42: %d SYNs took the fall-back, want 7", got)
	}
}

// https6 starts a server at port 8443 of each host, with a certificate for the VIP.
func (b *Bed) https6(t *testing.T) (cert string) {
	t.Helper()
	key, cert := b.certificate(t)
	for _, s := range b.Servers() {
		s.serve(t, 8443, "openssl", "s_server", "-accept", net.JoinHostPort(s.Addr, "8443"), "-key", key, "-cert", cert, "-www", "-quiet")
	}
	return cert
}

// curl6 asks the VIP four times.
func (b *Bed) curl6(t *testing.T, cert string) {
	t.Helper()
	for range 4 {
		page := b.client(t, "curl", "-6", "-sS", "--fail", "--max-time", "60", "--cacert", cert, "https://["+vip6+"]:8443/")
		if !strings.Contains(page, "TLSv1.3") {
			t.Errorf("curl: %s", page)
		}
	}
}

// C-106 with IPv6: curl checks a certificate against the address it dialled; Redis where it is unpacked.
func TestClients6(t *testing.T) {
	t.Parallel()
	b := New6(t, 2)
	b.StartAll(8443, nil)
	b.curl6(t, b.https6(t))
	if n := b.Host("lb").Counter("lb_syn_redirected"); n < 4 {
		t.Errorf("%d SYNs redirected", n)
	}
	t.Run("Redis", func(t *testing.T) {
		server := peer(t, "usr/bin/redis-server")
		b := New6(t, 1)
		b.StartAll(6379, nil)
		s := b.Host("s1")
		s.serve(t, 6379, server, "--port", "6379", "--bind", s.Addr, "--protected-mode", "no", "--save", "", "--dir", b.dir)
		b.client(t, peer(t, "usr/bin/redis-benchmark"), "-h", vip6, "-p", "6379", "-n", "5000", "-c", "20", "-t", "get", "-q")
		if out := b.client(t, peer(t, "usr/bin/redis-cli"), "-h", vip6, "-p", "6379", "PING"); strings.TrimSpace(out) != "PONG" {
			t.Errorf("redis-cli: %s", out)
		}
	})
}
