// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// randomData gives a packet numbers and data that differ each time: its checksum does, too.
func randomData(p packet) packet {
	p.seq, p.ack, p.options = rand.Uint32(), rand.Uint32(), []byte{1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0}
	p.data = make([]byte, rand.IntN(100))
	for i := range p.data {
		p.data[i] = byte(rand.Uint32())
	}
	binary.NativeEndian.PutUint32(p.options[4:], rand.Uint32())
	return p
}

// C-70: data keeps a right checksum in both directions, whatever it was.
func TestTranslatedChecksumsAreRight(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		for range 300 {
			out, in := randomData(sentData()), randomData(gotData(testDIP))
			if _, got := run(t, n, "crab_client_out_pod", out); got.dst != testDIP || !got.sums {
				t.Fatalf("%+v goes to %s, sums %v", out, got.dst, got.sums)
			}
			if _, got := run(t, n, "crab_client_in", in); got.src != testVIP || !got.sums {
				t.Fatalf("%+v seems to come from %s, sums %v", in, got.src, got.sums)
			}
		}
	})
}

// A device may sum all of a packet (CHECKSUM_COMPLETE): that sum follows what changes. The kernel compares it itself.
func TestDevicesSumFollows(t *testing.T) {
	onOneCPU(t)
	n := answered(t)
	summed := func(program string, p packet) parsed {
		prog, err := n.program(program)
		if err != nil {
			t.Fatal(err)
		}
		o := ebpf.RunOptions{Data: p.bytes(), DataOut: make([]byte, 256), Flags: unix.BPF_F_TEST_SKB_CHECKSUM_COMPLETE}
		if _, err := prog.Run(&o); err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		return parse(t, o.DataOut)
	}
	prog, err := n.program("crab_client_in")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prog.Run(&ebpf.RunOptions{Data: gotData(at("10.9.9.9")).bytes(), Flags: unix.BPF_F_TEST_SKB_CHECKSUM_COMPLETE}); err != nil {
		t.Skipf("this kernel's test run sums no packet (before 6.16): %v", err)
	}
	for range 200 {
		if got := summed("crab_client_out_pod", randomData(sentData())); got.dst != testDIP || !got.sums {
			t.Fatalf("sent to %s, sums %v", got.dst, got.sums)
		}
		if got := summed("crab_client_in", randomData(gotData(testDIP))); got.src != testVIP || !got.sums {
			t.Fatalf("received from %s, sums %v", got.src, got.sums)
		}
	}
}

// A kernel without type information loads the programs too: they ask the helper for every checksum.
func TestProgramsWithoutKernelTypes(t *testing.T) {
	onOneCPU(t)
	n := answered(t)
	spec := n.specs["crab_client"].Copy()
	for name, p := range spec.Programs {
		want := 2 // the question whether it is there, and the call
		if name == "crab_client_in_near" {
			want = 0 // the uplink's program translates what it finds
		}
		if cut := withoutFunction(p.Instructions, "bpf_cast_to_kern_ctx"); cut != want {
			t.Fatalf("%s names the kernel's function %d times, want %d", name, cut, want)
		}
	}
	o := ebpf.CollectionOptions{MapReplacements: n.used(spec)}
	o.Programs.KernelTypes = spec.Types
	for m := range o.MapReplacements {
		spec.Maps[m].MaxEntries = n.open(m).MaxEntries()
	}
	c, err := ebpf.NewCollectionWithOptions(spec, o)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer c.Close()
	for range 200 {
		_, out, err := c.Programs["crab_client_out_pod"].Test(randomData(sentData()).bytes())
		if got := parse(t, out); err != nil || got.dst != testDIP || !got.sums {
			t.Fatalf("%v: sent to %s, sums %v", err, got.dst, got.sums)
		}
		_, out, err = c.Programs["crab_client_in"].Test(randomData(gotData(testDIP)).bytes())
		if got := parse(t, out); err != nil || got.src != testVIP || !got.sums {
			t.Fatalf("%v: received from %s, sums %v", err, got.src, got.sums)
		}
	}
}

// withoutFunction makes of code what the loader makes of it where the kernel lacks a function.
func withoutFunction(code asm.Instructions, name string) (times int) {
	for i := range code {
		switch ins := &code[i]; {
		case ins.Reference() != name:
			continue
		case ins.IsKfuncCall():
			*ins = asm.BuiltinFunc(0xbad).Call().WithMetadata(asm.Metadata{})
		default:
			*ins = asm.LoadImm(ins.Dst, 0, asm.DWord)
		}
		times++
	}
	return times
}
