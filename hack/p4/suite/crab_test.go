// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

func loadProgram(t *testing.T, name, shell string) *model.Program {
	t.Helper()
	p, err := model.Load("../../../dataplane/p4/"+name+"/"+shell+".p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// C-20 to C-28, C-41, W-1: what the switch does with a SYN is what the software does with it, bytes and verdicts.
func TestCrab(t *testing.T) {
	if _, err := os.Stat(simulator); err != nil {
		privileged.Lacking(t, "no "+simulator)
	}
	lines, err := exec.Command(simulator, "switch", "--program=crab", "--events=6000").Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := PlayCrab(bytes.NewReader(lines), loadProgram(t, "crab", "v1model"), loadProgram(t, "crab", "tna"), 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.First {
		t.Error(d)
	}
	if r.Odd != 0 {
		t.Errorf("%d odd accesses", r.Odd)
	}
	t.Logf("%d segments, %d with options that are not read", r.Events, r.Unread)
}

// C-20, C-21: wherever among a SYN's options the placeholder stands, it is written into, or the SYN counts as unread. It is
// never taken for one of a client without an agent.
func TestPlaceholderAnywhere(t *testing.T) {
	for _, shell := range shellNames {
		for at := range 35 {
			b, err := bed.NewBalancer(loadProgram(t, "crab", shell), 3, true, false)
			if err != nil {
				t.Fatal(err)
			}
			options := bytes.Repeat([]byte{1}, 40)
			copy(options[at:], []byte{42, 6, 0, 0, 0, 0})
			out := b.Pass(model.Frame{Port: bed.ClientPort, Data: bed.Packet(syn(options))})
			if written := b.Reason(bed.CrabRedirected); written+b.Reason(bed.CrabUnread) != 1 || len(out) != 1 || b.Odd() != 0 {
				t.Errorf("%s, option at byte %d: %d redirected, %d unread, %d frames", shell, at, written, b.Reason(bed.CrabUnread), len(out))
			}
		}
	}
}

// syn is a packet for the VIP with options of TCP, its checksum of TCP left out.
func syn(options []byte) []byte {
	p := make([]byte, 40, 40+len(options))
	p[0], p[3], p[8], p[9] = 0x45, byte(40+len(options)), 64, 6
	binary.BigEndian.PutUint32(p[12:], bed.ClientIP)
	binary.BigEndian.PutUint32(p[16:], bed.VIP)
	binary.BigEndian.PutUint16(p[22:], bed.VIPPort)
	p[32], p[33] = byte(5+len(options)/4)<<4, 2
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum>>16+sum))
	return append(p, options...)
}
