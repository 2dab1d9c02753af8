// SPDX-License-Identifier: Apache-2.0

//go:build crab

package redirect

import (
	"net"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// Frames of a test run that are frames: the kernel makes them, gives them to the program as the device would, and sends
// what it returns with XDP_TX by that device (BPF_F_TEST_XDP_LIVE_FRAMES).
const (
	liveFrames = 1 << 1
	liveBatch  = 64
)

// join gives the other end of the veth a program: only then does it take frames of XDP.
func (b *synBench) join() {
	if b.Other == "" {
		return
	}
	other, err := net.InterfaceByName(b.Other)
	b.must(err)
	l, err := link.AttachXDP(link.XDPOptions{Program: b.drop, Interface: other.Index})
	b.must(err)
	b.t.Cleanup(func() { _ = l.Close() })
}

// live is nanoseconds for a frame that is made, chosen for, and sent over the veth.
func (b *synBench) live(subject string) float64 {
	before := b.sent()
	r := testRun{flags: liveFrames, batch: liveBatch}
	b.ask(subject, b.Live, &r)
	if sent := b.sent() - before; sent < uint64(b.Live)*99/100 { // the rest are those that the other end had no room for
		b.t.Fatalf("%s: %d of %d frames left by %s", subject, sent, b.Live, b.Device)
	}
	return float64(r.duration)
}

// sent are the frames that the device has sent.
func (b *synBench) sent() uint64 {
	l, err := netlink.LinkByName(b.Device)
	b.must(err)
	return l.Attrs().Statistics.TxPackets
}
