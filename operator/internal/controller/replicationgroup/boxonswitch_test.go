// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// boxedBySwitch makes the box of the group a switch.
func (s *scene) boxedBySwitch() *scene {
	s.group.Spec.Protocol = v1alpha1.ReplicationHovercRaft
	s.group.Spec.InFlightLimit = 700
	s.group.Spec.Box = &v1alpha1.GroupBox{Placement: v1alpha1.BoxOnSwitch,
		Switch: &v1alpha1.GroupSwitch{Name: "leaf", Address: "192.0.2.1", Messages: v1alpha1.SwitchMessagesBySource}}
	return s
}

// W-8: members are told of the switch, and that it signs nothing; no pod of a box is made, and clients are given the switch's
// address. The switch is asked to send to all whom the document names.
func TestDocumentNamesTheSwitchAsBox(t *testing.T) {
	s := newScene(t).boxedBySwitch().formedBy(3)
	p := planFor(s.snapshot)
	if p.doc == nil || besideNames(p.doc) != "leaf@192.0.2.1" || p.doc.Boxes[0].Messages != dataplane.MessagesBySource {
		t.Fatalf("%+v", p.doc)
	}
	if got := render.Beside(s.group); len(got) != 0 || render.GroupAddress(s.group) != "192.0.2.1:8000" || waitingBeside(s.snapshot) != "" {
		t.Errorf("beside %v, at %s, waiting for %q", got, render.GroupAddress(s.group), waitingBeside(s.snapshot))
	}
	for _, o := range p.objects {
		if strings.HasSuffix(o.GetName(), "-"+v1alpha1.ComponentBox) || o.GetName() == s.group.Name && o.GetObjectKind().GroupVersionKind().Kind == "Service" {
			t.Errorf("%s %s is made", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
		}
	}
	got := askForBoxOf(s.group, p.doc)
	if !got.Box || !got.Known || got.Limit != 700 || got.At.String() != "192.0.2.1:8000" || got.FeedbackPort != 9000 || len(got.Members) != 3 ||
		got.Members[1].Address.String() != "10.0.0.2:8000" || got.Cluster == 0 || got.Version == "" {
		t.Errorf("%+v", got)
	}
	if before := askForBoxOf(s.group, nil); before.Known || before.Version != "" {
		t.Errorf("%+v", before)
	}
	s.group.Spec.InFlightLimit = 701
	if askForBoxOf(s.group, p.doc).Version == got.Version {
		t.Error("another limit is no news for the switch")
	}
}

// Programmed says what is in the way, by the switch's own word. Without the switch clients reach nobody, and Ready says so.
func TestServedBySwitch(t *testing.T) {
	asked := switchboard.Group{Box: true, Known: true, Version: "v"}
	answer := func(change func(*v1alpha1.SwitchService)) onSwitch {
		a := v1alpha1.SwitchService{Workers: 3, ConfigHash: "v"}
		change(&a)
		return onSwitch{asked: asked, answer: a, found: true, there: true}
	}
	for _, row := range []struct {
		name         string
		on           onSwitch
		reason, says string
		ready        bool
	}{
		{"it is not there", onSwitch{asked: asked}, "SwitchNotFound", `no ProgrammableSwitch "leaf"`, false},
		{"it says nothing", onSwitch{asked: asked, there: true}, "SwitchNotProgrammed", "has not read this group's members back", false},
		{"of other members", answer(func(a *v1alpha1.SwitchService) { a.ConfigHash = "old" }), "SwitchNotProgrammed", "leaf", false},
		{"another program", answer(func(a *v1alpha1.SwitchService) { a.Reason, a.Message = "OtherProgram", "runs router" }), "OtherProgram", "runs router; clients reach no member", false},
		{"no room", answer(func(a *v1alpha1.SwitchService) { a.Reason, a.Message = "CapacityExceeded", "5536 are free" }), "CapacityExceeded", "5536 are free", false},
		{"no way to one", answer(func(a *v1alpha1.SwitchService) { a.UnreachableWorkers = []string{"member 3 (10.9.0.1:8000)"} }), "WorkersUnreachable", "member 3 (10.9.0.1:8000)", true},
		{"it serves", answer(func(*v1alpha1.SwitchService) {}), "Programmed", "ProgrammableSwitch leaf sends to 3 members", true},
	} {
		s := newScene(t).boxedBySwitch().formedBy(3).acknowledged()
		p := planFor(s.snapshot)
		p.box = row.on
		v := conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group})
		if v.programmed.Reason != row.reason || !strings.Contains(v.programmed.Message, row.says) || v.programmed.OK() != (row.reason == "Programmed") {
			t.Errorf("%s: %+v", row.name, v.programmed)
		}
		if v.ready.OK() != row.ready || !row.ready && v.ready.Reason != v1alpha1.ReasonNoBox {
			t.Errorf("%s: ready %+v", row.name, v.ready)
		}
	}
}
