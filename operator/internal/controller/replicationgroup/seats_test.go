// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Of those that believe they lead, one that hears as many as must agree does, the one of the later term; where nobody leads,
// whoever knows the newest membership is believed.
func TestWhoIsBelieved(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*scene)
		leads  int // number; 0: nobody
		best   int
	}{
		{"all hear it", func(*scene) {}, 1, 1},
		{"as many as must agree", func(s *scene) { s.said(0).Quorum.Heard = s.said(0).Quorum.Needed }, 1, 1},
		{"a later term before it", func(s *scene) { s.said(1).Role = dataplane.RoleLeader; s.said(0).Term = 4 }, 1, 1},
		{"a later term behind it", func(s *scene) { s.said(1).Role, s.said(1).Term = dataplane.RoleLeader, 4 }, 2, 2},
		{"the same term", func(s *scene) { s.said(1).Role = dataplane.RoleLeader }, 1, 1},
		{"an election", func(s *scene) { s.said(0).Role = "Candidate" }, 0, 1},
		{"an election, and one knows more", func(s *scene) { s.said(0).Role, s.said(1).ConfigurationIndex = "Candidate", 2 }, 0, 2},
		{"and the next one knows less", func(s *scene) {
			s.said(0).Role, s.said(1).ConfigurationIndex, s.said(2).ConfigurationIndex = "Candidate", 2, 1
		}, 0, 2},
		{"and who knows nobody is not asked", func(s *scene) {
			s.said(0).Role, s.said(2).ConfigurationIndex, s.said(2).Members = "Candidate", 9, nil
		}, 0, 1},
		{"and the first does not answer", func(s *scene) { s.silent(0) }, 0, 2},
	} {
		s := newScene(t).formedBy(3)
		c.change(s)
		number := func(g *dataplane.GroupState) int {
			if g == nil {
				return 0
			}
			return g.ID
		}
		if leads, best := number(s.leading()), number(s.best()); leads != c.leads || best != c.best {
			t.Errorf("%s: %d leads and %d is believed, want %d and %d", c.name, leads, best, c.leads, c.best)
		}
	}
}

// What a pod's member is, and what may be done with its pod.
func TestSeats(t *testing.T) {
	ends := func(s *scene) { now := metav1.NewTime(start); s.pods[2].DeletionTimestamp = &now }
	waits := func(s *scene) { s.said(2).Phase = dataplane.PhaseWaiting }
	spoilt := func(s *scene) {
		s.said(2).Phase, s.said(2).Reason = dataplane.PhaseRefused, reasonWrongDisk
		s.group.Spec.Storage.Policy = v1alpha1.StorageVolatile
	}
	old := func(s *scene) { s.pods[2].Labels[appsv1.ControllerRevisionHashLabelKey] = "old" }
	for _, c := range []struct {
		name   string
		change []func(*scene)
		want   string
	}{
		{"runs", nil, "3 alive"},
		{"ends", []func(*scene){ends}, "3"},
		{"does not answer", []func(*scene){func(s *scene) { s.silent(2) }}, "3"},
		{"has another number", []func(*scene){func(s *scene) { s.said(2).ID = 7 }}, "3"},
		{"waits", []func(*scene){waits}, "3 coming"},
		{"waits and ends", []func(*scene){waits, ends}, "3"},
		{"waits and is not known", []func(*scene){waits, func(s *scene) { s.said(2).Name = "x" }}, "0"},
		{"runs and is not known", []func(*scene){func(s *scene) { s.said(2).Name, s.said(2).ID = "x", 0 }}, "0"},
		{"forgot who it was", []func(*scene){spoilt}, "3 spoilt"},
		{"forgot and ends", []func(*scene){spoilt, ends}, "3"},
		{"forgot, with a disk", []func(*scene){spoilt, func(s *scene) { s.group.Spec.Storage.Policy = v1alpha1.StorageAlways }}, "3"},
		{"is refused for something else", []func(*scene){spoilt, func(s *scene) { s.said(2).Reason = "Removed" }}, "3"},
		{"failed", []func(*scene){spoilt, func(s *scene) { s.said(2).Phase = dataplane.PhaseFailed }}, "3"},
		{"is old", []func(*scene){old}, "3 alive outdated"},
		{"is old and ends", []func(*scene){old, ends}, "3"},
		{"is of no known age", []func(*scene){old, func(s *scene) { s.pods[2].Labels = nil }}, "3 alive"},
		{"is old, of a set that nobody looked at", []func(*scene){old, func(s *scene) { s.set.Generation = 2 }}, "3 alive"},
		{"is old, of a set without a revision", []func(*scene){old, func(s *scene) { s.set.Status.UpdateRevision = "" }}, "3 alive"},
		{"is old, of no set", []func(*scene){old, func(s *scene) { s.set = nil }}, "3 alive"},
	} {
		s := newScene(t).formedBy(3)
		for _, change := range c.change {
			change(s)
		}
		got := s.seat(recordOf(s.group), 2)
		says := fmt.Sprint(got.number)
		for word, is := range map[string]bool{" alive": got.alive, " coming": got.coming, " spoilt": got.spoilt} {
			if is {
				says += word
			}
		}
		if got.outdated {
			says += " outdated"
		}
		if says != c.want {
			t.Errorf("%s: %q, want %q", c.name, says, c.want)
		}
	}
}

// A member is well that was heard of lately, to the millisecond, and whose pod stays and answers.
func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *scene, m *dataplane.MemberState)
		want   bool
	}{
		"as it is":      {func(*scene, *dataplane.MemberState) {}, true},
		"heard lately":  {func(_ *scene, m *dataplane.MemberState) { m.HeardMillisecondsAgo = 2000 }, true},
		"not heard":     {func(_ *scene, m *dataplane.MemberState) { m.HeardMillisecondsAgo = 2001 }, false},
		"never heard":   {func(_ *scene, m *dataplane.MemberState) { m.HeardMillisecondsAgo = -1 }, false},
		"silent":        {func(s *scene, _ *dataplane.MemberState) { s.silent(2) }, false},
		"without a pod": {func(s *scene, _ *dataplane.MemberState) { delete(s.pods, 2) }, false},
		"ends": {func(s *scene, _ *dataplane.MemberState) {
			now := metav1.NewTime(start)
			s.pods[2].DeletionTimestamp = &now
		}, false},
		"another leader": {func(s *scene, _ *dataplane.MemberState) { s.said(2).Leader.ID = 2 }, false},
	} {
		s := newScene(t).formedBy(3)
		m := s.said(0).Members[2]
		c.change(s, &m)
		if got := s.healthy(recordOf(s.group), s.said(0), m); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Two records are one when all of both is the same; of two members in a pod the newer counts.
func TestRecords(t *testing.T) {
	member := func(number int32, pod string) v1alpha1.GroupMemberStatus {
		return v1alpha1.GroupMemberStatus{Number: number, Name: fmt.Sprint(number), Pod: pod}
	}
	one := record{cluster: "c", next: 3, members: []v1alpha1.GroupMemberStatus{member(1, "p"), member(2, "q")}}
	for name, other := range map[string]record{
		"cluster": {"d", 3, one.members}, "next": {"c", 4, one.members}, "members": {"c", 3, one.members[:1]}, "a member": {"c", 3, []v1alpha1.GroupMemberStatus{member(1, "p"), member(2, "r")}},
	} {
		if one.equal(other) || other.equal(one) {
			t.Errorf("%s: the same", name)
		}
	}
	if !one.equal(record{"c", 3, slices.Clone(one.members)}) {
		t.Error("the same is another")
	}
	for _, order := range [][]v1alpha1.GroupMemberStatus{{member(1, "p"), member(4, "p"), member(2, "q")}, {member(4, "p"), member(2, "q"), member(1, "p")}} {
		if m := (record{members: order}).on("p"); m == nil || m.Number != 4 {
			t.Errorf("%+v of %+v", m, order)
		}
	}
}

// A group whose status was lost finds in its document who sat where: the disk's part of a name is ten digits behind a dash.
func TestAdoptedNames(t *testing.T) {
	s := newScene(t)
	s.live = &dataplane.GroupConfig{}
	s.live.Group.Cluster = "c"
	for i, name := range []string{"orders-member-0-0123456789", "a-0123456789", "-0123456789", "0123456789", "orders-member-1x0123456789"} {
		s.live.Members = append(s.live.Members, dataplane.GroupMember{ID: 9 - i, Name: name})
	}
	r := s.adopted()
	var pods []string
	for _, m := range r.members {
		pods = append(pods, fmt.Sprintf("%d=%s", m.Number, m.Pod))
	}
	if got := strings.Join(pods, " "); got != "9=orders-member-0 8=a 7=-0123456789 6=0123456789 5=orders-member-1x0123456789" || r.next != 10 || r.cluster != "c" {
		t.Errorf("%s, next %d of %s", got, r.next, r.cluster)
	}
}

// The last number is given, and the last place in the book; none beyond.
func TestNumbersEnd(t *testing.T) {
	booked := func(members int) func(*scene) {
		return func(s *scene) {
			s.group.Status.NextNumber = 50
			for i := len(s.group.Status.Members); i < members; i++ {
				s.group.Status.Members = append(s.group.Status.Members, v1alpha1.GroupMemberStatus{Number: int32(20 + i), Name: fmt.Sprint("old", i), Pod: "orders-member-1"})
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*scene)
		next   int32
	}{
		"the last number": {func(s *scene) { s.group.Status.NextNumber = dataplane.MaxMemberNumber }, dataplane.MaxMemberNumber + 1},
		"none is left":    {func(s *scene) { s.group.Status.NextNumber = dataplane.MaxMemberNumber + 1 }, dataplane.MaxMemberNumber + 1},
		"the last place":  {booked(dataplane.MaxGroupBook - 1), 51},
		"a full book":     {booked(dataplane.MaxGroupBook), 50},
	} {
		s := newScene(t).formedBy(3)
		c.change(s)
		s.pod(2, "b")
		if r := nextRecord(s.snapshot); r.next != c.next || (r.named(diskName(2, "b")) != nil) != (c.next != s.group.Status.NextNumber) {
			t.Errorf("%s: next %d, want %d", name, r.next, c.next)
		}
	}
}

// A pod runs when it has been started and has an address.
func TestRunning(t *testing.T) {
	pod := func(phase corev1.PodPhase, ip string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: phase, PodIP: ip}}
	}
	for _, c := range []struct {
		pod  *corev1.Pod
		want bool
	}{{pod(corev1.PodRunning, "10.0.0.1"), true}, {pod(corev1.PodRunning, ""), false}, {pod(corev1.PodPending, "10.0.0.1"), false}, {nil, false}} {
		if running(c.pod) != c.want {
			t.Errorf("%+v: %v", c.pod, !c.want)
		}
	}
}
