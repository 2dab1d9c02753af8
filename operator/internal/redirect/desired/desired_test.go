// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// fakePlane writes down what is done to it.
type fakePlane struct {
	redirect.Plane
	vips     []redirect.VIP
	attached []redirect.Attachment
	done     []string
	refuse   string // what fails
	tunnels  redirect.Tunnels
}

func (f *fakePlane) do(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	if f.refuse != "" && strings.HasPrefix(line, f.refuse) {
		return errors.New("refused")
	}
	f.done = append(f.done, line)
	return nil
}

func (f *fakePlane) SetVIP(v redirect.VIP) error {
	return f.do("set %s:%d %s", v.Addr, v.Port, v.Roles)
}
func (f *fakePlane) DeleteVIP(k redirect.VIPKey) error { return f.do("delete %s:%d", k.Addr, k.Port) }
func (f *fakePlane) VIPs() ([]redirect.VIP, error)     { return f.vips, nil }
func (f *fakePlane) Exchange() error                   { return f.do("exchange") }
func (f *fakePlane) UseIPv6() error                    { return f.do("ipv6") }
func (f *fakePlane) AllowEcho(a []netip.Addr) error    { return f.do("echo %v", a) }
func (f *fakePlane) AttachClient(i int, at redirect.Placement) error {
	return f.do("client %d %s", i, at)
}
func (f *fakePlane) AttachServer(i int, at redirect.Placement) error {
	return f.do("server %d %s", i, at)
}
func (f *fakePlane) AttachWatch(i int, at redirect.Placement) error {
	return f.do("watch %d %s", i, at)
}
func (f *fakePlane) AttachTunnel(i int) error { return f.do("tunnel %d", i) }

// Tunnels of a plane that never had any need no line in every test.
func (f *fakePlane) Tunnels(t redirect.Tunnels) error {
	if t.Equal(redirect.Tunnels{}) && f.tunnels.Equal(redirect.Tunnels{}) {
		return nil
	}
	f.tunnels = t
	return f.do("tunnels %v %v %v %v", t.Ways, t.Peers, t.Own, t.Servers)
}
func (f *fakePlane) Watch(s []netip.AddrPort) error { return f.do("watch %v", s) }
func (f *fakePlane) AttachBalancer(i int, x redirect.XDPMode) (redirect.Attachment, error) {
	return redirect.Attachment{Index: i, XDP: redirect.XDPGeneric}, f.do("balancer %d %s", i, x)
}
func (f *fakePlane) RestBalancer(i int) error            { return f.do("rest %d", i) }
func (f *fakePlane) Detach(i int, d redirect.Duty) error { return f.do("detach %d %s", i, d) }
func (f *fakePlane) Attachments() ([]redirect.Attachment, error) {
	return f.attached, nil
}

func (f *fakePlane) took(t *testing.T, what string, want ...string) {
	t.Helper()
	slices.Sort(f.done)
	slices.Sort(want)
	if !slices.Equal(f.done, want) {
		t.Errorf("%s: did %q, want %q", what, f.done, want)
	}
	f.done = nil
}

func vip(addr string, roles redirect.Role) redirect.VIP {
	return redirect.VIP{VIPKey: redirect.VIPKey{Addr: netip.MustParseAddr(addr), Port: 80}, Roles: roles}
}

func TestApply(t *testing.T) {
	f := &fakePlane{vips: []redirect.VIP{vip("192.0.2.9", redirect.RoleClient)}, attached: []redirect.Attachment{{Index: 9, Duty: redirect.DutyServer}}}
	a := New(f)
	s := State{
		Devices: []Device{{Name: "eth0", Index: 1, Duties: []redirect.Duty{redirect.DutyClient, redirect.DutyBalancer}}, {Name: "pod", Index: 2, Placement: redirect.Pod, Duties: []redirect.Duty{redirect.DutyServer}}},
		VIPs:    []redirect.VIP{vip("192.0.2.1", redirect.RoleClient), vip("192.0.2.2", redirect.RoleClient)},
	}
	if err := a.Apply(s).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "first", "exchange", "set 192.0.2.1:80 Client", "set 192.0.2.2:80 Client", "delete 192.0.2.9:80", "echo []", "watch []",
		"client 1 Uplink", "balancer 1 Auto", "rest 1", "server 2 Pod", "detach 9 server")
	if b, on := a.Balancer(1); !on || b.XDP != redirect.XDPGeneric {
		t.Errorf("balancer %+v, %v", b, on)
	}
	f.attached = []redirect.Attachment{{Index: 1, Duty: redirect.DutyClient}, {Index: 1, Duty: redirect.DutyBalancer}, {Index: 2, Duty: redirect.DutyServer, Lost: true}}
	if err := a.Apply(s).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "again, one device lost", "server 2 Pod")
	f.attached[2].Lost = false
	s.Devices[0].Address, s.Devices[1].Address = "02:00:00:00:00:01", "02:00:00:00:00:02"
	if err := a.Apply(s).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "other addresses", "client 1 Uplink")

	s.VIPs = []redirect.VIP{vip("192.0.2.2", redirect.RoleClient|redirect.RoleBalance)}
	s.AllowEcho = []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	s.Watch = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
	s.Devices = s.Devices[:1]
	s.Devices[0].Duties = append(s.Devices[0].Duties, redirect.DutyWatch)
	if err := a.Apply(s).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "changed", "set 192.0.2.2:80 Client+Balance", "delete 192.0.2.1:80", "echo [192.0.2.2]", "watch [10.0.0.1:80]", "watch 1 Uplink", "detach 2 server", "balancer 1 Generic")
}

// Generic XDP rests while nothing is balanced, and is back before Apply says that something is; a failure is tried again.
func TestGenericXDPComesAndGoesWithTheRole(t *testing.T) {
	f := &fakePlane{}
	a := New(f)
	role := func(r redirect.Role) State {
		return State{VIPs: []redirect.VIP{vip("192.0.2.1", r)}, Devices: []Device{{Name: "eth0", Index: 1, Duties: []redirect.Duty{redirect.DutyBalancer}}}}
	}
	if err := a.Apply(role(redirect.RoleBalance)).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "a role from the start", "exchange", "set 192.0.2.1:80 Balance", "echo []", "watch []", "balancer 1 Auto")
	f.refuse = "rest"
	if r := a.Apply(role(redirect.RoleClient)); r.Works("eth0") {
		t.Error("it cannot be taken off, and nobody is told")
	}
	f.refuse = ""
	f.done = nil
	if err := a.Apply(role(redirect.RoleClient)).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "tried again", "rest 1")
	if err := a.Apply(role(redirect.RoleClient)).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "at rest")
	if err := a.Apply(role(redirect.RoleBalance)).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "the role is back", "set 192.0.2.1:80 Balance", "balancer 1 Generic")
}

// One entry at fault hinders no other, and is tried again.
func TestApplyGoesOn(t *testing.T) {
	f := &fakePlane{refuse: "set 192.0.2.1"}
	a := New(f)
	s := State{VIPs: []redirect.VIP{vip("192.0.2.1", redirect.RoleClient), vip("192.0.2.2", redirect.RoleClient)},
		Devices: []Device{{Name: "odd", Index: 3, Duties: []redirect.Duty{"none"}}, {Name: "eth0", Index: 1, Duties: []redirect.Duty{redirect.DutyClient}}}}
	r := a.Apply(s)
	if r.Works("odd") || !r.Works("eth0") {
		t.Errorf("result %+v", r)
	}
	if len(r.VIPs) != 1 || len(r.Devices) != 1 || r.Other != nil || !strings.Contains(r.Err().Error(), "192.0.2.1:80") {
		t.Errorf("result %+v", r)
	}
	f.took(t, "first", "exchange", "set 192.0.2.2:80 Client", "echo []", "watch []", "client 1 Uplink")
	f.refuse = ""
	if r := a.Apply(s); len(r.VIPs) != 0 {
		t.Errorf("result %+v", r)
	}
	f.took(t, "second", "set 192.0.2.1:80 Client")
}

// What IPv6 takes is there before anything of it is: who takes over a VIP must not
// wait until the kernel has verified the programs.
func TestIPv6IsPrepared(t *testing.T) {
	for _, six := range []bool{false, true} {
		f := &fakePlane{}
		if err := New(f).Apply(State{IPv6: six}).Err(); err != nil {
			t.Fatal(err)
		}
		if prepared := len(f.done) > 1 && f.done[1] == "ipv6"; prepared != six {
			t.Errorf("IPv6 %v: %q", six, f.done)
		}
	}
	f := &fakePlane{refuse: "ipv6"}
	if err := New(f).Apply(State{IPv6: true}).Err(); err == nil {
		t.Error("a refusal is not told of")
	}
}

// An upgrade whose programs cannot be put in place leaves the former ones attached as they are, says so, and is tried
// again; servers that come and go are followed all the same.
func TestMapsFollowWhileTheExchangeFails(t *testing.T) {
	f := &fakePlane{refuse: "exchange", vips: []redirect.VIP{vip("192.0.2.9", redirect.RoleClient)}}
	a := New(f)
	s := State{VIPs: []redirect.VIP{vip("192.0.2.1", redirect.RoleClient)}, Devices: []Device{{Name: "eth0", Index: 1, Duties: []redirect.Duty{redirect.DutyClient}}}, IPv6: true}
	if r := a.Apply(s); len(r.VIPs) != 0 || r.Devices["eth0"] == nil || r.Other == nil || !r.Works("eth0") {
		t.Errorf("result %+v", r)
	}
	f.took(t, "refused", "set 192.0.2.1:80 Client", "delete 192.0.2.9:80", "echo []", "watch []")
	s.VIPs = append(s.VIPs, vip("192.0.2.2", redirect.RoleClient))
	if r := a.Apply(s); r.Devices["eth0"] == nil || r.Other == nil {
		t.Errorf("result %+v", r)
	}
	f.took(t, "refused again", "set 192.0.2.2:80 Client")
	f.refuse = ""
	if err := a.Apply(s).Err(); err != nil {
		t.Error(err)
	}
	if f.done[0] != "exchange" {
		t.Errorf("the first of %q is not the exchange", f.done)
	}
	f.took(t, "tried again", "exchange", "ipv6", "client 1 Uplink")
	f.attached = []redirect.Attachment{{Index: 1, Duty: redirect.DutyClient}}
	if err := a.Apply(s).Err(); err != nil {
		t.Error(err)
	}
	f.took(t, "and never again", "ipv6")
}

// C-80: ways are there before whoever needs them, are written again only when they change, and go when nobody wants them.
func TestApplyTunnels(t *testing.T) {
	f := &fakePlane{}
	a := New(f)
	ip := netip.MustParseAddr
	s := State{
		Devices: []Device{{Name: "eth0", Index: 1, Duties: []redirect.Duty{redirect.DutyTunnel}}},
		VIPs:    []redirect.VIP{vip("192.0.2.1", redirect.RoleBalance|redirect.RoleTunnel)},
		Tunnels: redirect.Tunnels{
			Ways:  map[netip.Addr]redirect.Tunnel{ip("10.0.0.1"): {From: ip("10.1.0.1"), To: ip("10.1.0.2")}},
			Peers: []netip.Addr{ip("10.1.0.2")}, Own: []netip.Addr{ip("10.1.0.1")},
		},
	}
	if err := a.Apply(s).Err(); err != nil {
		t.Fatal(err)
	}
	const tunnels, set = "tunnels map[10.0.0.1:{10.1.0.1 10.1.0.2}] [10.1.0.2] [10.1.0.1] []", "set 192.0.2.1:80 Balance+Tunnel"
	if slices.Index(f.done, tunnels) > slices.Index(f.done, set) {
		t.Errorf("the VIP comes before the way to its server: %q", f.done)
	}
	f.took(t, "first", "exchange", tunnels, set, "echo []", "watch []", "tunnel 1")
	s.Tunnels.Own[0] = ip("10.1.0.9") // the plane was told a copy
	f.attached = []redirect.Attachment{{Index: 1, Duty: redirect.DutyTunnel}}
	if err := a.Apply(s).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "another address", "tunnels map[10.0.0.1:{10.1.0.1 10.1.0.2}] [10.1.0.2] [10.1.0.9] []")
	s.Tunnels, s.Devices = redirect.Tunnels{}, nil
	if err := a.Apply(s).Err(); err != nil {
		t.Fatal(err)
	}
	f.took(t, "none any more", "tunnels map[] [] [] []", "detach 1 tunnel")
}
