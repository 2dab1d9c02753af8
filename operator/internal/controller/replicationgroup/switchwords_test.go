// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// A switch is believed when it has read back what is known of the group; members that it knows no way to are told of behind
// what the pods say, and whatever else it says stands alone.
func TestWhatASwitchAdds(t *testing.T) {
	pods := verdict.Yes(v1alpha1.ReasonProgrammed, "3 of 3 pods")
	held := func(change func(*onSwitch)) onSwitch {
		on := onSwitch{there: true, found: true}
		on.asked.Known, on.asked.Version, on.answer.ConfigHash, on.answer.Workers = true, "v", "v", 3
		change(&on)
		return on
	}
	for name, c := range map[string]struct {
		on     onSwitch
		reason string
		both   bool
	}{
		"holds it":         {held(func(*onSwitch) {}), v1alpha1.ReasonProgrammed, true},
		"knows no way":     {held(func(on *onSwitch) { on.answer.UnreachableWorkers = []string{"x"} }), v1alpha1.ReasonWorkersUnreachable, true},
		"nothing is asked": {held(func(on *onSwitch) { on.asked.Known = false }), v1alpha1.ReasonSwitchNotProgrammed, false},
		"holds another":    {held(func(on *onSwitch) { on.answer.ConfigHash = "w" }), v1alpha1.ReasonSwitchNotProgrammed, false},
		"holds none":       {held(func(on *onSwitch) { on.found = false }), v1alpha1.ReasonSwitchNotProgrammed, false},
		"reconciles":       {held(func(on *onSwitch) { on.answer.Reason = v1alpha1.ReasonReconciling }), v1alpha1.ReasonProgrammed, true},
		"refuses":          {held(func(on *onSwitch) { on.answer.Reason, on.answer.Message = "Full", "no room" }), "Full", false},
		"is not there":     {held(func(on *onSwitch) { on.there = false }), v1alpha1.ReasonSwitchNotFound, false},
	} {
		v := decideOnSwitch(newScene(t).switched().snapshot, c.on, pods)
		if v.Reason != c.reason || strings.HasPrefix(v.Message, "3 of 3 pods; ") != c.both {
			t.Errorf("%s: %+v", name, v)
		}
		no := verdict.No(v1alpha1.ReasonUnreachable, "x")
		if v := decideOnSwitch(newScene(t).switched().snapshot, c.on, no); v != no {
			t.Errorf("%s, of pods that acknowledged nothing: %+v", name, v)
		}
	}
}

// A cluster's number is made of a whole identity.
func TestClusterOnTheWire(t *testing.T) {
	whole := "00112233445566778899aabbccddeeff"
	if wireCluster(whole) == 0 || wireCluster(whole[:30]) != 0 || wireCluster("x"+whole) != 0 || wireCluster("") != 0 {
		t.Errorf("%x, %x", wireCluster(whole), wireCluster(whole[:30]))
	}
}

// A box that is a switch is asked for nothing while the document names nobody; a pod is in the document by its own name.
func TestDocumentsOfNobody(t *testing.T) {
	g := aGroup()
	g.Spec.Box = &v1alpha1.GroupBox{Switch: &v1alpha1.GroupSwitch{Name: "leaf", Address: "192.0.2.2"}}
	doc := &dataplane.GroupConfig{}
	if asked := askForBoxOf(g, doc); asked.Known || asked.Version != "" {
		t.Errorf("%+v", asked)
	}
	doc.Members = []dataplane.GroupMember{{ID: 1, Address: "10.0.0.1", ClientPort: 8000}}
	if asked := askForBoxOf(g, doc); !asked.Known || asked.Version == "" || len(asked.Members) != 1 {
		t.Errorf("%+v", asked)
	}
	for name, want := range map[string]bool{"agg": true, "box": true, "other": false} {
		doc.Aggregator, doc.Boxes = &dataplane.GroupAggregator{Name: "agg"}, []dataplane.GroupBox{{Name: "box"}}
		if namesBeside(doc, name) != want {
			t.Errorf("%s: %v", name, !want)
		}
		doc.Aggregator, doc.Boxes = nil, nil
		if namesBeside(doc, name) || namesBeside(nil, name) {
			t.Errorf("%s is in a document of nobody", name)
		}
	}
	var none switchboard.Group
	if versionOf(none) == versionOf(switchboard.Group{Box: true}) {
		t.Error("two questions have one version")
	}
}
