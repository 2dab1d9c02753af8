// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// refusalPriority puts the rules in front of those of the main table.
const refusalPriority = 203

// setRefusals keeps the kernel from forwarding what comes in for a VIP of IPv6 that
// has a neighbour entry of ours, and is none of the programs' business, such as an
// echo request. It would send the packet back to the wire and tell its sender by a
// redirect (RFC 4861) to use that entry, which is nobody's: the VIP would be lost to
// that host. Of IPv4, redirects name no link-layer address.
func setRefusals(uplink int, vips []netip.Addr) error {
	have, err := netlink.RuleList(netlink.FAMILY_V6)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	name := ""
	if len(vips) > 0 {
		l, err := netlink.LinkByIndex(uplink)
		if err != nil {
			return err
		}
		name = l.Attrs().Name
	}
	wanted, old := set(vips), map[netip.Addr]bool{}
	var failed []error
	for _, r := range have {
		if r.Protocol != routeProtocol || r.Priority != refusalPriority {
			continue
		}
		if addr, ok := prefixAddr(r.Dst); ok && wanted[addr] && r.IifName == name {
			old[addr] = true
			continue
		}
		r.Family = netlink.FAMILY_V6
		failed = append(failed, netlink.RuleDel(&r))
	}
	for _, vip := range vips {
		if old[vip] {
			continue
		}
		r := netlink.NewRule()
		r.Family, r.Priority, r.Protocol, r.Type = netlink.FAMILY_V6, refusalPriority, routeProtocol, unix.FR_ACT_BLACKHOLE
		r.IifName, r.Dst = name, host(vip)
		if err := netlink.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			failed = append(failed, fmt.Errorf("rule for %s: %w", vip, err))
		}
	}
	return errors.Join(failed...)
}
