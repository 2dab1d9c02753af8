// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"net"
	"net/netip"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// listen opens a socket that hears one protocol whomever a frame is for: a client
// that checks whether a VIP is still there asks the address itself, which is on no
// device, so that no IPv6 socket would hear it.
func listen(device *net.Interface, p Protocol) (*packet.Conn, error) {
	if p == ARP {
		return packet.Listen(device, packet.Datagram, unix.ETH_P_ARP, nil)
	}
	filter, err := bpf.Assemble(neighbourMessages)
	if err != nil {
		return nil, err
	}
	return packet.Listen(device, packet.Datagram, unix.ETH_P_IPV6, &packet.Config{Filter: filter})
}

// neighbourMessages lets solicitations and advertisements through.
var neighbourMessages = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 6, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nextICMPv6, SkipTrue: 4},
	bpf.LoadAbsolute{Off: ipv6Header, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: solicitation, SkipTrue: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: advert, SkipTrue: 1},
	bpf.RetConstant{Val: 2048},
	bpf.RetConstant{Val: 0},
}

// join makes the device take frames of the group in which a VIP is asked for, and
// switches send them here (MLD). The returned function leaves it. The lock is held.
func (a *Announcer) join(vip netip.Addr) (leave func()) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		m := &unix.IPv6Mreq{Multiaddr: solicitedNode(vip).As16(), Interface: uint32(a.device.Index)}
		if err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, m); err == nil {
			return func() { unix.Close(fd) }
		}
		unix.Close(fd)
	}
	a.counters[NDP]["join_failed"]++
	return func() {}
}
