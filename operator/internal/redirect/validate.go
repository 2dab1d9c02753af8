// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"fmt"
	"net/netip"
)

// MaxBackends bounds one pool (CRAB_MAX_BACKENDS).
const MaxBackends = 4096

const (
	maxPolicy = Least
	allRoles  = RoleClient | RoleBalance | RoleStackFallback | RoleTrustedTier | RoleTunnel | RoleKeepClient
)

// Validate says what of a VIP cannot be used; SetVIP calls it first.
func (v VIP) Validate() error {
	if err := usableAddr("addr", v.Addr); err != nil {
		return err
	}
	switch {
	case v.Port == 0:
		return &FieldError{"port", "must be 1…65535"}
	case v.Roles == 0 || v.Roles&^allRoles != 0:
		return &FieldError{"roles", fmt.Sprintf("%#x is no sum of known roles", uint8(v.Roles))}
	case v.Policy > maxPolicy:
		return &FieldError{"policy", fmt.Sprintf("%d is unknown", v.Policy)}
	case len(v.Backends) > MaxBackends:
		return &FieldError{"backends", fmt.Sprintf("%d given, at most %d", len(v.Backends), MaxBackends)}
	case v.ReportLife < 0:
		return &FieldError{"reportLife", "must not be negative"}
	}
	if err := validateBackends(v.Backends); err != nil {
		return err
	}
	for i, p := range v.Prefixes {
		if !p.IsValid() || p.Addr().BitLen() != v.Addr.BitLen() || p.Addr().Is4In6() {
			return &FieldError{fmt.Sprintf("prefixes[%d]", i), fmt.Sprintf("%s is no prefix of the VIP's family (C-9)", p)}
		}
	}
	for i, b := range v.Backends {
		if b.Addr.BitLen() != v.Addr.BitLen() {
			return &FieldError{fmt.Sprintf("backends[%d].addr", i), fmt.Sprintf("%s is not of the VIP's family: no program translates between IPv4 and IPv6 (C-9)", b.Addr)}
		}
	}
	return nil
}

func validateBackends(backends []Backend) error {
	seen := make(map[netip.Addr]int, len(backends))
	for i, b := range backends {
		field := fmt.Sprintf("backends[%d]", i)
		if err := usableAddr(field+".addr", b.Addr); err != nil {
			return err
		}
		if b.State > Draining {
			return &FieldError{field + ".state", fmt.Sprintf("%d is unknown", b.State)}
		}
		if first, twice := seen[b.Addr]; twice {
			return &FieldError{field + ".addr", fmt.Sprintf("%s is backends[%d] already", b.Addr, first)}
		}
		seen[b.Addr] = i
	}
	return nil
}

// usableAddr refuses what no TCP server can have, and what the option cannot name.
func usableAddr(field string, a netip.Addr) error {
	switch {
	case !a.IsValid():
		return &FieldError{field, "is missing"}
	case a.Is4In6():
		return &FieldError{field, fmt.Sprintf("%s is an IPv4 address in IPv6 form: write %s", a, a.Unmap())}
	case a.Zone() != "" || a.IsLinkLocalUnicast() && !a.Is4():
		return &FieldError{field, fmt.Sprintf("%s means something on one link only: take an address that can be routed", a)}
	case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return &FieldError{field, fmt.Sprintf("%s is no address of a server", a)}
	}
	return nil
}
