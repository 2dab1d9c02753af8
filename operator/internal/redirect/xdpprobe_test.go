// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
)

// veths makes two devices that lead to each other; their numbers.
func veths(t *testing.T) (near, far int) {
	t.Helper()
	ownNetwork(t)
	for _, line := range []string{"link add near type veth peer name far", "link set near up", "link set far up"} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %s", line, out)
		}
	}
	for name, index := range map[string]*int{"near": &near, "far": &far} {
		d, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		*index = d.Index
	}
	return near, far
}

// A driver that takes a native program but sends nothing of it: a veth whose peer has none.
func TestNativeIsTriedByFrames(t *testing.T) {
	n := openTest(t, Options{})
	near, far := veths(t)
	a, err := n.AttachBalancer(near, XDPNative)
	if err != nil || a.XDP != XDPGeneric || !strings.Contains(a.XDPReason, "test frames by XDP_TX") {
		t.Fatalf("%+v, %v; want Generic because frames do not leave", a, err)
	}
	pass, err := verdict(xdpPass)
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	l, err := link.AttachXDP(link.XDPOptions{Program: pass, Interface: far, Flags: link.XDPDriverMode})
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"first", "again"} {
		if a, err = n.AttachBalancer(near, XDPNative); err != nil || a.XDP != XDPNative || a.XDPReason != "" {
			t.Fatalf("%s: %+v, %v; want Native", when, a, err)
		}
	}
	if a, err = n.AttachBalancer(near, XDPAuto); err != nil || a.XDP != XDPGeneric || !strings.Contains(a.XDPReason, "veth") {
		t.Errorf("%+v, %v; want Generic: nobody would see the peer's program go", a, err)
	}
	l.Close()
	if a, err = n.AttachBalancer(near, XDPNative); err != nil || a.XDP != XDPGeneric {
		t.Errorf("the peer's program went: %+v, %v", a, err)
	}
}

// A driver that may send and not count keeps its native program: a tap, which nobody reads, counts nothing.
func TestNativeIsKeptWhereCountsSayNothing(t *testing.T) {
	n := openTest(t, Options{})
	ownNetwork(t)
	for _, line := range []string{"tuntap add mode tap name quiet", "link set quiet up"} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %s", line, out)
		}
	}
	d, err := net.InterfaceByName("quiet")
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"first", "again"} {
		if a, err := n.AttachBalancer(d.Index, XDPAuto); err != nil || a.XDP != XDPNative || a.XDPReason != "" {
			t.Fatalf("%s: %+v, %v; want Native", when, a, err)
		}
	}
}

// On a device that sends more than test frames could be told from, nothing is decided.
func TestBusyDevicesAreNotTried(t *testing.T) {
	for others, want := range map[uint64]int{0: sendLeast, 10: sendLeast, 100: 1600, 1000: 16000, 1024: sendMost, 1025: 0, 1 << 40: 0} {
		got := framesFor(others)
		if got != want {
			t.Errorf("%d packets of others: %d frames", others, got)
		}
		if got > 0 && shown(uint64(got)+2*others, others, sendLook) < uint64(got)/2 {
			t.Errorf("%d packets of others: half of %d frames cannot show", others, got)
		}
	}
}

// Packets of others are not taken for test frames.
func TestOthersPacketsAreNoTestFrames(t *testing.T) {
	for _, c := range []struct {
		counted, others uint64
		took            time.Duration
		want            uint64
	}{{256, 0, sendLook, 256}, {256, 10, sendLook, 216}, {30, 10, sendLook, 0}, {300, 10, 20 * sendLook, 0}} {
		if got := shown(c.counted, c.others, c.took); got != c.want {
			t.Errorf("%+v: %d frames shown", c, got)
		}
	}
}
