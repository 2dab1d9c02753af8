// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"errors"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// mixed is a plane whose first device balances in the driver and the others by generic XDP, or by what is told, and whose
// VIPs may not be read.
type mixed struct {
	*fakePlane
	generic redirect.XDPMode
	unread  error
}

func (m *mixed) AttachBalancer(i int, x redirect.XDPMode) (redirect.Attachment, error) {
	mode := m.generic
	if i == 1 {
		mode = redirect.XDPNative
	}
	return redirect.Attachment{Index: i, XDP: mode}, m.do("balancer %d %s", i, x)
}

func (m *mixed) VIPs() ([]redirect.VIP, error) { return nil, m.unread }

// stateOf balances on devices 1 to 3, or has no balanced VIP.
func stateOf(balanced bool) State {
	role := redirect.RoleClient
	if balanced {
		role = redirect.RoleBalance
	}
	s := State{VIPs: []redirect.VIP{vip("192.0.2.1", role)}}
	for i, name := range []string{"native", "one", "two"} {
		s.Devices = append(s.Devices, Device{Name: name, Index: i + 1, Duties: []redirect.Duty{redirect.DutyBalancer}})
	}
	return s
}

// Each device on generic XDP rests, also behind one in whose driver the program stays, and behind one that fails.
func TestEachGenericDeviceRests(t *testing.T) {
	m := &mixed{fakePlane: &fakePlane{}, generic: redirect.XDPGeneric}
	a := New(m)
	if err := a.Apply(stateOf(true)).Err(); err != nil {
		t.Fatal(err)
	}
	m.done, m.refuse = nil, "rest 2"
	r := a.Apply(stateOf(false))
	if got := strings.Join(m.done, "; "); !strings.HasSuffix(got, "rest 3") || strings.Contains(got, "rest 1") || r.Works("one") || !r.Works("two") || !r.Works("native") {
		t.Errorf("%s; %v", got, r.Err())
	}
	m.done, m.refuse = nil, ""
	if err := a.Apply(stateOf(false)).Err(); err != nil || strings.Join(m.done, "; ") != "rest 2" {
		t.Errorf("%v, %v", m.done, err)
	}
	m.done, m.generic = nil, redirect.XDPNone
	if err := a.Apply(stateOf(true)).Err(); err != nil || !strings.HasSuffix(strings.Join(m.done, "; "), "balancer 2 Generic; balancer 3 Generic") {
		t.Errorf("%v, %v", m.done, err)
	}
	if got, on := a.Balancer(2); !on || got.XDP != redirect.XDPNone {
		t.Errorf("somebody else's program is there, and it is said to be %+v", got)
	}
	if got, on := a.Balancer(1); !on || got.XDP != redirect.XDPNative {
		t.Errorf("%+v", got)
	}
}

// A device that rested and is generic again is known as that.
func TestGenericAgain(t *testing.T) {
	m := &mixed{fakePlane: &fakePlane{}, generic: redirect.XDPGeneric}
	a := New(m)
	for _, balanced := range []bool{true, false, true} {
		if err := a.Apply(stateOf(balanced)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b, on := a.attached[part{2, redirect.DutyBalancer}]
	if !on || b.got != (redirect.Attachment{Index: 2, XDP: redirect.XDPGeneric}) || b.rests {
		t.Errorf("%+v", b)
	}
}

// What is attached stands as long as all that was asked for is the same; the address counts for clients at the uplink alone.
func TestWhatIsHeld(t *testing.T) {
	had := attachment{at: redirect.Uplink, xdp: redirect.XDPAuto, address: "10.0.0.1"}
	same := Device{Placement: redirect.Uplink, XDP: redirect.XDPAuto, Address: "10.0.0.1"}
	for name, c := range map[string]struct {
		change         func(*Device)
		client, server bool
	}{
		"the same":        {func(*Device) {}, true, true},
		"another place":   {func(d *Device) { d.Placement = redirect.Pod }, false, false},
		"another mode":    {func(d *Device) { d.XDP = redirect.XDPGeneric }, false, false},
		"another address": {func(d *Device) { d.Address = "10.0.0.2" }, false, true},
	} {
		d := same
		c.change(&d)
		if client, server := had.holds(d, redirect.DutyClient), had.holds(d, redirect.DutyServer); client != c.client || server != c.server {
			t.Errorf("%s: for clients %v, for servers %v", name, client, server)
		}
	}
}

// Where nobody knows which VIPs are there none is taken away, and that is said.
func TestUnreadVIPs(t *testing.T) {
	m := &mixed{fakePlane: &fakePlane{}, unread: errors.New("no answer")}
	if r := New(m).Apply(stateOf(false)); r.Other == nil || !strings.Contains(r.Other.Error(), "no answer") {
		t.Errorf("%v", r.Err())
	}
}
