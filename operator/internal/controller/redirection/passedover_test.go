// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// A Service that wants no address does not end the look at those behind it, and who lacks nothing is not named.
func TestServicesBehindOneWithoutAnAddress(t *testing.T) {
	services := []corev1.Service{service("none", 1, "", nobodys), service("a", 2, "", selecting("far")), service("b", 3, "", nil)}
	services[2].Spec.Selector = nil
	s := twoAddresses(t, services)
	against := againstDevices(append([]corev1.Service{services[2]}, services...), s.rpc)
	if len(against) != 1 || len(against[crabplan.Name(&services[1])]) != 1 {
		t.Errorf("on devices: %v", against)
	}
	refused, lacking, given := allocate(services, s.nodes, s.pool, nil)
	if len(refused) != 0 || len(lacking) != 0 || !given || addressOf(&services[0]) != "none" || addressOf(&services[1]) == "none" || addressOf(&services[2]) == "none" {
		t.Errorf("refused %v, lacking %v; %s, %s, %s", refused, lacking, addressOf(&services[0]), addressOf(&services[1]), addressOf(&services[2]))
	}
	if _, _, given := allocate(services, s.nodes, s.pool, nil); given {
		t.Error("what everybody has is given again")
	}
}

// An address that is asked for is one of IP, of a family of the Service; nothing between commas is none.
func TestAddressesAskedFor(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1 ", " , 192.0.2.1,": "192.0.2.1 ", ",fd00::1, 192.0.2.1": "192.0.2.1 fd00::1", "": " ",
		"::ffff:192.0.2.1": "no IP address", "fd00::1%eth0": "no IP address", "x": "no IP address", "192.0.2.1,192.0.2.2": "two addresses of IPv4: name one",
	} {
		s := service("a", 1, "", stacks("46", prefer))
		wish(text)(&s)
		got := ""
		if wishes, refusal := wishesOf(&s); refusal != nil {
			got = refusal.Message
		} else {
			for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
				if wishes[family].IsValid() {
					got += wishes[family].String()
				}
				if family == corev1.IPv4Protocol {
					got += " "
				}
			}
		}
		if got != want && (strings.Contains(want, ".1") || want == " " || !strings.Contains(got, want)) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Only of a Service that is served is a switch asked: not of one that is given up, that names none, or that is refused.
func TestSwitchesOfServedServicesAlone(t *testing.T) {
	named, unnamed := service("web", 1, "192.0.2.1", bySwitch("leaf")), service("web", 1, "192.0.2.1", nil)
	yes, no := verdict.Yes(v1alpha1.ReasonAccepted, ""), verdict.No("Refused", "")
	for name, c := range map[string]struct {
		d     decision
		asked bool
	}{
		"served":   {decision{service: &named, accepted: yes}, true},
		"given up": {decision{service: &named, accepted: yes, released: true}, false},
		"no name":  {decision{service: &unnamed, accepted: yes}, false},
		"refused":  {decision{service: &named, accepted: no}, false},
	} {
		if got := withSwitch(c.d, switchboard.New()); (got.accepted.Reason == v1alpha1.ReasonSwitchNotFound) != c.asked {
			t.Errorf("%s: %+v", name, got.accepted)
		}
	}
}

// Nodes are said to be left out where some are.
func TestNodesLeftOutAreTold(t *testing.T) {
	s := service("a", 1, "192.0.2.1", nil)
	now := crabplan.Revision(&s)
	for revision, gone := range map[string]bool{now: false, "old": true} {
		v := decideProgrammed(&s, verdict.Yes("", ""), []v1alpha1.NodeDataplane{agent("x", now), agent("y", revision)}, map[string]bool{"y": true})
		if strings.Contains(v.Message, "; left out: 1, whose nodes") != gone || strings.Contains(v.Message, "left out") != gone {
			t.Errorf("gone %v: %s", gone, v.Message)
		}
	}
}

// What nobody looks at is dropped, and nothing is made up: that an agent writes of its host stays known, and that none does.
func TestSlimSaysWhoWrites(t *testing.T) {
	for _, host := range []*v1alpha1.NodeHost{nil, {NUMANodes: 2}} {
		n := agent("x", "r")
		n.Status.Host = host
		got, err := slim(&n)
		if err != nil {
			t.Fatal(err)
		}
		if st := got.(*v1alpha1.NodeDataplane).Status; (st.Host != nil) != (host != nil) || st.Host != nil && st.Host.NUMANodes != 0 || len(st.VIPs) != 1 {
			t.Errorf("%+v", st)
		}
	}
	without, with := agent("x"), agent("x")
	without.Status.AgentVersion, with.Status.AgentVersion = "", "1"
	for _, conditions := range [][]metav1.Condition{nil, {{Type: "A"}}} {
		without.Status.Conditions, with.Status.Conditions = conditions, conditions
		if a := acknowledged(&without).([]any); a[2] != false || a[3] != false {
			t.Errorf("%v", a)
		}
		if a := acknowledged(&with).([]any); a[2] != true {
			t.Errorf("%v", a)
		}
	}
}
