// SPDX-License-Identifier: Apache-2.0

// The plan: from a snapshot to what should be there, by pure functions. Nothing here
// reads or writes anything.
package replicationgroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// plan is what one reconciliation is to do, in this order.
type plan struct {
	accepted verdict.Verdict
	// record is written into the status before anybody is told of a new member.
	record record
	// objects is everything but Secrets and configuration; it is applied only where the
	// specification is accepted.
	input   render.Input
	objects []render.Object
	// secrets says that keys and certificate are looked after. newKey: packet keys are to
	// be made; certificate says why one is to be issued anew, empty: it is good.
	secrets     bool
	newKey      bool
	certificate string
	// text and hash are the document to hand out; hash is empty when there is none.
	doc  *dataplane.GroupConfig
	text []byte
	hash string
	// onSwitch is what the switch says that is to aggregate.
	onSwitch onSwitch
	// box is the same of the switch that is to be the box.
	box onSwitch
	// view and step are the one thing to do to the membership or to a pod.
	view view
	step step
	// failed is what could not be planned and is tried again.
	failed error
}

// planFor is the one decision about a snapshot.
func planFor(s *snapshot) *plan {
	p := &plan{accepted: decideAccepted(s), record: recordOf(s.group), input: s.input}
	if p.accepted.OK() {
		p.record = nextRecord(s)
	}
	p.view = viewOf(s, p.record)
	p.input.Restoring = s.restoring()
	p.input.Replicas, p.input.MaxUnavailable = decideReplicas(s, p.record), decideUnavailable(p.view)
	p.objects = render.GroupObjects(p.input)
	if len(s.conflicts) > 0 {
		return p
	}
	p.secrets = true
	p.newKey = s.keys == nil && s.live == nil
	p.certificate = decideCertificate(s)
	p.planDocument(s)
	if p.accepted.OK() {
		p.step = decideStep(p.view)
	}
	return p
}

// decideAccepted says whether the specification can be acted on.
func decideAccepted(s *snapshot) verdict.Verdict {
	var wrong []verdict.Verdict
	if len(s.conflicts) > 0 {
		wrong = append(wrong, verdict.No(v1alpha1.ReasonNameConflict, fmt.Sprintf(
			"%s: exists and does not belong to this ReplicationGroup; delete or rename it, or choose another name for the group",
			strings.Join(s.conflicts, ", "))))
	}
	if refused, none := verdict.Refusals(wrong...); !none {
		return refused
	}
	return verdict.Yes(v1alpha1.ReasonAccepted, "the specification is valid")
}

// decideReplicas is how many pods there shall be: those of the specification, and those
// of members that have not been removed yet. Nothing is taken away from a group that
// nobody leads.
func decideReplicas(s *snapshot, r record) int32 {
	want := s.group.Spec.Members
	if s.restoring() {
		return 1 // its volume may be one that a single node can have
	}
	if r.cluster == "" {
		return want
	}
	for _, m := range r.members {
		if place, is := render.MemberOrdinal(s.group, m.Pod); is {
			want = max(want, int32(place)+1)
		}
	}
	if s.leading() == nil && s.set != nil && s.set.Spec.Replicas != nil {
		want = max(want, *s.set.Spec.Replicas)
	}
	return want
}

// decideUnavailable is how many pods may be evicted at a time: what the voters in force
// can miss. A member that is not well is among them already, and so is one that has no
// vote yet.
func decideUnavailable(v view) int32 {
	voters, _ := v.voters()
	if voters == 0 { // or nobody leads
		return 0
	}
	return int32((voters - 1) / 2)
}

// planDocument makes the document of a group that has begun.
func (p *plan) planDocument(s *snapshot) {
	if p.record.cluster == "" || len(p.record.members) == 0 {
		return
	}
	doc := render.GroupConfig(s.group, p.record.cluster)
	doc.Members, doc.KeyIDs, doc.InitialMembers = book(s, p.record), keyIDs(s, p.newKey), nil
	doc.Boxes, doc.Aggregator = s.boxes(), s.aggregator()
	if len(missingBeside(s, doc)) > 0 {
		return // members of that protocol cannot be told of it
	}
	if !s.formed() {
		if len(doc.Members) != len(p.record.members) {
			return // one that founds the group cannot be found
		}
		for _, m := range p.record.members {
			doc.InitialMembers = append(doc.InitialMembers, m.Name)
		}
	}
	var field *dataplane.FieldError
	text, hash, err := dataplane.RenderGroup(doc)
	switch {
	case errors.As(err, &field):
		p.accepted = verdict.No(v1alpha1.ReasonInvalidConfiguration, err.Error())
	case err != nil:
		p.failed = err
	default:
		p.doc, p.text, p.hash = doc, text, hash
	}
}

// book is where members are found: at the addresses of their pods, and, of those whose
// pods have none, where they were last, unless somebody else is there now.
func book(s *snapshot, r record) []dataplane.GroupMember {
	var out []dataplane.GroupMember
	taken := map[string]bool{}
	for _, known := range []bool{true, false} {
		for _, m := range r.members {
			address := s.address(r, m)
			if (address != "") != known {
				continue
			}
			if !known {
				address = s.lastAddress(m)
			}
			if address == "" || taken[address] {
				continue
			}
			taken[address] = true
			out = append(out, render.BookEntry(m.Name, int(m.Number), address))
		}
	}
	slices.SortFunc(out, func(a, b dataplane.GroupMember) int { return a.ID - b.ID })
	return out
}

// address is that of the pod which the member is in now; "": it has none.
func (s *snapshot) address(r record, m v1alpha1.GroupMemberStatus) string {
	place, is := render.MemberOrdinal(s.group, m.Pod)
	p := s.pods[place]
	if !is || p == nil || p.Status.PodIP == "" || finished(p) || s.seated(r, place) != int(m.Number) {
		return ""
	}
	return p.Status.PodIP
}

func (s *snapshot) lastAddress(m v1alpha1.GroupMemberStatus) string {
	if s.live == nil {
		return ""
	}
	for _, o := range s.live.Members {
		if o.Name == m.Name {
			return o.Address
		}
	}
	return ""
}

// keyIDs are the keys that members shall have: those in the Secret, or, where it is
// gone, those that run.
func keyIDs(s *snapshot, fresh bool) []int {
	if fresh {
		return []int{firstKey}
	}
	if s.keys == nil {
		return s.live.KeyIDs
	}
	var ids []int
	for name := range s.keys.Data {
		if id, err := strconv.Atoi(name); err == nil && id > 0 && id < 256 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), 2)]
}

// firstKey is the number of the key that a group begins with.
const firstKey = 1

// decideCertificate says why the sidecars need a new certificate; empty: they do not.
func decideCertificate(s *snapshot) string {
	var data map[string][]byte
	if s.tls != nil {
		data = s.tls.Data
	}
	return s.authority.Stale(data, dataplane.SidecarServerName(s.group.Name, s.group.Namespace), s.now)
}

// running says that a pod has an address and its processes have been started.
func running(p *corev1.Pod) bool {
	return p != nil && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != ""
}

// live says that a pod is running and meant to stay.
func live(p *corev1.Pod) bool { return running(p) && p.DeletionTimestamp == nil }

// finished says that no process of the pod will run again.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
