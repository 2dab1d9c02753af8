// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

var oneAuthority = sync.OnceValues(func() (*pki.Authority, error) { return pki.NewAuthority(start, nil) })

func aGroup() *v1alpha1.ReplicationGroup {
	size := int32(1024)
	return &v1alpha1.ReplicationGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop", UID: "11111111-2222-4333-8444-555555555555", Generation: 4},
		Spec: v1alpha1.ReplicationGroupSpec{
			Members: 3, Protocol: v1alpha1.ReplicationRaft, InFlightLimit: 1000,
			Server: v1alpha1.RpcServiceServer{Image: "kv"}, Storage: v1alpha1.ReplicationStorage{Policy: v1alpha1.StorageAlways, SizeMebibytes: &size},
		},
	}
}

// scene is a snapshot that a test changes until it is used.
type scene struct {
	*snapshot
	t *testing.T
}

func newScene(t *testing.T) *scene {
	t.Helper()
	authority, err := oneAuthority()
	if err != nil {
		t.Fatal(err)
	}
	g := aGroup()
	return &scene{t: t, snapshot: &snapshot{
		now: start, group: g, input: render.Input{Group: g, Registry: "r", Version: "1", OperatorNamespace: "sys"}, authority: authority,
		pods: map[int]*corev1.Pod{}, beside: map[string][]*corev1.Pod{}, states: map[string]*dataplane.SidecarState{}, groups: map[string]*dataplane.GroupState{}, freshKey: []byte("k"),
		set: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, UpdateRevision: "new"}},
	}}
}

func diskName(place int, disk string) string { return fmt.Sprintf("orders-member-%d-%s", place, disk) }

// pod puts a running pod into its place, with a disk.
func (s *scene) pod(place int, disk string) *dataplane.GroupState {
	name := render.MemberPod(s.group, place)
	s.pods[place] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: "p", Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "new"}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.0.%d", place+1)},
	}
	if !slices.Contains(s.places, place) {
		s.places = append(s.places, place)
		slices.Sort(s.places)
	}
	g := &dataplane.GroupState{Phase: dataplane.PhaseWaiting, Name: diskName(place, disk)}
	s.groups[name], s.states[name] = g, &dataplane.SidecarState{}
	return g
}

// silent is a pod that runs and does not answer.
func (s *scene) silent(place int) {
	name := render.MemberPod(s.group, place)
	delete(s.groups, name)
	delete(s.states, name)
}

// formedBy is a group of members 1…n in their places that has run for a while, led by
// the first.
func (s *scene) formedBy(n int) *scene {
	at := metav1.NewTime(start)
	s.group.Status.ClusterID, s.group.Status.NextNumber, s.group.Status.FormedTime = render.ClusterID(s.group), int32(n)+1, &at
	var members []dataplane.MemberState
	for i := range n {
		members = append(members, dataplane.MemberState{ID: i + 1, Name: diskName(i, "a"), Role: dataplane.RoleVoter})
		s.group.Status.Members = append(s.group.Status.Members, v1alpha1.GroupMemberStatus{Number: int32(i) + 1, Name: diskName(i, "a"), Pod: render.MemberPod(s.group, i)})
	}
	for i := range n {
		g := s.pod(i, "a")
		*g = dataplane.GroupState{
			Phase: dataplane.PhaseRunning, Ready: true, Name: diskName(i, "a"), ID: i + 1, Cluster: s.group.Status.ClusterID, Role: dataplane.RoleFollower, Term: 3,
			Leader: dataplane.MemberLeader{ID: 1}, Formed: true, Members: slices.Clone(members),
			Quorum: dataplane.GroupQuorum{Voters: n, Needed: quorum(n), Heard: n},
		}
	}
	s.said(0).Role = dataplane.RoleLeader
	s.keys = &corev1.Secret{Data: map[string][]byte{"1": []byte("k")}}
	p := planFor(s.snapshot)
	s.live, s.liveHash = p.doc, p.hash
	for _, st := range s.states {
		st.AppliedHash = p.hash
	}
	return s
}

func names(doc *dataplane.GroupConfig) string {
	if doc == nil {
		return "none"
	}
	var out []string
	for _, m := range doc.Members {
		out = append(out, fmt.Sprintf("%d=%s@%s", m.ID, m.Name, m.Address))
	}
	return strings.Join(out, " ") + " founded by " + fmt.Sprint(doc.InitialMembers)
}

// G-1: a group begins when everybody is there with a disk that knows nothing, never
// before, and once.
func TestFounding(t *testing.T) {
	all := func(s *scene) {
		for i := range 3 {
			s.pod(i, "a")
		}
	}
	whole := "1=orders-member-0-a@10.0.0.1 2=orders-member-1-a@10.0.0.2 3=orders-member-2-a@10.0.0.3 founded by [orders-member-0-a orders-member-1-a orders-member-2-a]"
	for _, row := range []struct {
		name   string
		change func(*scene)
		doc    string
	}{
		{"nobody", func(*scene) {}, "none"},
		{"one is missing", func(s *scene) { s.pod(0, "a"); s.pod(1, "a") }, "none"},
		{"one does not answer", func(s *scene) { all(s); s.silent(1) }, "none"},
		{"one runs already", func(s *scene) { all(s); s.said(2).Phase = dataplane.PhaseRunning }, "none"},
		{"one cannot", func(s *scene) { all(s); s.said(2).Phase = dataplane.PhaseFailed }, "none"},
		{"one has no name", func(s *scene) { all(s); s.said(2).Name = "" }, "none"},
		{"two say the same", func(s *scene) { all(s); s.said(2).Name = s.said(1).Name }, "none"},
		{"all", all, whole},
		{"five of three pods", func(s *scene) { all(s); s.group.Spec.Members = 5 }, "none"},
		{"written down, and then the disk of one is another", func(s *scene) {
			all(s)
			s.group.Status.ClusterID, s.group.Status.NextNumber = render.ClusterID(s.group), 4
			for i := range 3 {
				s.group.Status.Members = append(s.group.Status.Members, v1alpha1.GroupMemberStatus{Number: int32(i) + 1, Name: diskName(i, "a"), Pod: render.MemberPod(s.group, i)})
			}
			s.said(2).Name = diskName(2, "b")
		}, "none"},
		{"without its box", func(s *scene) { all(s); s.group.Spec.Protocol = v1alpha1.ReplicationHovercRaft }, "none"},
		{"with its box", func(s *scene) { all(s); s.apart(v1alpha1.ReplicationHovercRaft) }, whole},
		{"without its aggregator", func(s *scene) {
			all(s)
			s.apart(v1alpha1.ReplicationHovercRaftPlusPlus)
			s.beside[v1alpha1.ComponentAggregator] = nil
		}, "none"},
		{"with both", func(s *scene) { all(s); s.apart(v1alpha1.ReplicationHovercRaftPlusPlus) }, whole},
		{"a name that is taken", func(s *scene) { all(s); s.conflicts = []string{"Service orders"} }, "none"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			row.change(s)
			p := planFor(s.snapshot)
			if got := names(p.doc); got != row.doc {
				t.Errorf("got  %s\nwant %s", got, row.doc)
			}
			if p.step.kind != stepNone {
				t.Errorf("a group that has not begun is told to %+v", p.step)
			}
		})
	}
}

// G-1: a group that has begun never begins again: not with empty disks, not without its
// status, not without its document.
func TestNeverFoundedTwice(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*scene)
	}{
		{"all disks are new", func(s *scene) {
			for i := range 3 {
				s.pod(i, "b")
			}
		}},
		{"the status is lost", func(s *scene) { s.group.Status = v1alpha1.ReplicationGroupStatus{} }},
		{"the status is lost, and the disks", func(s *scene) {
			s.group.Status = v1alpha1.ReplicationGroupStatus{}
			for i := range 3 {
				s.pod(i, "b")
			}
		}},
		{"the document is lost", func(s *scene) { s.live, s.liveHash = nil, "" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t).formedBy(3)
			row.change(s)
			p := planFor(s.snapshot)
			if p.doc == nil {
				return
			}
			for _, name := range p.doc.InitialMembers {
				if strings.HasSuffix(name, "-b") {
					t.Errorf("an empty disk may found the group: %s", names(p.doc))
				}
			}
			if p.doc.Group.Cluster != render.ClusterID(s.group) {
				t.Errorf("another cluster: %s", p.doc.Group.Cluster)
			}
		})
	}
}

// G-2: a new disk gets a new number, written down before it is told to anybody; the old
// one leaves the record when the leader does not know it any more.
func TestRecord(t *testing.T) {
	s := newScene(t).formedBy(3)
	if r := nextRecord(s.snapshot); !r.equal(recordOf(s.group)) {
		t.Errorf("nothing happened, and the record changes to %+v", r)
	}
	s.pod(2, "b")
	p := planFor(s.snapshot)
	if m := p.record.named(diskName(2, "b")); m == nil || m.Number != 4 || p.record.next != 5 || len(p.record.members) != 4 {
		t.Fatalf("record %+v", p.record)
	}
	// The address is its successor's, so nobody looks for the old one there.
	if got := names(p.doc); got != "1=orders-member-0-a@10.0.0.1 2=orders-member-1-a@10.0.0.2 4=orders-member-2-b@10.0.0.3 founded by []" {
		t.Error(got)
	}
	if p.step.kind != stepNone { // it waits: it has not got its configuration
		t.Errorf("step %+v", p.step)
	}
	s.group.Status.Members, s.group.Status.NextNumber = p.record.members, 5
	g := s.said(2)
	g.Phase, g.ID, g.Role = dataplane.PhaseRunning, 4, dataplane.RoleLearner
	if p = planFor(s.snapshot); p.step != (step{stepAdd, 4, 2}) {
		t.Errorf("step %+v", p.step)
	}
	leader := s.said(0)
	leader.Members = append(leader.Members[:2:2], dataplane.MemberState{ID: 4, Role: dataplane.RoleVoter})
	g.Role, g.Leader.ID = dataplane.RoleFollower, 1
	leader.ChangePending = true
	if p = planFor(s.snapshot); len(p.record.members) != 4 {
		t.Errorf("forgotten before the change was committed: %+v", p.record)
	}
	leader.ChangePending = false
	if p = planFor(s.snapshot); len(p.record.members) != 3 || p.record.named(diskName(2, "a")) != nil || p.record.next != 5 {
		t.Errorf("record %+v", p.record)
	}
	// Nobody leads: nothing is forgotten.
	leader.Quorum.Heard = 1
	if p = planFor(s.snapshot); len(p.record.members) != 4 {
		t.Errorf("forgotten while nobody leads: %+v", p.record)
	}
	s.group.Status.NextNumber = dataplane.MaxMemberNumber + 1
	s.pod(1, "c")
	if p = planFor(s.snapshot); p.record.next != dataplane.MaxMemberNumber+1 || p.record.named(diskName(1, "c")) != nil {
		t.Errorf("a number beyond the last: %+v", p.record)
	}
}

// G-3: pods go when their members are gone, and not while nobody leads.
func TestReplicas(t *testing.T) {
	s := newScene(t).formedBy(5)
	s.group.Spec.Members = 3
	if got := decideReplicas(s.snapshot, nextRecord(s.snapshot)); got != 5 {
		t.Errorf("members 4 and 5 are there, and %d pods are left", got)
	}
	leader := s.said(0)
	leader.Members = leader.Members[:4]
	if got := decideReplicas(s.snapshot, nextRecord(s.snapshot)); got != 4 {
		t.Errorf("member 4 is there, and there are %d pods", got)
	}
	leader.Members = leader.Members[:3]
	if got := decideReplicas(s.snapshot, nextRecord(s.snapshot)); got != 3 {
		t.Errorf("%d pods", got)
	}
	four := int32(4)
	s.set.Spec.Replicas = &four
	leader.Quorum.Heard = 0
	if got := decideReplicas(s.snapshot, record{cluster: "c"}); got != 4 {
		t.Errorf("nobody leads, and %d pods are left of 4", got)
	}
	s.group.Spec.Members = 7
	if got := decideReplicas(s.snapshot, record{cluster: "c"}); got != 7 {
		t.Errorf("%d pods, want 7", got)
	}
}

// G-6: as many may be evicted as the voters in force can miss.
func TestUnavailable(t *testing.T) {
	for n, want := range map[int]int32{3: 1, 5: 2, 7: 3} {
		s := newScene(t).formedBy(n)
		s.group.Spec.Members = int32(n)
		p := planFor(s.snapshot)
		if p.input.MaxUnavailable != want {
			t.Errorf("of %d: %d", n, p.input.MaxUnavailable)
		}
		s.said(0).Quorum.Heard = 0
		if p = planFor(s.snapshot); p.input.MaxUnavailable != 0 {
			t.Errorf("nobody leads, and %d may be evicted", p.input.MaxUnavailable)
		}
	}
	s := newScene(t).formedBy(3) // on the way to five: three vote
	s.group.Spec.Members = 5
	s.pod(3, "a")
	s.pod(4, "a")
	if p := planFor(s.snapshot); p.input.MaxUnavailable != 1 || p.input.Replicas != 5 {
		t.Errorf("%d of %d may be evicted", p.input.MaxUnavailable, p.input.Replicas)
	}
}

// G-3, G-9: what the Ready condition says, and about whom.
func TestReady(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*scene)
		reason string
		says   string
	}{
		{"well", func(*scene) {}, v1alpha1.ReasonReady, "3 of 3 voters are healthy, 2 must agree"},
		{"a name that is taken", func(s *scene) { s.conflicts = []string{"Service orders"} }, v1alpha1.ReasonNotAccepted, "the last accepted configuration keeps serving"},
		{"one is gone", func(s *scene) { delete(s.pods, 2); s.places = s.places[:2]; s.silent(2) }, v1alpha1.ReasonMembersNotReady, "2 of 3 voters are healthy, 2 must agree; orders-member-2: Unreachable"},
		{"one is cut off", func(s *scene) { s.said(0).Members[2].HeardMillisecondsAgo = 2001 }, v1alpha1.ReasonMembersNotReady, "orders-member-2: Behind"},
		{"a disk failed", func(s *scene) {
			g := s.said(1)
			g.Phase, g.Reason, g.Message = dataplane.PhaseFailed, "DiskFull", "no space"
		}, v1alpha1.ReasonMembersNotReady, "orders-member-1: DiskFull no space (make its volume larger (kubectl -n shop edit pvc data-orders-member-1"},
		{"a state differs", func(s *scene) { g := s.said(1); g.Reason, g.Message = reasonDiverged, "since entry 9" }, v1alpha1.ReasonMembersNotReady, "orders-member-1: Diverged since entry 9 (it gets the leader's state by itself; if it differs again, so may its image, or its node is not sound: kubectl -n shop get pod orders-member-1"},
		{"two are gone", func(s *scene) { s.silent(0); s.silent(1) }, v1alpha1.ReasonNoQuorum, "1 of 3 voters answer, 2 must agree: no request is answered, and nothing is lost while the disks are there; bring pods back: kubectl -n shop describe pods -l bobtail.dev/component=member,bobtail.dev/service=orders; only if a majority of disks is lost for good: kubectl bobtail -n shop recover orders --force-new-quorum --from-member=POD --into=NEWNAME"},
		{"all are gone", func(s *scene) { s.silent(0); s.silent(1); s.silent(2) }, v1alpha1.ReasonNoQuorum, "no member answers"},
		{"an election", func(s *scene) { s.said(0).Role = "Candidate" }, v1alpha1.ReasonNoLeader, "3 of 3 voters answer, 2 must agree; none of them leads yet"},
		{"who believes to lead has no quorum", func(s *scene) { s.said(0).Quorum.Heard = 1 }, v1alpha1.ReasonNoLeader, ""},
		{"it grows", func(s *scene) { s.group.Spec.Members = 5 }, v1alpha1.ReasonChangingMembers, "on the way to 5 members"},
		{"it shrinks", func(s *scene) { s.formedBy(5) }, v1alpha1.ReasonChangingMembers, "to go [orders-member-3 (4), orders-member-4 (5)]"},
		{"a foreign disk", func(s *scene) {
			g := s.said(2)
			g.Phase, g.Reason = dataplane.PhaseFailed, reasonDiskForeign
		}, v1alpha1.ReasonForeignDisk, "delete PersistentVolumeClaim data-orders-member-2 and its pod"},
		{"restarts", func(s *scene) { s.pods[1].Labels[appsv1.ControllerRevisionHashLabelKey] = "old" }, v1alpha1.ReasonRollingOut, "the leader's last"},
		{"the StatefulSet's controller has yet to look", func(s *scene) { s.set.Generation = 2 }, v1alpha1.ReasonRollingOut, "the StatefulSet has just been changed"},
		{"not acknowledged", func(s *scene) { s.states["orders-member-1"].AppliedHash = "" }, v1alpha1.ReasonNotProgrammed, "waiting for orders-member-1"},
		{"keys are lost", func(s *scene) { s.keys = nil }, v1alpha1.ReasonNotProgrammed, "Secret orders-keys with the packet keys is gone"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			if row.name != "it shrinks" {
				s.formedBy(3)
			}
			row.change(s)
			p := planFor(s.snapshot)
			v := conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group})
			if v.ready.Reason != row.reason || !strings.Contains(v.ready.Message, row.says) || v.ready.OK() != (row.reason == v1alpha1.ReasonReady) {
				t.Errorf("%s: %s", v.ready.Reason, v.ready.Message)
			}
			if row.reason == v1alpha1.ReasonNoQuorum && p.step.kind != stepNone {
				t.Errorf("a group without a quorum is told to %+v", p.step)
			}
		})
	}
}

// What is not accepted is refused by name, and what ran goes on.
func TestAccepted(t *testing.T) {
	s := newScene(t).formedBy(3)
	s.conflicts = []string{"Service orders"}
	if p := planFor(s.snapshot); p.accepted.Reason != v1alpha1.ReasonNameConflict || !strings.Contains(p.accepted.Message, "Service orders: exists") || p.hash != "" {
		t.Errorf("%+v", p.accepted)
	}
}

// A pod that has another address is found at the new one, one that has none where it was.
func TestBook(t *testing.T) {
	s := newScene(t).formedBy(3)
	s.pods[1].Status.PodIP = "10.9.9.9"
	delete(s.pods, 2)
	s.places = s.places[:2]
	if got := names(planFor(s.snapshot).doc); got != "1=orders-member-0-a@10.0.0.1 2=orders-member-1-a@10.9.9.9 3=orders-member-2-a@10.0.0.3 founded by []" {
		t.Error(got)
	}
	s.pods[1].Status.PodIP = "10.0.0.3" // somebody else is there now
	if got := names(planFor(s.snapshot).doc); got != "1=orders-member-0-a@10.0.0.1 2=orders-member-1-a@10.0.0.3 founded by []" {
		t.Error(got)
	}
}

// G-6: a pod counts as well when its member is a voter that leads or follows; in an
// election it stays what it was.
func TestJoined(t *testing.T) {
	s := newScene(t).formedBy(3)
	s.group.Spec.Members = 5
	g := s.pod(3, "a")
	s.group.Status.Members = append(s.group.Status.Members, v1alpha1.GroupMemberStatus{Number: 4, Name: g.Name, Pod: "orders-member-3"})
	g.Phase, g.ID, g.Role, g.Leader.ID = dataplane.PhaseRunning, 4, dataplane.RoleLearner, 1
	leader := s.said(0)
	leader.Members = append(leader.Members, dataplane.MemberState{ID: 4, Role: dataplane.RoleLearner})
	s.said(1).Leader.ID = 0
	p := planFor(s.snapshot)
	v := conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group})
	for pod, want := range map[string]bool{"orders-member-0": true, "orders-member-1": false, "orders-member-2": true, "orders-member-3": false} {
		if v.joined[pod].OK() != want {
			t.Errorf("%s: %+v", pod, v.joined[pod])
		}
	}
	leader.Role = "Candidate"
	s.pods[2].Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.PodConditionJoined, Status: corev1.ConditionTrue}}
	for i := range s.group.Status.Members {
		s.group.Status.Members[i].Role = v1alpha1.MemberVoter
	}
	p = planFor(s.snapshot)
	v = conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group})
	if !v.joined["orders-member-2"].OK() || v.joined["orders-member-1"].OK() {
		t.Errorf("in an election: %+v", v.joined)
	}
}

func TestShownLag(t *testing.T) {
	for lag, want := range map[int64]int64{0: 0, 127: 0, 128: 120, 999: 990, 12345: 12000} {
		if got := shownLag(lag); got != want {
			t.Errorf("%d is shown as %d", lag, got)
		}
	}
}

// A StatefulSet that is older than what was written tells nothing of its pods.
func TestReadyWaitsForWhatWasWritten(t *testing.T) {
	s := newScene(t).formedBy(3)
	p := planFor(s.snapshot)
	for written, ready := range map[string]bool{"": true, "g1": true, "g2": false} {
		if v := conclude(s.snapshot, p, &outcome{accepted: p.accepted, before: s.group, set: written}); v.ready.OK() != ready {
			t.Errorf("written %q: %+v", written, v.ready)
		}
	}
}

// A member whose container crashes before the group begins is named with its reason, not as silent alone.
func TestWaitingToBeginNamesWhatCrashes(t *testing.T) {
	s := newScene(t)
	for place := range 3 {
		s.pod(place, "aaaaaaaaaa")
	}
	s.silent(1)
	s.pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "member",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 20s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}}}
	if says := waitingToBegin(s.snapshot); !strings.HasSuffix(says, "member-1 does not answer (container member: CrashLoopBackOff, exit code 2)") {
		t.Errorf("says %q", says)
	}
}

// G-11: a group that is restored begins with its first member alone, the others join one
// that has begun.
func TestRestoredGroupBeginsWithOneMember(t *testing.T) {
	s := newScene(t)
	s.group.Spec.Restore = &v1alpha1.GroupRestore{ClaimName: "backups", Path: "b1"}
	p := planFor(s.snapshot)
	if !p.input.Restoring || p.input.Replicas != 1 || p.record.cluster != "" || p.hash != "" {
		t.Errorf("before its pod is there: restoring %v, %d pods, record %+v", p.input.Restoring, p.input.Replicas, p.record)
	}
	if says := waitingToBegin(s.snapshot); !strings.Contains(says, "PersistentVolumeClaim backups") || strings.Contains(says, "member-1") {
		t.Errorf("says %q", says)
	}
	s.pod(0, "aaaaaaaaaa")
	p = planFor(s.snapshot)
	if len(p.record.members) != 1 || p.record.members[0].Number != 1 || p.record.next != 2 || p.record.cluster != render.ClusterID(s.group) {
		t.Fatalf("record %+v", p.record)
	}
	s.group.Status.ClusterID, s.group.Status.NextNumber, s.group.Status.Members = p.record.cluster, 2, p.record.members
	p = planFor(s.snapshot)
	if p.doc == nil || len(p.doc.InitialMembers) != 1 || len(p.doc.Members) != 1 || p.input.Replicas != 1 || !p.input.Restoring {
		t.Fatalf("document %+v, %d pods", p.doc, p.input.Replicas)
	}
	formed := metav1.NewTime(start)
	s.group.Status.FormedTime = &formed
	p = planFor(s.snapshot)
	if p.input.Restoring || p.input.Replicas != 3 || len(p.doc.InitialMembers) != 0 {
		t.Errorf("once it has begun: restoring %v, %d pods, founders %v", p.input.Restoring, p.input.Replicas, p.doc.InitialMembers)
	}
}
