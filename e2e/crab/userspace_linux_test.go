// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// lbProgram is bobtail-crab-lb, the balancer on a DPDK port, as hack/dataplane builds it.
const lbProgram = "../../build/dataplane/apps/bobtail-crab-lb/bobtail-crab-lb"

const webPort = 8080

// userspace is a bed whose balancer is bobtail-crab-lb behind af_packet instead of the node's programs.
type userspace struct {
	*Bed
	control string
	ports   []int // of the VIP
	process *os.Process
	// What a test may change before startBalancer.
	program string
	options []string
	policy  string
	probe   map[string]int
}

// startUserspace starts agents on client and servers, what serve starts on each server, and the balancer of some ports.
func startUserspace(t *testing.T, b *Bed, serve func(*testing.T, *Host), ports ...int) *userspace {
	t.Helper()
	u := newUserspace(t, b, ports...)
	for _, s := range b.Servers() {
		s.become(Config{Devices: uplink("server"), AllowEcho: b.vips()})
		serve(t, s)
	}
	u.startBalancer(t, b.Servers())
	return u
}

// newUserspace has a client with an agent, and nothing else yet.
func newUserspace(t *testing.T, b *Bed, ports ...int) *userspace {
	t.Helper()
	program, err := filepath.Abs(lbProgram)
	must(t, err)
	if _, err := os.Stat(program); err != nil {
		privileged.Lacking(t, "no balancer with DPDK: hack/dataplane build release apps/bobtail-crab-lb/bobtail-crab-lb: "+err.Error())
	}
	u := &userspace{Bed: b, control: filepath.Join(b.dir, "lb.sock"), ports: ports, program: program,
		policy: "RoundRobin", probe: map[string]int{"intervalMilliseconds": 400, "timeoutMilliseconds": 400}}
	for _, h := range b.all {
		h.completeChecksums()
	}
	var vips []map[string]any
	for _, vip := range b.vips() {
		for _, p := range u.ports {
			vips = append(vips, b.dialled(vip, p))
		}
	}
	b.Host("client").become(Config{Devices: uplink("client"), VIPs: vips})
	return u
}

func (h *Host) become(c Config) {
	h.config = c
	h.Start()
}

// serveName has a web server that says its host's name.
func serveName(t *testing.T, h *Host) {
	t.Helper()
	dir := filepath.Join(h.bed.dir, "web-"+h.Name)
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "name"), []byte(h.Name), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 3<<20), 0o644))
	h.serve(t, webPort, "python3", "-m", "http.server", itoa(webPort), "--bind", "::", "--directory", dir)
}

// startBalancer gives it the host's address: the kernel there keeps none.
func (u *userspace) startBalancer(t *testing.T, servers []*Host) {
	t.Helper()
	lb := u.Host("lb")
	lb.Run("ip", "addr", "flush", "dev", "eth0")
	lb.Run("sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
	u.configure(t, servers)
	u.launch(t, len(servers))
}

// launch starts the balancer's program and waits until it knows so many servers.
func (u *userspace) launch(t *testing.T, servers int) {
	t.Helper()
	lb := u.Host("lb")
	c := lb.Command(u.program, append([]string{"--address=" + lb.Addr, "--config=" + lb.configFile(), "--ctl=" + u.control,
		"--dpdk-port=net_af_packet0,iface=eth0", "--dpdk-buffers=4096", "--dpdk-hugepages=off"}, u.options...)...)
	log, err := os.Create(lb.log)
	must(t, err)
	c.Stdout, c.Stderr = log, log
	must(t, c.Start())
	u.process = c.Process
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait(); log.Close() })
	u.capable(t, servers)
}

// capable waits until so many servers are known to echo, at each port.
func (u *userspace) capable(t *testing.T, n int) {
	t.Helper()
	eventually(t, itoa(n)+" servers are known to echo", func() bool { return u.counter("crab_servers", "capable") == u.known(n) })
}

// known is how often the balancer counts so many servers.
func (u *userspace) known(n int) int { return n * len(u.ports) * len(u.vips()) }

// counted: what it sends again to the same server counts as redirected, too.
func (u *userspace) counted() syns {
	again, hashed := u.counter("crab_repeated_total", ""), 0
	for _, why := range []string{"client", "servers", "option_space"} {
		hashed += u.counter("crab_fallback_total", why)
	}
	return syns{u.counter("crab_redirected_total", "") - again, again, hashed, u.counter("crab_foreign_address_total", ""), u.counter("crab_malformed_options_total", "")}
}

// loses: the balancer's own probes find out.
func (u *userspace) loses(t testing.TB, server *Host) {
	t.Helper()
	eventually(t, server.Name+" is known to be down", func() bool { return u.counter("crab_servers", "down") == u.known(1) })
}

// configure writes the balancer's file: each server is one of each port's pool.
func (u *userspace) configure(t *testing.T, servers []*Host) {
	t.Helper()
	var pool []map[string]string
	for _, s := range servers {
		pool = append(pool, map[string]string{"address": s.Addr})
	}
	var vips []map[string]any
	for _, vip := range u.vips() {
		for _, p := range u.ports {
			vips = append(vips, map[string]any{"address": vip, "port": p, "policy": u.policy, "servers": pool})
		}
	}
	raw, err := json.Marshal(map[string]any{"probe": u.probe, "vips": vips})
	must(t, err)
	must(t, os.WriteFile(u.Host("lb").configFile(), raw, 0o600))
}

// counter of the balancer with this label's value, or -1 while it does not answer.
func (u *userspace) counter(name, label string) int {
	c, err := net.Dial("unixpacket", u.control)
	if err != nil {
		return -1
	}
	defer c.Close()
	type sample struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
		Value  int               `json:"value"`
	}
	var reply struct{ Counters, Gauges []sample }
	buf := make([]byte, 1<<20)
	if _, err := c.Write([]byte(`{"v":1,"op":"counters"}`)); err != nil {
		return -1
	}
	n, err := c.Read(buf)
	if err != nil || json.Unmarshal(buf[:n], &reply) != nil {
		return -1
	}
	sum := 0
	for _, s := range append(reply.Counters, reply.Gauges...) {
		if s.Name != name {
			continue
		}
		for _, value := range s.Labels {
			if value == label {
				sum += s.Value
			}
		}
		if len(s.Labels) == 0 && label == "" {
			sum += s.Value
		}
	}
	return sum
}

// curl loads a page of the VIP on this host.
func (u *userspace) curl(h *Host, page string, more ...string) string {
	family := "-4"
	if strings.Contains(u.vip, ":") {
		family = "-6"
	}
	url := "http://" + net.JoinHostPort(u.vip, itoa(webPort)) + "/" + page
	return h.Run("curl", append(append([]string{family, "-sS", "--fail", "--max-time", "60"}, more...), url)...)
}

// The balancer on a DPDK port between kernels that know no redirects and the node's programs that do: IPv4 and IPv6 (C-9).
func TestUserspaceBalancer(t *testing.T) {
	t.Parallel()
	run := func(u *userspace, t *testing.T) {
		u.redirects(t)
		u.hashes(t)
		u.followsAServer(t)
		u.echoesAreBlanked(t)
		u.losesAnAgent(t)
	}
	t.Run("IPv4", func(t *testing.T) { run(startUserspace(t, New(t, 2), serveName, webPort), t) })
	t.Run("IPv6", func(t *testing.T) { run(startUserspace(t, New6(t, 2), serveName, webPort), t) })
}

// C-21, C-60, C-70: of each connection the balancer gets and sends one SYN, and servers take turns.
func (u *userspace) redirects(t *testing.T) {
	t.Helper()
	const n = 10
	w := u.Watch("lb")
	seen := map[string]int{}
	for range n {
		seen[u.curl(u.Host("client"), "name")]++
	}
	if seen["s1"] != n/2 || seen["s2"] != n/2 {
		t.Errorf("round robin gave %v", seen)
	}
	if size := u.curl(u.Host("client"), "file", "-o", "/dev/null", "-w", "%{size_download}"); size != itoa(3<<20) {
		t.Errorf("curl loaded %s bytes of %d", size, 3<<20)
	}
	in := w.Frames(func(f Frame) bool { return f.ToHost && f.Dst.Addr().String() == u.vip })
	if len(in) != n+1 {
		t.Errorf("the balancer got %d packets for %d connections", len(in), n+1)
	}
	if got := u.counter("crab_redirected_total", ""); got != n+1 {
		t.Errorf("%d SYNs redirected, want %d", got, n+1)
	}
}

// C-40 to C-42: a client without agent takes the hash; servers have the VIP themselves.
func (u *userspace) hashes(t *testing.T) {
	t.Helper()
	for _, s := range u.Servers() {
		s.returnsDirectly()
	}
	plain := u.join("plain", "9")
	plain.completeChecksums()
	seen := map[string]bool{}
	for range 12 {
		seen[u.curl(plain, "name")] = true
	}
	if len(seen) != 2 {
		t.Errorf("C-41: 12 connections met %v", seen)
	}
	if got := u.counter("crab_fallback_total", "client"); got < 12 {
		t.Errorf("C-40: %d SYNs were hashed, want 12", got)
	}
}

// meets loads so many pages on a host, and says which servers had them.
func (u *userspace) meets(h *Host, pages int) map[string]int {
	seen := map[string]int{}
	for range pages {
		seen[u.curl(h, "name")]++
	}
	return seen
}

// A server takes another MAC address: the balancer sends it there.
func (u *userspace) followsAServer(t *testing.T) {
	t.Helper()
	u.Host("s1").moves("02:00:00:00:00:99")
	eventually(t, "s1 is served at its new address", func() bool { return u.meets(u.Host("client"), 2)["s1"] == 1 })
	u.capable(t, 2)
	if seen := u.meets(u.Host("client"), 6); seen["s1"] != 3 {
		t.Errorf("round robin gave %v", seen)
	}
}

// C-43, C-51: something blanks the echo of all SYN-ACKs. The balancer's probes find out, and what clients would have to wait
// for (C-105) is hashed from its first SYN on.
func (u *userspace) echoesAreBlanked(t *testing.T) {
	t.Helper()
	u.hub("nft", "add table netdev box")
	for _, device := range []string{"vs1", "vs2"} {
		u.hub("nft", "add chain netdev box "+device+" { type filter hook ingress device "+device+" priority 0; }; add rule netdev box "+device+" tcp option 42 exists reset tcp option 42")
	}
	eventually(t, "nobody echoes, and all are up", func() bool { return u.counter("crab_servers", "up") == 2 })
	u.allAreHashed(t)
	u.hub("nft", "delete table netdev box")
	u.capable(t, 2)
}

// allAreHashed: clients that could be redirected, while no server can.
func (u *userspace) allAreHashed(t *testing.T) {
	t.Helper()
	client, before := u.Host("client"), u.counter("crab_fallback_total", "servers")
	late := client.Counter("client_syn_unmarked_retry")
	if seen := u.meets(client, 12); len(seen) != 2 {
		t.Errorf("C-43: 12 connections met %v, want both servers", seen)
	}
	if n := u.counter("crab_fallback_total", "servers") - before; n < 12 || client.Counter("client_syn_unmarked_retry") != late {
		t.Errorf("C-43: %d SYNs with a placeholder were hashed, want 12, none of them late\n%s", n, u.told())
	}
}

// C-43, C-52: a server whose agent goes gets no redirected connection, and its share of the others; without any agent all are.
func (u *userspace) losesAnAgent(t *testing.T) {
	t.Helper()
	s1 := u.Host("s1")
	s1.Kill()
	s1.Run(u.tool, "remove", "--root", s1.root())
	eventually(t, "s1 echoes no more", func() bool { return u.counter("crab_servers", "capable") == 1 && u.counter("crab_servers", "up") == 1 })
	if seen := u.meets(u.Host("client"), 4); seen["s2"] != 4 {
		t.Errorf("C-43: redirected connections met %v, want s2", seen)
	}
	if seen := u.meets(u.Host("plain"), 12); len(seen) != 2 {
		t.Errorf("C-43: who knows no redirects met %v, want both servers", seen)
	}
	s2 := u.Host("s2")
	s2.Kill()
	s2.Run(u.tool, "remove", "--root", s2.root())
	eventually(t, "s2 echoes no more", func() bool { return u.counter("crab_servers", "up") == 2 })
	u.allAreHashed(t)
}
