// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

var vipOption = []byte{0x2a, 6, 10, 97, 100, 1, 1, 1}

// accepted counts redirects the client's host believed.
func accepted(h *Host) uint64 { return h.Counter("client_synack_accepted") }

// C-90, C-91, C-92, C-101: forged redirects against waiting, unknown and live connections, and forged SYNs against live ones.
func TestForgedRedirects(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	client, evil := b.Host("client"), b.add("evil", network+"66")
	c, err := client.dial(VIP + ":" + itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	before := accepted(client)
	victim := netip.MustParseAddrPort(c.LocalAddr().String())
	from := func(addr string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(addr), port) }
	forged := func(src netip.AddrPort, dst netip.AddrPort, ack uint32) Segment {
		return Segment{Src: src, Dst: dst, Flags: synFlag | ackFlag, Seq: 1, Ack: ack, Options: vipOption}
	}
	for i := range uint32(50) { // a live connection, and one that never was
		must(t, evil.Inject(forged(from(evil.Addr), victim, i), forged(from(evil.Addr), netip.AddrPortFrom(victim.Addr(), 4242), i)))
	}
	if got := client.Counter("client_forged_no_pending"); got != 100 {
		t.Errorf("C-92: %d of 100 forged redirects refused for want of a waiting SYN", got)
	}
	must(t, c.ask("the live connection goes on"))
	taken := accepted(client) - before
	broke := b.attackAll(t, evil)
	before = accepted(client)

	// A waiting connection: nobody answers, the attacker guesses.
	b.Host("lb").Apply(func(c *Config) { c.VIPs[0]["backends"] = []any{} })
	w := b.Watch("client")
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		_ = client.Inside(func() error {
			if c, err := net.DialTimeout("tcp4", VIP+":"+itoa(port), 8*time.Second); err == nil {
				t.Errorf("a connection without server came about: %v", c.RemoteAddr())
			}
			return nil
		})
	}()
	syn := waitForSYN(t, w)
	for i := range uint32(50) {
		must(t, evil.Inject(forged(from(evil.Addr), syn.Src, syn.Seq+2+i))) // wrong ack
	}
	outside := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.66"), port)
	must(t, evil.Inject(forged(outside, syn.Src, syn.Seq+1))) // right ack, wrong server
	wg.Wait()
	if got := client.Counter("client_forged_ack"); got != 50 {
		t.Errorf("C-90: %d of 50 wrong acks refused", got)
	}
	if got := client.Counter("client_forged_dip"); got != 1 {
		t.Errorf("C-91: %d of 1 redirect from outside the prefixes refused", got)
	}
	Measure(t, "crab_forged_redirects_accepted", float64(accepted(client)-before+taken)+float64(broke))
	Measure(t, "crab_forged_redirects_tried", float64(evil.injected))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func waitForSYN(t *testing.T, w *Watch) Frame {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if f := w.Frames(func(f Frame) bool { return !f.ToHost && f.Flags&(synFlag|ackFlag) == synFlag }); len(f) > 0 {
			return f[len(f)-1]
		}
	}
	t.Fatal("no SYN left the client")
	return Frame{}
}

// C-28, C-34, C-93, C-94: forged options in SYNs.
func TestForgedOptions(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	b.StartAll(port, nil)
	s1, evil := b.Host("s1"), b.add("evil", network+"66")
	s1.Echo(port)
	w := b.Watch("evil")
	me := netip.AddrPortFrom(netip.MustParseAddr(evil.Addr), 5555)
	server := netip.AddrPortFrom(netip.MustParseAddr(s1.Addr), port)
	vip := netip.AddrPortFrom(netip.MustParseAddr(VIP), port)
	foreign := []byte{0x2a, 6, 192, 0, 2, 9, 1, 1}
	must(t, evil.Inject(Segment{Src: me, Dst: server, Flags: synFlag, Seq: 7, Options: foreign}))
	me2 := netip.AddrPortFrom(me.Addr(), 5556)
	must(t, evil.Inject(Segment{Src: me2, Dst: vip, Flags: synFlag, Seq: 8, Options: foreign}))
	eventually(t, "both SYN-ACKs", func() bool {
		return len(w.Frames(func(f Frame) bool { return f.ToHost && f.Flags&synFlag != 0 })) >= 2
	})
	if got := s1.Counter("server_syn_not_allowed"); got == 0 {
		t.Error("C-34: an address that is not allowed was not counted")
	}
	if got := b.Host("lb").Counter("lb_foreign_redirect"); got == 0 {
		t.Error("C-28: a redirect from the network was not counted")
	}
	for _, f := range w.Frames(func(f Frame) bool { return f.ToHost && f.Flags&synFlag != 0 }) {
		echo := len(f.Options) >= 6 && f.Options[0] == 0x2a
		if f.Dst == me && echo {
			t.Errorf("C-34: an address that is not allowed was echoed: %v", f)
		}
		if f.Dst == me2 && (!echo || fmt.Sprint(f.Options[2:6]) != "[10 97 100 1]") {
			t.Errorf("C-28: the balancer must write the VIP dialled: %v", f)
		}
	}
}

// C-28: a VIP behind a trusted tier gets SYNs that this tier has redirected already; the server learns what the client
// dialled, and that is what it echoes.
func TestTrustedTier(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	b.StartAll(port, func(vip map[string]any) { vip["roles"] = "Balance+TrustedTier" })
	s1, tier := b.Host("s1"), b.add("tier", network+"66")
	first := []byte{0x2a, 6, 192, 0, 2, 9, 1, 1}
	s1.Apply(func(c *Config) { c.AllowEcho = append(c.AllowEcho, "192.0.2.9") })
	s1.Echo(port)
	w := b.Watch("tier")
	me := netip.AddrPortFrom(netip.MustParseAddr(tier.Addr), 5555)
	must(t, tier.Inject(Segment{Src: me, Dst: netip.AddrPortFrom(netip.MustParseAddr(VIP), port), Flags: synFlag, Seq: 7, Options: first}))
	var answers []Frame
	eventually(t, "the SYN-ACK", func() bool {
		answers = w.Frames(func(f Frame) bool { return f.ToHost && f.Flags&(synFlag|ackFlag) == synFlag|ackFlag })
		return len(answers) > 0
	})
	if f := answers[0]; f.Src.Addr().String() != s1.Addr || len(f.Options) < 8 || fmt.Sprint(f.Options[:6]) != fmt.Sprint(first[:6]) {
		t.Errorf("C-28: answered with %v, want an echo of what the tier wrote", f)
	}
	if n := b.Host("lb").Counter("lb_foreign_redirect"); n != 0 {
		t.Errorf("C-28: %d redirects of a trusted tier count as foreign", n)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within %s", what, patience)
}
