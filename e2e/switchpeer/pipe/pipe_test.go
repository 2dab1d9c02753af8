// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pipe

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

func sources(t testing.TB) map[string][]byte {
	t.Helper()
	out, err := Sources("../../../dataplane/p4/router")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pipeline(t testing.TB, files map[string][]byte) *p4.ForwardingPipelineConfig {
	t.Helper()
	prog, err := Read(sources(t))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := Archive(files)
	if err != nil {
		t.Fatal(err)
	}
	return &p4.ForwardingPipelineConfig{P4Info: prog.P4Info(), P4DeviceConfig: archive}
}

// A program that is not whole, that the checker does not take, or that is another one than
// its P4Info, is refused, and what ran goes on.
func TestLoad(t *testing.T) {
	p := New()
	defer p.Close()
	if err := p.Load(pipeline(t, sources(t))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"lacks": "there is no file", "switch": "subset", "other": "is of another program"} {
		files := sources(t)
		switch name {
		case "lacks":
			delete(files, "program/parser.p4")
		case "switch":
			files["program/router.p4"] = append(files["program/router.p4"], []byte("\nextern what { }\n")...)
			want = "router.p4"
		case "other":
			files["program/router.p4"] = bytes.Replace(files["program/router.p4"], []byte("size = 4096;"), []byte("size = 4095;"), 1)
		}
		if err := p.Load(pipeline(t, files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	c := pipeline(t, sources(t))
	c.P4DeviceConfig = []byte("not a tar file, but longer than a block of one would be" + strings.Repeat(".", 600))
	if err := p.Load(c); err == nil || !strings.Contains(err.Error(), "is no tar file") {
		t.Errorf("nonsense: %v", err)
	}
	running := false
	p.Look(func(*model.Machine) { running = true })
	if !running {
		t.Error("what ran does not any more")
	}
	p.Unload()
	if err := p.Put(&p4.Entity{}); err == nil {
		t.Error("an entry without a program")
	}
}

// What arrives costs the same however many frames wait: a loop that is long stays short of
// the machine, and all that wait have their turn.
func TestLongLoop(t *testing.T) {
	p := New()
	p.Close() // no clock: what happens is what arrives
	if err := p.Load(pipeline(t, sources(t))); err != nil {
		t.Fatal(err)
	}
	waiting := func(n int) model.Frame { return model.Frame{Port: 1, Data: []byte{byte(n)}} }
	for n := range 5 * turns {
		p.waiting = append(p.waiting, waiting(n))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := 0
	for range 5 {
		p.turn() // frames too short to be any leave at once
		if now := 5*turns - len(p.waiting); now != seen+turns {
			t.Fatalf("%d frames had their turn, want %d", now-seen, turns)
		}
		seen += turns
	}
	p.turn()
}

// What a kernel left to a device is done: sums are ended, and datagrams are cut.
func TestFinished(t *testing.T) {
	ends := bed.Ends{Src: bed.ClientIP, Dst: bed.RouterIP, SrcPort: 40000, DstPort: 8000}
	whole := bed.Frame(ends, bytes.Repeat([]byte("abc"), 100))
	head := make([]byte, vnetHeader)
	if got := finished(append(head, whole...)); len(got) != 1 || !bytes.Equal(got[0], whole) {
		t.Fatalf("a whole frame: %d", len(got))
	}
	// unfinished: the field holds the sum of the pseudo header
	open := append([]byte(nil), whole...)
	binary.BigEndian.PutUint16(open[40:], sum(open[26:34], uint32(17+len(open)-34)))
	unfinished := append([]byte{vnetNeedsSum, 0, 0, 0, 0, 0, 0, 0, 0, 0}, open...)
	binary.NativeEndian.PutUint16(unfinished[6:], 34)
	binary.NativeEndian.PutUint16(unfinished[8:], 6)
	if got := finished(unfinished); len(got) != 1 || !bytes.Equal(got[0], whole) {
		t.Errorf("the sum was not ended: %x", got)
	}
	several := append([]byte(nil), unfinished...)
	several[1] = gsoUDP
	binary.NativeEndian.PutUint16(several[4:], 128)
	got := finished(several)
	var payload []byte
	for _, f := range got {
		if !bed.Sound(f) {
			t.Errorf("cut badly: %x", f)
		}
		payload = append(payload, bed.Payload(f)...)
	}
	if len(got) != 3 || !bytes.Equal(payload, bed.Payload(whole)) {
		t.Errorf("%d datagrams with %d bytes", len(got), len(payload))
	}
	several[1] = 1 // TCP
	if got := finished(several); got != nil {
		t.Errorf("TCP made %d frames", len(got))
	}
}

// Whatever a kernel says, nothing is read that is not there, and what comes out is whole.
func FuzzFinished(f *testing.F) {
	f.Add([]byte{vnetNeedsSum, 0, 0, 0, 0, 0, 34, 0, 6, 0, 1, 2, 3})
	f.Add(append([]byte{vnetNeedsSum, gsoUDP, 0, 0, 8, 0, 34, 0, 6, 0}, bed.Frame(bed.Ends{}, make([]byte, 40))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < vnetHeader {
			return
		}
		for _, one := range finished(b) {
			if len(one) > len(b) {
				t.Errorf("%d bytes of %d", len(one), len(b))
			}
		}
	})
}
