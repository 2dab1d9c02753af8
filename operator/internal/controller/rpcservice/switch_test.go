// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

// aLeaf is a switch that holds a configuration of the service; empty: none.
func aLeaf(hash string, change func(*v1alpha1.ProgrammableSwitch)) map[string]*v1alpha1.ProgrammableSwitch {
	psw := &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: "leaf"}}
	psw.Status.Connection = v1alpha1.SwitchConnected
	psw.Status.Services = []v1alpha1.SwitchService{
		{Namespace: "other", Name: "echo", ConfigHash: "zz"},
		{Namespace: "demo", Name: "echo", Address: "192.0.2.1", Workers: 4, ConfigHash: hash},
	}
	if change != nil {
		change(psw)
	}
	return map[string]*v1alpha1.ProgrammableSwitch{"leaf": psw}
}

// switched is the world of a service: asks says whether for the switch, had how it stood.
func switched(asks bool, had v1alpha1.RpcServiceSwitchState, since time.Duration, switches map[string]*v1alpha1.ProgrammableSwitch) *snapshot {
	s := &snapshot{service: aService(), now: start, switches: switches,
		servers: []*corev1.Pod{aPod("s1", "10.0.0.1", "rRJ")}, routers: []*corev1.Pod{aPod("r1", "10.0.1.1", "rR"), aPod("r2", "10.0.1.2", "rR")}}
	for n, p := range s.pods() {
		p.Labels = map[string]string{v1alpha1.LabelComponent: []string{v1alpha1.ComponentServer, v1alpha1.ComponentRouter, v1alpha1.ComponentRouter}[n]}
	}
	if asks {
		s.service.Spec.Router.Placement = v1alpha1.PlacementSwitch
		s.service.Spec.Router.Switch = &v1alpha1.RouterSwitch{Name: "leaf", Address: "192.0.2.1", Feedback: v1alpha1.SwitchFeedbackBySource}
	}
	if had != "" {
		s.service.Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: "leaf", Address: "192.0.2.1", State: had, SinceTime: metav1.NewTime(start.Add(-since))}
	}
	return s
}

func goneLeaf(p *v1alpha1.ProgrammableSwitch) { p.DeletionTimestamp = &metav1.Time{Time: start} }

func offLeaf(p *v1alpha1.ProgrammableSwitch) { p.Status.Connection = v1alpha1.SwitchDisconnected }

func fullLeaf(p *v1alpha1.ProgrammableSwitch) {
	p.Status.Services[1].Reason, p.Status.Services[1].Message = v1alpha1.ReasonCapacityExceeded, "16 workers would fit"
}

// atNoSwitch is the state of a service that no switch knows of.
const atNoSwitch v1alpha1.RpcServiceSwitchState = ""

// switchStories are what a service asks for and how it stood, and what becomes of it.
var switchStories = []struct {
	name    string
	asks    bool
	had     v1alpha1.RpcServiceSwitchState
	since   time.Duration
	leaf    map[string]*v1alpha1.ProgrammableSwitch
	want    v1alpha1.RpcServiceSwitchState
	refused string
}{
	{"in software", false, atNoSwitch, 0, nil, atNoSwitch, ""},
	{"asks", true, atNoSwitch, 0, aLeaf("", nil), v1alpha1.ServiceJoiningSwitch, ""},
	{"was read back", true, v1alpha1.ServiceJoiningSwitch, 0, aLeaf("h", nil), v1alpha1.ServiceOnSwitch, ""},
	{"serves", true, v1alpha1.ServiceOnSwitch, 0, aLeaf("h", nil), v1alpha1.ServiceOnSwitch, ""},
	{"the switch went", true, v1alpha1.ServiceOnSwitch, 0, aLeaf("h", offLeaf), v1alpha1.ServiceOnStandby, ""},
	{"it came back empty", true, v1alpha1.ServiceOnStandby, 0, aLeaf("", nil), v1alpha1.ServiceOnStandby, ""},
	{"it was programmed", true, v1alpha1.ServiceOnStandby, 0, aLeaf("h", nil), v1alpha1.ServiceOnSwitch, ""},
	{"no switch", true, atNoSwitch, 0, nil, v1alpha1.ServiceJoiningSwitch, v1alpha1.ReasonSwitchNotFound},
	{"is deleted", true, v1alpha1.ServiceOnSwitch, 0, aLeaf("h", goneLeaf), v1alpha1.ServiceOnStandby, v1alpha1.ReasonSwitchNotFound},
	{"no room", true, atNoSwitch, 0, aLeaf("", fullLeaf), v1alpha1.ServiceJoiningSwitch, v1alpha1.ReasonCapacityExceeded},
	{"no room for more", true, v1alpha1.ServiceOnSwitch, 0, aLeaf("h", fullLeaf), v1alpha1.ServiceOnSwitch, v1alpha1.ReasonCapacityExceeded},
	{"goes", false, v1alpha1.ServiceOnSwitch, time.Hour, aLeaf("h", nil), v1alpha1.ServiceLeavingSwitch, ""},
	{"clients still come", false, v1alpha1.ServiceLeavingSwitch, 30 * time.Second, aLeaf("h", nil), v1alpha1.ServiceLeavingSwitch, ""},
	{"has gone", false, v1alpha1.ServiceLeavingSwitch, 31 * time.Second, aLeaf("h", nil), atNoSwitch, ""},
	{"comes back in between", true, v1alpha1.ServiceLeavingSwitch, 10 * time.Second, aLeaf("h", nil), v1alpha1.ServiceOnSwitch, ""},
	{"forgets a switch that is gone", false, v1alpha1.ServiceLeavingSwitch, time.Hour, nil, atNoSwitch, ""},
}

// W-25: clients are given the switch's address only once it was read back, and the pods'
// whenever it is not there; it serves on for a while after they were given others. Servers
// report to it all that time.
func TestDecideSwitch(t *testing.T) {
	for _, row := range switchStories {
		t.Run(row.name, func(t *testing.T) {
			s := switched(row.asks, row.had, row.since, row.leaf)
			p := &plan{}
			p.planSwitch(s)
			d := p.onSwitch
			got := atNoSwitch
			if d.status != nil {
				got = d.status.State
			}
			if got != row.want || d.refused.Reason != row.refused {
				t.Errorf("%q, %+v; want %q, %q", got, d.refused, row.want, row.refused)
			}
			if got != atNoSwitch && got == row.had && d.status.SinceTime != s.service.Status.Switch.SinceTime {
				t.Errorf("since %v", d.status.SinceTime)
			}
			document, err := decideConfig(s, p, true)
			if err != nil {
				t.Fatal(err)
			}
			if names := strings.Contains(string(document.text), `"name":"switch/leaf"`); names != (row.want != atNoSwitch) {
				t.Errorf("servers report to the switch: %v; %s", names, document.text)
			}
			var fronts []string
			for _, e := range withSwitch(endpoints(s), d) {
				if e.Component == v1alpha1.ComponentRouter {
					fronts = append(fronts, e.Address.String())
				}
			}
			want := []string{"10.0.1.1", "10.0.1.2"}
			if row.want == v1alpha1.ServiceOnSwitch {
				want = []string{"192.0.2.1"}
			}
			if !slices.Equal(fronts, want) || p.input.Switched != (row.want != atNoSwitch) {
				t.Errorf("clients are given %v, want %v", fronts, want)
			}
		})
	}
}

// Another switch, or another address, is joined when the one before was left.
func TestSwitchAfterSwitch(t *testing.T) {
	s := switched(true, v1alpha1.ServiceLeavingSwitch, 10*time.Second, aLeaf("h", nil))
	s.service.Spec.Router.Switch.Name = "spine"
	if d := decideSwitch(s); d.status == nil || d.status.Name != "leaf" || d.status.State != v1alpha1.ServiceLeavingSwitch {
		t.Errorf("%+v", d.status)
	}
}

// Programmed says that the switch holds this very configuration, and Ready names workers
// that it knows no way to (W-23).
func TestSwitchConditions(t *testing.T) {
	pods := verdict.Yes(v1alpha1.ReasonProgrammed, "3 of 3 pods")
	off := func(p *v1alpha1.ProgrammableSwitch) { p.Status.Connection = v1alpha1.SwitchDisconnected }
	lost := func(p *v1alpha1.ProgrammableSwitch) {
		p.Status.Services[1].UnreachableWorkers = []string{"s1 (10.0.0.1)"}
	}
	document := desired{hash: "h", sameGeneration: []string{"g"}}
	for _, row := range []struct {
		name, hash        string
		change            func(*v1alpha1.ProgrammableSwitch)
		programmed, ready string
	}{
		{"this one", "h", nil, v1alpha1.ReasonProgrammed, v1alpha1.ReasonReady},
		{"of the same generation", "g", nil, v1alpha1.ReasonProgrammed, v1alpha1.ReasonReady},
		{"an earlier one", "f", nil, v1alpha1.ReasonSwitchNotProgrammed, v1alpha1.ReasonReady},
		{"none", "", nil, v1alpha1.ReasonSwitchNotProgrammed, v1alpha1.ReasonReady},
		{"not there", "h", off, v1alpha1.ReasonUnreachable, v1alpha1.ReasonReady},
		{"no way to a worker", "h", lost, v1alpha1.ReasonProgrammed, v1alpha1.ReasonWorkersUnreachable},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := switched(true, v1alpha1.ServiceOnSwitch, 0, aLeaf(row.hash, row.change))
			d := decideSwitch(s)
			programmed := programmedBySwitch(s, d, document, pods)
			ready := readyAtSwitch(d, verdict.Yes(v1alpha1.ReasonReady, "2 of 2 workers"))
			if programmed.Reason != row.programmed || ready.Reason != row.ready {
				t.Errorf("%+v, %+v", programmed, ready)
			}
			if row.ready == v1alpha1.ReasonWorkersUnreachable && !strings.Contains(ready.Message, "s1 (10.0.0.1)") {
				t.Errorf("%s", ready.Message)
			}
		})
	}
	no := verdict.No(v1alpha1.ReasonReconciling, "1 of 3 pods")
	if got := programmedBySwitch(switched(true, "", 0, aLeaf("h", nil)), switchDecision{}, document, no); got != no {
		t.Errorf("%+v", got)
	}
}

// What a switch cannot be asked does not take the pods' configuration away: they serve.
func TestRefusedBySwitchStandsBy(t *testing.T) {
	s := switched(true, "", 0, nil)
	p := &plan{accepted: verdict.Yes(v1alpha1.ReasonAccepted, "")}
	p.planSwitch(s)
	document, err := decideConfig(s, p, true)
	if err != nil || document.hash == "" {
		t.Fatalf("no document: %v", err)
	}
	v := conclude(s, p, &outcome{accepted: p.accepted, document: document})
	if v.accepted.Reason != v1alpha1.ReasonSwitchNotFound || v.programmed.Reason != v1alpha1.ReasonNotAccepted || !strings.Contains(v.programmed.Message, "router pods serve") {
		t.Errorf("%+v, %+v", v.accepted, v.programmed)
	}
}
