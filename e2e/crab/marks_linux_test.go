// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// ciliumMarks are what Cilium writes into bits 8 to 11 of a packet's mark: to its proxy; from the proxy on ingress and on
// egress; from the host; to be decrypted, to be encrypted; and a pod's identity. An identity has the other bits.
var ciliumMarks = []uint32{0x0200, 0x0a00, 0x0b00, 0x0c00, 0x0d00, 0x0e00, 0x0f00}

const identity = 0x1234_0056

// Where a tc program finds them in its context.
const (
	skbMark     = 8
	skbProtocol = 16
)

// wire is where a family's packets say so, and that they are TCP.
type wire struct {
	number int32 // of Ethernet: network order, read as a word by a machine of little end
	next   int32 // where the number of TCP stands
}

func (b *Bed) wire() wire {
	if b.six() {
		return wire{0xdd86, 14 + 6}
	}
	return wire{0x0008, 14 + 9}
}

// marks are stand-ins for Cilium's programs on one host: those of ingress mark each TCP packet, those of egress note the
// marks they meet on one. They come behind ours and end the chain, as Cilium's do. What the kernel itself says, to find
// its neighbours, has no mark and is not looked at.
type marks struct {
	wire        wire
	write, seen *ebpf.Map
}

func newMarks(t *testing.T, w wire) *marks {
	t.Helper()
	m := &marks{wire: w}
	var err error
	m.write, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(t, err)
	m.seen, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 64})
	must(t, err)
	t.Cleanup(func() { m.write.Close(); m.seen.Close() })
	return m
}

// ofTCP wraps what a stand-in does with TCP packets of its family; R6 is the context.
func (w wire) ofTCP(body ...asm.Instruction) asm.Instructions {
	all := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, skbProtocol, asm.Word),
		asm.JNE.Imm(asm.R2, w.number, "end"),
		asm.Mov.Imm(asm.R2, w.next),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, 1),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R2, asm.RFP, -8, asm.Byte),
		asm.JNE.Imm(asm.R2, syscall.IPPROTO_TCP, "end"),
	}
	return append(append(all, body...), asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
}

// keyOnStack puts R3 where R2 then points to.
func keyOnStack() []asm.Instruction {
	return []asm.Instruction{asm.StoreMem(asm.RFP, -4, asm.R3, asm.Word), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4)}
}

func (m *marks) marker() asm.Instructions {
	body := append([]asm.Instruction{asm.Mov.Imm(asm.R3, 0)}, keyOnStack()...)
	return m.wire.ofTCP(append(body, asm.LoadMapPtr(asm.R1, m.write.FD()), asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"), asm.LoadMem(asm.R3, asm.R0, 0, asm.Word), asm.StoreMem(asm.R6, skbMark, asm.R3, asm.Word))...)
}

func (m *marks) reader() asm.Instructions {
	body := append([]asm.Instruction{asm.LoadMem(asm.R3, asm.R6, skbMark, asm.Word)}, keyOnStack()...)
	return m.wire.ofTCP(append(body, asm.LoadMapPtr(asm.R1, m.seen.FD()), asm.Mov.Reg(asm.R3, asm.R2), asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call())...)
}

// hold puts both on a device of the host.
func (m *marks) hold(t *testing.T, h *Host, device string) {
	t.Helper()
	must(t, h.Inside(func() error {
		index, err := ifindex(device)
		if err != nil {
			return err
		}
		for hook, text := range map[ebpf.AttachType]asm.Instructions{ebpf.AttachTCXIngress: m.marker(), ebpf.AttachTCXEgress: m.reader()} {
			p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "stranger", Type: ebpf.SchedCLS, License: "MIT", Instructions: text})
			if err != nil {
				return fmt.Errorf("%v: %w", hook, err)
			}
			t.Cleanup(func() { p.Close() })
			l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: p, Attach: hook})
			if err != nil {
				return err
			}
			t.Cleanup(func() { l.Close() })
		}
		return nil
	}))
}

// met are the marks of packets that left the host since the last call.
func (m *marks) met(t *testing.T) []uint32 {
	t.Helper()
	all := map[uint32]bool{}
	var mark, nothing uint32
	for entries := m.seen.Iterate(); entries.Next(&mark, &nothing); {
		all[mark] = true
	}
	for mark := range all {
		must(t, m.seen.Delete(mark))
	}
	return slices.Sorted(maps.Keys(all))
}

// drained waits until packets of former connections, which have the former mark, have left: repeated ones, too.
func drained(t *testing.T, others map[*Host]*marks) {
	t.Helper()
	quiet := 0
	eventually(t, "former connections are over", func() bool {
		time.Sleep(150 * time.Millisecond)
		quiet++
		for _, m := range others {
			if len(m.met(t)) > 0 {
				quiet = 0
			}
		}
		return quiet > 1
	})
}

// Stand-ins for Cilium's programs that write a mark where packets come in, and read it where they leave: ours neither
// change it nor write one, and do the same whatever it says, for pods on two nodes, for those of one node, and through
// the second way a redirected packet takes through the device's programs.
func TestMarksOfOthers(t *testing.T) { eachFamily(t, 2, testMarksOfOthers) }

func testMarksOfOthers(t *testing.T, b *Bed) {
	n1, n2, lb := b.Host("s1"), b.Host("s2"), b.Host("lb")
	client, near, far := n1.pod("pc", b.podAddr(2)), n1.pod("pnear", b.podAddr(3)), n2.pod("pfar", b.podAddr(130))
	for name, h := range b.all {
		for node, net := range map[*Host]string{n1: b.podNet(0, 25), n2: b.podNet(128, 25)} {
			if node.Name != name {
				h.Run("ip", "route", "add", net, "via", node.Addr)
			}
		}
	}
	n1.config = Config{Devices: podDevices([]string{"client", "server"}, "pc", "pnear"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	n2.config = Config{Devices: podDevices([]string{"client", "server"}, "pfar"), VIPs: b.podVIP("Client", "UpCRAB"), AllowEcho: []string{b.vip}}
	lb.config = Config{Devices: uplink("balancer"), VIPs: b.podVIP("Balance", "UpCRAB", near, far)}
	others := map[*Host]*marks{}
	for h, devices := range map[*Host][]string{n1: {"eth0", "ppc", "ppnear"}, n2: {"eth0", "ppfar"}, lb: {"eth0"}} {
		h.Start()
		others[h] = newMarks(t, b.wire())
		for _, d := range devices {
			others[h].hold(t, h, d)
		}
	}
	near.Echo(port)
	far.Echo(port)
	plain := b.join("plain", "9") // hashed, by the balancer's tc program
	plain.Run("ip", "route", "add", b.podNet(0, 25), "via", n1.Addr)
	plain.Run("ip", "route", "add", b.podNet(128, 25), "via", n2.Addr)
	for round, magic := range ciliumMarks {
		mark := magic | identity
		for _, m := range others {
			must(t, m.write.Put(uint32(0), mark))
		}
		drained(t, others)
		if seen := client.mustTalk(t, 4); seen["pnear"] == 0 || seen["pfar"] == 0 {
			t.Errorf("mark %#x: the pod met %v", mark, seen)
		}
		plain.mustTalk(t, 2)
		for _, h := range []*Host{n1, n2} {
			if met := others[h].met(t); !slices.Equal(met, []uint32{mark}) {
				t.Errorf("%s: packets came in with mark %#x and left with %#x", h.Name, mark, met)
			}
		}
		if met := others[lb].met(t); !slices.Equal(met, []uint32{0}) && !slices.Equal(met, []uint32{0, mark}) {
			t.Errorf("the balancer sent packets with marks %#x of its own", met)
		}
		if n := lb.Counter("lb_syn_redirected"); n < uint64(4*(round+1)) { // on a busy machine some come again
			t.Errorf("mark %#x: %d SYNs redirected by now, want %d", mark, n, 4*(round+1))
		}
	}
}
