// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"fmt"
	"net/netip"
)

// announceable refuses what heartbeats and ARP cannot name (C-9).
func announceable(vips []netip.Addr) error {
	for _, v := range vips {
		if !v.Is4() {
			return fmt.Errorf("VIP %s: only IPv4 addresses are announced (C-9): balance an IPv6 VIP on one host, and route it there", v)
		}
	}
	return nil
}
