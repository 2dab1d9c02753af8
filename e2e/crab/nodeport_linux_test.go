// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
)

// NodePort as it is in a cluster: the server is a pod on s2, behind that node's
// DNAT; s1 sends the SYN to s2. The client's node has the same entries, and asks
// s2 by a probe whose mark is nobody's address.
func TestNodePortOfPod(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	const nodePort = 30080
	a, other, client := b.Host("s1"), b.Host("s2"), b.Host("client")
	pod := other.pod("pweb", pods+"130")
	target := func(roles string) []map[string]any {
		return []map[string]any{{"addr": a.Addr, "port": nodePort, "roles": roles, "policy": "RoundRobin",
			"backends": []map[string]any{{"addr": other.Addr, "state": "UpCRAB"}}, "prefixes": []string{network + "0/24"}}}
	}
	const mark = "192.0.0.8"
	a.config = Config{Devices: uplink("client", "server", "balancer"), VIPs: target("Client+Balance+StackFallback"), AllowEcho: []string{mark}}
	other.config = Config{Devices: podDevices([]string{"client", "server", "balancer"}, "pweb"), VIPs: target("Client"), AllowEcho: []string{a.Addr, mark}}
	client.config = Config{Devices: uplink("client"), VIPs: target("Client")}
	for _, h := range []*Host{a, other, client} {
		h.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
		h.Start()
	}
	pod.Echo(port)
	other.Run("nft", "add table ip kp; add chain ip kp cpre { type nat hook prerouting priority -100; }; add rule ip kp cpre tcp dport "+itoa(nodePort)+
		" dnat to "+pod.Addr+":"+itoa(port)+"; add counter ip kp invalid; add chain ip kp cfwd { type filter hook forward priority 0; }; "+
		"add rule ip kp cfwd ct state invalid counter name invalid drop")
	got := strings.TrimSpace(a.Run(b.tool, "probe", "--from", a.Addr, "--mark", mark, "--to", other.Addr+":"+itoa(nodePort), "--timeout", "4s"))
	if got != "UpCRAB" {
		t.Errorf("the node with the pod is %s", got)
	}
	w := b.Watch("s1")
	c, err := client.dialWithin(a.Addr+":"+itoa(nodePort), patience/6)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.told())
	}
	must(t, c.ask(strings.Repeat("n", 9000)))
	c.Close()
	if frames := w.Frames(func(f Frame) bool { return f.ToHost && f.Src.Addr().String() == client.Addr }); len(frames) != 1 {
		t.Errorf("node s1 saw %d packets", len(frames))
	}
	if out := other.Run("nft", "list", "counter", "ip", "kp", "invalid"); !strings.Contains(out, "packets 0 ") {
		t.Errorf("conntrack met packets it calls invalid: %s", out)
	}
}
