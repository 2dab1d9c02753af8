// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// besidePod adds a pod of a component that is ready, the newest of them.
func (s *scene) besidePod(component, name, address string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: "b"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	s.beside[component] = append(s.beside[component], p)
	s.states[name] = &dataplane.SidecarState{}
	return p
}

// apart makes the group one of this protocol, with what it needs beside its members.
func (s *scene) apart(protocol v1alpha1.ReplicationProtocol) *scene {
	s.group.Spec.Protocol = protocol
	s.besidePod(v1alpha1.ComponentBox, "box-a", "10.0.1.1")
	if render.HasAggregator(s.group) {
		s.besidePod(v1alpha1.ComponentAggregator, "agg-a", "10.0.2.1")
	}
	return s
}

// acknowledged: every sidecar has the document of the plan.
func (s *scene) acknowledged() *scene {
	p := planFor(s.snapshot)
	s.live, s.liveHash = p.doc, p.hash
	for _, state := range s.states {
		state.AppliedHash = p.hash
	}
	return s
}

func besideNames(doc *dataplane.GroupConfig) string {
	var out []string
	for _, b := range doc.Boxes {
		out = append(out, b.Name+"@"+b.Address)
	}
	if a := doc.Aggregator; a != nil {
		out = append(out, fmt.Sprintf("%s@%s:%d", a.Name, a.Address, a.Port))
	}
	return strings.Join(out, " ")
}

// G-13: the document names the boxes that there are and one aggregator, and while their
// pods are exchanged those that were.
func TestBeside(t *testing.T) {
	gone := metav1.NewTime(start)
	for _, row := range []struct {
		name   string
		change func(*scene)
		want   string
	}{
		{"as they are", func(*scene) {}, "box-a@10.0.1.1 agg-a@10.0.2.1:8300"},
		{"a successor has no address yet", func(s *scene) {
			s.besidePod(v1alpha1.ComponentBox, "box-b", "")
			s.besidePod(v1alpha1.ComponentAggregator, "agg-b", "")
		}, "box-a@10.0.1.1 agg-a@10.0.2.1:8300"},
		{"a successor", func(s *scene) {
			s.besidePod(v1alpha1.ComponentBox, "box-b", "10.0.1.2")
			s.besidePod(v1alpha1.ComponentAggregator, "agg-b", "10.0.2.2")
		}, "box-a@10.0.1.1 box-b@10.0.1.2 agg-b@10.0.2.2:8300"},
		{"the one before is about to end", func(s *scene) {
			s.beside[v1alpha1.ComponentBox][0].DeletionTimestamp = &gone
			s.beside[v1alpha1.ComponentAggregator][0].DeletionTimestamp = &gone
			s.besidePod(v1alpha1.ComponentBox, "box-b", "10.0.1.2")
			s.besidePod(v1alpha1.ComponentAggregator, "agg-b", "10.0.2.2")
		}, "box-a@10.0.1.1 box-b@10.0.1.2 agg-b@10.0.2.2:8300"},
		{"the newest is about to end", func(s *scene) {
			s.besidePod(v1alpha1.ComponentAggregator, "agg-b", "10.0.2.2").DeletionTimestamp = &gone
		}, "box-a@10.0.1.1 agg-a@10.0.2.1:8300"},
		{"it has ended", func(s *scene) {
			s.beside[v1alpha1.ComponentBox][0].Status.Phase = corev1.PodFailed
			s.besidePod(v1alpha1.ComponentBox, "box-b", "10.0.1.2")
		}, "box-b@10.0.1.2 agg-a@10.0.2.1:8300"},
		{"none are there", func(s *scene) { s.beside = map[string][]*corev1.Pod{} }, "box-a@10.0.1.1 agg-a@10.0.2.1:8300"},
		{"too many", func(s *scene) {
			for i := range 5 {
				s.besidePod(v1alpha1.ComponentBox, fmt.Sprintf("box-%d", i), fmt.Sprintf("10.0.3.%d", i))
			}
		}, "box-1@10.0.3.1 box-2@10.0.3.2 box-3@10.0.3.3 box-4@10.0.3.4 agg-a@10.0.2.1:8300"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t).apart(v1alpha1.ReplicationHovercRaftPlusPlus).formedBy(3)
			row.change(s)
			p := planFor(s.snapshot)
			if p.doc == nil || besideNames(p.doc) != row.want {
				t.Errorf("got  %s\nwant %s", besideNames(p.doc), row.want)
			}
			if p.doc.Group.Protocol != "HovercRaftPlusPlus" {
				t.Errorf("protocol %q", p.doc.Group.Protocol)
			}
		})
	}
	if p := planFor(newScene(t).formedBy(3).snapshot); besideNames(p.doc) != "" || p.doc.Group.Protocol != "" {
		t.Errorf("a Raft group has %s", besideNames(p.doc))
	}
}

// G-13: Programmed waits for boxes and aggregator, Ready for a box; the group serves without
// its aggregator, and the status says so.
func TestReadyBeside(t *testing.T) {
	for _, row := range []struct {
		name       string
		change     func(*scene)
		reason     string
		says       string
		aggregator v1alpha1.AggregatorUse
	}{
		{"all is well", func(*scene) {}, v1alpha1.ReasonReady, "3 of 3", v1alpha1.AggregatorInUse},
		{"without the aggregator", func(s *scene) {
			s.said(0).Aggregated = false
			s.beside[v1alpha1.ComponentAggregator] = nil
		}, v1alpha1.ReasonReady, "3 of 3", v1alpha1.AggregatorBypassed},
		{"the box is not acknowledged", func(s *scene) { s.states["box-a"].AppliedHash = "" }, v1alpha1.ReasonNotProgrammed, "4 of 5 pods acknowledged generation 4; waiting for box-a", v1alpha1.AggregatorInUse},
		{"the aggregator is not", func(s *scene) { s.states["agg-a"].AppliedHash = "" }, v1alpha1.ReasonNotProgrammed, "waiting for agg-a", v1alpha1.AggregatorInUse},
		{"the box refuses", func(s *scene) {
			s.states["box-a"] = &dataplane.SidecarState{LastError: &dataplane.ApplyError{Hash: s.liveHash, Field: "boxes", Message: "no"}}
		}, v1alpha1.ReasonNotProgrammed, "box-a refused the configuration: boxes: no", v1alpha1.AggregatorInUse},
		{"no box is ready", func(s *scene) { s.beside[v1alpha1.ComponentBox][0].Status.Conditions[0].Status = corev1.ConditionFalse }, v1alpha1.ReasonNoBox, "clients reach no member; nothing is lost: box-a", v1alpha1.AggregatorInUse},
		{"no box is there", func(s *scene) { s.beside[v1alpha1.ComponentBox] = nil }, v1alpha1.ReasonNoBox, "its Deployment orders-box has none", v1alpha1.AggregatorInUse},
		{"an old box is about to end", func(s *scene) {
			at := metav1.NewTime(start)
			s.beside[v1alpha1.ComponentBox][0].DeletionTimestamp = &at
			s.besidePod(v1alpha1.ComponentBox, "box-b", "10.0.1.2")
			s.acknowledged()
			s.states["box-a"].AppliedHash = ""
		}, v1alpha1.ReasonReady, "3 of 3", v1alpha1.AggregatorInUse},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t).apart(v1alpha1.ReplicationHovercRaftPlusPlus).formedBy(3)
			s.said(0).Aggregated = true
			s.acknowledged()
			row.change(s)
			p := planFor(s.snapshot)
			v := conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group})
			if v.ready.Reason != row.reason || !strings.Contains(v.ready.Message, row.says) {
				t.Errorf("%s: %s", v.ready.Reason, v.ready.Message)
			}
			st := withStatus(s.snapshot, p, &outcome{before: s.group}, v).Status
			if st.Aggregator != row.aggregator || len(st.Boxes) == 0 {
				t.Errorf("aggregator %q, boxes %v", st.Aggregator, st.Boxes)
			}
		})
	}
}

// A group that is to begin says what it still needs.
func TestWaitingBeside(t *testing.T) {
	s := newScene(t)
	for i := range 3 {
		s.pod(i, "a")
	}
	s.group.Spec.Protocol = v1alpha1.ReplicationHovercRaftPlusPlus
	p := planFor(s.snapshot)
	v := conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group})
	if want := "no pod has an address yet of its box and its aggregator"; p.hash != "" || !strings.Contains(v.ready.Message, want) {
		t.Errorf("%q: %s", p.hash, v.ready.Message)
	}
}
