// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/crabwords"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

func backend(addr, node string, state crabplan.State) crabplan.Backend {
	return crabplan.Backend{Addr: netip.MustParseAddr(addr), Node: node, Weight: 1, State: state}
}

func loadPlan() crabplan.Plan {
	pods := []crabplan.Backend{backend("10.0.0.1", "a", crabplan.Ready), backend("10.0.0.2", "b", crabplan.Ready), backend("10.0.0.3", "a", crabplan.NotReady)}
	node := []crabplan.Backend{backend("10.1.0.1", "a", crabplan.Ready)}
	return crabplan.Plan{VIPs: []crabplan.VIP{
		{Addr: netip.MustParseAddr("10.1.0.1"), Port: 30080, Kind: crabplan.NodePort, Node: "a", Local: true, Policy: "Least"},
		{Addr: netip.MustParseAddr("10.1.0.2"), Port: 30080, Kind: crabplan.NodePort, Node: "b", Policy: "Least", Backends: node},
		{Addr: netip.MustParseAddr("192.0.2.1"), Port: 80, Kind: crabplan.LoadBalancer, Policy: "PowerOfTwo", Backends: pods},
		{Addr: netip.MustParseAddr("192.0.2.2"), Port: 80, Kind: crabplan.LoadBalancer, Policy: "RoundRobin", Backends: pods},
	}}
}

// C-62: a node counts its ready servers of VIPs by load, and nobody else's; it
// tells the owner of an address, and of a node port the node that has it.
func TestServedHere(t *testing.T) {
	pod, node := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.1.0.1:30080")
	want := []loads.Served{
		{Pool: loads.Pool{VIP: netip.MustParseAddrPort("10.1.0.2:30080"), Servers: []loads.Server{{Addr: node, Node: "a", Weight: 1}}}, Balancers: []string{"b"}},
		{Pool: loads.Pool{VIP: netip.MustParseAddrPort("192.0.2.1:80"), Servers: []loads.Server{{Addr: pod, Node: "a", Weight: 1}}}},
	}
	got := servedHere(loadPlan(), "a")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if w := watched(loads.Local("a", got), nil); !reflect.DeepEqual(w, []netip.AddrPort{pod, node}) {
		t.Errorf("watched %v", w)
	}
	if got := servedHere(loadPlan(), "c"); len(got) != 0 {
		t.Errorf("a node without servers serves %+v", got)
	}
}

// C-64: a balancer outside has policies of its own, so it is told of every ready server; what balancers inside need is
// counted first.
func TestServersHere(t *testing.T) {
	plan := loadPlan()
	pod, node, other := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.1.0.1:30080"), netip.MustParseAddrPort("10.0.0.1:81")
	plan.VIPs[3].Port = 81
	got := serversHere(plan, "a")
	if want := []netip.AddrPort{pod, other, node}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if w := watched([]netip.AddrPort{pod, node}, got); !reflect.DeepEqual(w, got) {
		t.Errorf("watched %v", w)
	}
	var many []netip.AddrPort
	for i := range redirect.MaxWatched {
		many = append(many, netip.AddrPortFrom(pod.Addr(), uint16(i+1)))
	}
	if w := watched([]netip.AddrPort{node}, many); len(w) != redirect.MaxWatched || w[len(w)-1] != node {
		t.Errorf("%d are watched, the last is %v", len(w), w[len(w)-1])
	}
}

// C-62: reports are wanted of servers that may be chosen, where this node chooses.
func TestBalancedHere(t *testing.T) {
	plan := loadPlan()
	mine, err := share.Make(share.Input{
		Plan: plan, Node: "b", Balances: func(netip.Addr) bool { return true },
		HasAgent: func(node string) bool { return node == "a" },
		Health:   func(netip.AddrPort) (redirect.State, bool) { return redirect.Down, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []loads.Pool{
		{VIP: netip.MustParseAddrPort("10.1.0.2:30080"), Servers: []loads.Server{{Addr: netip.MustParseAddrPort("10.1.0.1:30080"), Node: "a", Weight: 1}}},
		{VIP: netip.MustParseAddrPort("192.0.2.1:80"), Servers: []loads.Server{{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Node: "a", Weight: 1}}},
	}
	if got := balancedHere(plan, mine, []netip.Addr{plan.VIPs[2].Addr}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want[1].Leaving = true
	if got := balancedHere(plan, mine, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("given away: got %+v, want %+v", got, want)
	}
	if loads.Linger < keeper.Grace {
		t.Errorf("who gave a VIP away balances for %v and is told for %v", keeper.Grace, loads.Linger)
	}
}

// What a Service's condition says of missing reports names nodes and causes.
func TestWithoutLoads(t *testing.T) {
	got := withoutLoads(loads.Silent{Servers: 2, Of: 3, Nodes: []string{"a", "b"}}, map[string]bool{"b": true})
	for _, part := range []string{"2 of 3", "C-62", "agents of a are not heard", "those of b are heard"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q lacks %q", got, part)
		}
	}
	if got := withoutLoads(loads.Silent{Servers: 1, Of: 3, Nodes: []string{"b"}}, map[string]bool{"b": true}); strings.Contains(got, "not heard") {
		t.Errorf("b is heard: %q", got)
	}
}

// The policies by load are those whose programs look at loads.
func TestByLoad(t *testing.T) {
	for i, name := range crabwords.Policies {
		p := redirect.Policy(i)
		if got := (crabplan.VIP{Policy: name}).ByLoad(); got != (p == redirect.PowerOfTwo || p == redirect.Least) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
