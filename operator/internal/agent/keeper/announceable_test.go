// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"net/netip"
	"strings"
	"testing"
)

// C-9: an IPv6 VIP is refused by name before anything ranks it by its four bytes.
func TestOnlyIPv4IsAnnounced(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")
	if err := announceable([]netip.Addr{four}); err != nil {
		t.Error(err)
	}
	if err := announceable([]netip.Addr{four, six}); err == nil || !strings.Contains(err.Error(), "fd00::1") {
		t.Errorf("IPv6: %v", err)
	}
	if err := (&Keeper{}).SetVIPs([]netip.Addr{six}); err == nil {
		t.Error("SetVIPs took IPv6")
	}
}
