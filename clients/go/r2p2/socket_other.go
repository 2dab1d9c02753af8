// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package r2p2

import (
	"net"
	"net/netip"
)

// Elsewhere than on Linux ICMP errors are not reported per destination; the
// client then leaves a dead router after three timeouts.
func (s *socket) tune(bool) {}

// The interface's MTU has to do.
func connectedMTU(*net.UDPConn, bool) int { return 0 }

func (s *socket) unreachable() []netip.AddrPort { return nil }
