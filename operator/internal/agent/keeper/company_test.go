// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/announce"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
)

// K-12: hosts are company, agents are none, by whatever address of theirs, nor are VIPs; all are asked.
func TestCompany(t *testing.T) {
	at := netip.MustParseAddr
	heard := func(addr string, mac byte) announce.Host {
		return announce.Host{Addr: at(addr), MAC: net.HardwareAddr{2, 0, 0, 0, 0, mac}}
	}
	peers := []heartbeat.Peer{{Name: "b", Addr: netip.MustParseAddrPort("192.0.2.2:9440")}, {Name: "c", Addr: netip.MustParseAddrPort("192.0.2.3:9440")}}
	vips := map[netip.Addr]bool{at("192.0.2.100"): true}
	all := []announce.Host{heard("192.0.2.9", 9), heard("192.0.2.2", 2), heard("fe80::2", 2), heard("192.0.2.100", 3), heard("fe80::9", 9)}
	hosts := company(all, peers, vips)
	if want := []netip.Addr{at("192.0.2.9"), at("fe80::9")}; !slices.Equal(hosts, want) {
		t.Errorf("company %v, want %v", hosts, want)
	}
	if hosts := company(all[1:4], peers, vips); len(hosts) != 0 {
		t.Errorf("agents are company: %v", hosts)
	}
	if got, want := questions(false, netip.Addr{}, peers, hosts), []netip.Addr{at("192.0.2.2"), at("192.0.2.3"), at("192.0.2.9")}; !slices.Equal(got, want) {
		t.Errorf("asked are %v, want %v", got, want)
	}
	if got, want := questions(true, at("fd00::1"), nil, hosts), []netip.Addr{at("fd00::1"), at("fe80::9")}; !slices.Equal(got, want) {
		t.Errorf("asked are %v, want %v", got, want)
	}
}
