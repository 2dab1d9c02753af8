// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"net/netip"
	"testing"
)

func goodVIP() VIP {
	return VIP{
		VIPKey:   VIPKey{netip.MustParseAddr("192.0.2.1"), 80},
		Roles:    RoleClient | RoleBalance,
		Backends: []Backend{{Addr: netip.MustParseAddr("10.0.0.1"), State: UpCRAB}, {Addr: netip.MustParseAddr("10.0.0.2")}},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
}

func TestValidateNamesTheField(t *testing.T) {
	if err := goodVIP().Validate(); err != nil {
		t.Fatalf("a good VIP: %v", err)
	}
	v6 := VIP{VIPKey: VIPKey{netip.MustParseAddr("2001:db8::1"), 80}, Roles: RoleClient | RoleBalance,
		Backends: []Backend{{Addr: netip.MustParseAddr("2001:db8::2")}}, Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8::/64")}}
	if err := v6.Validate(); err != nil {
		t.Errorf("a good IPv6 VIP: %v", err)
	}
	cases := map[string]struct {
		field string
		spoil func(*VIP)
	}{
		"no address":        {"addr", func(v *VIP) { v.Addr = netip.Addr{} }},
		"IPv4 in IPv6":      {"addr", func(v *VIP) { v.Addr = netip.MustParseAddr("::ffff:192.0.2.1") }},
		"a link's own":      {"addr", func(v *VIP) { v.Addr = netip.MustParseAddr("fe80::1") }},
		"multicast":         {"addr", func(v *VIP) { v.Addr = netip.MustParseAddr("224.0.0.1") }},
		"no port":           {"port", func(v *VIP) { v.Port = 0 }},
		"no role":           {"roles", func(v *VIP) { v.Roles = 0 }},
		"unknown role":      {"roles", func(v *VIP) { v.Roles |= 1 << 7 }},
		"unknown policy":    {"policy", func(v *VIP) { v.Policy = 6 }},
		"too many servers":  {"backends", func(v *VIP) { v.Backends = make([]Backend, MaxBackends+1) }},
		"IPv6 server, C-9":  {"backends[1].addr", func(v *VIP) { v.Backends[1].Addr = netip.MustParseAddr("2001:db8::1") }},
		"server twice":      {"backends[1].addr", func(v *VIP) { v.Backends[1].Addr = v.Backends[0].Addr }},
		"unknown state":     {"backends[0].state", func(v *VIP) { v.Backends[0].State = 4 }},
		"IPv6 prefix, C-91": {"prefixes[0]", func(v *VIP) { v.Prefixes[0] = netip.MustParsePrefix("2001:db8::/32") }},
		"negative life":     {"reportLife", func(v *VIP) { v.ReportLife = -1 }},
	}
	for name, c := range cases {
		v := goodVIP()
		c.spoil(&v)
		var field *FieldError
		if err := v.Validate(); !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: got %v, want an error of field %s", name, err, c.field)
		}
	}
}
