// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

func askingGroup(name, address string, known bool, members ...string) switchboard.Group {
	g := switchboard.Group{Namespace: "shop", Name: name, Switch: "leaf", Version: "v-" + name, At: netip.MustParseAddrPort(address), Number: 5, Cluster: 9, Known: known, Epoch: 3}
	for n, m := range members {
		one := switchboard.GroupMember{ID: uint16(n + 1), Votes: true}
		if m != "" {
			one.Address = netip.MustParseAddrPort(m)
		}
		g.Members = append(g.Members, one)
	}
	return g
}

// A group is counted where the switch's pool says, by members to whom it knows a way; the others are named, and still count
// for the quorum.
func TestCountedByASwitch(t *testing.T) {
	s := running(t, "aggregator", func(s *snapshot) {
		s.groups = []switchboard.Group{
			askingGroup("orders", "192.0.2.1:8300", true, "10.0.1.5:8100", "10.0.2.5:8100", "172.16.0.9:8100", ""),
			askingGroup("again", "192.0.2.1:8300", true, "10.0.1.6:8100"),
			askingGroup("far", "203.0.113.1:8300", true, "10.0.1.6:8100"),
			askingGroup("new", "192.0.2.0:8300", false),
		}
		s.toldGroups = true
		s.vips = []crabplan.VIP{redirected("web", "192.0.2.3", 80)}
		s.services = []asking{asks("echo", "192.0.2.4", 1, "10.0.1.5")}
	})
	p := planFor(s)
	if p.desired == nil || len(p.desired.Groups) != 2 || p.waits {
		t.Fatalf("%+v, desired %+v", p.accepted, p.desired)
	}
	g := p.desired.Groups[0]
	if g.Name != "shop/orders" || g.Version != "v-orders" || g.Unknown || len(g.Members) != 4 || g.OwnMAC != 0x0200000000ff || g.Number != 5 || g.Cluster != 9 || g.Epoch != 3 {
		t.Errorf("%+v", g)
	}
	if m := g.Members; m[0].MAC != 0x02000000000b || m[1].Port != 1 || m[2].Address.IsValid() || m[3].Address.IsValid() {
		t.Errorf("%+v", m)
	}
	if !p.desired.Groups[1].Unknown {
		t.Error("a group of which no leader spoke is known")
	}
	var told []string
	for _, g := range p.guests {
		told = append(told, g.name+" "+g.reason+" "+strings.Join(g.unreachable, ","))
	}
	if got := strings.Join(told, "; "); got != "orders  member 3 (172.16.0.9:8100),member 4 (invalid AddrPort); again AddressTaken ; far OutsidePool ; new Reconciling ; echo OtherProgram ; web OtherProgram " {
		t.Errorf("%q", got)
	}
	before := p.desired.Revision
	s.groups[0].Version = "v-next"
	if planFor(s).desired.Revision == before {
		t.Error("another membership is no news for the switch")
	}
	s.toldGroups = false
	if !planFor(s).waits {
		t.Error("before anybody said which groups there are the switch is cleared")
	}
}

// askingBox is a group whose box is to be the switch.
func askingBox(name, address string, known bool, members ...string) switchboard.Group {
	g := askingGroup(name, address, known, members...)
	g.Box, g.FeedbackPort, g.Limit = true, 9000, 1000
	return g
}

// A group's requests go to the members to whom the switch knows a way; the others are named. Its aggregator is another switch's.
func TestBoxOnASwitch(t *testing.T) {
	s := running(t, "box", func(s *snapshot) {
		s.groups = []switchboard.Group{
			askingBox("orders", "192.0.2.1:8000", true, "10.0.1.5:8000", "10.0.2.5:8000", "172.16.0.9:8000"),
			askingBox("again", "192.0.2.1:8000", true, "10.0.1.6:8000"),
			askingBox("far", "203.0.113.1:8000", true, "10.0.1.6:8000"),
			askingBox("new", "192.0.2.0:8000", false),
			askingGroup("counted", "192.0.2.2:8300", true, "10.0.1.5:8100"),
		}
		s.toldGroups = true
	})
	p := planFor(s)
	if p.desired == nil || len(p.desired.Boxes) != 2 || len(p.desired.Groups) != 0 || p.waits {
		t.Fatalf("%+v, desired %+v", p.accepted, p.desired)
	}
	b := p.desired.Boxes[0]
	if b.Name != "shop/orders" || b.Version != "v-orders" || b.Unknown || len(b.Members) != 2 || b.Limit != 1000 || b.FeedbackPort != 9000 || b.Members[1].MAC == 0 {
		t.Errorf("%+v", b)
	}
	if !p.desired.Boxes[1].Unknown {
		t.Error("a group that has not begun is known")
	}
	var told []string
	for _, g := range p.guests {
		told = append(told, g.name+" "+g.reason+" "+strings.Join(g.unreachable, ","))
	}
	if got := strings.Join(told, "; "); got != "orders  member 3 (172.16.0.9:8000); again AddressTaken ; far OutsidePool ; new Reconciling ; counted OtherProgram " {
		t.Errorf("%q", got)
	}
	if text := p.guests[2].message; !strings.Contains(text, "`spec.box.switch.address` 203.0.113.1") {
		t.Error(text)
	}
	before := p.desired.Revision
	s.groups[0].Version = "v-next"
	if planFor(s).desired.Revision == before {
		t.Error("other members are no news for the switch")
	}
	s.toldGroups = false
	if !planFor(s).waits {
		t.Error("before anybody said which groups there are the switch is cleared")
	}
}

// Other programs count for nobody, and say so; what does not fit is told with the number that would.
func TestGroupsElsewhere(t *testing.T) {
	for _, program := range []string{"router", "crab", "slog"} {
		s := running(t, program, func(s *snapshot) {
			if program == "slog" {
				s.psw.Spec.AddressPool = []string{"10.99.0.0/16"}
			}
			s.groups, s.toldGroups = []switchboard.Group{askingGroup("orders", "192.0.2.1:8300", true)}, true
		})
		p := planFor(s)
		if len(p.guests) != 1 || p.guests[0].reason != "OtherProgram" || !strings.Contains(p.guests[0].message, "aggregates for no replication group") {
			t.Errorf("%s: %+v", program, p.guests)
		}
	}
	got := serviceStatus([]guest{{namespace: "shop", name: "orders"}}, keeper.State{Services: map[string]keeper.ServiceState{"shop/orders": {Refused: "the switch has room for 255 groups"}}})
	if got[0].Reason != "CapacityExceeded" || !strings.Contains(got[0].Message, "255 groups") {
		t.Errorf("%+v", got)
	}
}
