// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// switchOfGroups starts a switch that knows the way to members; its ProgrammableSwitch is there once add is called.
func switchOfGroups(t *testing.T, name, program string) (add func()) {
	t.Helper()
	p, err := switchpeer.Start(switchpeer.Options{Device: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	info, device := partsOf(t, name+"-parts", program)
	psw := newSwitch(name, p.Address(), info, device)
	psw.Spec.NextHops[0].Networks = []string{"127.88.0.0/16"}
	return func() {
		t.Helper()
		if err := direct.Create(context.Background(), psw); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { deleteSwitch(t, name) })
	}
}

// inTable waits until a switch holds so many entries of a table, as its status says.
func inTable(t *testing.T, name, table string, want int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d entries of table %s", want, table), func() (bool, string) {
		psw := &v1alpha1.ProgrammableSwitch{}
		if err := direct.Get(context.Background(), types.NamespacedName{Name: name}, psw); err != nil {
			return false, err.Error()
		}
		is := int64(0)
		for _, row := range psw.Status.Tables {
			if row.Name == table {
				is = row.Used
			}
		}
		return is == want, fmt.Sprintf("%d: %+v", is, psw.Status.Tables)
	})
}

func (w *groupWorld) respecify(change string) {
	w.t.Helper()
	g := &v1alpha1.ReplicationGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}}
	if err := direct.Patch(context.Background(), g, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		w.t.Fatal(err)
	}
}

// R-344, W-23: a switch is ready before a group asks for it; then it holds the group's members, follows their number, and holds
// nothing of it when an aggregator in a pod takes its place. The group is ready whatever the switch says.
func TestGroupOnSwitch(t *testing.T) {
	t.Parallel()
	operator(t)
	addSwitch := switchOfGroups(t, "gatherer", "aggregator")
	w := newGroupWorld(t, "counted")
	w.create(`{spec: {protocol: HovercRaftPlusPlus, aggregator: {placement: Switch, switch: {name: gatherer, address: 192.0.2.1, messages: BySource}}}}`)
	w.keep(oldDisks)
	w.beside(v1alpha1.ComponentBox, "counted-box-1")
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, `there is no ProgrammableSwitch "gatherer"`)
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonSwitchNotFound, "the leader sends to each member itself")
	aggregator := types.NamespacedName{Namespace: w.ns, Name: "counted-aggregator"}
	if err := direct.Get(context.Background(), aggregator, &appsv1.Deployment{}); err == nil {
		t.Error("an aggregator runs beside the switch")
	}
	if doc, _ := w.document(); doc == nil || doc.Aggregator == nil || doc.Aggregator.Messages != "BySource" || doc.Aggregator.Address != "192.0.2.1" {
		t.Errorf("document %+v", doc)
	}
	addSwitch()
	waitSwitch(t, "gatherer", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "ProgrammableSwitch gatherer counts 3 members")
	inTable(t, "gatherer", "member", 3)

	w.respecify(`{"spec":{"members":5}}`)
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "counts 5 members")
	inTable(t, "gatherer", "member", 5)

	w.respecify(`{"spec":{"aggregator":{"switch":{"address":"203.0.113.1"}}}}`)
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonOutsidePool, "203.0.113.1")
	inTable(t, "gatherer", "member", 0)

	w.respecify(`{"spec":{"aggregator":null}}`)
	w.beside(v1alpha1.ComponentAggregator, "counted-aggregator-1")
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "7 of 7 pods acknowledged")
	if err := direct.Get(context.Background(), aggregator, &appsv1.Deployment{}); err != nil {
		t.Error(err)
	}
	w.respecify(`{"spec":{"aggregator":{"placement":"Switch","switch":{"name":"gatherer","address":"192.0.2.1","messages":"BySource"}}}}`)
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "counts 5 members")
	eventually(t, "an aggregator that rests", func() (bool, string) {
		d := &appsv1.Deployment{}
		err := direct.Get(context.Background(), aggregator, d)
		return err == nil && *d.Spec.Replicas == 0, fmt.Sprint(err)
	})
	if err := direct.Delete(context.Background(), w.group()); err != nil {
		t.Fatal(err)
	}
	inTable(t, "gatherer", "member", 0)
}

// W-23, R-330: a HovercRaft group without a pod for its box. Clients reach nobody until the switch holds the group; then it holds
// its members, follows their number, and nothing is left when the group is gone.
func TestGroupBoxOnSwitch(t *testing.T) {
	t.Parallel()
	operator(t)
	addSwitch := switchOfGroups(t, "doorkeeper", "box")
	w := newGroupWorld(t, "asked")
	w.create(`{spec: {protocol: HovercRaft, box: {placement: Switch, switch: {name: doorkeeper, address: 192.0.2.1, messages: BySource}}}}`)
	w.keep(oldDisks)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoBox, `there is no ProgrammableSwitch "doorkeeper"`)
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonSwitchNotFound, "clients reach no member")
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "asked-box"}, &appsv1.Deployment{}); err == nil {
		t.Error("a box runs beside the switch")
	}
	if doc, _ := w.document(); doc == nil || len(doc.Boxes) != 1 || doc.Boxes[0].Messages != "BySource" || doc.Boxes[0].Address != "192.0.2.1" {
		t.Errorf("document %+v", doc)
	}
	addSwitch()
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "ProgrammableSwitch doorkeeper sends to 3 members")
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	inTable(t, "doorkeeper", "receiver", 3)
	if at := w.group().Status.Address; at != "192.0.2.1:8000" {
		t.Errorf("clients are given %q", at)
	}

	w.respecify(`{"spec":{"members":5}}`)
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "sends to 5 members")
	inTable(t, "doorkeeper", "receiver", 5)
	if err := direct.Delete(context.Background(), w.group()); err != nil {
		t.Fatal(err)
	}
	inTable(t, "doorkeeper", "receiver", 0)
}
