// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"net"
	"strings"
	"testing"
)

// NodePort as it is in a cluster: the server is a pod on s2, behind that node's
// DNAT; s1 sends the SYN to s2. The client's node has the same entries, and asks
// s2 by a probe whose mark is nobody's address.
func TestNodePortOfPod(t *testing.T) { eachFamily(t, 2, testNodePortOfPod) }

func testNodePortOfPod(t *testing.T, b *Bed) {
	const nodePort = 30080
	a, other, client := b.Host("s1"), b.Host("s2"), b.Host("client")
	pod := other.pod("pweb", b.podAddr(130))
	target := func(roles string) []map[string]any {
		return []map[string]any{{"addr": a.Addr, "port": nodePort, "roles": roles, "policy": "RoundRobin",
			"backends": []map[string]any{{"addr": other.Addr, "state": "UpCRAB"}}, "prefixes": []string{b.nets}}}
	}
	mark, family := b.either("192.0.0.8", "100::8"), b.either("ip", "ip6")
	a.config = Config{Devices: uplink("client", "server", "balancer"), VIPs: target("Client+Balance+StackFallback"), AllowEcho: []string{mark}}
	other.config = Config{Devices: podDevices([]string{"client", "server", "balancer"}, "pweb"), VIPs: target("Client"), AllowEcho: []string{a.Addr, mark}}
	client.config = Config{Devices: uplink("client"), VIPs: target("Client")}
	for _, h := range []*Host{a, other, client} {
		h.forwards()
		h.Start()
	}
	pod.Echo(port)
	other.dropInvalid()
	other.Run("nft", "add chain "+family+" kp cpre { type nat hook prerouting priority -100; }; add rule "+family+" kp cpre tcp dport "+itoa(nodePort)+
		" dnat to "+net.JoinHostPort(pod.Addr, itoa(port)))
	got := strings.TrimSpace(a.Run(b.tool, "probe", "--from", a.Addr, "--mark", mark, "--to", net.JoinHostPort(other.Addr, itoa(nodePort)), "--timeout", "4s"))
	if got != "UpCRAB" {
		t.Errorf("the node with the pod is %s", got)
	}
	w := b.Watch("s1")
	c, err := client.dialWithin(net.JoinHostPort(a.Addr, itoa(nodePort)), patience/6)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.told())
	}
	must(t, c.ask(strings.Repeat("n", 9000)))
	c.Close()
	if frames := w.Frames(func(f Frame) bool { return f.ToHost && f.Src.Addr().String() == client.Addr }); len(frames) != 1 {
		t.Errorf("node s1 saw %d packets", len(frames))
	}
	other.noInvalid(t)
}
