// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

var testSizes = Sizes{Flows: 1024, Pending: 1024, Echoes: 1024, SYNs: 1024, DSR: 1024}

// openTest gives a node on a bpffs of its own; it skips where that cannot be.
func openTest(t testing.TB, o Options) *Node {
	t.Helper()
	privileged.Need(t, "loads eBPF programs")
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		privileged.Lacking(t, "cannot mount a bpffs: "+err.Error())
	}
	o.Root = filepath.Join(dir, "node")
	if o.Sizes == (Sizes{}) {
		o.Sizes = testSizes
	}
	n, err := Open(o)
	t.Cleanup(func() {
		if n != nil {
			n.Close()
		}
		_ = Remove(o.Root)
		_ = unix.Unmount(dir, 0)
	})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	return n
}

const (
	fin = 0x01
	syn = 0x02
	rst = 0x04
	ack = 0x10
)

// packet is an Ethernet frame with TCP over the IP of its addresses, as a test wants it.
type packet struct {
	src, dst     netip.Addr
	sport, dport uint16
	flags        byte
	seq, ack     uint32
	options      []byte // padded with NOPs to a multiple of 4
	data         []byte
	ipOptions    []byte // IPv6: an extension header
	fragment     uint16 // IPv6: not 0 makes a fragment header
	proto        byte
}

func (p packet) bytes() []byte {
	options := append([]byte{}, p.options...)
	for len(options)%4 != 0 {
		options = append(options, 1)
	}
	tcp := make([]byte, 20)
	binary.BigEndian.PutUint16(tcp, p.sport)
	binary.BigEndian.PutUint16(tcp[2:], p.dport)
	binary.BigEndian.PutUint32(tcp[4:], p.seq)
	binary.BigEndian.PutUint32(tcp[8:], p.ack)
	tcp[12], tcp[13] = byte(20+len(options))/4<<4, p.flags
	tcp = append(append(tcp, options...), p.data...)
	ip, ethertype := p.ip4(len(tcp)), []byte{8, 0}
	if p.src.Is6() {
		ip, ethertype = p.ip6(len(tcp)), []byte{0x86, 0xdd}
	}
	binary.BigEndian.PutUint16(tcp[16:], ^sum(append(pseudo(ip, len(tcp)), tcp...)))
	frame := append(append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, ethertype...), ip...)
	return append(frame, tcp...)
}

func (p packet) ip4(tcp int) []byte {
	ip := make([]byte, 20+len(p.ipOptions))
	ip[0], ip[8], ip[9] = 0x40|byte(len(ip)/4), 64, 6
	if p.proto != 0 {
		ip[9] = p.proto
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+tcp))
	binary.BigEndian.PutUint16(ip[6:], p.fragment)
	copy(ip[12:], p.src.AsSlice())
	copy(ip[16:], p.dst.AsSlice())
	copy(ip[20:], p.ipOptions)
	binary.BigEndian.PutUint16(ip[10:], ^sum(ip))
	return ip
}

func (p packet) ip6(tcp int) []byte {
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, 6, 64
	if p.proto != 0 {
		ip[6] = p.proto
	}
	copy(ip[8:], p.src.AsSlice())
	copy(ip[24:], p.dst.AsSlice())
	if p.fragment != 0 {
		ip[6] = 44
		ip = append(ip, 6, 0, byte(p.fragment>>8), byte(p.fragment), 0, 0, 0, 1)
	} else if p.ipOptions != nil {
		ip[6] = 60
		ip = append(ip, 6, 0, 1, 4, 0, 0, 0, 0) // destination options: padding
	}
	binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40+tcp))
	return ip
}

func pseudo(ip []byte, tcpLen int) []byte {
	addrs := ip[12:20]
	if ip[0]>>4 == 6 {
		addrs = ip[8:40]
	}
	return append(append([]byte{}, addrs...), 0, 6, byte(tcpLen>>8), byte(tcpLen))
}

func sum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(b[i]) << 8
		if i+1 < len(b) {
			s += uint32(b[i+1])
		}
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// parsed is what a program left; sums tells whether both checksums are right.
type parsed struct {
	src, dst netip.Addr
	options  []byte
	data     []byte
	flags    byte
	ttl      byte
	sums     bool
	lengths  bool // IP total length is the frame's
}

func parse(t *testing.T, frame []byte) parsed {
	t.Helper()
	ip := frame[14:]
	head, total, at, size, sums := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:])), 12, 4, true
	ttl := ip[8]
	if ip[0]>>4 == 6 {
		head, total, at, size, ttl = 40, 40+int(binary.BigEndian.Uint16(ip[4:])), 8, 16, ip[7]
	} else {
		sums = sum(ip[:head]) == 0xffff
	}
	if total > len(ip) || total < head+20 {
		t.Fatalf("IP total length %d in a frame of %d", total, len(frame))
	}
	src, _ := netip.AddrFromSlice(ip[at : at+size])
	dst, _ := netip.AddrFromSlice(ip[at+size : at+2*size])
	tcp := ip[head:total]
	doff := int(tcp[12]>>4) * 4
	return parsed{
		src: src, dst: dst, options: tcp[20:doff], data: tcp[doff:], flags: tcp[13], ttl: ttl, lengths: total == len(ip),
		sums: sums && sum(append(pseudo(ip, len(tcp)), tcp...)) == 0xffff,
	}
}

// run sends one packet through a program; the verdict and what is left of it.
func run(t *testing.T, n *Node, program string, p packet) (uint32, parsed) {
	t.Helper()
	verdict, out := runBytes(t, n, program, p.bytes())
	return verdict, parse(t, out)
}

func runBytes(t *testing.T, n *Node, program string, frame []byte) (uint32, []byte) {
	t.Helper()
	prog, err := n.program(program)
	if err == nil {
		err = n.enterSix(program) // as attaching it would
	}
	if err != nil {
		t.Fatalf("%+v", err)
	}
	verdict, out, err := prog.Test(frame)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return verdict, out
}

// next and shot are tc verdicts.
const (
	next = 0xffffffff
	shot = 2
)

// counted fails unless a reason was counted that often since the node was made.
func counted(t *testing.T, n *Node, want map[string]uint64) {
	t.Helper()
	got, err := n.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for reason, times := range want {
		if got[reason] != times {
			t.Errorf("%s counted %d times, want %d", reason, got[reason], times)
		}
	}
}

// linuxSYN is the option area of an ordinary Linux SYN: MSS, SACK, timestamps, window scale.
var linuxSYN = []byte{2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}

func clientNode(t *testing.T) *Node {
	n := sharedNode(t)
	err := n.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.2.0.0/16")}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
