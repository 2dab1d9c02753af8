// SPDX-License-Identifier: Apache-2.0

//go:build crab

package redirect

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// What measure/bench/crab_syn.py sets: where the compiled peers are (e2e/bench/crab),
// a device on a network with a route to 10.2.0.0/24, how often, and where the result goes.
const synCostVariable = "CRAB_SYN_COST"

type synCost struct {
	Peers, Device, Out string
	Rounds, Repeat     int
	// Other is the other end of Device, a veth. With it, frames are sent as well: as many as Live, each round.
	Other string
	Live  int
}

const (
	xdpTX      = 3
	synServers = 4
)

// What is timed; each is refill (a fresh SYN) and then the program. A frame with a placeholder is 8 bytes longer.
var synSubjects = []string{"nothing-placeholder", "crab", "nothing", "dnat"}

type synBench struct {
	synCost
	t        *testing.T
	index    uint32
	refill   *ebpf.Program
	drop     *ebpf.Program
	plans    *ebpf.Map
	programs map[string]*ebpf.Program
	frames   map[string][]byte
}

// TestSYNCost times the XDP path of a SYN and that of a DNAT program, interleaved; make bench-crab runs it.
func TestSYNCost(t *testing.T) {
	raw := os.Getenv(synCostVariable)
	if raw == "" {
		t.Skip(synCostVariable + " is not set: make bench-crab runs this")
	}
	b := &synBench{t: t}
	b.must(json.Unmarshal([]byte(raw), &b.synCost))
	b.load()
	for _, subject := range synSubjects {
		b.check(subject)
	}
	b.join()
	var rounds []map[string]float64
	for i := range b.Rounds {
		nanoseconds := map[string]float64{}
		for k := range synSubjects {
			subject := synSubjects[k]
			if i%2 == 1 {
				subject = synSubjects[len(synSubjects)-1-k]
			}
			nanoseconds[subject] = b.time(subject)
			if b.Other != "" {
				nanoseconds[subject+"-live"] = b.live(subject)
			}
		}
		rounds = append(rounds, nanoseconds)
	}
	out, err := json.Marshal(map[string]any{"rounds": rounds, "programs": b.sizes()})
	b.must(err)
	b.must(os.WriteFile(b.Out, append(out, '\n'), 0o644))
}

func (b *synBench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%+v", err)
	}
}

func (b *synBench) collection(file string) *ebpf.Collection {
	spec, err := ebpf.LoadCollectionSpec(filepath.Join(b.Peers, file))
	b.must(err)
	c, err := ebpf.NewCollection(spec)
	b.must(err)
	b.t.Cleanup(c.Close)
	return c
}

func (b *synBench) load() {
	device, err := net.InterfaceByName(b.Device)
	b.must(err)
	b.index = uint32(device.Index)
	node := openTest(b.t, Options{Sizes: Sizes{Flows: 1024, Pending: 1024, Echoes: 1024, SYNs: 65536, DSR: 1024}})
	b.must(node.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleBalance, Backends: servers(synServers)}))
	crab, err := node.program("crab_lb_native")
	b.must(err)
	harness, peer := b.collection("refill.o"), b.collection("dnat.o")
	b.refill, b.drop, b.plans = harness.Programs["refill"], harness.Programs["drop"], harness.Maps["plans"]
	b.dnat(peer)
	b.programs = map[string]*ebpf.Program{"crab": crab, "dnat": peer.Programs["dnat"], "nothing": harness.Programs["nothing"],
		"nothing-placeholder": harness.Programs["nothing"]}
	b.frames = map[string][]byte{}
	for at, subject := range synSubjects {
		p := packet{src: netip.MustParseAddr("10.1.0.0"), dst: testVIP, dport: 80, flags: syn, options: linuxSYN}
		if at < 2 {
			p.options = marked()
		}
		b.frames[subject] = p.bytes()
		b.must(harness.Maps["subjects"].Put(uint32(at), b.programs[subject]))
	}
}

// dnat gives the peer the same service and servers.
func (b *synBench) dnat(peer *ebpf.Collection) {
	key := append(testVIP.AsSlice(), 0, 80, 0, 0)
	b.must(peer.Maps["services"].Put(key, uint32(synServers)))
	for i, s := range servers(synServers) {
		b.must(peer.Maps["servers"].Put(uint32(i), s.Addr.AsSlice()))
	}
}

// choose makes refill give the subject's frames to the subject.
func (b *synBench) choose(subject string) {
	frame := append([]byte{}, b.frames[subject]...)
	ip, tcp := frame[14:34], frame[34:]
	clear(ip[10:12])
	clear(tcp[16:18])
	plan := make([]byte, 92)
	copy(plan, frame)
	// sum reads big endian: what is put there must be in the order of the frame.
	binary.BigEndian.PutUint16(plan[82:], sum(ip))
	binary.BigEndian.PutUint16(plan[84:], sum(append(pseudo(ip, len(tcp)), tcp...)))
	for at, s := range synSubjects {
		if s == subject {
			binary.NativeEndian.PutUint32(plan[88:], uint32(at))
		}
	}
	b.must(b.plans.Put(uint32(0), plan))
}

// xdpMD is the context of a test run, testRun the kernel's request for it: the library's form of it tells no duration.
type (
	xdpMD   struct{ Data, DataEnd, DataMeta, Ingress, Queue, Egress uint32 }
	testRun struct {
		program, verdict, sizeIn, sizeOut uint32
		in, out                           unsafe.Pointer
		repeat, duration, ctxIn, ctxOut   uint32
		ctx, ctxAfter                     unsafe.Pointer
		flags, cpu, batch, pad            uint32
	}
)

// run gives so many frames to the subject; what is left of the last one, and the kernel's nanoseconds for each.
func (b *synBench) run(subject string, repeat int) ([]byte, uint32) {
	out := make([]byte, 256)
	r := testRun{sizeOut: uint32(len(out)), out: unsafe.Pointer(&out[0])}
	b.ask(subject, repeat, &r)
	if r.verdict != xdpTX {
		b.t.Fatalf("%s: verdict %d, want XDP_TX: is there a route to %s by %s?", subject, r.verdict, servers(1)[0].Addr, b.Device)
	}
	return out[:r.sizeOut], r.duration
}

// ask has the kernel run refill, and so the subject; r says what is wanted back, and then holds it.
func (b *synBench) ask(subject string, repeat int, r *testRun) {
	b.choose(subject)
	frame := b.frames[subject]
	ctx := xdpMD{DataEnd: uint32(len(frame)), Ingress: b.index}
	r.program, r.sizeIn, r.in = uint32(b.refill.FD()), uint32(len(frame)), unsafe.Pointer(&frame[0])
	r.repeat, r.ctxIn, r.ctx = uint32(repeat), uint32(unsafe.Sizeof(ctx)), unsafe.Pointer(&ctx)
	errno := unix.EINTR
	for errno == unix.EINTR {
		_, _, errno = unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(r)), unsafe.Sizeof(*r))
	}
	if errno != 0 {
		b.t.Fatalf("%s: test run: %v", subject, errno)
	}
}

// check looks at one frame of a subject: sent to a server, right checksums.
func (b *synBench) check(subject string) {
	for i := range 2 * synServers {
		out, _ := b.run(subject, 1)
		got := parse(b.t, out)
		if !got.sums {
			b.t.Fatalf("%s: frame %d leaves with wrong checksums: %v", subject, i, got)
		}
		want := servers(synServers)[i%synServers].Addr
		if b.programs[subject] == b.programs["nothing"] {
			want = testVIP
		}
		if got.dst != want {
			b.t.Fatalf("%s: frame %d goes to %s, want %s", subject, i, got.dst, want)
		}
	}
}

// time is nanoseconds per frame.
func (b *synBench) time(subject string) float64 {
	_, took := b.run(subject, b.Repeat)
	return float64(took)
}

// sizes of the programs as the kernel holds them.
func (b *synBench) sizes() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, name := range []string{"crab", "dnat"} {
		info, err := b.programs[name].Info()
		b.must(err)
		all[name] = map[string]int{}
		if n, ok := info.VerifiedInstructions(); ok {
			all[name]["verified"] = int(n)
		}
		if code, err := info.Instructions(); err == nil {
			all[name]["instructions"] = len(code)
		}
		if size, err := info.JitedSize(); err == nil {
			all[name]["jitedBytes"] = int(size)
		}
	}
	return all
}
