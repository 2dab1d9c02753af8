// SPDX-License-Identifier: Apache-2.0

package share

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Five nodes are named; of more, five and a number.
func TestNamesOfNodes(t *testing.T) {
	for nodes, want := range map[string]string{
		"": "", "b a": "a, b", "e d c b a": "a, b, c, d, e", "f e d c b a": "a, b, c, d, e and 1 more", "h g f e d c b a": "a, b, c, d, e and 3 more",
	} {
		if got := Names(strings.Fields(nodes)); got != want {
			t.Errorf("%q: %q, want %q", nodes, got, want)
		}
	}
}

// Which servers take connections decides what is said, and nothing is where all know redirects.
func TestWhyConnectionsStay(t *testing.T) {
	const kept = "with externalTrafficPolicy: Local"
	for _, c := range []struct {
		name         string
		crab, plain  int32
		none, keeps  bool
		tunnel       TunnelMode
		want         string
		nothingAtAll bool
	}{
		{name: "all know redirects", crab: 2, nothingAtAll: true},
		{name: "all do, and clients keep their addresses", crab: 2, keeps: true, nothingAtAll: true},
		{name: "all do, by tunnels", crab: 2, tunnel: TunnelOn, nothingAtAll: true},
		{name: "all do, by tunnels, and clients keep their addresses", crab: 2, keeps: true, tunnel: TunnelOn, want: "clients without agent get no connections: " + kept},
		{name: "no endpoints", none: true, want: "the Service has no endpoints"},
		{name: "no endpoints where clients keep their addresses by tunnels", none: true, keeps: true, tunnel: TunnelOn, want: "the Service has no endpoints"},
		{name: "none up", want: "none of 4 servers takes connections"},
		{name: "none up where clients keep their addresses by tunnels", keeps: true, tunnel: TunnelOn, want: "none of 4 servers takes connections"},
		{name: "only plain ones", plain: 2, want: "none of 2 servers knows redirects: is the agent running on a, b?"},
		{name: "some plain ones", crab: 1, plain: 1, want: "1 of 2 servers do not know redirects and get no redirected connection: is the agent running on all of a, b?"},
		{name: "as many of each", crab: 2, plain: 2, want: "2 of 4 servers do not know redirects"},
		{name: "only plain ones, kept", plain: 2, keeps: true, want: "none of 2 servers knows redirects, and none gets connections: " + kept},
		{name: "some plain ones, kept", crab: 1, plain: 3, keeps: true, want: "3 of 4 servers do not know redirects and get no connections: " + kept},
		{name: "some plain ones, kept, by tunnels", crab: 1, plain: 1, keeps: true, tunnel: TunnelOn, want: "1 of 2 servers do not know redirects and get no connections: " + kept},
	} {
		v := vip(func(v *crabplan.VIP) {
			v.KeepsClients = c.keeps
			if c.none {
				v.Backends = nil
			}
		})
		in := input(v)
		in.Tunnel = c.tunnel
		got := in.fallBack(&v, &v1alpha1.NodeVIP{UpCRAB: c.crab, UpPlain: c.plain})
		if !strings.HasPrefix(got, c.want) || (got == "") != c.nothingAtAll {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Only servers that terminate keep what was said of them; those that are not ready are forgotten.
func TestWhoIsAskedAndWhoIsOver(t *testing.T) {
	v := vip(nil)
	in := input(v)
	for balances, want := range map[bool]string{true: "[10.0.0.1:80 10.0.0.2:80] [10.0.0.3:80]", false: "[] []"} {
		in.Balances = func(netip.Addr) bool { return balances }
		s, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		var probe, over []string
		for _, p := range s.Probe {
			probe = append(probe, p.String())
		}
		for _, p := range s.Over {
			over = append(over, p.String())
		}
		if got := "[" + strings.Join(probe, " ") + "] [" + strings.Join(over, " ") + "]"; got != want {
			t.Errorf("balances %v: %s, want %s", balances, got, want)
		}
	}
	for state, want := range map[crabplan.State]redirect.State{crabplan.Ready: redirect.UpCRAB, crabplan.NotReady: redirect.Down, crabplan.Draining: redirect.Draining} {
		if got := in.state(&v, crabplan.Backend{State: state}); got != want {
			t.Errorf("%v: %v, want %v", state, got, want)
		}
	}
}
