// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

func (w *groupWorld) create(change string) {
	w.t.Helper()
	o := parse(w.t, baseGroup)
	merge(o.Object, parse(w.t, change).Object)
	o.SetNamespace(w.ns)
	o.SetName(w.name)
	if err := direct.Create(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
}

// formedGroup brings a group of three to Ready.
func formedGroup(t *testing.T, name string) *groupWorld {
	t.Helper()
	operator(t)
	w := newGroupWorld(t, name)
	w.create(`{}`)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForMembers, name+"-member-0 does not run")
	return w
}

var oldDisks = map[int]string{0: "a", 1: "a", 2: "a", 3: "a", 4: "a"}

// G-1, G-3, G-5: from apply to Ready, to five members, to a new image with the leader
// last, and back to three, one change at a time.
func TestGroupFromApplyToReadyAndBack(t *testing.T) {
	t.Parallel()
	w := formedGroup(t, "orders")
	if doc, _ := w.document(); doc != nil {
		t.Errorf("there is a document before the members are there: %+v", doc)
	}
	w.keep(oldDisks)
	g := w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3 voters are healthy, 2 must agree")
	st := g.Status
	if st.ClusterID != render.ClusterID(g) || st.NextNumber != 4 || st.FormedTime == nil || st.Voters != "3/3" || st.Leader != "orders-member-0" || st.Quorum != 2 || len(st.Members) != 3 {
		t.Errorf("status %+v", st)
	}
	header, row := shown(t, table(t, w.ns, "replicationgroups", "orders"))
	if header != "NAME MEMBERS LEADER TERM LAG READY AGE" || !strings.HasPrefix(row, "orders 3/3 orders-member-0 1 0 True ") {
		t.Errorf("columns %q, row %q", header, row)
	}
	eventually(t, "a document that founds nobody", func() (bool, string) {
		doc, _ := w.document()
		return doc != nil && len(doc.InitialMembers) == 0 && len(doc.Members) == 3, fmt.Sprintf("%+v", doc)
	})

	w.scale(5)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "5 of 5 voters are healthy, 3 must agree")
	if got := w.commands(); got != "add 4, add 5, promote 4, promote 5" && got != "add 4, promote 4, add 5, promote 5" && got != "add 5, add 4, promote 5, promote 4" && got != "add 5, promote 5, add 4, promote 4" && got != "add 4, add 5, promote 5, promote 4" {
		t.Errorf("commands %s", got)
	}

	w.patch(&v1alpha1.ReplicationGroup{}, w.name, `{"spec":{"server":{"image":"registry.example/kv:2"}}}`)
	g = w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "5 of 5")
	pods := &corev1.PodList{}
	if err := direct.List(context.Background(), pods, client.InNamespace(w.ns)); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != revisionOf("registry.example/kv:2") {
			t.Errorf("%s is of %s", p.Name, p.Labels[appsv1.ControllerRevisionHashLabelKey])
		}
	}
	if g.Status.Leader == "orders-member-0" || !strings.Contains(w.commands(), "transfer ") {
		t.Errorf("the leader did not hand over: %s leads; %s", g.Status.Leader, w.commands())
	}

	w.scale(3)
	g = w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	if *w.set().Spec.Replicas != 3 || len(g.Status.Members) != 3 || g.Status.NextNumber != 6 {
		t.Errorf("%d pods, members %+v, next %d", *w.set().Spec.Replicas, g.Status.Members, g.Status.NextNumber)
	}
	w.wantEvents(v1alpha1.EventLeaderElected, v1alpha1.EventMembershipChanged, v1alpha1.EventMemberRestarted)
}

func (w *groupWorld) wantEvents(reasons ...string) {
	w.t.Helper()
	eventually(w.t, "events", func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := direct.List(context.Background(), list, client.InNamespace(w.ns)); err != nil {
			return false, err.Error()
		}
		seen := map[string]bool{}
		for _, e := range list.Items {
			seen[e.Reason] = true
		}
		for _, r := range reasons {
			if !seen[r] {
				return false, fmt.Sprint(seen)
			}
		}
		return true, ""
	})
}

// G-2, G-9: a lost disk comes back as a new member; without a quorum nothing is done, and
// the condition says what to do.
func TestGroupLosesADiskAndAQuorum(t *testing.T) {
	t.Parallel()
	w := formedGroup(t, "ledger")
	disks := map[int]string{0: "a", 1: "a", 2: "a"}
	for i := range 3 {
		w.start(i, "a", revisionOf("registry.example/kv:1"))
	}
	w.keep(disks)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")

	w.stop(1, true)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMembersNotReady, "ledger-member-1: Unreachable")
	w.stop(0, true)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoQuorum, "kubectl -n "+w.ns+" describe pods -l")
	if got := w.commands(); got != "" {
		t.Errorf("commands %s", got)
	}
	w.stop(0, false)
	w.stop(1, false)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")

	w.mu.Lock()
	w.seats[1].disk = "ledger-member-1-b"
	w.mu.Unlock()
	eventually(t, "the new member", func() (bool, string) {
		return strings.HasSuffix(w.commands(), "add 4, promote 4, remove 2"), w.commands()
	})
	g := w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	if len(g.Status.Members) != 3 || g.Status.Members[2].Number != 4 || g.Status.Members[2].Name != "ledger-member-1-b" || g.Status.NextNumber != 5 {
		t.Errorf("members %+v", g.Status.Members)
	}
	w.wantEvents(v1alpha1.EventMemberReplaced, v1alpha1.ReasonNoQuorum)
}

// G-13: a HovercRaft++ group begins when its box and its aggregator are there, names them
// to its members, and is not ready without a box.
func TestGroupWithBoxAndAggregator(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newGroupWorld(t, "hover")
	w.create(`{spec: {protocol: HovercRaftPlusPlus, repliers: {policy: Random}}}`)
	w.keep(oldDisks)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForMembers, "no pod has an address yet of its box and its aggregator")
	for _, name := range []string{"hover-box", "hover-aggregator"} {
		d := &appsv1.Deployment{}
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: name}, d); err != nil || *d.Spec.Replicas != 1 {
			t.Errorf("Deployment %s: %v", name, err)
		}
	}
	clients := &corev1.Service{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: "hover"}, clients); err != nil || clients.Spec.Selector[v1alpha1.LabelComponent] != v1alpha1.ComponentBox {
		t.Errorf("clients find %v: %v", clients.Spec.Selector, err)
	}
	box := w.beside(v1alpha1.ComponentBox, "hover-box-1")
	if doc, _ := w.document(); doc != nil {
		t.Errorf("there is a document before the aggregator is there: %+v", doc)
	}
	w.beside(v1alpha1.ComponentAggregator, "hover-aggregator-1")
	g := w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3 voters are healthy")
	if g.Status.Aggregator != v1alpha1.AggregatorBypassed || fmt.Sprint(g.Status.Boxes) != "[hover-box-1]" {
		t.Errorf("aggregator %q, boxes %v", g.Status.Aggregator, g.Status.Boxes)
	}
	w.waitGroup(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "5 of 5 pods acknowledged")
	if doc, _ := w.document(); doc == nil || doc.Group.Protocol != "HovercRaftPlusPlus" || doc.Group.Repliers != "Random" || doc.Group.ReplierBound != 128 ||
		len(doc.Boxes) != 1 || doc.Aggregator == nil || doc.Aggregator.Name != "hover-aggregator-1" {
		t.Errorf("document %+v", doc)
	}
	if err := direct.Delete(context.Background(), box); err != nil {
		t.Fatal(err)
	}
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoBox, "its Deployment hover-box has none")
	w.beside(v1alpha1.ComponentBox, "hover-box-2")
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	if doc, _ := w.document(); doc == nil || len(doc.Boxes) != 1 || doc.Boxes[0].Name != "hover-box-2" {
		t.Errorf("document %+v", doc)
	}
	w.wantEvents(v1alpha1.ReasonNoBox)
}

// A name that is taken is told, and left alone.
func TestGroupNameConflict(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newGroupWorld(t, "taken")
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "taken"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if err := direct.Create(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	w.create(`{}`)
	w.waitGroup(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonNameConflict, "Service taken: exists and does not belong to this ReplicationGroup")
	if err := direct.Delete(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	w.waitGroup(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "")
}

// settledGroup is one that is as it should be.
func settledGroup(t *testing.T, name string) {
	t.Helper()
	w := formedGroup(t, name)
	w.keep(oldDisks)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

// G-10: an objective on a group is judged by what its members measured.
func TestObjectiveOnAGroupIsMeasured(t *testing.T) {
	t.Parallel()
	w := formedGroup(t, "ledger")
	w.keep(oldDisks)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3 voters are healthy")
	for i := range 3 {
		w.measures(i, 600, 300)
	}
	w.objective(`{spec: {targetRef: {kind: ReplicationGroup}}}`)
	slo := w.waitMet(metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet)
	if st := slo.Status; *st.Samples != 1800 || st.Source != v1alpha1.SourceServer {
		t.Errorf("samples %d, source %s", *st.Samples, st.Source)
	}
	w.measures(1, 600, 3000)
	w.waitMet(metav1.ConditionFalse, v1alpha1.ReasonObjectiveMissed)
}
