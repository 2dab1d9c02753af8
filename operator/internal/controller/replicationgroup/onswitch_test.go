// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// switched makes the aggregator of the group a switch.
func (s *scene) switched() *scene {
	s.group.Spec.Protocol = v1alpha1.ReplicationHovercRaftPlusPlus
	s.group.Spec.Aggregator = &v1alpha1.GroupAggregator{Placement: v1alpha1.AggregatorOnSwitch,
		Switch: &v1alpha1.GroupSwitch{Name: "leaf", Address: "192.0.2.1", Messages: v1alpha1.SwitchMessagesBySource}}
	s.besidePod(v1alpha1.ComponentBox, "box-a", "10.0.1.1")
	return s
}

// W-8: members are told of the switch, and that it signs nothing, from the beginning; they do not wait for it.
func TestDocumentNamesTheSwitch(t *testing.T) {
	s := newScene(t).switched().formedBy(3)
	p := planFor(s.snapshot)
	if p.doc == nil || besideNames(p.doc) != "box-a@10.0.1.1 leaf@192.0.2.1:8300" || p.doc.Aggregator.Messages != dataplane.MessagesBySource {
		t.Fatalf("%+v", p.doc)
	}
	if got := strings.Join(render.Beside(s.group), " "); got != v1alpha1.ComponentBox {
		t.Errorf("beside the members there are %s", got)
	}
	if waiting := waitingBeside(s.snapshot); waiting != "" {
		t.Errorf("the group waits: %s", waiting)
	}
	s.group.Spec.Aggregator = nil // over to a pod, which has no address yet
	s.live = p.doc
	if a := planFor(s.snapshot).doc.Aggregator; a == nil || a.Messages != dataplane.MessagesBySource {
		t.Errorf("before the pod is there: %+v", a)
	}
	s.besidePod(v1alpha1.ComponentAggregator, "agg-a", "10.0.2.1")
	if a := planFor(s.snapshot).doc.Aggregator; a.Name != "agg-a" || a.Messages != "" {
		t.Errorf("with a pod: %+v", a)
	}
}

// what is asked is the committed membership of a leader that has a quorum, with its index; else nobody's.
func TestAskedOfTheSwitch(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(s *scene, leader *dataplane.GroupState)
		known  bool
	}{
		{"as it is", func(*scene, *dataplane.GroupState) {}, true},
		{"a change is not committed", func(_ *scene, l *dataplane.GroupState) { l.ChangePending = true }, false},
		{"a leader without a quorum", func(_ *scene, l *dataplane.GroupState) { l.Quorum.Heard = 1 }, false},
		{"not all founders were there", func(_ *scene, l *dataplane.GroupState) { l.Formed = false }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t).switched().formedBy(3)
			leader := s.leading()
			leader.ConfigurationIndex, leader.Formed = 7, true
			row.change(s, leader)
			got := askOf(s.snapshot, planFor(s.snapshot).doc)
			if got.Known != row.known || got.Switch != "leaf" || got.At.String() != "192.0.2.1:8300" || got.Number == 0 || got.Cluster == 0 {
				t.Fatalf("%+v", got)
			}
			if !row.known {
				if got.Version != "" || got.Members != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if got.Epoch != 7 || len(got.Members) != 3 || !got.Members[0].Votes || got.Members[1].Address.String() != "10.0.0.2:8100" || got.Version == "" {
				t.Errorf("%+v", got)
			}
			leader.Members[2].Role = dataplane.RoleLearner
			if next := askOf(s.snapshot, planFor(s.snapshot).doc); next.Version == got.Version || next.Members[2].Votes {
				t.Errorf("a voter became a learner: %+v", next)
			}
		})
	}
}

// Programmed says what is in the way, by the switch's own word; Ready says that the group serves without it.
func TestProgrammedBySwitch(t *testing.T) {
	asked := switchboard.Group{Known: true, Version: "v"}
	answer := func(change func(*v1alpha1.SwitchService)) onSwitch {
		a := v1alpha1.SwitchService{Workers: 3, ConfigHash: "v"}
		change(&a)
		return onSwitch{asked: asked, answer: a, found: true, there: true}
	}
	for _, row := range []struct {
		name         string
		on           onSwitch
		reason, says string
	}{
		{"it is not there", onSwitch{asked: asked}, "SwitchNotFound", `no ProgrammableSwitch "leaf"`},
		{"it says nothing", onSwitch{asked: asked, there: true}, "SwitchNotProgrammed", "has not read this membership back"},
		{"of another membership", answer(func(a *v1alpha1.SwitchService) { a.ConfigHash = "old" }), "SwitchNotProgrammed", "the leader sends to each member itself"},
		{"of nobody known", answer(func(a *v1alpha1.SwitchService) { a.Reason, a.ConfigHash = "Reconciling", "" }), "SwitchNotProgrammed", "leaf"},
		{"another program", answer(func(a *v1alpha1.SwitchService) { a.Reason, a.Message = "OtherProgram", "runs router" }), "OtherProgram", "runs router; the leader sends"},
		{"no room", answer(func(a *v1alpha1.SwitchService) { a.Reason, a.Message = "CapacityExceeded", "room for 255 groups" }), "CapacityExceeded", "room for 255 groups"},
		{"no way to one", answer(func(a *v1alpha1.SwitchService) { a.UnreachableWorkers = []string{"member 3 (10.9.0.1:8100)"} }), "WorkersUnreachable", "member 3 (10.9.0.1:8100)"},
		{"it counts", answer(func(*v1alpha1.SwitchService) {}), "Programmed", "ProgrammableSwitch leaf counts 3 members"},
	} {
		s := newScene(t).switched().formedBy(3).acknowledged()
		p := planFor(s.snapshot)
		p.onSwitch = row.on
		v := conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group})
		if v.programmed.Reason != row.reason || !strings.Contains(v.programmed.Message, row.says) || v.programmed.OK() != (row.reason == "Programmed") {
			t.Errorf("%s: %+v", row.name, v.programmed)
		}
		if !v.ready.OK() || strings.Contains(v.ready.Message, "without its aggregator") == v.programmed.OK() {
			t.Errorf("%s: ready %+v", row.name, v.ready)
		}
	}
	if v := decideOnSwitch(newScene(t).switched().snapshot, onSwitch{}, verdict.No("Rejected", "m1 refused")); v.Reason != "Rejected" {
		t.Errorf("the switch hides what pods say: %+v", v)
	}
}
