// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// peer is a program of Debian's, unpacked by e2e/run (CRAB_PEERS, CRAB_PEERS_LIB).
func peer(t *testing.T, path string) string {
	t.Helper()
	root := os.Getenv("CRAB_PEERS")
	if root == "" {
		privileged.Lacking(t, "CRAB_PEERS does not say where nginx, redis and wrk are unpacked: use make e2e-crab")
	}
	return filepath.Join(root, path)
}

// serve starts a server and waits until it takes connections on the host's own address.
func (h *Host) serve(t *testing.T, port int, name string, args ...string) {
	t.Helper()
	c := h.Command(name, args...)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+os.Getenv("CRAB_PEERS_LIB"))
	log, err := os.Create(filepath.Join(h.bed.dir, h.Name+"-"+filepath.Base(name)+".log"))
	must(t, err)
	c.Stdout, c.Stderr = log, log
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait(); log.Close() })
	eventually(t, name+" on "+h.Name, func() bool {
		return h.Inside(func() error {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(h.Addr, itoa(port)), time.Second)
			if err == nil {
				conn.Close()
			}
			return err
		}) == nil
	})
}

// client runs a program on the client's host to its end.
func (b *Bed) client(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := b.Host("client").Command(name, args...)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+os.Getenv("CRAB_PEERS_LIB"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

const nginxConf = `daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr;
events { worker_connections 512; }
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u;
 scgi_temp_path %[1]s/s; server { listen %[2]s; location / { return 200 "%[3]s\n"; } location /file { root %[1]s; } } }
`

func startNginx(t *testing.T, h *Host, port int) {
	t.Helper()
	dir := filepath.Join(h.bed.dir, "nginx-"+h.Name)
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 3<<20), 0o644))
	conf := filepath.Join(dir, "conf")
	must(t, os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, net.JoinHostPort(h.Addr, itoa(port)), h.Name), 0o644))
	h.serve(t, port, peer(t, "usr/sbin/nginx"), "-p", dir, "-c", conf)
}

// C-70, C-106: curl and wrk against NGINX on two servers.
func TestNGINX(t *testing.T) {
	t.Parallel()
	peer(t, "")
	b := New(t, 2)
	b.StartAll(8080, nil)
	for _, s := range b.Servers() {
		startNginx(t, s, 8080)
	}
	url := "http://" + VIP + ":8080/"
	seen := map[string]bool{}
	for range 4 {
		seen[b.client(t, "curl", "-sS", "--fail", "--max-time", "60", url)] = true
	}
	if len(seen) != 2 {
		t.Errorf("curl met %v, want both servers", seen)
	}
	if size := b.client(t, "curl", "-sS", "--fail", "--max-time", "60", "-o", "/dev/null", "-w", "%{size_download}", url+"file"); size != itoa(3<<20) {
		t.Errorf("curl loaded %s bytes of %d", size, 3<<20)
	}
	for _, keep := range []string{"keep-alive", "close"} {
		out := b.client(t, peer(t, "usr/bin/wrk"), "-t1", "-c16", "-d3s", "--timeout", "30s", "-H", "Connection: "+keep, url)
		if strings.Contains(out, "Socket errors") || strings.Contains(out, "Non-2xx") || !strings.Contains(out, "Requests/sec") {
			t.Errorf("wrk, %s: %s", keep, out)
		}
		t.Logf("wrk, %s: %s", keep, strings.Join(strings.Fields(lastLines(out, 2)), " "))
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " ")
}

func TestRedis(t *testing.T) {
	t.Parallel()
	peer(t, "")
	b := New(t, 2)
	b.StartAll(6379, nil)
	for _, s := range b.Servers() {
		s.serve(t, 6379, peer(t, "usr/bin/redis-server"), "--port", "6379", "--bind", s.Addr, "--protected-mode", "no", "--save", "", "--dir", b.dir)
	}
	out := b.client(t, peer(t, "usr/bin/redis-benchmark"), "-h", VIP, "-p", "6379", "-n", "20000", "-c", "40", "-t", "set,get", "--csv")
	rates := regexp.MustCompile(`"(SET|GET)","([0-9.]+)"`).FindAllStringSubmatch(out, -1)
	if len(rates) != 2 {
		t.Fatalf("redis-benchmark: %s", out)
	}
	for _, r := range rates {
		if rate, err := strconv.ParseFloat(r[2], 64); err != nil || rate <= 0 {
			t.Errorf("redis-benchmark: %v", r)
		}
	}
	out = b.client(t, peer(t, "usr/bin/redis-cli"), "-h", VIP, "-p", "6379", "PING")
	if strings.TrimSpace(out) != "PONG" {
		t.Errorf("redis-cli: %s", out)
	}
}

// C-106: a certificate is checked against the name that was dialled.
func TestTLS(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	b.StartAll(8443, nil)
	key, cert := b.certificate(t)
	for _, s := range b.Servers() {
		s.serve(t, 8443, "openssl", "s_server", "-accept", s.Addr+":8443", "-key", key, "-cert", cert, "-www", "-quiet")
	}
	for range 4 {
		page := b.client(t, "curl", "-sS", "--fail", "--max-time", "60", "--cacert", cert, "https://"+VIP+":8443/")
		if !strings.Contains(page, "TLSv1.3") {
			t.Errorf("curl: %s", page)
		}
	}
	if n := b.Host("lb").Counter("lb_syn_redirected"); n < 4 {
		t.Errorf("%d SYNs redirected", n)
	}
}
