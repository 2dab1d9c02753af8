// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"net"
	"strings"
	"testing"
)

// dialled is how often a server dials its own Service, in each case.
const dialled = 50

// hairpins counts the connections of a server to its own Service that fail, and whom the others met.
func (h *Host) hairpins(t *testing.T, to string) map[string]int {
	t.Helper()
	seen, failed := map[string]int{}, 0
	for i := range dialled {
		c, err := h.dialWithin(to, patience/6)
		if err == nil {
			err = c.ask(strings.Repeat("h", 3000))
			c.Close()
		}
		if err != nil {
			failed++
			t.Errorf("K-1: %s dials %s, connection %d: %v\n%s", h.Name, to, i, err, h.bed.told())
			if failed == 2 { // the others would wait as long
				failed = dialled - i + 1
				break
			}
			continue
		}
		seen[c.server]++
	}
	MeasureMore(t, "hairpin_connections_failed", float64(failed))
	MeasureMore(t, "hairpin_connections", dialled)
	return seen
}

// K-1, C-107: a pod that is a server of a Service dials that Service, alone and as one of several, on the balancer's node
// and elsewhere, by redirects and, as a client without agent, by hash.
func TestServerDialsItsOwnService(t *testing.T) { eachFamily(t, 2, testServerDialsItsOwnService) }

func testServerDialsItsOwnService(t *testing.T, b *Bed) {
	lb, n1, n2 := nodesWithPods(b)
	near, self, other, far := lb.pod("pnear", b.podAddr(2)), n1.pod("pself", b.podAddr(66)), n1.pod("pother", b.podAddr(67)), n2.pod("pfar", b.podAddr(130))
	all := []string{"client", "server", "balancer"}
	for h, names := range map[*Host][]string{lb: {"pnear"}, n1: {"pself", "pother"}, n2: {"pfar"}} {
		h.config = Config{Devices: podDevices(all, names...), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	}
	lb.config.VIPs = b.podVIP("Client+Balance", "UpCRAB", self)
	for _, h := range []*Host{lb, n1, n2} {
		h.Start()
	}
	for _, h := range []*Host{near, self, other, far} {
		h.Echo(port)
	}
	serve := func(servers ...*Host) {
		lb.Apply(func(c *Config) { c.VIPs = b.podVIP("Client+Balance", "UpCRAB", servers...) })
	}
	alone := func(h *Host) {
		serve(h)
		before := lb.Counter("lb_syn_redirected")
		if seen := h.hairpins(t, b.target()); seen[h.Name] != dialled {
			t.Errorf("%s alone met %v", h.Name, seen)
		}
		if n := lb.Counter("lb_syn_redirected") - before; n < dialled {
			t.Errorf("%s alone: %d of %d connections were redirected", h.Name, n, dialled)
		}
	}
	alone(self)
	alone(near)
	several := []*Host{near, self, other, far}
	serve(several...)
	for _, h := range several {
		if seen := h.hairpins(t, b.target()); len(seen) != len(several) || seen[h.Name] == 0 {
			t.Errorf("%s, one of %d servers, met %v", h.Name, len(several), seen)
		}
	}
	for _, h := range []*Host{lb, n1} { // without placeholders they are clients as any other
		h.Apply(func(c *Config) { c.VIPs[0]["roles"] = strings.TrimPrefix(c.VIPs[0]["roles"].(string), "Client+") })
		h.Apply(func(c *Config) {
			if h == n1 {
				c.VIPs = nil
			}
		})
	}
	for _, h := range []*Host{self, near} {
		lb.Apply(func(c *Config) { c.VIPs = b.podVIP("Balance", "UpCRAB", h) })
		if seen := h.hairpins(t, b.target()); seen[h.Name] != dialled {
			t.Errorf("%s alone, without agent, met %v", h.Name, seen)
		}
	}
	for _, h := range []*Host{lb, n1, n2} {
		h.noInvalid(t)
	}
}

// K-1: a server in the network of a host that forwards nothing, without pods.
func TestHostDialsItsOwnService(t *testing.T) { eachFamily(t, 2, testHostDialsItsOwnService) }

func testHostDialsItsOwnService(t *testing.T, b *Bed) {
	b.StartAll(port, nil)
	s1, s2 := b.Host("s1"), b.Host("s2")
	for _, h := range []*Host{s1, s2} {
		h.Apply(func(c *Config) {
			c.Devices = uplink("client", "server")
			c.VIPs = []map[string]any{b.dialled(b.vip, port)}
		})
		h.Echo(port)
	}
	if seen := s1.hairpins(t, b.target()); seen["s1"] != dialled/2 || seen["s2"] != dialled/2 {
		t.Errorf("s1, one of two servers, met %v", seen)
	}
}

// K-1: the only pod of a Service dials the node port of a node without a pod, which redirects it to its own node.
func TestPodDialsItsOwnNodePort(t *testing.T) { eachFamily(t, 2, testPodDialsItsOwnNodePort) }

func testPodDialsItsOwnNodePort(t *testing.T, b *Bed) {
	const nodePort = 30080
	a, own := b.Host("s1"), b.Host("s2")
	pod := own.pod("pweb", b.podAddr(130))
	for _, h := range b.all {
		if h != own {
			h.Run("ip", "route", "add", b.podNet(128, 26), "via", own.Addr)
		}
	}
	target := func(roles string) []map[string]any {
		return []map[string]any{{"addr": a.Addr, "port": nodePort, "roles": roles, "policy": "RoundRobin",
			"backends": []map[string]any{{"addr": own.Addr, "state": "UpCRAB"}}, "prefixes": []string{b.nets}}}
	}
	a.config = Config{Devices: uplink("client", "server", "balancer"), VIPs: target("Client+Balance+StackFallback")}
	own.config = Config{Devices: podDevices([]string{"client", "server", "balancer"}, "pweb"), VIPs: target("Client"), AllowEcho: []string{a.Addr}}
	for _, h := range []*Host{a, own} {
		h.forwards()
		h.Run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=2", "net.ipv4.conf.eth0.rp_filter=2")
		h.Start()
	}
	pod.Echo(port)
	own.dropInvalid()
	family := b.either("ip", "ip6")
	own.Run("nft", "add chain "+family+" kp cpre { type nat hook prerouting priority -100; }; add rule "+family+" kp cpre tcp dport "+itoa(nodePort)+
		" fib daddr type local dnat to "+net.JoinHostPort(pod.Addr, itoa(port)))
	if seen := pod.hairpins(t, net.JoinHostPort(a.Addr, itoa(nodePort))); seen["pweb"] != dialled {
		t.Errorf("the pod met %v", seen)
	}
	if n := own.Counter("client_own_host"); n < 6*dialled {
		t.Errorf("%d packets of %d connections came in by the uplink: was none redirected?\n%s", n, dialled, b.told())
	}
	own.noInvalid(t)
}
