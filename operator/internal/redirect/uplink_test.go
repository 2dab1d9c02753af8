// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// routed makes a host of the test's namespace that forwards, with two devices of pods; testDIP is behind the first.
func routed(t *testing.T) (pod, other int) {
	t.Helper()
	ownNetwork(t)
	for _, all := range []string{"/proc/sys/net/ipv4/conf/all/forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		must(t, os.WriteFile(all, []byte("1"), 0o644))
	}
	for name, index := range map[string]*int{"pod": &pod, "other": &other} {
		d := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: name + "s"}
		d.Name = name
		must(t, netlink.LinkAdd(d))
		for _, end := range []string{name, d.PeerName} {
			l, err := netlink.LinkByName(end)
			must(t, err)
			must(t, netlink.LinkSetUp(l))
			if end == name {
				*index = l.Attrs().Index
			}
		}
	}
	bits := testDIP.BitLen()
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: pod, Dst: &net.IPNet{IP: testDIP.AsSlice(), Mask: net.CIDRMask(bits, bits)}}))
	return pod, other
}

// runOn runs a program with a frame that came from a device.
func runOn(t *testing.T, n *Node, program string, device int, frame []byte) (uint32, []byte) {
	t.Helper()
	return runThrough(t, n, program, 0, device, frame)
}

// runThrough does so with one that came in by a device; 0: it was made here.
func runThrough(t *testing.T, n *Node, program string, from, device int, frame []byte) (uint32, []byte) {
	t.Helper()
	prog, err := n.program(program)
	must(t, err)
	must(t, n.enterSix(program))
	skb := make([]byte, 192)
	binary.NativeEndian.PutUint32(skb[36:], uint32(from)) // ingress_ifindex of struct __sk_buff
	binary.NativeEndian.PutUint32(skb[40:], uint32(device))
	o := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: skb}
	verdict, err := prog.Run(&o)
	must(t, err)
	return verdict, o.DataOut
}

// C-70, C-82: with an uplink, what a pod of this node answers to a client of this node comes in there, for its program to
// translate, whoever else's answers pass; if it bears the pod's own address.
func TestAnswersOfThisNodeComeInByTheUplink(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		pod, elsewhere := routed(t)
		n := established(t)
		t.Cleanup(func() { must(t, n.leaveUplink(1)) })
		must(t, n.maps["crab_uplink"].Put(uint32(0), uplink{Index: 1, MAC: [6]byte{2, 3, 4, 5, 6, 7}}))
		answer := packet{src: testDIP, dst: testClient, sport: 80, dport: 5000, flags: ack, seq: 10, ack: 101, data: []byte("x")}
		other := answer
		other.dport++
		waits := redirectedSYNACK(201, redirected)
		waits.dport = 5001
		asked := clientSYN(200)
		asked.sport = 5001
		run(t, n, "crab_client_out", asked)
		for _, p := range []packet{answer, waits} {
			frame := p.bytes()
			verdict, out := runOn(t, n, "crab_client_in_near", pod, frame)
			if copy(frame, []byte{2, 3, 4, 5, 6, 7}); verdict != redirectVerdict || !bytes.Equal(out, frame) {
				t.Errorf("an answer to a client of this node: verdict %d", int32(verdict))
			}
		}
		waits.dport = 5002
		for _, p := range []packet{other, waits} {
			frame := p.bytes()
			if verdict, out := runOn(t, n, "crab_client_in_near", pod, frame); verdict != next || !bytes.Equal(out, frame) {
				t.Errorf("an answer to somebody else: verdict %d", int32(verdict))
			}
		}
		if verdict, _ := runOn(t, n, "crab_client_in_near", elsewhere, answer.bytes()); verdict != next {
			t.Errorf("a pod that bears another's address gets past what looks at its device: verdict %d", int32(verdict))
		}
		counted(t, n, map[string]uint64{"client_by_uplink": 2})
		must(t, n.leaveUplink(1))
		if verdict, out := runOn(t, n, "crab_client_in_near", pod, answer.bytes()); verdict != next || parse(t, out).src != testVIP {
			t.Errorf("without an uplink: verdict %d", int32(verdict))
		}
	})
}
