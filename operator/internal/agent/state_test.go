// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

// The uplink balances, in the mode that was asked for; every device has clients and servers, and counts connections only where
// somebody needs to know; tunnels are opened where the node has an end of one.
func TestStateOfANode(t *testing.T) {
	uplink := devices.Device{Name: "eth0", Index: 2, Address: "02:00:00:00:00:01"}
	pods := []devices.Device{{Name: "veth1", Index: 4, Address: "02:00:00:00:00:04"}, {Name: "veth2", Index: 5}}
	four, six := keyOf(80), redirect.VIPKey{Addr: netip.MustParseAddr("fd00::1"), Port: 80}
	end, watch := netip.MustParseAddr("10.0.0.1"), []netip.AddrPort{netip.MustParseAddrPort("10.0.1.1:80")}
	const balances, client, server, watches, tunnels = redirect.DutyBalancer, redirect.DutyClient, redirect.DutyServer, redirect.DutyWatch, redirect.DutyTunnel
	type duties = []redirect.Duty
	for name, c := range map[string]struct {
		mine       share.Share
		watch      []netip.AddrPort
		own, other duties
		six        bool
	}{
		"nothing":     {share.Share{}, nil, duties{balances, client, server}, duties{client, server}, false},
		"IPv4":        {share.Share{VIPs: []redirect.VIP{{VIPKey: four}}}, nil, duties{balances, client, server}, duties{client, server}, false},
		"both":        {share.Share{VIPs: []redirect.VIP{{VIPKey: four}, {VIPKey: six}}}, nil, duties{balances, client, server}, duties{client, server}, true},
		"counted":     {share.Share{}, watch, duties{balances, client, server, watches}, duties{client, server, watches}, false},
		"by a tunnel": {share.Share{Tunnels: redirect.Tunnels{Own: []netip.Addr{end}}}, watch, duties{balances, client, server, watches, tunnels}, duties{client, server, watches}, false},
		"of others":   {share.Share{Tunnels: redirect.Tunnels{Peers: []netip.Addr{end}}}, nil, duties{balances, client, server}, duties{client, server}, false},
		"with echo":   {share.Share{AllowEcho: []netip.Addr{end}}, nil, duties{balances, client, server}, duties{client, server}, false},
	} {
		want := desired.State{VIPs: c.mine.VIPs, AllowEcho: c.mine.AllowEcho, Tunnels: c.mine.Tunnels, Watch: c.watch, IPv6: c.six, Devices: []desired.Device{
			{Name: "eth0", Index: 2, Address: uplink.Address, Placement: redirect.Uplink, Duties: c.own, XDP: redirect.XDPNative},
			{Name: "veth1", Index: 4, Placement: redirect.Pod, Duties: c.other}, {Name: "veth2", Index: 5, Placement: redirect.Pod, Duties: c.other},
		}}
		if got := stateOf(c.mine, c.watch, uplink, redirect.XDPNative, pods); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
