// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// concluded is what comes of a scene, with what the leader said against the step.
func (s *scene) concluded(refused string) (*plan, verdicts, *v1alpha1.ReplicationGroup) {
	p := planFor(s.snapshot)
	done := &outcome{accepted: p.accepted, before: s.group, refused: refused}
	v := conclude(s.snapshot, p, done)
	return p, v, withStatus(s.snapshot, p, done, v)
}

// The status has the leader, the greatest lag, the newest term of this cluster's running members, and when the group began.
func TestStatusOfALedGroup(t *testing.T) {
	s := newScene(t).formedBy(3)
	leader := s.said(0)
	leader.Members[0].Lag, leader.Members[1].Lag, leader.Members[2].Lag = 0, -1, 12_345
	s.said(1).Term, s.said(1).Cluster = 9, "another"
	s.said(2).Term = 4
	slices.Reverse(s.group.Status.Members)
	_, _, g := s.concluded("")
	st := g.Status
	if st.Leader != "orders-member-0" || st.Term != 4 || st.LagEntries == nil || *st.LagEntries != 12_000 || st.VotersInForce != 3 || st.Quorum != 2 || !st.FormedTime.Time.Equal(start) {
		t.Errorf("leader %q, term %d, lag %v, %d of %d, formed %v", st.Leader, st.Term, st.LagEntries, st.Quorum, st.VotersInForce, st.FormedTime)
	}
	for i, want := range []string{"1 0", "2 none", "3 12000"} {
		m := st.Members[i]
		got := fmt.Sprintf("%d none", m.Number)
		if m.LagEntries != nil {
			got = fmt.Sprintf("%d %d", m.Number, *m.LagEntries)
		}
		if got != want {
			t.Errorf("member %s, want %s", got, want)
		}
	}
	s.group.Status = g.Status // nobody leads any more, and one has stopped
	leader.Role, s.said(2).Phase, s.said(2).Term = "Candidate", dataplane.PhaseFailed, 70
	s.silent(1)
	if _, _, g = s.concluded(""); g.Status.Leader != "" || g.Status.LagEntries != nil || g.Status.VotersInForce != 3 || g.Status.Quorum != 2 || g.Status.Term != 4 {
		t.Errorf("%+v", g.Status)
	}
}

// When a group began is written down once, and only of one that has a record.
func TestWhenAGroupBegan(t *testing.T) {
	early := metav1.NewTime(start.Add(-time.Hour))
	for name, c := range map[string]struct {
		change func(*scene)
		want   *metav1.Time
	}{
		"begins now":     {func(s *scene) { s.group.Status.FormedTime = nil }, &metav1.Time{Time: start}},
		"began before":   {func(s *scene) { s.group.Status.FormedTime = &early }, &early},
		"has no record":  {func(s *scene) { s.group.Status, s.live = v1alpha1.ReplicationGroupStatus{}, nil }, nil},
		"has yet to":     {func(s *scene) { s.group.Status.FormedTime = nil; s.yetToBegin() }, nil},
		"nobody answers": {func(s *scene) { s.group.Status.FormedTime = nil; s.silent(0); s.silent(1); s.silent(2) }, nil},
	} {
		s := newScene(t).formedBy(3)
		c.change(s)
		if _, _, g := s.concluded(""); !g.Status.FormedTime.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, g.Status.FormedTime, c.want)
		}
	}
}

// yetToBegin: no member says that the group has begun.
func (s *scene) yetToBegin() {
	for _, place := range s.places {
		s.said(place).Formed = false
	}
}

// What the leader said against a step is told of a group that is not ready, and of no other.
func TestRefusedStepsAreTold(t *testing.T) {
	for _, c := range []struct {
		ill     bool
		refused string
		told    bool
	}{{true, "add of member 4: busy", true}, {true, "", false}, {false, "add of member 4: busy", false}} {
		s := newScene(t).formedBy(3)
		if c.ill {
			s.silent(2)
		}
		if _, v, _ := s.concluded(c.refused); v.ready.OK() == c.ill || strings.HasSuffix(v.ready.Message, "; add of member 4: busy") != c.told || strings.HasSuffix(v.ready.Message, "; ") {
			t.Errorf("%+v: %s", c, v.ready.Message)
		}
	}
}

// Where nobody leads a member is what it was; of one of whom nothing is known, a voter of a group that has yet to begin, or
// one that joins.
func TestRolesWithoutALeader(t *testing.T) {
	s := newScene(t).formedBy(3)
	s.said(0).Role = "Candidate"
	s.group.Status.Members[1].Role = v1alpha1.MemberLearner
	for number, want := range map[int32][2]v1alpha1.GroupMemberRole{
		1: {v1alpha1.MemberJoining, v1alpha1.MemberVoter}, 2: {v1alpha1.MemberLearner, v1alpha1.MemberLearner}, 7: {v1alpha1.MemberJoining, v1alpha1.MemberVoter},
	} {
		for i, formed := range []*metav1.Time{{Time: start}, nil} {
			s.group.Status.FormedTime = formed
			if got := roleOf(s.snapshot, view{}, v1alpha1.GroupMemberStatus{Number: number}, nil); got != want[i] {
				t.Errorf("member %d of a group formed %v: %s, want %s", number, formed, got, want[i])
			}
		}
	}
}

// Ready waits for all pods and for the StatefulSet; a majority that answers has no leader yet, and learners do not count.
func TestReadyAtItsBounds(t *testing.T) {
	learner := func(s *scene, all int) {
		s.said(0).Role = "Candidate"
		for place := range 3 {
			g := s.said(place)
			g.Members = append([]dataplane.MemberState{{ID: 4, Role: dataplane.RoleLearner}}, g.Members...)
		}
		for place := all; place < 3; place++ {
			s.silent(place)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*scene)
		reason string
		says   string
	}{
		{"without its StatefulSet", func(s *scene) { s.set = nil }, v1alpha1.ReasonRollingOut, "the StatefulSet has just been changed"},
		{"a pod too many", func(s *scene) { s.pod(3, "x") }, v1alpha1.ReasonRollingOut, "; 4 of 3 pods are there"},
		{"two of three answer", func(s *scene) { learner(s, 2) }, v1alpha1.ReasonNoLeader, "2 of 3 voters answer, 2 must agree; none of them leads yet"},
		{"one of three answers", func(s *scene) { learner(s, 1) }, v1alpha1.ReasonNoQuorum, "1 of 3 voters answer, 2 must agree"},
		{"its disk is damaged, and a majority runs", func(s *scene) {
			s.said(1).Phase, s.said(1).Reason = dataplane.PhaseFailed, "DiskDamaged"
		}, v1alpha1.ReasonMembersNotReady, "give it an empty disk"},
		{"its disk is damaged, and nobody leads", func(s *scene) {
			s.said(0).Role, s.said(1).Phase, s.said(1).Reason = "Candidate", dataplane.PhaseFailed, "DiskDamaged"
		}, v1alpha1.ReasonNoLeader, "keep its disk until a majority runs again"},
		{"a volatile one that forgot who it was", func(s *scene) {
			s.group.Spec.Storage.Policy = v1alpha1.StorageVolatile
			s.said(1).Phase, s.said(1).Reason = dataplane.PhaseRefused, reasonWrongDisk
		}, v1alpha1.ReasonMembersNotReady, "orders-member-1: WrongDisk"},
	} {
		s := newScene(t).formedBy(3)
		c.change(s)
		if _, v, _ := s.concluded(""); v.ready.Reason != c.reason || !strings.Contains(v.ready.Message, c.says) {
			t.Errorf("%s: %s: %s", c.name, v.ready.Reason, v.ready.Message)
		}
	}
}

// Of a member whose successor sits in its pod nothing is said.
func TestTroublesSpeakOfSuccessors(t *testing.T) {
	s := newScene(t).formedBy(3)
	members := []v1alpha1.GroupMemberStatus{
		{Number: 1, Pod: "orders-member-0", State: v1alpha1.MemberBehind}, {Number: 3, Pod: "orders-member-2", State: v1alpha1.MemberUnreachable}, {Number: 4, Pod: "orders-member-2", State: v1alpha1.MemberStarting},
	}
	r := record{members: members}
	if got := troubles(s.snapshot, r, members); got != "; orders-member-0: Behind; orders-member-2: Starting" {
		t.Errorf("%q", got)
	}
	if got := troubles(s.snapshot, record{}, members[:1]); got != "; orders-member-0: Behind" {
		t.Errorf("of one that is not written down: %q", got)
	}
}

// A pod that finds no node is waited for with the scheduler's words; other conditions are not the scheduler's.
func TestWhyAPodWaits(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: kind, Status: status, Message: "no node"}}}}
	}
	for _, c := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{nil, ""}, {condition(corev1.PodScheduled, corev1.ConditionFalse), " (no node)"},
		{condition(corev1.PodScheduled, corev1.ConditionTrue), ""}, {condition(corev1.PodReady, corev1.ConditionFalse), ""},
	} {
		if got := whyPending(c.pod); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	s := newScene(t)
	for place := range 3 {
		s.pod(place, "a")
	}
	s.pods[1].Status.Phase = corev1.PodPending
	if got := waitingToBegin(s.snapshot); !strings.HasSuffix(got, ": orders-member-1 does not run") {
		t.Errorf("%q", got)
	}
}

// Every pod is told of its own member, also where one before it ends or is of no member.
func TestJoinedOfEveryPod(t *testing.T) {
	s := newScene(t).formedBy(3)
	now := metav1.NewTime(start)
	s.pods[0].DeletionTimestamp = &now
	s.pod(1, "unknown")
	joined := decideJoined(s.snapshot, recordOf(s.group), []v1alpha1.GroupMemberStatus{
		{Number: 1, Role: v1alpha1.MemberVoter, State: v1alpha1.MemberLeading}, {Number: 2, Role: v1alpha1.MemberVoter, State: v1alpha1.MemberFollowing},
		{Number: 3, Role: v1alpha1.MemberVoter, State: v1alpha1.MemberFollowing},
	})
	if len(joined) != 2 || joined["orders-member-1"].OK() || !joined["orders-member-2"].OK() {
		t.Errorf("%+v", joined)
	}
}

// Each condition that changed is told of, also behind one that did not; who replaced whom is told once.
func TestEachChangeIsAnnounced(t *testing.T) {
	stand, before, after := newStand(t), aGroup(), aGroup()
	yes, no := verdict.Yes(v1alpha1.ReasonReady, "m"), verdict.No(v1alpha1.ReasonRollingOut, "m")
	verdict.SetAll(&before.Status.Conditions, map[string]verdict.Verdict{"A": yes, "B": no}, 1, start)
	verdict.SetAll(&after.Status.Conditions, map[string]verdict.Verdict{"A": yes, "B": yes}, 1, start)
	if stand.announce(before, after); strings.Join(stand.told(), "; ") != "Normal Ready B is True: m" {
		t.Error("B was not told of alone")
	}
	m := v1alpha1.GroupMemberStatus{Number: 4, Pod: "p"}
	for _, c := range []struct {
		before []v1alpha1.GroupMemberStatus
		want   int32
	}{
		{nil, 0}, {[]v1alpha1.GroupMemberStatus{{Number: 4, Pod: "p"}}, 0}, {[]v1alpha1.GroupMemberStatus{{Number: 1, Pod: "q"}, {Number: 2, Pod: "p"}}, 2},
		{[]v1alpha1.GroupMemberStatus{{Number: 2, Pod: "p"}, {Number: 4, Pod: "p", Role: v1alpha1.MemberJoining}}, 0}, {[]v1alpha1.GroupMemberStatus{{Number: 5, Pod: "p"}}, 0},
	} {
		if got := replaced(c.before, m); got != c.want {
			t.Errorf("%+v: %d, want %d", c.before, got, c.want)
		}
	}
}

// A group is looked at often until it is well, or has been unwell for long.
func TestHowOftenAGroupIsLookedAt(t *testing.T) {
	yes, no := verdict.Yes("R", ""), verdict.No("R", "")
	for _, c := range []struct {
		programmed, ready verdict.Verdict
		since             time.Duration
		want              time.Duration
	}{
		{yes, yes, 0, steady}, {no, yes, 0, converging}, {yes, no, 0, converging}, {no, no, patience, converging}, {no, no, patience + 1, steady},
	} {
		g := aGroup()
		g.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
		g.Status.Conditions = []metav1.Condition{{LastTransitionTime: metav1.NewTime(start.Add(-c.since))}, {LastTransitionTime: metav1.NewTime(start.Add(-30 * time.Minute))}}
		if got := interval(start, g, verdicts{programmed: c.programmed, ready: c.ready}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A pod leads to the group that its labels name.
func TestGroupOfAPod(t *testing.T) {
	for _, c := range []struct {
		service, component string
		want               int
	}{
		{"orders", v1alpha1.ComponentMember, 1}, {"orders", v1alpha1.ComponentBox, 1}, {"orders", v1alpha1.ComponentAggregator, 1},
		{"", v1alpha1.ComponentMember, 0}, {"orders", v1alpha1.ComponentRouter, 0}, {"", "", 0},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{v1alpha1.LabelService: c.service, v1alpha1.LabelComponent: c.component}}}
		got := groupOf(context.Background(), p)
		if len(got) != c.want || c.want == 1 && got[0].String() != "shop/orders" {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
