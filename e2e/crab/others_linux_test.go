// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// C-82: kube-proxy's rule that drops INVALID, and its DNAT of other addresses,
// stand on client, balancer and servers; conntrack never meets a packet it does not know.
func TestConntrackInThePath(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	rules := `add table ip kp; add chain ip kp cin { type filter hook input priority 0; }; add chain ip kp cout { type filter hook output priority 0; };
add chain ip kp cfwd { type filter hook forward priority 0; };
add counter ip kp invalid; add rule ip kp cin ct state invalid counter name invalid drop; add rule ip kp cout ct state invalid counter name invalid drop;
add rule ip kp cfwd ct state invalid counter name invalid drop;
add chain ip kp cdnat { type nat hook output priority -100; }; add rule ip kp cdnat ip daddr 10.96.0.10 tcp dport 80 dnat to ` + b.Host("s1").Addr + ":" + itoa(port)
	for _, h := range b.all {
		h.Run("nft", rules)
	}
	client := b.Host("client")
	client.Run("ip", "route", "add", "10.96.0.0/16", "dev", "eth0")
	client.mustTalk(t, 20)
	c, err := client.dial("10.96.0.10:80") // a ClusterIP beside it
	must(t, err)
	must(t, c.ask("through DNAT"))
	for name, h := range b.all {
		if out := h.Run("nft", "list", "counter", "ip", "kp", "invalid"); !strings.Contains(out, "packets 0 ") {
			t.Errorf("%s: conntrack met packets it calls invalid: %s", name, out)
		}
	}
	if out := client.Run("conntrack", "-L", "-p", "tcp", "--dst", VIP); !strings.Contains(out, "ESTABLISHED") && !strings.Contains(out, "TIME_WAIT") {
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

// Stand-ins for another owner's programs (Cilium's attach points): tcx programs
// that end the chain, before and after ours came, and an XDP program that holds the device.
func TestOtherOwnersPrograms(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
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

// A server dies: its connections are reset or time out, others' live on, and new ones go elsewhere once it is out of the pool.
func TestServerDeath(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	b.StartAll(port, nil)
	kill := map[string]func(){}
	for _, s := range b.Servers() {
		kill[s.Name] = s.Echo(port)
	}
	all, err := b.Host("client").dialMany(VIP+":"+itoa(port), 40)
	must(t, err)
	kill["s1"]()
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
	b.Host("lb").Apply(func(c *Config) { c.VIPs[0]["backends"].([]map[string]any)[0]["state"] = "Down" })
	if seen := b.Host("client").mustTalk(t, 6); seen["s2"] != 6 {
		t.Errorf("C-26: %v", seen)
	}
}

// C-25, C-104: a SYN whose answer is lost is sent again and finds the same server.
func TestLostSYNACK(t *testing.T) {
	t.Parallel()
	b := New(t, 3)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	b.hub("nft", "add table netdev box; add chain netdev box in { type filter hook ingress device vs1 priority 0; }; "+
		"add chain netdev box in2 { type filter hook ingress device vs2 priority 0; }; add chain netdev box in3 { type filter hook ingress device vs3 priority 0; }")
	for _, chain := range []string{"in", "in2", "in3"} { // each server's first SYN-ACKs are lost: more than a second of them
		b.hub("nft", "add rule netdev box "+chain+" tcp flags & (syn | ack) == (syn | ack) limit rate over 1/minute burst 1 packets accept")
		b.hub("nft", "add rule netdev box "+chain+" tcp flags & (syn | ack) == (syn | ack) drop")
	}
	b.Host("client").mustTalk(t, 3)
	lb := b.Host("lb").Show().Counters
	if lb["lb_syn_redirected"] != 3 || lb["lb_syn_repeated"] == 0 {
		t.Errorf("redirected %d, repeated %d", lb["lb_syn_redirected"], lb["lb_syn_repeated"])
	}
}

// A connection as of SSH: idle, then small packets, then idle; ports are reused after it.
func TestLongConnectionAndPortReuse(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	client := b.Host("client")
	long, err := client.dial(VIP + ":" + itoa(port))
	must(t, err)
	dialFrom := func(to string) error {
		c, err := client.dialFrom(40404, to, patience)
		if err != nil {
			return err
		}
		_ = c.Conn.(*net.TCPConn).SetLinger(0) // RST: the port is free at once
		return c.Close()
	}
	for round := range 6 { // to the VIP, and directly to each server, all from one port
		for _, to := range []string{VIP, b.Host("s1").Addr, b.Host("s2").Addr} {
			if err := dialFrom(to + ":" + itoa(port)); err != nil {
				t.Fatalf("round %d to %s: %v", round, to, err)
			}
		}
		must(t, long.ask("keystroke"))
		time.Sleep(200 * time.Millisecond)
	}
	if n := client.Counter("client_stale_removed"); n == 0 {
		t.Error("no port was reused: this proves nothing")
	}
}
