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

// joinGroup makes a device take frames of a group, and switches send them here (MLD).
// The returned function leaves it.
func joinGroup(device int, group netip.Addr) (leave func(), err error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	m := &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(device)}
	if err := unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, m); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return func() { unix.Close(fd) }, nil
}
