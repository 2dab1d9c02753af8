// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
)

const pods = "10.97.1."

// pod puts a namespace behind a host, as a routed CNI does: the host's end of
// the veth is p<name>.
func (h *Host) pod(name, addr string) *Host {
	b := h.bed
	p := &Host{bed: b, Name: name, NS: b.ns(name), Addr: addr, log: b.dir + "/" + name + ".log"}
	b.run("ip", "netns", "add", p.NS)
	b.t.Cleanup(func() { _ = h.bed.quiet("ip", "netns", "del", p.NS) })
	h.Run("ip", "link", "add", "p"+name, "type", "veth", "peer", "name", "eth0", "netns", p.NS)
	p.Run("ip", "link", "set", "lo", "up")
	h.forwards()
	if isSix(addr) {
		h.leadsSix(p)
	} else {
		h.leads(p)
	}
	return p
}

// leads makes the host a pod's router: it answers ARP for everybody.
func (h *Host) leads(p *Host) {
	h.Run("ip", "link", "set", "p"+p.Name, "up")
	h.Run("ip", "route", "add", p.Addr+"/32", "dev", "p"+p.Name)
	h.Run("sysctl", "-qw", "net.ipv4.conf.p"+p.Name+".proxy_arp=1")
	p.Run("ip", "addr", "add", p.Addr+"/32", "dev", "eth0")
	p.Run("ip", "link", "set", "eth0", "up")
	p.Run("ip", "route", "add", "default", "dev", "eth0")
}

// leadsSix does with IPv6, by a link-local address that every pod's router has. Nobody waits for DAD.
func (h *Host) leadsSix(p *Host) {
	h.Run("ip", "link", "set", "p"+p.Name, "addrgenmode", "none")
	p.Run("ip", "link", "set", "eth0", "addrgenmode", "none")
	h.Run("ip", "link", "set", "p"+p.Name, "up")
	p.Run("ip", "link", "set", "eth0", "up")
	h.Run("ip", "addr", "add", "fe80::1/64", "dev", "p"+p.Name, "nodad")
	h.Run("ip", "route", "add", p.Addr+"/128", "dev", "p"+p.Name)
	p.Run("ip", "addr", "add", p.Addr+"/128", "dev", "eth0", "nodad")
	p.Run("ip", "route", "add", "default", "via", "fe80::1", "dev", "eth0")
}

// podVIP is the VIP as a node's agent writes it: pods may be its servers, and these are.
func (b *Bed) podVIP(roles, state string, servers ...*Host) []map[string]any {
	return []map[string]any{{"addr": b.vip, "port": port, "roles": roles, "policy": "RoundRobin", "prefixes": []string{b.podNet(0, 24)}, "backends": inState(state, servers)}}
}

func podDevices(duties []string, names ...string) []map[string]any {
	all := uplink(duties...)
	for _, n := range names {
		all = append(all, map[string]any{"name": "p" + n, "placement": "Pod", "duties": []string{"client", "server"}})
	}
	return all
}

// C-70, C-82: pods as clients and servers, on two nodes and on the same one,
// with the rule that drops what conntrack calls invalid.
func TestPods(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	n1, n2 := b.Host("s1"), b.Host("s2")
	client, near, far := n1.pod("pc", pods+"2"), n1.pod("pnear", pods+"3"), n2.pod("pfar", pods+"130")
	for name, h := range b.all {
		if name != "s1" {
			h.Run("ip", "route", "add", pods+"0/25", "via", n1.Addr)
		}
		if name != "s2" {
			h.Run("ip", "route", "add", pods+"128/25", "via", n2.Addr)
		}
	}
	n1.config = Config{Devices: podDevices([]string{"client", "server"}, "pc", "pnear"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	n2.config = Config{Devices: podDevices([]string{"client", "server"}, "pfar"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	lb := b.Host("lb")
	lb.config = Config{Devices: uplink("balancer"), VIPs: b.podVIP("Balance", "UpCRAB", near, far)}
	for _, h := range []*Host{n1, n2, lb} {
		h.Start()
		h.Run("nft", "add table ip kp; add counter ip kp invalid; add chain ip kp cfwd { type filter hook forward priority 0; }; "+
			"add rule ip kp cfwd ct state invalid counter name invalid drop")
	}
	near.Echo(port)
	far.Echo(port)
	seen := client.mustTalk(t, 10)
	if seen["pnear"] != 5 || seen["pfar"] != 5 {
		t.Errorf("the pod met %v", seen)
	}
	for _, h := range []*Host{n1, n2} {
		if out := h.Run("nft", "list", "counter", "ip", "kp", "invalid"); !strings.Contains(out, "packets 0 ") {
			t.Errorf("%s: conntrack met packets it calls invalid: %s", h.Name, out)
		}
	}
	if n := lb.Counter("lb_syn_redirected"); n != 10 {
		t.Errorf("%d SYNs redirected, want 10", n)
	}
}

// A client on the very node that announces the VIP: nobody on the network would answer its SYN.
func TestClientOnTheBalancersNode(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	lb := b.Host("lb")
	// The agent's part: a route and a neighbour, so that the SYN reaches the device at all.
	lb.Run("ip", "route", "add", VIP+"/32", "dev", "eth0")
	lb.Run("ip", "neigh", "add", VIP, "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent")
	lb.Apply(func(c *Config) {
		c.Devices = uplink("client", "balancer")
		c.VIPs[0]["roles"] = "Client+Balance"
		c.VIPs[0]["prefixes"] = []string{network + "0/24"}
	})
	if seen := lb.mustTalk(t, 10); seen["s1"] != 5 || seen["s2"] != 5 {
		t.Errorf("the balancer's own client met %v", seen)
	}
}

// NodePort: node s1 has no pod and sends the SYN to s2, past itself; a client
// without agent is left to s1's kube-proxy.
func TestNodePort(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	const nodePort = 30080
	a, other, client := b.Host("s1"), b.Host("s2"), b.Host("client")
	target := func(roles string) []map[string]any {
		return []map[string]any{{"addr": a.Addr, "port": nodePort, "roles": roles, "policy": "RoundRobin",
			"backends": []map[string]any{{"addr": other.Addr, "state": "UpCRAB"}}, "prefixes": []string{network + "0/24"}}}
	}
	a.config = Config{Devices: uplink("balancer"), VIPs: target("Balance+StackFallback")}
	other.config = Config{Devices: uplink("server"), AllowEcho: []string{a.Addr}}
	client.config = Config{Devices: uplink("client"), VIPs: target("Client")}
	for _, h := range []*Host{a, other, client} {
		h.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
		h.Start()
	}
	other.Echo(nodePort)
	// kube-proxy's relay for everybody else.
	a.Run("nft", "add table ip kp; add chain ip kp cpre { type nat hook prerouting priority -100; }; add rule ip kp cpre tcp dport "+itoa(nodePort)+
		" dnat to "+other.Addr+"; add chain ip kp cpost { type nat hook postrouting priority 100; }; add rule ip kp cpost ip daddr "+other.Addr+" masquerade")
	w := b.Watch("s1")
	for _, from := range []*Host{client, b.add("plain", network+"9")} {
		c, err := from.dial(a.Addr + ":" + itoa(nodePort))
		must(t, err)
		must(t, c.ask(strings.Repeat("n", 9000)))
		c.Close()
		frames := w.Frames(func(f Frame) bool { return f.ToHost && f.Src.Addr().String() == from.Addr })
		if redirect := from == client; redirect != (len(frames) == 1) {
			t.Errorf("%s: node s1 saw %d packets", from.Name, len(frames))
		}
	}
}

// C-51: the prober meets a server with agent, one without, and nobody.
func TestProbes(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	lb := b.Host("lb")
	b.Host("s1").config = Config{Devices: uplink("server"), AllowEcho: []string{lb.Addr}}
	b.Host("s1").Start()
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	for to, want := range map[string]string{b.Host("s1").Addr + ":7777": "UpCRAB", b.Host("s2").Addr + ":7777": "UpPlain",
		b.Host("s1").Addr + ":1": "Down", network + "200:80": "Down"} {
		got := strings.TrimSpace(lb.Run(b.tool, "probe", "--from", lb.Addr, "--to", to, "--timeout", "4s"))
		if got != want {
			t.Errorf("%s is %s, want %s", to, got, want)
		}
	}
}
