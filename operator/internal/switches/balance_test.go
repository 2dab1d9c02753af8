// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/bobtail-dev/bobtail/e2e/switchpeer/pipe"
	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// programmed is the checker with a shipped program, which takes what is written to a switch.
type programmed struct {
	*pipe.Pipe
	info *Info
	t    *testing.T
}

func newProgrammed(t *testing.T, name string) programmed {
	t.Helper()
	sources, err := pipe.Sources("../../../dataplane/p4/" + name)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := pipe.Archive(sources)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := pipe.Read(sources)
	if err != nil {
		t.Fatal(err)
	}
	p := programmed{Pipe: pipe.New(), t: t}
	t.Cleanup(p.Close)
	if err := p.Load(&p4.ForwardingPipelineConfig{P4Info: prog.P4Info(), P4DeviceConfig: archive}); err != nil {
		t.Fatal(err)
	}
	if p.info, err = NewInfo(prog.P4Info()); err != nil {
		t.Fatal(err)
	}
	return p
}

// hold has it hold what is wanted in the place of what it held, in the order in which a keeper writes.
func (p programmed) hold(held, wanted []Entry) {
	p.t.Helper()
	for n := range held { // as a switch tells them back
		held[n].metadata = ours
	}
	for _, step := range Compare(wanted, held, Owner{Tag: ours}, Ranks).Steps {
		for _, w := range step {
			do := p.Put
			if w.Kind == p4.Update_DELETE {
				do = p.Remove
			}
			if err := do(w.Update().GetEntity()); err != nil {
				p.t.Fatalf("%s: %v", w.Entry, err)
			}
		}
	}
}

// pass is one frame through it, at a time of its clock.
func (p programmed) pass(port uint64, now uint64, frame []byte) (out []model.Frame) {
	p.Look(func(m *model.Machine) {
		m.Now = now
		out, _ = m.Run(model.Frame{Port: port, Data: frame}, 4)
	})
	return out
}

func (p programmed) count(c Cell) uint64 {
	n, there := p.Count(c.ID, c.Index)
	if !there {
		p.t.Fatalf("there is no counter %+v", c)
	}
	return n
}

const vipPort = 80

var vipAddress = netip.MustParseAddr("192.0.2.9")

// syn is a client's, with the placeholder of a redirection, or without one.
func syn(client uint16, seq uint32, flags byte, placeholder bool) []byte {
	options := []byte{2, 4, 5, 180}
	if placeholder {
		options = append(options, 0x2a, 6, 0, 0, 0, 0, 1, 1)
	}
	ip := make([]byte, 40, 52)
	ip = append(ip, options...)
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], []byte{198, 18, 0, 1})
	vip := vipAddress.As4()
	copy(ip[16:], vip[:])
	binary.BigEndian.PutUint16(ip[20:], client)
	binary.BigEndian.PutUint16(ip[22:], vipPort)
	binary.BigEndian.PutUint32(ip[24:], seq)
	ip[32], ip[33] = byte((20+len(options))/4<<4), flags
	binary.BigEndian.PutUint16(ip[10:], ^fold(ip[:20], 0))
	binary.BigEndian.PutUint16(ip[36:], ^fold(ip[20:], fold32(ip[12:20])+6+uint32(len(ip)-20)))
	return bed.Packet(ip)
}

func fold32(b []byte) (n uint32) {
	for i := 0; i+1 < len(b); i += 2 {
		n += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return n
}

func fold(b []byte, more uint32) uint16 {
	n := fold32(b) + more
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return uint16(n)
}

func vip(name string, port uint16, weights ...int) VIP {
	v := VIP{Name: "demo/" + name, Version: "one", At: netip.AddrPortFrom(vipAddress, port), OwnMAC: 0x0200000000ff}
	for n, w := range weights {
		v.Servers = append(v.Servers, Server{Address: netip.AddrFrom4([4]byte{10, 1, 0, byte(n + 1)}), Weight: w, NextHop: NextHop{MAC: 0x020000020000 + uint64(n), Port: uint32(10 + n)}})
	}
	return v
}

func crabFabric() Fabric {
	return Fabric{Ports: []uint32{1, 10, 11, 12}, NextHops: []NextHop{{0x020000010000, 1}}, Pool: []netip.Prefix{netip.MustParsePrefix("192.0.2.8/29")}, MAC: 0x0200000000ff}
}

// What the operator writes redirects every SYN of 1,000 connections, each to a server by its weight, with the VIP in its
// option and checksums that hold (C-20 to C-22); a repeated one goes where the first one went (C-25).
func TestBalance(t *testing.T) {
	p := newProgrammed(t, "crab")
	if got := p.info.Program(); got != ProgramCRAB {
		t.Fatalf("the program is %q", got)
	}
	wanted, err := p.info.Entries(crabFabric())
	if err != nil {
		t.Fatal(err)
	}
	plan := p.info.PlanVIPs(nil, nil, []VIP{vip("web", vipPort, 2, 1, 1)})
	if len(plan.Refused) > 0 || plan.Numbers["192.0.2.9:80"] != 1 {
		t.Fatalf("%v, %v", plan.Refused, plan.Numbers)
	}
	wanted = append(wanted, plan.Entries...)
	p.hold(nil, wanted)
	by, first := map[uint64]int{}, map[uint32]uint64{}
	for n := range uint32(1000) {
		out := p.pass(1, uint64(n)*10, syn(uint16(20000+n), n*7919, 2, true))
		if len(out) != 1 {
			t.Fatalf("connection %d: %d frames leave", n, len(out))
		}
		ip := out[0].Data[14:]
		server := uint64(ip[19])
		if out[0].Port != 9+server || binary.BigEndian.Uint32(ip[46:]) != uint32(number(vipAddress)) || bed.TCPRest(ip) != 0 || !bed.IPSound(ip) {
			t.Fatalf("connection %d leaves by port %d: %x", n, out[0].Port, ip)
		}
		by[out[0].Port]++
		first[n] = out[0].Port
	}
	for n, port := range first {
		if again := p.pass(1, 20_000, syn(uint16(20000+n), n*7919, 2, true)); len(again) != 1 || again[0].Port != port {
			t.Fatalf("connection %d: its second SYN goes elsewhere", n)
		}
	}
	if by[10] != 500 || by[11] != 250 || by[12] != 250 {
		t.Errorf("connections by port: %v", by)
	}
	p.redirectedOnly(t)
	p.withoutAServer(t, plan, wanted)
}

// redirectedOnly: what is no SYN with a placeholder goes nowhere.
func (p programmed) redirectedOnly(t *testing.T) {
	t.Helper()
	for what, frame := range map[string][]byte{"no SYN": syn(20001, 1, 16, true), "without a placeholder": syn(20002, 1, 2, false)} {
		if out := p.pass(1, 99999, frame); len(out) != 0 {
			t.Errorf("%s: %d frames leave", what, len(out))
		}
	}
	sums := map[Fate]uint64{}
	for cell, fate := range p.info.VIPCells(1) {
		sums[fate] += p.count(cell)
	}
	if sums[Redirected] != 2000 || sums[Unredirected] != 2 || sums[Malformed] != 0 {
		t.Errorf("%v", sums)
	}
}

// withoutAServer: one goes, nobody is sent there, and the VIP keeps its number.
func (p programmed) withoutAServer(t *testing.T, plan BalancePlan, wanted []Entry) {
	t.Helper()
	less := vip("web", vipPort, 2, 1)
	after := p.info.PlanVIPs(plan.Numbers, wanted, []VIP{less})
	fabric, _ := p.info.Entries(crabFabric())
	p.hold(wanted, append(fabric, after.Entries...))
	for n := range uint32(300) {
		if out := p.pass(1, 1e7+uint64(n), syn(uint16(30000+n), n, 2, true)); len(out) != 1 || out[0].Port == 12 {
			t.Fatalf("connection %d: %v", n, out)
		}
	}
	p.hold(append(fabric, after.Entries...), fabric)
	if out := p.pass(1, 2e7, syn(40000, 1, 2, true)); len(out) != 0 {
		t.Error("a VIP that is gone is redirected")
	}
}

// Numbers stay with VIPs through restarts, are nobody's twice, and what does not fit is refused with the number that would.
func TestPlanVIPs(t *testing.T) {
	i := infoOf(t, "crab")
	a, b, c := vip("a", 80, 1), vip("b", 81, 1), vip("c", 82, 1)
	first := i.PlanVIPs(nil, nil, []VIP{a, b})
	restarted := i.PlanVIPs(nil, first.Entries, []VIP{c, b})
	if restarted.Numbers["192.0.2.9:81"] != first.Numbers["192.0.2.9:81"] || restarted.Numbers["192.0.2.9:82"] == first.Numbers["192.0.2.9:80"] {
		t.Errorf("after a restart %v, before %v", restarted.Numbers, first.Numbers)
	}
	six := vip("six", 80, 1)
	six.At = netip.MustParseAddrPort("[fd00::9]:80")
	heavy := vip("heavy", 83, 4000, 97)
	var most []VIP
	for n := range VIPs - 1 {
		most = append(most, vip(fmt.Sprint("m", n), uint16(1000+n), 1))
	}
	for name, row := range map[string]struct {
		all  []VIP
		want string
	}{
		"IPv6":           {[]VIP{six}, "six: [fd00::9]:80: the switch knows IPv4 alone"},
		"turns":          {[]VIP{heavy}, "heavy: 192.0.2.9:83: 2 servers of 4097 turns together, and at most 4096 fit"},
		"255 addresses":  {most, ""},
		"one more":       {append(most, a), "a: 192.0.2.9:80: the switch has room for 255 addresses with their ports"},
		"without server": {[]VIP{vip("none", 80)}, ""},
	} {
		var got []string
		for of, why := range i.PlanVIPs(nil, nil, row.all).Refused {
			got = append(got, strings.TrimPrefix(of, "demo/")+": "+why)
		}
		if strings.Join(got, "; ") != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	// What cannot be keeps what it has.
	worse := a
	worse.Servers = heavy.Servers
	kept := i.PlanVIPs(first.Numbers, first.Entries, []VIP{worse, b})
	if len(kept.Refused) != 1 || len(kept.Entries) != len(first.Entries) {
		t.Errorf("%v; %d entries of %d", kept.Refused, len(kept.Entries), len(first.Entries))
	}
	random := vip("r", 80, 3, 1)
	random.Random = true
	if n := len(random.turns()); n != 64 {
		t.Errorf("a ring of %d turns by chance", n)
	}
}

func infoOf(t *testing.T, program string) *Info {
	t.Helper()
	p, err := model.Load("../../../dataplane/p4/"+program+"/v1model.p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	i, err := NewInfo(p.P4Info())
	if err != nil {
		t.Fatal(err)
	}
	return i
}
