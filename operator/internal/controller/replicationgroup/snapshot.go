// SPDX-License-Identifier: Apache-2.0

// The world as one reconciliation sees it, and what members make of it. Pure.
package replicationgroup

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// snapshot is the world as one reconciliation sees it. Once gathered, nobody writes to
// it.
type snapshot struct {
	now   time.Time
	group *v1alpha1.ReplicationGroup
	input render.Input

	// pods are the members' pods by their place, places are these in order; set is nil
	// until it exists.
	pods   map[int]*corev1.Pod
	places []int
	set    *appsv1.StatefulSet

	// beside are the pods of boxes and aggregators, by component, the oldest first.
	beside map[string][]*corev1.Pod

	// states and groups are what the sidecar and the member of each running pod said, by
	// pod; nil where there was no answer.
	states map[string]*dataplane.SidecarState
	groups map[string]*dataplane.GroupState

	// conflicts are objects that bear a name this group needs and belong to somebody
	// else.
	conflicts []string

	// live is the document in the ConfigMap; nil: none that can be read.
	live     *dataplane.GroupConfig
	liveHash string

	// lastBackup is when the last backup whose Job is there was complete; zero: none.
	lastBackup time.Time

	keys, tls *corev1.Secret
	freshKey  []byte
	authority *pki.Authority
}

// heardLately is how long a leader may not have heard from a member that is well.
const heardLately = 2 * time.Second

// said is what the member in a pod says; nil: nothing.
func (s *snapshot) said(place int) *dataplane.GroupState {
	if p := s.pods[place]; p != nil {
		return s.groups[p.Name]
	}
	return nil
}

// leading is what the leader says that has a quorum behind it; nil: there is none. Of
// two that believe they lead, the one of the later term does.
func (s *snapshot) leading() *dataplane.GroupState {
	var best *dataplane.GroupState
	for _, place := range s.places {
		g := s.said(place)
		if g == nil || g.Phase != dataplane.PhaseRunning || g.Role != dataplane.RoleLeader || g.Quorum.Heard < g.Quorum.Needed {
			continue
		}
		if best == nil || g.Term > best.Term {
			best = g
		}
	}
	return best
}

// best is the leader, or whoever knows the newest membership; nil: nobody answers.
func (s *snapshot) best() *dataplane.GroupState {
	if g := s.leading(); g != nil {
		return g
	}
	var best *dataplane.GroupState
	for _, place := range s.places {
		if g := s.said(place); g != nil && len(g.Members) > 0 && (best == nil || g.ConfigurationIndex > best.ConfigurationIndex) {
			best = g
		}
	}
	return best
}

// formed: the group has begun, and any member says so or the record does.
func (s *snapshot) formed() bool {
	if s.group.Status.FormedTime != nil {
		return true
	}
	for _, place := range s.places {
		if g := s.said(place); g != nil && g.Formed {
			return true
		}
	}
	return false
}

// record is what is written down of the members, before anybody is told.
type record struct {
	cluster string
	next    int32
	members []v1alpha1.GroupMemberStatus // identity alone
}

func recordOf(g *v1alpha1.ReplicationGroup) record {
	r := record{cluster: g.Status.ClusterID, next: g.Status.NextNumber}
	for _, m := range g.Status.Members {
		r.members = append(r.members, v1alpha1.GroupMemberStatus{Number: m.Number, Name: m.Name, Pod: m.Pod})
	}
	return r
}

func (r record) equal(o record) bool {
	return r.cluster == o.cluster && r.next == o.next && slices.Equal(r.members, o.members)
}

// named is the member of that name; nil: there is none.
func (r record) named(name string) *v1alpha1.GroupMemberStatus {
	for i := range r.members {
		if r.members[i].Name == name {
			return &r.members[i]
		}
	}
	return nil
}

// on is the newest member in a pod; nil: there is none.
func (r record) on(pod string) *v1alpha1.GroupMemberStatus {
	var best *v1alpha1.GroupMemberStatus
	for i := range r.members {
		if m := &r.members[i]; m.Pod == pod && (best == nil || m.Number > best.Number) {
			best = m
		}
	}
	return best
}

// seated is the number of the member in a pod: what its disk says, or, of one that says
// nothing, what was written down last; 0: not known.
func (s *snapshot) seated(r record, place int) int {
	pod := render.MemberPod(s.group, place)
	m := r.on(pod)
	if g := s.said(place); g != nil && g.Name != "" {
		m = r.named(g.Name)
	}
	if m == nil {
		return 0
	}
	return int(m.Number)
}

// nextRecord founds a group when all of its members are there with disks that know
// nothing, gives a number to whoever came with a new disk, and forgets who was removed.
func nextRecord(s *snapshot) record {
	r := recordOf(s.group)
	switch {
	case r.cluster == "" && s.live != nil:
		return s.adopted()
	case r.cluster == "":
		return s.founded()
	case !s.formed():
		return r
	}
	for place := range int(s.group.Spec.Members) {
		g := s.said(place)
		if g == nil || g.Name == "" || r.named(g.Name) != nil || len(r.members) >= dataplane.MaxGroupBook || r.next > dataplane.MaxMemberNumber {
			continue
		}
		r.members = append(r.members, v1alpha1.GroupMemberStatus{Number: r.next, Name: g.Name, Pod: render.MemberPod(s.group, place)})
		r.next++
	}
	return s.withoutRemoved(r)
}

// restoring: the group is to begin with a backup, and has not begun.
func (s *snapshot) restoring() bool { return s.group.Spec.Restore != nil && !s.formed() }

// founders is how many members a group begins with: the one whose disk was restored, or
// all.
func (s *snapshot) founders() int {
	if s.group.Spec.Restore != nil {
		return 1
	}
	return int(s.group.Spec.Members)
}

// founded is the record of a group that begins now; none while somebody is missing.
func (s *snapshot) founded() record {
	out := record{cluster: render.ClusterID(s.group), next: 1}
	for place := range s.founders() {
		g := s.said(place)
		if g == nil || g.Phase != dataplane.PhaseWaiting || g.Name == "" || out.named(g.Name) != nil {
			return record{}
		}
		out.members = append(out.members, v1alpha1.GroupMemberStatus{Number: out.next, Name: g.Name, Pod: render.MemberPod(s.group, place)})
		out.next++
	}
	return out
}

// adopted is the record of a group whose status was lost: its document says the same.
func (s *snapshot) adopted() record {
	out := record{cluster: s.live.Group.Cluster, next: 1}
	for _, m := range s.live.Members {
		pod := m.Name
		if i := len(pod) - 11; i > 0 && pod[i] == '-' { // the disk's part of the name
			pod = pod[:i]
		}
		out.members = append(out.members, v1alpha1.GroupMemberStatus{Number: int32(m.ID), Name: m.Name, Pod: pod})
		out.next = max(out.next, int32(m.ID)+1)
	}
	return out
}

// withoutRemoved drops members that nobody wants and that the leader does not know.
func (s *snapshot) withoutRemoved(r record) record {
	leader := s.leading()
	if leader == nil || leader.ChangePending {
		return r
	}
	r.members = slices.DeleteFunc(slices.Clone(r.members), func(m v1alpha1.GroupMemberStatus) bool {
		place, is := render.MemberOrdinal(s.group, m.Pod)
		stays := is && place < int(s.group.Spec.Members) && s.seated(r, place) == int(m.Number)
		return !stays && !slices.ContainsFunc(leader.Members, func(o dataplane.MemberState) bool { return o.ID == int(m.Number) })
	})
	return r
}

// viewOf is what a decision about the membership is made from.
func viewOf(s *snapshot, r record) view {
	v := view{wanted: int(s.group.Spec.Members), formed: s.formed()}
	leader := s.leading()
	for _, place := range s.places {
		v.seats = append(v.seats, s.seat(r, place))
	}
	for place := range v.wanted {
		if s.pods[place] == nil { // its pod is being made anew, or was lost with its node
			v.seats = append(v.seats, seat{ordinal: place, number: s.seated(r, place)})
		}
	}
	slices.SortFunc(v.seats, func(a, b seat) int { return cmp.Compare(a.ordinal, b.ordinal) })
	if leader == nil {
		return v
	}
	v.leader, v.busy = leader.ID, leader.ChangePending
	for _, m := range leader.Members {
		v.force = append(v.force, peer{
			number: m.ID, ordinal: s.placeOf(r, m.ID), voter: m.Role == dataplane.RoleVoter, healthy: s.healthy(r, leader, m), lag: m.Lag,
		})
	}
	return v
}

func (s *snapshot) seat(r record, place int) seat {
	p, g := s.pods[place], s.said(place)
	out := seat{ordinal: place, number: s.seated(r, place)}
	out.alive = g != nil && g.Phase == dataplane.PhaseRunning && p.DeletionTimestamp == nil && g.ID == out.number && out.number != 0
	out.coming = g != nil && g.Phase == dataplane.PhaseWaiting && p.DeletionTimestamp == nil && out.number != 0
	out.outdated = s.outdated(p)
	// A volatile process that was started again has forgotten who it was, and is known
	// under a name that its pod keeps.
	out.spoilt = g != nil && g.Phase == dataplane.PhaseRefused && g.Reason == reasonWrongDisk &&
		s.group.Spec.Storage.Policy == v1alpha1.StorageVolatile && p.DeletionTimestamp == nil
	return out
}

// reasonWrongDisk: the group knows another disk under that number.
const reasonWrongDisk = "WrongDisk"

// outdated says that a pod is not of the present specification.
func (s *snapshot) outdated(p *corev1.Pod) bool {
	if s.set == nil || s.set.Status.ObservedGeneration != s.set.Generation || s.set.Status.UpdateRevision == "" || p.DeletionTimestamp != nil {
		return false
	}
	revision := p.Labels[appsv1.ControllerRevisionHashLabelKey]
	return revision != "" && revision != s.set.Status.UpdateRevision
}

// placeOf is the place of a member's pod; of one that nobody wrote down it is past all.
func (s *snapshot) placeOf(r record, number int) int {
	for _, m := range r.members {
		if int(m.Number) == number {
			if place, is := render.MemberOrdinal(s.group, m.Pod); is {
				return place
			}
		}
	}
	return dataplane.MaxGroupBook
}

// healthy: the member answers, its state is the others', it says that it follows the leader, and the leader hears it.
func (s *snapshot) healthy(r record, leader *dataplane.GroupState, m dataplane.MemberState) bool {
	place := s.placeOf(r, m.ID)
	p, g := s.pods[place], s.said(place)
	if p == nil || p.DeletionTimestamp != nil || g == nil || g.ID != m.ID || g.Phase != dataplane.PhaseRunning || g.Reason == reasonDiverged {
		return false
	}
	if m.ID == leader.ID {
		return true
	}
	return g.Leader.ID == leader.ID && m.HeardMillisecondsAgo >= 0 && m.HeardMillisecondsAgo <= heardLately.Milliseconds()
}
