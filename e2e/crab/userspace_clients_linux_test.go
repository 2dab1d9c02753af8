// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"net"
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

// The clients that the node's balancer is tested with, through the one on a DPDK port: NGINX, Redis, TLS,
// changes of the pool under load, and a server that only the balancer's own probes see die.
func TestUserspaceClients(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, b *Bed) {
		key, cert := b.certificate(t)
		serve := func(t *testing.T, s *Host) {
			s.Echo(port)
			startNginx(t, s, webPort)
			s.serve(t, redisPort, peer(t, "usr/bin/redis-server"), "--port", itoa(redisPort), "--bind", s.Addr, "--protected-mode", "no", "--save", "", "--dir", b.dir)
			s.serve(t, tlsPort, "openssl", "s_server", "-accept", net.JoinHostPort(s.Addr, itoa(tlsPort)), "-key", key, "-cert", cert, "-www", "-quiet")
		}
		u := startUserspace(t, b, serve, webPort, redisPort, tlsPort, port)
		u.nginx(t)
		u.redis(t)
		u.tls(t, cert)
		u.changesUnderLoad(t)
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
