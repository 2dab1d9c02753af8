// SPDX-License-Identifier: Apache-2.0

// Boxes and aggregators: which of their pods the document names, and whether clients can
// reach the group. Pure.
package replicationgroup

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// besides are all pods that are not members, the oldest of each component first.
func (s *snapshot) besides() (pods []*corev1.Pod) {
	for _, component := range render.Beside(s.group) {
		pods = append(pods, s.beside[component]...)
	}
	return pods
}

// addressed are pods of a component that have an address and a process behind it.
func (s *snapshot) addressed(component string) (pods []*corev1.Pod) {
	for _, p := range s.beside[component] {
		if p.Status.PodIP != "" && !finished(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// boxes are those that the document names: the newest of the pods that have an address,
// also one that is about to end, whose requests are still to be answered. Members must
// know one box; while no pod has an address it is the last one.
func (s *snapshot) boxes() (out []dataplane.GroupBox) {
	if !render.HasBox(s.group) {
		return nil
	}
	if render.BoxOnSwitch(s.group) { // the group begins without it, and is found by clients when it is there
		return []dataplane.GroupBox{render.SwitchBoxEntry(s.group.Spec.Box.Switch)}
	}
	pods := s.addressed(v1alpha1.ComponentBox)
	for _, p := range pods[max(0, len(pods)-dataplane.MaxGroupBoxes):] {
		out = append(out, render.BoxEntry(p.Name, p.Status.PodIP))
	}
	if len(out) == 0 && s.live != nil {
		return s.live.Boxes
	}
	return out
}

// aggregator is the one that the document names: the newest pod that is to stay, or
// where the last one was.
func (s *snapshot) aggregator() *dataplane.GroupAggregator {
	if !render.HasAggregator(s.group) {
		return nil
	}
	if render.AggregatesOnSwitch(s.group) { // the group begins without it, and finds it when it is there
		return render.SwitchEntry(s.group.Spec.Aggregator.Switch)
	}
	for _, p := range slices.Backward(s.addressed(v1alpha1.ComponentAggregator)) {
		if p.DeletionTimestamp == nil {
			return render.AggregatorEntry(p.Name, p.Status.PodIP)
		}
	}
	if s.live != nil { // also a switch, until there is a pod
		return s.live.Aggregator
	}
	return nil
}

// missingBeside is what the protocol needs and no pod has an address for.
func missingBeside(s *snapshot, doc *dataplane.GroupConfig) (missing []string) {
	if render.HasBox(s.group) && len(doc.Boxes) == 0 {
		missing = append(missing, v1alpha1.ComponentBox)
	}
	if render.HasAggregator(s.group) && doc.Aggregator == nil {
		missing = append(missing, v1alpha1.ComponentAggregator)
	}
	return missing
}

// waitingBeside says for people what a group that is to begin still lacks.
func waitingBeside(s *snapshot) string {
	missing := missingBeside(s, &dataplane.GroupConfig{Boxes: s.boxes(), Aggregator: s.aggregator()})
	if len(missing) == 0 {
		return ""
	}
	return "; no pod has an address yet of its " + strings.Join(missing, " and its ")
}

// namesBeside says whether the document speaks of the pod.
func namesBeside(doc *dataplane.GroupConfig, pod string) bool {
	if doc == nil {
		return false
	}
	box := slices.ContainsFunc(doc.Boxes, func(b dataplane.GroupBox) bool { return b.Name == pod })
	return box || doc.Aggregator != nil && doc.Aggregator.Name == pod
}

// decideBox says why clients reach no member; OK: they do, or do not need a box.
func decideBox(s *snapshot, onSwitch onSwitch) verdict.Verdict {
	if !render.HasBox(s.group) {
		return verdict.Yes(v1alpha1.ReasonReady, "")
	}
	if render.BoxOnSwitch(s.group) {
		if v := decideSwitchBox(s, onSwitch); !v.OK() && v.Reason != v1alpha1.ReasonWorkersUnreachable {
			return verdict.No(v1alpha1.ReasonNoBox, v.Message)
		}
		return verdict.Yes(v1alpha1.ReasonReady, "")
	}
	var pods []string
	for _, p := range s.beside[v1alpha1.ComponentBox] {
		if live(p) && podReady(p) {
			return verdict.Yes(v1alpha1.ReasonReady, "")
		}
		pods = append(pods, p.Name+whyPending(p))
	}
	if len(pods) == 0 {
		pods = []string{"its Deployment " + render.BesideName(s.group, v1alpha1.ComponentBox) + " has none"}
	}
	return verdict.No(v1alpha1.ReasonNoBox, "no box is ready, so clients reach no member; nothing is lost: "+strings.Join(pods, ", "))
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// aggregatorUse is what the leader makes of the aggregator; what it was where nobody
// leads.
func aggregatorUse(s *snapshot) v1alpha1.AggregatorUse {
	leader := s.leading()
	switch {
	case !render.HasAggregator(s.group):
		return ""
	case leader == nil:
		return s.group.Status.Aggregator
	case leader.Aggregated:
		return v1alpha1.AggregatorInUse
	}
	return v1alpha1.AggregatorBypassed
}

// boxNames are the boxes that the document names.
func boxNames(doc *dataplane.GroupConfig) (names []string) {
	if doc == nil {
		return nil
	}
	for _, b := range doc.Boxes {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return names
}
