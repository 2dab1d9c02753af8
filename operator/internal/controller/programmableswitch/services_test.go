// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

// asks is a service at an address, as old as its age says, with members at addresses.
func asks(name, address string, age int64, members ...string) asking {
	a := asking{hash: "hash-" + name, service: &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, CreationTimestamp: metav1.Unix(1000-age, 0)}}}
	a.service.Spec.Router = v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementSwitch, Switch: &v1alpha1.RouterSwitch{Name: "leaf", Address: address}}
	a.doc = &dataplane.Config{Service: dataplane.Service{Policy: "JBSQ", WorkerQueueDepth: 3, CentralQueueLimit: 100, MaxQueueMilliseconds: 1000, DeviceProfile: "Kernel"},
		Routers: []dataplane.Router{{Name: "router-a", Address: "10.0.0.9"}, *render.SwitchRouter("leaf", address)}}
	for n, m := range members {
		a.doc.Members = append(a.doc.Members, dataplane.Member{Name: fmt.Sprintf("server-%d", n), Address: m, FirstPort: 8000, Workers: 2})
	}
	return a
}

// behind are next hops with networks: one wide, one in it.
func behind(s *snapshot) {
	s.psw.Spec.NextHops = []v1alpha1.SwitchNextHop{
		{MACAddress: "02:00:00:00:00:0a", Port: 1, Networks: []string{"10.0.0.0/16"}},
		{MACAddress: "02:00:00:00:00:0b", Port: 2, Networks: []string{"10.0.1.0/24", "198.18.0.7/32"}},
	}
}

// What a service asks of the switch: its workers, each by the narrowest network that it is
// in, times in the switch's own ticks, and the id by which servers know it.
func TestServiceOfSwitch(t *testing.T) {
	s := world(t, behind)
	s.services = []asking{asks("echo", "192.0.2.1", 1, "10.0.1.5", "10.0.2.5", "172.16.0.1", "198.18.0.7")}
	p := planFor(s)
	if p.desired == nil || len(p.desired.Services) != 1 || len(p.guests) != 1 {
		t.Fatalf("%+v, %+v", p.accepted, p.guests)
	}
	got := p.desired.Services[0]
	if got.Name != "demo/echo" || got.Version != "hash-echo" || got.Address.String() != "192.0.2.1:8000" || got.Reports.String() != "192.0.2.1:9000" ||
		got.Choice != switches.ByCredit || got.Depth != 3 || got.Held != 100 || got.Patience != 1_000_000 || got.Loss != 200_000 ||
		got.OwnMAC != 0x0200000000ff || got.Router != wire.RouterID(got.Address) {
		t.Errorf("%+v", got)
	}
	var ways []string
	for _, w := range got.Workers {
		ways = append(ways, fmt.Sprintf("%s by %012x at %d", w.Address, w.MAC, w.Port))
	}
	want := []string{"10.0.1.5:8000 by 02000000000b at 2", "10.0.1.5:8001 by 02000000000b at 2", "10.0.2.5:8000 by 02000000000a at 1", "10.0.2.5:8001 by 02000000000a at 1",
		"198.18.0.7:8000 by 02000000000b at 2", "198.18.0.7:8001 by 02000000000b at 2"}
	if !slices.Equal(ways, want) || !slices.Equal(p.guests[0].unreachable, []string{"server-2 (172.16.0.1)"}) {
		t.Errorf("%s; no way to %v", strings.Join(ways, ", "), p.guests[0].unreachable)
	}
	if n := ticks(time.Second, "tna"); n != 976562 {
		t.Errorf("%d ticks of a Tofino in a second", n)
	}
	st := serviceStatus(p.guests, keeper.State{Services: map[string]keeper.ServiceState{"demo/echo": {Version: "hash-echo"}}})[0]
	if st.ConfigHash != "hash-echo" || st.Workers != 6 || st.Reason != "" || len(st.UnreachableWorkers) != 1 {
		t.Errorf("%+v", st)
	}
	s.known, s.state = true, keeper.State{Services: map[string]keeper.ServiceState{"demo/echo": {Version: "hash-echo"}}}
	counted := s.psw.DeepCopy()
	if writeStatus(counted, s, p, time.Unix(300, 0)); counted.Status.ServiceCount != 1 {
		t.Errorf("%d services are held, want 1", counted.Status.ServiceCount)
	}
	s.state.Services = nil
	if writeStatus(counted, s, p, time.Unix(300, 0)); counted.Status.ServiceCount != 0 {
		t.Errorf("%d services are held before one was read back", counted.Status.ServiceCount)
	}
	full := serviceStatus(p.guests, keeper.State{Services: map[string]keeper.ServiceState{"demo/echo": {Version: "older", Refused: "16 workers would fit"}}})[0]
	if full.Reason != v1alpha1.ReasonCapacityExceeded || full.Message != "16 workers would fit" || full.ConfigHash != "older" {
		t.Errorf("%+v", full)
	}
}

// An address is of the pool, and of one service: the oldest. A service is asked for once
// its servers report to the switch, and not after they cease to.
func TestGuests(t *testing.T) {
	without := asks("early", "192.0.2.1", 1, "10.0.1.5")
	without.doc.Routers = without.doc.Routers[:1]
	forged := asks("forged", "192.0.2.1", 1, "10.0.1.5")
	forged.doc.Routers[1].Name = "a-pod"
	empty := asks("empty", "192.0.2.1", 1)
	empty.doc = nil
	leaving := asks("leaving", "192.0.2.1", 1, "10.0.1.5")
	leaving.service.Spec.Router = v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementSoftware}
	leaving.service.Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: "leaf", Address: "192.0.2.1"}
	for _, row := range []struct {
		name string
		all  []asking
		want string
	}{
		{"two addresses", []asking{asks("a", "192.0.2.0", 1), asks("b", "192.0.2.1", 2)}, "b: , a: "},
		{"one address", []asking{asks("a", "192.0.2.1", 1), asks("b", "192.0.2.1", 2)}, "b: , a: AddressTaken"},
		{"outside", []asking{asks("a", "192.0.2.2", 1)}, "a: OutsidePool"},
		{"no address", []asking{asks("a", "192.0.2.999", 1)}, "a: InvalidConfiguration"},
		{"servers do not report yet", []asking{without}, "early: Reconciling"},
		{"a pod that has the address", []asking{forged}, "forged: Reconciling"},
		{"no configuration", []asking{empty}, "empty: Reconciling"},
		{"on its way out", []asking{leaving}, "leaving: "},
	} {
		s := world(t, behind)
		s.services = row.all
		p := planFor(s)
		var got []string
		for _, g := range p.guests {
			got = append(got, g.name+": "+g.reason)
		}
		served := slices.DeleteFunc(slices.Clone(p.guests), func(g guest) bool { return g.reason != "" })
		if text := strings.Join(got, ", "); text != row.want || len(p.desired.Services) != len(served) {
			t.Errorf("%s: %q with %d services, want %q", row.name, text, len(p.desired.Services), row.want)
		}
	}
}

// Networks behind next hops are networks, and lead one way.
func TestWays(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.1.1/24":  "`spec.nextHops[1].networks[0]` \"10.0.1.1/24\" is no IPv4 network such as 10.0.1.0/24",
		"300.0.1.0/24": "is no IPv4 network",
		"10.0.0.0/16":  "is a network of 02:00:00:00:00:0a already",
	} {
		s := world(t, behind)
		s.psw.Spec.NextHops[1].Networks = []string{text}
		if p := planFor(s); p.accepted.Reason != v1alpha1.ReasonInvalidConfiguration || !strings.Contains(p.accepted.Message, want) {
			t.Errorf("%s: %+v", text, p.accepted)
		}
	}
}

// Another worker is another revision, so that the keeper acts at once.
func TestRevision(t *testing.T) {
	of := func(members ...string) string {
		s := world(t, behind)
		s.services = []asking{asks("echo", "192.0.2.1", 1, members...)}
		return planFor(s).desired.Revision
	}
	if one, again, two := of("10.0.1.5"), of("10.0.1.5"), of("10.0.1.6"); one != again || one == two {
		t.Errorf("%s, %s, %s", one, again, two)
	}
}
