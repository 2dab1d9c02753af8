// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package r2p2

import "net/netip"

// Elsewhere than on Linux ICMP errors are not reported per destination; the
// client then leaves a dead router after three timeouts.
func (s *socket) tune(bool) {}

func (s *socket) unreachable() []netip.AddrPort { return nil }
