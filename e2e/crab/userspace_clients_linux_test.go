// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	redisPort = 6379
	tlsPort   = 8443
)

// certificate for the VIP.
func (b *Bed) certificate(t *testing.T) (key, cert string) {
	t.Helper()
	key, cert = filepath.Join(b.dir, "vip-key"), filepath.Join(b.dir, "vip-cert")
	out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
		"-subj", "/CN=vip", "-addext", "subjectAltName=IP:"+b.vip, "-keyout", key, "-out", cert).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v: %s", err, out)
	}
	return key, cert
}

// The clients that the node's balancer is tested with, through the one on a DPDK port: NGINX, Redis, TLS, kinds of SYN,
// changes of the pool under load, forged packets, and a server that only the balancer's own probes see die.
func TestUserspaceClients(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, b *Bed) {
		key, cert := b.certificate(t)
		serve := func(t *testing.T, s *Host) {
			s.Run("sysctl", "-qw", "net.ipv4.tcp_fastopen=3", "net.ipv4.tcp_ecn=1")
			s.Echo(port)
			startNginx(t, s, webPort)
			s.serve(t, redisPort, peer(t, "usr/bin/redis-server"), "--port", itoa(redisPort), "--bind", s.Addr, "--protected-mode", "no", "--save", "", "--dir", b.dir)
			s.serve(t, tlsPort, "openssl", "s_server", "-accept", net.JoinHostPort(s.Addr, itoa(tlsPort)), "-key", key, "-cert", cert, "-www", "-quiet")
		}
		u := startUserspace(t, b, serve, webPort, redisPort, tlsPort, port)
		u.nginx(t)
		u.redis(t)
		u.tls(t, cert)
		u.kinds(t)
		u.changesUnderLoad(t)
		u.forgeries(t)
		u.deathByProbes(t)
		u.killed(t)
	}
	t.Run("IPv4", func(t *testing.T) { peer(t, ""); run(t, New(t, 3)) })
	t.Run("IPv6", func(t *testing.T) { peer(t, ""); run(t, New6(t, 3)) })
}

// C-70: curl meets all servers, and wrk sees no error.
func (u *userspace) nginx(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for range 6 {
		seen[u.curl(u.Host("client"), "")] = true
	}
	if len(seen) != 3 {
		t.Errorf("curl met %v, want three servers", seen)
	}
	for _, keep := range []string{"keep-alive", "close"} {
		out := u.client(t, peer(t, "usr/bin/wrk"), "-t1", "-c16", "-d1s", "--timeout", "30s", "-H", "Connection: "+keep,
			"http://"+net.JoinHostPort(u.vip, itoa(webPort))+"/")
		if strings.Contains(out, "Socket errors") || strings.Contains(out, "Non-2xx") || !strings.Contains(out, "Requests/sec") {
			t.Errorf("wrk, %s: %s", keep, out)
		}
		t.Logf("wrk, %s: %s", keep, strings.Join(strings.Fields(lastLines(out, 2)), " "))
	}
}

func (u *userspace) redis(t *testing.T) {
	t.Helper()
	out := u.client(t, peer(t, "usr/bin/redis-benchmark"), "-h", u.vip, "-p", itoa(redisPort), "-n", "5000", "-c", "20", "-t", "get", "--csv")
	if !strings.Contains(out, `"GET","`) {
		t.Errorf("redis-benchmark: %s", out)
	}
	if out := u.client(t, peer(t, "usr/bin/redis-cli"), "-h", u.vip, "-p", itoa(redisPort), "PING"); strings.TrimSpace(out) != "PONG" {
		t.Errorf("redis-cli: %s", out)
	}
}

// C-106: a certificate is checked against the address that was dialled.
func (u *userspace) tls(t *testing.T, cert string) {
	t.Helper()
	for range 3 {
		page := u.client(t, "curl", "-sS", "--fail", "--max-time", "60", "--cacert", cert, "https://"+net.JoinHostPort(u.vip, itoa(tlsPort))+"/")
		if !strings.Contains(page, "TLSv1.3") {
			t.Errorf("curl: %s", page)
		}
	}
}

// sent are the SYNs that were sent to a chosen server, each counted once, and those that took the hash.
func (u *userspace) sent() (redirected, hashed int) {
	hashed = 0
	for _, why := range []string{"client", "servers", "option_space", "not_syn"} {
		hashed += u.counter("crab_fallback_total", why)
	}
	return u.counter("crab_redirected_total", "") - u.counter("crab_repeated_total", ""), hashed
}

// C-8, C-9, C-20, C-23: each kind of SYN is redirected; with IPv6 those that have room for the option.
func (u *userspace) kinds(t *testing.T) {
	t.Helper()
	client, six := u.Host("client"), strings.Contains(u.vip, ":")
	for _, c := range kindsOfSYN() {
		client.Run("sysctl", "-qw", c.sysctl)
		if six && c.large {
			continue
		}
		redirected, hashed := u.sent()
		if err := client.talk(c.prepare, c.multipath); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, u.told())
		}
		r, h := u.sent()
		if r-redirected != 1 || h != hashed {
			t.Errorf("%s: %d SYNs were redirected and %d hashed, want one redirected", c.name, r-redirected, h-hashed)
		}
	}
}

// C-26, C-63: servers leave the file and come back while connections are made: no live one breaks, no new one fails, and no SYN
// that left the client is lost.
func (u *userspace) changesUnderLoad(t *testing.T) {
	t.Helper()
	client := u.Host("client")
	all, err := client.dialMany(u.target(), 90)
	must(t, err)
	marked, redirected := client.Counter("client_syn_marked"), u.counter("crab_redirected_total", "")
	load := client.load(t)
	whole := u.Servers()
	for out := range whole {
		u.reload(t, append(append([]*Host{}, whole[:out]...), whole[out+1:]...))
		if n, first := broken(all, "without server "+itoa(out)); n > 0 {
			t.Errorf("C-26: %d of %d live connections broken: %v", n, len(all), first)
		}
	}
	u.reload(t, whole)
	load.stop()
	left, on := int(client.Counter("client_syn_marked")-marked), u.counter("crab_redirected_total", "")-redirected
	if load.made.Load() < 20 || left != on {
		t.Errorf("C-63: %d connections were made; %d SYNs left the client and %d the balancer, which had no server for %d\n%s",
			load.made.Load(), left, on, u.counter("crab_dropped_total", "no_server"), u.told())
	}
	for _, s := range all {
		s.Close()
	}
}

// reload writes the file, and has it read.
func (u *userspace) reload(t *testing.T, servers []*Host) {
	t.Helper()
	lb := u.Host("lb")
	before := strings.Count(lb.Log(), "SIGHUP: ")
	u.configure(t, servers)
	must(t, u.process.Signal(syscall.SIGHUP))
	eventually(t, "the balancer reads its file", func() bool { return strings.Count(lb.Log(), "SIGHUP: ") > before })
	u.capable(t, len(servers))
}

// C-3, C-28, C-90, C-92: forged redirects and SYNs move no live connection; an option from the network with an address in it
// is written over, and one that ends in garbage is counted.
func (u *userspace) forgeries(t *testing.T) {
	t.Helper()
	if strings.Contains(u.vip, ":") {
		return // what is forged here is written for IPv4; the balancer's part of IPv6 has packet tests
	}
	client, evil := u.Host("client"), u.add("evil", network+"66")
	evil.completeChecksums()
	c, err := client.dial(u.target())
	must(t, err)
	defer c.Close()
	before := accepted(client)
	me, vip := netip.AddrPortFrom(netip.MustParseAddr(evil.Addr), port), netip.AddrPortFrom(netip.MustParseAddr(u.vip), port)
	for i := range uint32(20) {
		must(t, evil.Inject(Segment{Src: me, Dst: netip.MustParseAddrPort(c.LocalAddr().String()), Flags: synFlag | ackFlag, Seq: 1, Ack: i, Options: vipOption}))
	}
	must(t, c.ask("the live connection goes on"))
	if n := accepted(client) - before; n != 0 {
		t.Errorf("C-92: %d forged redirects were believed", n)
	}
	u.attack(t, evil, c)
	foreign, malformed := u.counter("crab_foreign_address_total", ""), u.counter("crab_malformed_options_total", "")
	w := u.Watch("lb")
	must(t, evil.Inject(Segment{Src: me, Dst: vip, Flags: synFlag, Seq: 7, Options: []byte{0x2a, 6, 192, 0, 2, 9, 1, 1}}))
	must(t, evil.Inject(Segment{Src: netip.AddrPortFrom(me.Addr(), 5), Dst: vip, Flags: synFlag, Seq: 8, Options: []byte{0x2a, 40, 0, 0}}))
	eventually(t, "both odd SYNs are counted", func() bool {
		return u.counter("crab_foreign_address_total", "") == foreign+1 && u.counter("crab_malformed_options_total", "") == malformed+1
	})
	for _, f := range w.Frames(func(f Frame) bool { return !f.ToHost && f.Src == me }) {
		if !strings.Contains(f.String(), "2a060a616401") {
			t.Errorf("C-28: the balancer must write the VIP dialled: %v", f)
		}
	}
}

// C-51, C-52: a server's link is cut, so that nobody says that it is gone, and nothing is written into a file: the balancer's
// probes find out, new connections go to the others, live ones of these go on; and it gets its share when it is back.
func (u *userspace) deathByProbes(t *testing.T) {
	t.Helper()
	client, n := u.Host("client"), len(u.Servers())
	all, err := client.dialMany(u.target(), 12)
	must(t, err)
	u.inHub("ip link set vs2 down")
	u.capable(t, n-1)
	var others []*session
	for _, c := range all {
		defer c.Close()
		if c.server != "s2" {
			others = append(others, c)
		}
	}
	if bad, first := broken(others, "another server died"); bad > 0 || len(others) == 0 {
		t.Errorf("C-26: %d of %d connections with other servers broken: %v", bad, len(others), first)
	}
	_, by := client.open(t, u.target(), 6)
	if by["s1"] == 0 || by["s3"] == 0 || by["s2"] != 0 {
		t.Errorf("C-52: new connections went to %v", by)
	}
	u.inHub("ip link set vs2 up")
	u.capable(t, n)
	if _, by = client.open(t, u.target(), 6); by["s2"] == 0 {
		t.Errorf("C-52: when s2 was back new connections went to %v", by)
	}
}
