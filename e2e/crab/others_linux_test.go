// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// C-82: kube-proxy's rule that drops INVALID, and its DNAT of other addresses,
// stand on client, balancer and servers; conntrack never meets a packet it does not know.
func testConntrackInThePath(t *testing.T, b *Bed) {
	clusterIP, network := b.either("10.96.0.10", "fd96::10"), b.either("10.96.0.0/16", "fd96::/64")
	rules := `add table inet kp; add chain inet kp cin { type filter hook input priority 0; }; add chain inet kp cout { type filter hook output priority 0; };
add chain inet kp cfwd { type filter hook forward priority 0; };
add counter inet kp invalid; add rule inet kp cin ct state invalid counter name invalid drop; add rule inet kp cout ct state invalid counter name invalid drop;
add rule inet kp cfwd ct state invalid counter name invalid drop;
add chain inet kp cdnat { type nat hook output priority -100; }; add rule inet kp cdnat ` +
		b.either("ip", "ip6") + " daddr " + clusterIP + " tcp dport 80 dnat " + b.either("ip", "ip6") + " to " + net.JoinHostPort(b.Host("s1").Addr, itoa(port))
	for _, h := range b.all {
		h.Run("nft", rules)
	}
	client := b.Host("client")
	client.Run("ip", "route", "add", network, "dev", "eth0")
	client.mustTalk(t, 20)
	c, err := client.dial(net.JoinHostPort(clusterIP, "80")) // a ClusterIP beside it
	must(t, err)
	must(t, c.ask("through DNAT"))
	for name, h := range b.all {
		if out := h.Run("nft", "list", "counter", "inet", "kp", "invalid"); !strings.Contains(out, "packets 0 ") {
			t.Errorf("%s: conntrack met packets it calls invalid: %s", name, out)
		}
	}
	if out := client.Run("conntrack", "-L", "-f", b.either("ipv4", "ipv6"), "-p", "tcp", "--dst", b.vip); !strings.Contains(out, "ESTABLISHED") && !strings.Contains(out, "TIME_WAIT") {
		t.Errorf("conntrack does not know the connection to the VIP: %s", out)
	}
}

// stranger loads a program of another owner: it passes, or ends the chain, or marks.
func stranger(t *testing.T, kind ebpf.ProgramType, verdict int64) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "stranger", Type: kind, License: "MIT", Instructions: asm.Instructions{
		asm.LoadImm(asm.R0, verdict, asm.DWord), asm.Return()}})
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// ciliumPins are where Cilium pins maps and links on a host's bpffs.
var ciliumPins = []string{"tc/globals/cilium_calls_00042", "tc/globals/cilium_ct4_global", "tc/globals/cilium_lb4_services_v2", "cilium/devices/eth0/links/cil_from_netdev"}

// pinned are maps of a stranger at such places, and what is there of them later.
func pinned(t *testing.T, bpffs string) (stillThere func()) {
	t.Helper()
	ids := map[string]ebpf.MapID{}
	for _, pin := range ciliumPins {
		path := filepath.Join(bpffs, pin)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "cilium_standin", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		must(t, err)
		must(t, m.Pin(path))
		info, err := m.Info()
		must(t, err)
		ids[path], _ = info.ID()
		m.Close()
	}
	return func() {
		t.Helper()
		for path, id := range ids {
			m, err := ebpf.LoadPinnedMap(path, nil)
			must(t, err)
			if info, err := m.Info(); err != nil {
				t.Error(err)
			} else if now, _ := info.ID(); now != id {
				t.Errorf("%s holds map %d, was %d", path, now, id)
			}
			m.Close()
		}
	}
}

// Stand-ins for another owner's programs (Cilium's attach points): tcx programs
// that end the chain, before and after ours came, an XDP program that holds the device, and maps pinned on the same bpffs.
func TestOtherOwnersPrograms(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	stillThere := pinned(t, b.bpf)
	defer stillThere()
	// The balancer's device has an XDP program already.
	var xdp link.Link
	must(t, b.Host("lb").Inside(func() (err error) {
		index, err := ifindex("eth0")
		if err == nil {
			xdp, err = link.AttachXDP(link.XDPOptions{Program: stranger(t, ebpf.XDP, 2), Interface: index, Flags: link.XDPGenericMode})
		}
		return err
	}))
	defer xdp.Close()
	hold := func(h *Host) {
		must(t, h.Inside(func() error {
			index, err := ifindex("eth0")
			for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				if err == nil {
					var l link.Link
					l, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: stranger(t, ebpf.SchedCLS, 0), Attach: hook})
					if err == nil {
						t.Cleanup(func() { l.Close() })
					}
				}
			}
			return err
		}))
	}
	for _, h := range b.all {
		hold(h)
	}
	b.StartAll(port, nil)
	for _, h := range b.all {
		hold(h)
	}
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	b.Host("client").mustTalk(t, 10)
	lb := b.Host("lb")
	if n := lb.Counter("lb_syn_redirected"); n != 10 {
		t.Errorf("%d SYNs redirected, want 10", n)
	}
	if !strings.Contains(lb.Log(), "XDP None") || !strings.Contains(lb.Log(), "another XDP program holds the device") {
		t.Errorf("the agent does not say who holds the device: %s", lb.Log())
	}
}

// A server's program dies: its connections are reset or time out, others' live on, and new ones go elsewhere once it is out of the pool.
func testServerDeath(t *testing.T, b *Bed) {
	all, err := b.Host("client").dialMany(b.target(), 40)
	must(t, err)
	s1 := b.Host("s1")
	s1.peer()
	for _, s := range all {
		err := s.ask("still there?")
		if s.server == "s2" && err != nil {
			t.Errorf("a connection of s2 broke: %v", err)
		}
		if s.server == "s1" && err == nil {
			t.Error("a dead server answered")
		}
		if s.server == "s1" && errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("the reset did not reach the client: %v", err)
		}
		s.Close()
	}
	b.balancer.loses(t, s1)
	if seen := b.Host("client").mustTalk(t, 6); seen["s2"] != 6 {
		t.Errorf("C-26: %v", seen)
	}
}

// C-25, C-104: a SYN whose answer is lost is sent again and finds the same server.
func testLostSYNACK(t *testing.T, b *Bed) {
	before := b.balancer.counted()
	b.hub("nft", "add table netdev box")
	for _, device := range []string{"vs1", "vs2", "vs3"} { // each server's first SYN-ACK to the client is lost
		b.hub("nft", "add chain netdev box "+device+" { type filter hook ingress device "+device+" priority 0; }")
		answer := b.toClient() + "tcp flags & (syn | ack) == (syn | ack)"
		b.hub("nft", "add rule netdev box "+device+" "+answer+" limit rate over 1/minute burst 1 packets accept")
		b.hub("nft", "add rule netdev box "+device+" "+answer+" drop")
	}
	if seen := b.Host("client").mustTalk(t, 3); len(seen) != 3 {
		t.Errorf("C-25: three connections met %v", seen)
	}
	b.hub("nft", "delete table netdev box")
	if n := b.balancer.counted().since(before); n.redirected != 3 || n.repeated == 0 || n.hashed != 0 {
		t.Errorf("%d SYNs were redirected, %d of them again, and %d hashed", n.redirected, n.repeated, n.hashed)
	}
}

// C-25: a SYN that is lost behind the balancer is sent again and takes the same way.
func testLostSYN(t *testing.T, b *Bed) {
	before := b.balancer.counted()
	// By the place of the flags: what DPDK sends lies in pages, where the kernel does not find the TCP header of IPv6 at this hook.
	syn := b.fromClient() + "@nh," + b.either("264", "424") + ",8 & 0x12 == 0x02 "
	b.hub("nft", "add table netdev box; add chain netdev box in { type filter hook ingress device vlb priority 0; }; add rule netdev box in "+
		syn+"limit rate over 1/minute burst 1 packets accept; add rule netdev box in "+syn+"drop")
	b.Host("client").mustTalk(t, 3)
	b.hub("nft", "delete table netdev box")
	if n := b.balancer.counted().since(before); n.redirected != 3 || n.repeated != 1 || n.hashed != 0 {
		t.Errorf("%d SYNs were redirected, %d of them again, and %d hashed", n.redirected, n.repeated, n.hashed)
	}
}
