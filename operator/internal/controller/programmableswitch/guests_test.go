// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// runs another of the programs.
func running(t *testing.T, program string, change func(*snapshot)) *snapshot {
	t.Helper()
	text, err := os.ReadFile("../../switches/testdata/" + program + ".p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	return world(t, func(s *snapshot) {
		behind(s)
		part := s.psw.Spec.Pipeline.P4Info
		delete(s.parts, part)
		part.SHA256 = digest(text)
		s.psw.Spec.Pipeline.P4Info = part
		s.parts[part] = text
		s.toldOf = true
		if change != nil {
			change(s)
		}
	})
}

func redirected(name, address string, port uint16, servers ...string) crabplan.VIP {
	v := crabplan.VIP{Addr: netip.MustParseAddr(address), Port: port, Kind: crabplan.LoadBalancer, Service: types.NamespacedName{Namespace: "shop", Name: name},
		Revision: "rev-" + name, Policy: "RoundRobin", Switch: "leaf"}
	for _, s := range servers {
		v.Backends = append(v.Backends, crabplan.Backend{Addr: netip.MustParseAddr(s), Weight: 1, State: crabplan.Ready})
	}
	return v
}

// A redirected Service has its ready servers that the switch knows a way to; the rest is told by name.
func TestRedirectedByASwitch(t *testing.T) {
	s := running(t, "crab", func(s *snapshot) {
		web := redirected("web", "192.0.2.1", 80, "10.0.1.5", "10.0.2.5", "172.16.0.9", "10.0.1.6")
		web.Backends[3].State = crabplan.Draining
		s.vips = []crabplan.VIP{web, redirected("web", "192.0.2.1", 443, "10.0.1.5"), redirected("far", "203.0.113.1", 80, "10.0.1.5")}
		s.services = []asking{asks("echo", "192.0.2.1", 1, "10.0.1.5")}
	})
	p := planFor(s)
	if p.desired == nil || len(p.desired.VIPs) != 2 || len(p.desired.Services) != 0 || p.waits {
		t.Fatalf("%+v, desired %+v", p.accepted, p.desired)
	}
	v := p.desired.VIPs[0]
	if v.Name != "shop/web" || v.Version != "rev-web" || v.At.String() != "192.0.2.1:80" || len(v.Servers) != 2 || v.Servers[0].MAC != 0x02000000000b || v.Servers[1].Port != 1 || v.OwnMAC != 0x0200000000ff {
		t.Errorf("%+v", v)
	}
	var told []string
	for _, g := range p.guests {
		told = append(told, g.name+" "+g.reason+" "+strings.Join(g.unreachable, ","))
	}
	if got := strings.Join(told, "; "); got != "web  172.16.0.9; far OutsidePool ; echo OtherProgram " {
		t.Errorf("%q", got)
	}
	s.toldOf = false
	if !planFor(s).waits {
		t.Error("before anybody said what is redirected the switch is cleared")
	}
	before := planFor(s).desired.Revision
	s.vips[0].Backends = s.vips[0].Backends[:1]
	if planFor(s).desired.Revision == before {
		t.Error("another server is no news for the switch")
	}
}

// A load is made of targets that are all reached, from a network of 16 bits.
func TestLoadOfASwitch(t *testing.T) {
	ask := func(name string, targets ...string) switchboard.Run {
		r := switchboard.Run{Namespace: "lab", Name: name, Switch: "leaf", Version: "uid-" + name, Number: 5, Packets: 100, Rate: 10, TemplateRate: 100, TemplatePort: 68}
		for _, t := range targets {
			r.Targets = append(r.Targets, netip.MustParseAddrPort(t))
		}
		return r
	}
	s := running(t, "slog", func(s *snapshot) {
		s.psw.Spec.AddressPool = []string{"10.99.0.0/16"}
		s.runs = []switchboard.Run{ask("a", "10.0.1.5:8000"), ask("b", "10.0.1.5:8000", "172.16.0.1:8000")}
		s.vips = []crabplan.VIP{redirected("web", "192.0.2.1", 80)}
	})
	p := planFor(s)
	if p.desired == nil || len(p.desired.Runs) != 1 || len(p.desired.VIPs) != 0 {
		t.Fatalf("%+v", p.accepted)
	}
	r := p.desired.Runs[0]
	if r.Name != "lab/a" || r.Net.String() != "10.99.0.0/16" || r.Number != 5 || r.Targets[0].MAC != 0x02000000000b || r.Version != "uid-a" {
		t.Errorf("%+v", r)
	}
	var told []string
	for _, g := range p.guests {
		told = append(told, g.name+" "+g.reason)
	}
	if got := strings.Join(told, "; "); got != "a ; b TargetsUnreachable; web OtherProgram" {
		t.Errorf("%q", got)
	}
	s.psw.Spec.AddressPool = []string{"10.99.0.0/20"}
	if p := planFor(s); p.guests[0].reason != v1alpha1.ReasonInvalidConfiguration || !strings.Contains(p.guests[0].message, "network of 16 bits") {
		t.Errorf("%+v", p.guests)
	}
	if p := planFor(running(t, "router", func(s *snapshot) { s.runs = []switchboard.Run{ask("a")} })); len(p.guests) != 1 || p.guests[0].reason != v1alpha1.ReasonOtherProgram {
		t.Errorf("%+v", p.guests)
	}
}

// An objective that refuses reaches the switch in its ticks; one that observes does not.
func TestObjectiveOfASwitch(t *testing.T) {
	a := &dataplane.Admission{Mode: "Reject", Controller: "AIAD", LatencyMicroseconds: 500, PercentilePer100000: 99900, DroppableClasses: []int{0, 4, 7, 9}}
	got := objectiveOf(a, "v1model")
	if got.Latency != 500 || got.Per100k != 99900 || !got.Published || !got.Droppable[0] || got.Droppable[1] || !got.Droppable[7] {
		t.Errorf("%+v", got)
	}
	if tofino := objectiveOf(a, "tna"); tofino.Latency != uint32((500*time.Microsecond)/1024) {
		t.Errorf("%d ticks of a Tofino", tofino.Latency)
	}
	a.Mode = "Degrade"
	if objectiveOf(a, "v1model").Per100k != 0 || objectiveOf(nil, "v1model").Per100k != 0 {
		t.Error("nothing is to be refused, and something is")
	}
}
