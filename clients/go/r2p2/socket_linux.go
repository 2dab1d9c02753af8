// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"net/netip"
	"syscall"
)

const (
	ipRecvErr      = 11
	ipv6RecvErr    = 25
	ipMTUDiscover  = 10
	ipv6MTUDiscov  = 23
	pmtuDo         = 2
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
			_, _, _, from, err := syscall.Recvmsg(int(fd), data[:], control[:], msgErrQueue|syscall.MSG_DONTWAIT)
			if err != nil {
				return
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
