// SPDX-License-Identifier: Apache-2.0

package share

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// vip is 192.0.2.1:80 with a ready server on a, one on b, a draining and an unready one.
func vip(change func(*crabplan.VIP)) crabplan.VIP {
	v := crabplan.VIP{
		Addr: ip("192.0.2.1"), Port: 80, Kind: crabplan.LoadBalancer, Service: types.NamespacedName{Namespace: "shop", Name: "web"},
		Revision: "r", Policy: "Least", Backends: []crabplan.Backend{
			{Addr: ip("10.0.0.1"), Node: "a", Weight: 2, State: crabplan.Ready}, {Addr: ip("10.0.0.2"), Node: "b", Weight: 1, State: crabplan.Ready},
			{Addr: ip("10.0.0.3"), Node: "b", Weight: 1, State: crabplan.Draining}, {Addr: ip("10.0.0.4"), Node: "c", Weight: 1, State: crabplan.NotReady},
		},
	}
	if change != nil {
		change(&v)
	}
	return v
}

// input is node a's, which balances nothing; every node has an agent, and no
// server has been asked.
func input(vips ...crabplan.VIP) Input {
	return Input{
		Plan: crabplan.Plan{VIPs: vips}, Node: "a", Probers: []netip.Addr{ip("10.1.0.2"), ip("10.1.0.1")},
		Balances: func(netip.Addr) bool { return false }, HasAgent: func(string) bool { return true },
		Health: func(netip.AddrPort) (redirect.State, bool) { return redirect.Down, false },
	}
}

func nodePort(node string, local bool) crabplan.VIP {
	return vip(func(v *crabplan.VIP) {
		v.Kind, v.Node, v.Local, v.Addr, v.Port = crabplan.NodePort, node, local, ip("10.1.0.1"), 30080
	})
}

func TestRoles(t *testing.T) {
	const balances, ours = redirect.RoleClient | redirect.RoleBalance, redirect.RoleBalance | redirect.RoleStackFallback
	for _, c := range []struct {
		name string
		vip  crabplan.VIP
		owns bool
		want redirect.Role
	}{
		{"somebody else's", vip(nil), false, redirect.RoleClient},
		{"ours", vip(nil), true, balances},
		{"our node port", nodePort("a", false), false, ours},
		{"our node port, pod here", nodePort("a", true), false, redirect.RoleClient},
		{"another node's", nodePort("b", false), true, redirect.RoleClient},
	} {
		in := input(c.vip)
		in.Balances = func(netip.Addr) bool { return c.owns }
		s, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		v := s.VIPs[0]
		if v.Roles != c.want || v.Policy != redirect.Least || len(v.Prefixes) != 4 || v.Validate() != nil {
			t.Errorf("%s: %+v, %v", c.name, v, v.Validate())
		}
		if is := v.Roles&redirect.RoleBalance != 0; is != (len(v.Backends) == 4) || is != (len(s.Probe) == 2) || is != (len(s.Over) == 1) || is != (s.Status[0].Role == v1alpha1.VIPRoleBalancer) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// Servers answer probers of all nodes, and for the VIPs they serve.
func TestEcho(t *testing.T) {
	other := vip(func(v *crabplan.VIP) { v.Addr, v.Backends = ip("192.0.2.2"), v.Backends[1:] })
	s, err := Make(input(vip(nil), other))
	if want := []netip.Addr{ip("10.1.0.1"), ip("10.1.0.2"), ip("192.0.2.1")}; err != nil || !reflect.DeepEqual(s.AllowEcho, want) {
		t.Errorf("%v, %v", s.AllowEcho, err)
	}
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		name     string
		health   map[string]redirect.State
		agents   string
		want     string // states of the four servers
		fallBack string
	}{
		{"just taken over", nil, "abc", "UpCRAB UpCRAB Draining Down", ""},
		{"just taken over, no agent on b", nil, "ac", "UpCRAB UpPlain Down Down", "1 of 2 servers do not know redirects"},
		{"asked", map[string]redirect.State{"10.0.0.1": redirect.UpCRAB, "10.0.0.2": redirect.Down}, "b", "UpCRAB Down Draining Down", ""},
		{"probes know better", map[string]redirect.State{"10.0.0.1": redirect.UpPlain, "10.0.0.2": redirect.UpPlain}, "abc", "UpPlain UpPlain Draining Down",
			"none of 2 servers knows redirects: is the agent running on a, b?"},
		{"what terminates was relayed", map[string]redirect.State{"10.0.0.1": redirect.UpCRAB, "10.0.0.2": redirect.UpPlain, "10.0.0.3": redirect.UpPlain}, "abc", "UpCRAB UpPlain Down Down",
			"1 of 2 servers do not know redirects"},
		{"what terminates echoed", map[string]redirect.State{"10.0.0.1": redirect.UpCRAB, "10.0.0.2": redirect.UpCRAB, "10.0.0.3": redirect.UpCRAB}, "a", "UpCRAB UpCRAB Draining Down", ""},
		{"nobody answers", map[string]redirect.State{"10.0.0.1": redirect.Down, "10.0.0.2": redirect.Down}, "abc", "Down Down Draining Down", "none of 4 servers takes connections"},
	} {
		in := input(vip(nil))
		in.Balances = func(a netip.Addr) bool { return a == ip("192.0.2.1") }
		in.HasAgent = func(node string) bool { return strings.Contains(c.agents, node) }
		in.Health = func(s netip.AddrPort) (redirect.State, bool) {
			state, known := c.health[s.Addr().String()]
			return state, known && s.Port() == 80
		}
		s, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range s.VIPs[0].Backends {
			got = append(got, b.State.String())
		}
		n := s.Status[0]
		counted := fmt.Sprint(n.UpCRAB, n.UpPlain, n.Draining, n.Down)
		told := strings.Replace(c.want, "Down Down", "Draining Down", 1) // the third one terminates, whoever serves it
		if strings.HasPrefix(c.want, "Down") {
			told = c.want
		}
		want := fmt.Sprint(strings.Count(told, "UpCRAB"), strings.Count(told, "UpPlain"), strings.Count(told, "Draining"), strings.Count(told, "Down"))
		if strings.Join(got, " ") != c.want || counted != want || (c.fallBack == "") != (n.FallBack == "") || !strings.Contains(n.FallBack, c.fallBack) {
			t.Errorf("%s: %v, counted %s, %q", c.name, got, counted, n.FallBack)
		}
		if len(n.FallBack) > v1alpha1.MaxNodeMessage {
			t.Errorf("%s: too long", c.name)
		}
	}
}

// K-11: where clients keep their addresses nothing is relayed: a server without agent gets no connections, and the Service
// is told which rule that is.
func TestNothingIsRelayedWhereClientsKeepTheirAddresses(t *testing.T) {
	for _, c := range []struct {
		agents, states, fallBack string
		mode                     TunnelMode
	}{
		{"abc", "UpCRAB UpCRAB Draining Down", "", TunnelOff},
		{"ac", "UpCRAB Down Down Down", "1 of 2 servers do not know redirects and get no connections: with externalTrafficPolicy: Local clients keep their addresses, which a relay would hide (C-42); is the agent running on all of a, b?", TunnelOff},
		{"", "Down Down Down Down", "none of 2 servers knows redirects, and none gets connections: with externalTrafficPolicy: Local", TunnelOff},
		{"abc", "UpCRAB UpCRAB Down Down", "clients without agent get no connections: with externalTrafficPolicy: Local", TunnelOn},
	} {
		in := input(vip(func(v *crabplan.VIP) { v.KeepsClients = true }))
		in.Balances = func(netip.Addr) bool { return true }
		in.HasAgent = func(node string) bool { return strings.Contains(c.agents, node) }
		in.Tunnel = c.mode
		s, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range s.VIPs[0].Backends {
			got = append(got, b.State.String())
		}
		n := s.Status[0]
		if strings.Join(got, " ") != c.states || s.VIPs[0].Roles&redirect.RoleKeepClient == 0 || s.VIPs[0].Validate() != nil {
			t.Errorf("agents on %q: %v, %s", c.agents, got, s.VIPs[0].Roles)
		}
		if (c.fallBack == "") != (n.FallBack == "") || !strings.HasPrefix(n.FallBack, c.fallBack) {
			t.Errorf("agents on %q: the Service is told %q", c.agents, n.FallBack)
		}
	}
}

func TestNoEndpoints(t *testing.T) {
	in := input(vip(func(v *crabplan.VIP) { v.Backends = nil }))
	in.Balances = func(netip.Addr) bool { return true }
	if s, err := Make(in); err != nil || s.Status[0].FallBack != "the Service has no endpoints" || s.VIPs[0].Validate() != nil {
		t.Errorf("%+v, %v", s, err)
	}
	in = input(vip(func(v *crabplan.VIP) { v.Backends[0].Node = strings.Repeat("n", 253) }), vip(nil))
	in.Plan.VIPs[0].Backends[1].Node = strings.Repeat("m", 253)
	in.Balances, in.HasAgent = func(netip.Addr) bool { return true }, func(string) bool { return false }
	if s, err := Make(in); err != nil || len(s.Status[0].FallBack) != v1alpha1.MaxNodeMessage {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Make(input(vip(func(v *crabplan.VIP) { v.Policy = "Fair" }))); err == nil || !strings.Contains(err.Error(), "192.0.2.1:80 of Service shop/web") {
		t.Errorf("%v", err)
	}
}

// C-9: probes over IPv6 are echoed where a VIP is IPv6; elsewhere nothing of it is made.
func TestIPv6ProbesAreEchoedWhereThereIsIPv6(t *testing.T) {
	six := vip(func(v *crabplan.VIP) {
		v.Addr, v.Backends = ip("fd00::1"), []crabplan.Backend{{Addr: ip("fd00:1::1"), Node: "b", Weight: 1, State: crabplan.Ready}}
	})
	for _, c := range []struct {
		vips []crabplan.VIP
		want string
	}{{[]crabplan.VIP{vip(nil)}, "[10.1.0.1 10.1.0.2 192.0.2.1]"}, {[]crabplan.VIP{vip(nil), six}, "[10.1.0.1 10.1.0.2 192.0.2.1 100::8]"}} {
		in := input(c.vips...)
		in.Probers = append(in.Probers, ip("100::8"))
		got, err := Make(in)
		if err != nil || fmt.Sprint(got.AllowEcho) != c.want {
			t.Errorf("%v, %v, want %s", got.AllowEcho, err, c.want)
		}
		for _, v := range got.VIPs {
			for _, p := range v.Prefixes {
				if p.Addr().BitLen() != p.Bits() {
					t.Errorf("C-91: %s is believed", p)
				}
			}
		}
	}
}
