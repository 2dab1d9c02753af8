// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/crabwords"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// toldOf is what the guests of a plan are told, with how many each has behind it.
func toldOf(all []guest) string {
	var out []string
	for _, g := range all {
		out = append(out, fmt.Sprintf("%s %s%d", g.name, g.reason, g.workers))
	}
	return strings.Join(out, ", ")
}

// One that gets nothing ends nothing: those that stand behind it in the list are served all the same, and the members to
// whom there is a way are counted.
func TestRefusedGroupsBeforeServedOnes(t *testing.T) {
	groups := []switchboard.Group{
		askingBox("boxed", "192.0.2.0:8000", true, "10.0.1.5:8000"),
		askingGroup("far", "203.0.113.1:8300", true, "10.0.1.6:8100"),
		askingGroup("counted", "192.0.2.0:8300", true, "172.16.0.9:8100", "10.0.1.5:8100", "10.0.2.5:8100"),
		askingBox("remote", "203.0.113.1:8000", true, "10.0.1.6:8000"),
		askingBox("late", "192.0.2.1:8000", true, "172.16.0.9:8000", "10.0.1.5:8000", "10.0.2.5:8000"),
	}
	for program, want := range map[string]string{
		"aggregator": "far OutsidePool0, counted 2, boxed OtherProgram0, remote OtherProgram0, late OtherProgram0",
		"box":        "boxed 1, remote OutsidePool0, late 2, far OtherProgram0, counted OtherProgram0",
	} {
		p := planFor(running(t, program, func(s *snapshot) { s.groups, s.toldGroups = groups, true }))
		if got := toldOf(p.guests); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
}

// What no connection can be sent to stands before what one can: another Service, a server that goes, one without a way.
func TestUselessServersBeforeUsefulOnes(t *testing.T) {
	web := redirected("web", "192.0.2.1", 80, "10.0.1.4", "172.16.0.9", "10.0.1.5", "172.16.0.9", "10.0.2.5")
	web.Backends[0].State = crabplan.Draining
	free := redirected("free", "192.0.2.0", 80, "10.0.1.5")
	free.Policy = crabwords.Random
	p := planFor(running(t, "crab", func(s *snapshot) {
		s.vips = []crabplan.VIP{redirected("far", "203.0.113.1", 80, "10.0.1.5"), web, free}
	}))
	if got := toldOf(p.guests); got != "far OutsidePool0, web 2, free 1" {
		t.Error(got)
	}
	if !slices.Equal(p.guests[1].unreachable, []string{"172.16.0.9"}) {
		t.Errorf("no way to %q", p.guests[1].unreachable)
	}
	if all := p.desired.VIPs; len(all) != 2 || all[0].Random || !all[1].Random {
		t.Errorf("%+v", all)
	}
}

// A switch has so many Services and no more; another address of one that it has is no further one.
func TestAsManyRedirectedAsTheSwitchHas(t *testing.T) {
	var all []crabplan.VIP
	for n := range v1alpha1.MaxSwitchServices + 1 {
		all = append(all, redirected(fmt.Sprintf("s%d", n), fmt.Sprintf("10.1.%d.%d", n/256, n%256), 80))
	}
	all = append(all, redirected("s0", "10.1.0.0", 443))
	f := switches.Fabric{Pool: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	guests, vips := vipsOf(all, f, nil)
	if len(guests) != v1alpha1.MaxSwitchServices || len(vips) != len(guests)+1 || vips[len(vips)-1].At.Port() != 443 {
		t.Errorf("%d guests, %d addresses", len(guests), len(vips))
	}
	if last := guests[len(guests)-1]; last.name != fmt.Sprintf("s%d", v1alpha1.MaxSwitchServices-1) {
		t.Errorf("the last is %s", last.name)
	}
}

// Who is told that another program would do is told once, by namespace and name, and there is an end to it.
func TestStrangersAreToldOnce(t *testing.T) {
	s := &snapshot{}
	add := func(namespace, name string) {
		v := redirected(name, "192.0.2.1", 80)
		v.Service.Namespace = namespace
		s.vips = append(s.vips, v)
	}
	add("shop", "web")
	add("shop", "web")
	add("shop", "db")
	add("lab", "web")
	if got := toldOf(strangers(s, switches.ProgramSLOG)); got != "web OtherProgram0, db OtherProgram0, web OtherProgram0" {
		t.Error(got)
	}
	for n := range v1alpha1.MaxSwitchServices {
		add("many", fmt.Sprintf("s%d", n))
	}
	if got := strangers(s, switches.ProgramSLOG); len(got) != v1alpha1.MaxSwitchServices {
		t.Errorf("%d are told", len(got))
	}
}

// The stamp's network is the first of 16 bits, wherever it stands in the pool; a target without a way hides none behind it.
func TestNetworkOfALoad(t *testing.T) {
	f := switches.Fabric{}
	for _, text := range []string{"192.0.2.0/24", "10.98.0.0/16", "10.99.0.0/16"} {
		f.Pool = append(f.Pool, netip.MustParsePrefix(text))
	}
	routes := []way{{network: netip.MustParsePrefix("10.0.0.0/16")}}
	at := func(targets ...string) switchboard.Run {
		r := switchboard.Run{Namespace: "lab", Name: "a"}
		for _, one := range targets {
			r.Targets = append(r.Targets, netip.MustParseAddrPort(one))
		}
		return r
	}
	guests, runs := runsOf([]switchboard.Run{at("172.16.0.1:80", "10.0.0.1:80", "172.16.0.2:80"), at("10.0.0.1:80")}, f, routes)
	if len(runs) != 1 || runs[0].Net.String() != "10.98.0.0/16" {
		t.Errorf("%+v", runs)
	}
	if got := guests[0].unreachable; !slices.Equal(got, []string{"172.16.0.1:80", "172.16.0.2:80"}) {
		t.Errorf("no way to %q", got)
	}
}

// The switch serves as many as it has room for, the oldest; the list of who asks has an end too.
func TestAsManyServicesAsTheSwitchHas(t *testing.T) {
	var all []asking
	for n := range v1alpha1.MaxSwitchServices + 2 {
		all = append(all, asks(fmt.Sprintf("s%d", n), fmt.Sprintf("10.1.%d.%d", n/256, n%256), int64(900-n)))
	}
	f := switches.Fabric{Pool: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	guests, services, wrong := servicesOf(all, v1alpha1.ProgrammableSwitchSpec{}, f, "v1model")
	if wrong != "" || len(guests) != v1alpha1.MaxSwitchServices || len(services) != v1alpha1.MaxSwitchServices {
		t.Fatalf("%d guests, %d services, %s", len(guests), len(services), wrong)
	}
	if last := services[len(services)-1].Name; last != fmt.Sprintf("demo/s%d", v1alpha1.MaxSwitchServices-1) {
		t.Errorf("the last is %s", last)
	}
}

// A switch of IPv4 is given no address of IPv6, wherever one may stand.
func TestNoAddressOfIPv6(t *testing.T) {
	for field, change := range map[string]func(*snapshot){
		"`spec.addressPool[0]`":          func(s *snapshot) { s.psw.Spec.AddressPool = []string{"2001:db8::/64"} },
		"`spec.nextHops[1].networks[0]`": func(s *snapshot) { s.psw.Spec.NextHops[1].Networks = []string{"2001:db8::/64"} },
	} {
		s := world(t, behind)
		change(s)
		if p := planFor(s); p.accepted.Reason != v1alpha1.ReasonInvalidConfiguration || !strings.Contains(p.accepted.Message, field) {
			t.Errorf("%s: %+v", field, p.accepted)
		}
	}
	s := world(t, behind)
	s.services = []asking{asks("six", "2001:db8::1", 1)}
	if p := planFor(s); len(p.guests) != 1 || p.guests[0].reason != v1alpha1.ReasonInvalidConfiguration {
		t.Errorf("%+v", p.guests)
	}
}

// The switch's own address is one, or none.
func TestOwnAddressOfTheSwitch(t *testing.T) {
	for text, good := range map[string]bool{"": true, "02:00:00:00:00:ff": true, "02:00:00:00:00:zz": false} {
		s := world(t, behind)
		s.psw.Spec.MACAddress = text
		if p := planFor(s); p.accepted.OK() != good || !good && !strings.Contains(p.accepted.Message, "`spec.macAddress`") {
			t.Errorf("%q: %+v", text, p.accepted)
		}
	}
}

// The certificate is for the host that is called, unless another name is given.
func TestNameInTheCertificate(t *testing.T) {
	cert, _ := certificate(t)
	for given, want := range map[string]string{"": "10.0.0.1", "leaf.example": "leaf.example"} {
		s := world(t, nil)
		s.psw.Spec.TLS, s.secret = &v1alpha1.SwitchTLS{SecretName: "leaf", ServerName: given}, map[string][]byte{keyAuthority: cert}
		if got, v := credentials(s); v.Reason != "" || got.ServerName != want {
			t.Errorf("%q: %+v, %+v", given, got, v)
		}
	}
}

// A request over SR-IOV counts as lost much sooner.
func TestLossByDevice(t *testing.T) {
	for profile, want := range map[v1alpha1.DeviceType]time.Duration{v1alpha1.DeviceSRIOV: 2 * time.Millisecond, v1alpha1.DeviceKernel: 200 * time.Millisecond} {
		s := world(t, behind)
		one := asks("echo", "192.0.2.1", 1, "10.0.1.5")
		one.doc.Service = dataplane.Service{DeviceProfile: string(profile)}
		s.services = []asking{one}
		if got := planFor(s).desired.Services[0].Loss; got != uint32(want.Microseconds()) {
			t.Errorf("%s: %d", profile, got)
		}
	}
}

// Entries of others are told of where there are any.
func TestReadyWithEntriesOfOthers(t *testing.T) {
	for strange, want := range map[int]string{0: "the switch is programmed", 1: "the switch is programmed; 1 of its entries are not the operator's, and stay"} {
		s := &snapshot{}
		s.state.Strange = strange
		if got := decideReady(s, verdict.Yes("A", ""), verdict.Yes("A", "")); !got.OK() || got.Message != want {
			t.Errorf("%d: %+v", strange, got)
		}
	}
}
