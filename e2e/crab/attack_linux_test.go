// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"bytes"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// foreign is an address that is nobody's, and outside of all prefixes.
func (b *Bed) foreign() string { return b.either("192.0.2.66", "2001:db8::66") }

// option is a redirect that names an address of the bed's family (C-1, C-9).
func (b *Bed) option(addr string) []byte {
	a := netip.MustParseAddr(addr).AsSlice()
	return append(append([]byte{42, byte(2 + len(a))}, a...), 1, 1)
}

// accepted counts redirects the client's host believed.
func accepted(h *Host) uint64 { return h.Counter("client_synack_accepted") }

func atPort(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}

// C-90, C-91, C-92, C-101: forged redirects against waiting, unknown and live connections, and forged SYNs against live ones.
func testForgedRedirects(t *testing.T, b *Bed) {
	client, evil := b.Host("client"), b.Host("evil")
	c, err := client.dial(b.target())
	must(t, err)
	before := accepted(client)
	victim := netip.MustParseAddrPort(c.LocalAddr().String())
	for i := range uint32(50) { // a live connection, and one that never was
		must(t, evil.Inject(evil.forged(victim, i), evil.forged(netip.AddrPortFrom(victim.Addr(), 4242), i)))
	}
	eventually(t, "100 forged redirects are refused for want of a waiting SYN (C-92)", func() bool { return client.Counter("client_forged_no_pending") == 100 })
	must(t, c.ask("the live connection goes on"))
	taken := accepted(client) - before
	broke := b.attackAll(t, evil)
	before = accepted(client)
	b.attackWaiting(t, evil)
	MeasureMore(t, "crab_forged_redirects_accepted", float64(accepted(client)-before+taken)+float64(broke))
	MeasureMore(t, "crab_forged_redirects_tried", float64(evil.injected))
}

// forged is a redirect of the VIP to this host.
func (h *Host) forged(dst netip.AddrPort, ack uint32) Segment {
	return Segment{Src: atPort(h.Addr, port), Dst: dst, Flags: synFlag | ackFlag, Seq: 1, Ack: ack, Options: h.bed.option(h.bed.vip)}
}

// attackWaiting plays against a connection that nobody answers: the attacker guesses.
func (b *Bed) attackWaiting(t *testing.T, evil *Host) {
	t.Helper()
	b.hub("nft", "add table netdev box; add chain netdev box in { type filter hook ingress device vlb priority 0; }; add rule netdev box in "+b.fromClient()+"drop")
	client, w := b.Host("client"), b.Watch("client")
	var wg sync.WaitGroup
	wg.Go(func() {
		if c, err := client.dialWithin(b.target(), 8*time.Second); err == nil {
			t.Errorf("a connection without server came about: %v", c.RemoteAddr())
		}
	})
	syn := waitForSYN(t, w)
	for i := range uint32(50) {
		must(t, evil.Inject(evil.forged(syn.Src, syn.Seq+2+i))) // wrong ack
	}
	outside := evil.forged(syn.Src, syn.Seq+1) // right ack, wrong server
	outside.Src = atPort(b.foreign(), port)
	must(t, evil.Inject(outside))
	wg.Wait()
	b.hub("nft", "delete table netdev box")
	if got := client.Counter("client_forged_ack"); got != 50 {
		t.Errorf("C-90: %d of 50 wrong acks refused", got)
	}
	if got := client.Counter("client_forged_dip"); got != 1 {
		t.Errorf("C-91: %d of 1 redirect from outside the prefixes refused", got)
	}
}

func must(t testing.TB, err error) {
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

// C-3, C-28, C-34, C-93, C-94: forged options in SYNs.
func testForgedOptions(t *testing.T, b *Bed) {
	s1, evil := b.Host("s1"), b.Host("evil")
	w, before := b.Watch("evil"), b.balancer.counted()
	foreign := b.option(b.foreign())
	direct, viaVIP, garbage := atPort(evil.Addr, 5555), atPort(evil.Addr, 5556), atPort(evil.Addr, 5557)
	must(t, evil.Inject(Segment{Src: direct, Dst: atPort(s1.Addr, port), Flags: synFlag, Seq: 7, Options: foreign}))
	must(t, evil.Inject(Segment{Src: viaVIP, Dst: atPort(b.vip, port), Flags: synFlag, Seq: 8, Options: foreign}))
	must(t, evil.Inject(Segment{Src: garbage, Dst: atPort(b.vip, port), Flags: synFlag, Seq: 9, Options: []byte{42, 40, 0, 0}}))
	answers := map[netip.AddrPort]Frame{}
	eventually(t, "three SYN-ACKs", func() bool {
		for _, f := range w.Frames(func(f Frame) bool { return f.ToHost && f.Flags&synFlag != 0 }) {
			answers[f.Dst] = f
		}
		return len(answers) == 3
	})
	if got := s1.Counter("server_syn_not_allowed"); got == 0 {
		t.Error("C-34: an address that is not allowed was not counted")
	}
	if n := b.balancer.counted().since(before); n.foreign != 1 || n.malformed != 1 {
		t.Errorf("C-28: the balancer counted %+v, want one redirect from the network, C-3: and one list of options that ends in garbage", n)
	}
	for _, f := range []Frame{answers[direct], answers[garbage]} {
		if bytes.Contains(f.Options, []byte{42, foreign[1]}) {
			t.Errorf("C-34: an address that is not allowed was echoed: %v", f)
		}
	}
	if f := answers[viaVIP]; !bytes.HasPrefix(f.Options, b.option(b.vip)[:foreign[1]]) || f.Src.Addr().String() == b.vip {
		t.Errorf("C-28: the balancer must write the VIP dialled: %v", f)
	}
}

// C-28: a VIP behind a trusted tier gets SYNs that this tier has redirected already; the server learns what the client
// dialled, and that is what it echoes.
func TestTrustedTier(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	b.StartAll(port, func(vip map[string]any) { vip["roles"] = "Balance+TrustedTier" })
	s1, tier := b.Host("s1"), b.add("tier", network+"66")
	first := b.option(b.foreign())
	s1.Apply(func(c *Config) { c.AllowEcho = append(c.AllowEcho, b.foreign()) })
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

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within %s", what, patience)
}
