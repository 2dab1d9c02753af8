// SPDX-License-Identifier: Apache-2.0

package share

import (
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

func nodes() crabplan.Nodes {
	both := func(four, six string) map[corev1.IPFamily]netip.Addr {
		return map[corev1.IPFamily]netip.Addr{corev1.IPv4Protocol: ip(four), corev1.IPv6Protocol: ip(six)}
	}
	return crabplan.Nodes{"a": both("10.1.0.1", "fd00::1"), "b": both("10.1.0.2", "fd00::2"), "c": {corev1.IPv4Protocol: ip("10.1.0.3")}}
}

// C-80: servers of this node are let out to, servers of others are sent to, each in its own family.
func TestTunnels(t *testing.T) {
	six := vip(func(v *crabplan.VIP) {
		v.Addr = ip("2001:db8::1")
		v.Backends = []crabplan.Backend{{Addr: ip("fd01::1"), Node: "b", State: crabplan.Ready}, {Addr: ip("fd01::2"), Node: "c", State: crabplan.Ready}}
	})
	whole := redirect.Tunnels{
		Ways: map[netip.Addr]redirect.Tunnel{
			ip("10.0.0.2"): {From: ip("10.1.0.1"), To: ip("10.1.0.2")}, ip("10.0.0.3"): {From: ip("10.1.0.1"), To: ip("10.1.0.2")},
			ip("10.0.0.4"): {From: ip("10.1.0.1"), To: ip("10.1.0.3")}, ip("fd01::1"): {From: ip("fd00::1"), To: ip("fd00::2")},
		},
		Own: []netip.Addr{ip("10.1.0.1"), ip("fd00::1")}, Peers: []netip.Addr{ip("10.1.0.2"), ip("10.1.0.3"), ip("fd00::2")},
		Servers: []netip.Addr{ip("10.0.0.1")},
	}
	opens := whole
	opens.Ways = nil
	for mode, want := range map[TunnelMode]redirect.Tunnels{TunnelOff: {}, TunnelOpen: opens, TunnelOn: whole} {
		in := input(vip(nil), six)
		in.Tunnel, in.Nodes, in.Balances = mode, nodes(), func(netip.Addr) bool { return true }
		s, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s.Tunnels, want) {
			t.Errorf("%s: %+v, want %+v", mode, s.Tunnels, want)
		}
		wantState := map[bool]redirect.State{true: redirect.Down, false: redirect.Draining}[mode == TunnelOn]
		if sends := s.VIPs[0].Roles&redirect.RoleTunnel != 0; sends != (mode == TunnelOn) || s.VIPs[0].Backends[2].State != wantState || s.VIPs[0].Validate() != nil {
			t.Errorf("%s: %+v", mode, s.VIPs[0])
		}
	}
}
