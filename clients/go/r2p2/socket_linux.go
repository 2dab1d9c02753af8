// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
)

const (
	ipRecvErr      = 11
	ipv6RecvErr    = 25
	ipMTUDiscover  = 10
	ipv6MTUDiscov  = 23
	pmtuDo         = 2
	ipMTU          = 14
	ipv6MTU        = 24
	msgErrQueue    = 0x2000
	errQueueRounds = 64
)

// tune sets DF and, for clients, asks for ICMP errors: an unreachable
// router is left at once instead of after three timeouts.
func (s *socket) tune(icmp bool) {
	raw, err := s.udp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		level, discover, recv := syscall.IPPROTO_IP, ipMTUDiscover, ipRecvErr
		if !s.v4 {
			level, discover, recv = syscall.IPPROTO_IPV6, ipv6MTUDiscov, ipv6RecvErr
		}
		_ = syscall.SetsockoptInt(int(fd), level, discover, pmtuDo)
		if icmp {
			_ = syscall.SetsockoptInt(int(fd), level, recv, 1)
		}
	})
}

// connectedMTU is what the route of a connected socket takes, 0 if the kernel
// does not say.
func connectedMTU(c *net.UDPConn, v4 bool) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	level, option := syscall.IPPROTO_IP, ipMTU
	if !v4 {
		level, option = syscall.IPPROTO_IPV6, ipv6MTU
	}
	mtu := 0
	_ = raw.Control(func(fd uintptr) {
		if n, err := syscall.GetsockoptInt(int(fd), level, option); err == nil {
			mtu = n
		}
	})
	return mtu
}

// tooLong says whether control messages carry the error EMSGSIZE.
func tooLong(control []byte) bool {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return false
	}
	for _, m := range messages {
		extended := m.Header.Level == syscall.IPPROTO_IP && m.Header.Type == ipRecvErr ||
			m.Header.Level == syscall.IPPROTO_IPV6 && m.Header.Type == ipv6RecvErr
		// struct sock_extended_err begins with the errno.
		if extended && len(m.Data) >= 4 && syscall.Errno(binary.NativeEndian.Uint32(m.Data)) == syscall.EMSGSIZE {
			return true
		}
	}
	return false
}

// unreachable empties the socket's error queue and returns where the packets
// went that met an ICMP error.
func (s *socket) unreachable() []netip.AddrPort {
	raw, err := s.udp.SyscallConn()
	if err != nil {
		return nil
	}
	var out []netip.AddrPort
	_ = raw.Control(func(fd uintptr) {
		var data, control [512]byte
		for range errQueueRounds {
			_, n, _, from, err := syscall.Recvmsg(int(fd), data[:], control[:], msgErrQueue|syscall.MSG_DONTWAIT)
			if err != nil {
				return
			}
			if tooLong(control[:n]) {
				continue // the peer is there, the packet was at fault
			}
			switch a := from.(type) {
			case *syscall.SockaddrInet4:
				out = append(out, netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)))
			case *syscall.SockaddrInet6:
				out = append(out, plain(netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))))
			}
		}
	})
	return out
}
