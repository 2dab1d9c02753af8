// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

package r2p2

import (
	"errors"
	"net"
)

// Elsewhere than on Linux with amd64 or arm64 a system call takes one packet.
type sender struct{ sock *socket }

func (s *sender) init(sock *socket) { s.sock = sock }

func (s *sender) send(b *batch, at int, refused func(error)) int {
	if err := s.sock.write(b.packet(at), b.packets[at].addr); err != nil {
		refused(err)
	}
	return 1
}

func (s *socket) readAll(take func([]datagram), failed func()) {
	buf := make([]byte, slotBytes)
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(buf)
		switch {
		case err == nil:
			take([]datagram{{buf[:n], plain(from)}})
		case errors.Is(err, net.ErrClosed):
			return
		default:
			failed()
		}
	}
}
