// SPDX-License-Identifier: Apache-2.0

package command

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

var (
	vip, other, own = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("10.0.0.9")
	near, far       = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
)

// C-62: servers are counted for every balancer, each under the host it runs on.
func TestHosted(t *testing.T) {
	c := Config{Announce: &Announce{Name: "a", Peers: []AnnouncePeer{{Name: "b", Servers: []netip.Addr{far}}, {Name: "c"}}}}
	served, nodes := hosted(c)
	if served != nil || !reflect.DeepEqual(nodes, map[netip.Addr]string{far: "b"}) {
		t.Errorf("without a server: %+v, %v", served, nodes)
	}
	at := netip.AddrPortFrom(near, 80)
	c.Watch = []netip.AddrPort{at}
	served, nodes = hosted(c)
	want := []loads.Served{{Balancers: []string{"a", "b", "c"}, Pool: loads.Pool{Servers: []loads.Server{{Addr: at, Node: "a", Weight: 1}}}}}
	if !reflect.DeepEqual(served, want) || !reflect.DeepEqual(nodes, map[netip.Addr]string{near: "a", far: "b"}) {
		t.Errorf("%+v, %v", served, nodes)
	}
}

// C-62: what is balanced here by load is told with its servers; of a VIP that
// another host owns by now, that it leaves. A node's own address has no owner.
func TestByLoad(t *testing.T) {
	backends := []redirect.Backend{{Addr: near, State: redirect.UpCRAB, Weight: 3}, {Addr: far, State: redirect.Down, Weight: 1}}
	one := func(addr netip.Addr, roles redirect.Role, policy redirect.Policy) redirect.VIP {
		v := redirect.VIP{Roles: roles, Policy: policy, Backends: backends}
		v.Addr, v.Port = addr, 80
		return v
	}
	pools := byLoad([]redirect.VIP{
		one(vip, redirect.RoleBalance, redirect.PowerOfTwo), one(other, redirect.RoleBalance, redirect.Least),
		one(own, redirect.RoleBalance|redirect.RoleStackFallback, redirect.Least),
		one(other, redirect.RoleClient, redirect.Least), one(vip, redirect.RoleBalance, redirect.RoundRobin),
	}, map[netip.Addr]string{near: "a", far: "b"}, []netip.Addr{vip})
	servers := []loads.Server{{Addr: netip.AddrPortFrom(near, 80), Node: "a", Weight: 3}}
	want := []loads.Pool{
		{VIP: netip.AddrPortFrom(vip, 80), Servers: servers}, {VIP: netip.AddrPortFrom(other, 80), Servers: servers, Leaving: true},
		{VIP: netip.AddrPortFrom(own, 80), Servers: servers},
	}
	if !reflect.DeepEqual(pools, want) {
		t.Errorf("%+v, want %+v", pools, want)
	}
}

// Only who balances a shared VIP here has that role; all others keep theirs.
func TestOnly(t *testing.T) {
	one := func(addr netip.Addr, roles redirect.Role) redirect.VIP {
		v := redirect.VIP{Roles: roles}
		v.Addr = addr
		return v
	}
	got := only([]redirect.VIP{
		one(vip, redirect.RoleBalance|redirect.RoleClient), one(other, redirect.RoleBalance|redirect.RoleClient), one(other, redirect.RoleBalance),
		one(own, redirect.RoleBalance|redirect.RoleStackFallback),
	}, map[netip.Addr]bool{vip: true})
	want := []redirect.VIP{
		one(vip, redirect.RoleBalance|redirect.RoleClient), one(other, redirect.RoleClient), one(own, redirect.RoleBalance|redirect.RoleStackFallback),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
