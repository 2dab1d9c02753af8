// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
)

// bufferBytes is asked of the kernel for each socket; it may give less.
const bufferBytes = 4 << 20

// socket is one UDP port. It is never connected: a reply comes from whatever
// machine answers.
type socket struct {
	udp   *net.UDPConn
	local netip.AddrPort
	v4    bool
	// lose, set by tests only, says which outgoing packets never leave.
	lose atomic.Pointer[func(p []byte, to netip.AddrPort) bool]
}

func listen(local netip.AddrPort) (*socket, error) {
	network := "udp6"
	if local.Addr().Unmap().Is4() {
		network = "udp4"
	}
	u, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(local.Addr().Unmap(), local.Port())))
	if err != nil {
		return nil, fmt.Errorf("r2p2: bind %s: %w", local, err)
	}
	_ = u.SetReadBuffer(bufferBytes)
	_ = u.SetWriteBuffer(bufferBytes)
	bound := u.LocalAddr().(*net.UDPAddr).AddrPort()
	return &socket{udp: u, local: plain(bound), v4: network == "udp4"}, nil
}

// plain is an address in its shortest form, so that equal ones compare equal.
func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// slotBytes is how much is read of a datagram. No packet has that many, and
// what is cut off is rejected by its length.
const slotBytes = 2048

// datagram is what was read.
type datagram struct {
	packet []byte
	from   netip.AddrPort
}

// write sends one packet by itself. An error is to be counted and no more: to the protocol
// a packet that did not leave is a lost one. An ICMP error about an earlier packet is
// handed to the next write, so one more try tells the two apart.
func (s *socket) write(p []byte, to netip.AddrPort) error {
	_, err := s.udp.WriteToUDPAddrPort(p, to)
	if err != nil {
		_, err = s.udp.WriteToUDPAddrPort(p, to)
	}
	return err
}

// honest says whether a source address can be a peer's (M-23).
func (s *socket) honest(from netip.AddrPort) bool {
	ip := from.Addr()
	return from.Port() != 0 && !ip.IsMulticast() && !ip.IsUnspecified() && ip != broadcast && from != s.local
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
