// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

func aMember(group, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: render.Selector(group, v1alpha1.ComponentMember)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// groupOf three members in these states, with the condition Ready.
func groupOf(reason, message string, states ...v1alpha1.GroupMemberState) *v1alpha1.ReplicationGroup {
	g := stuckGroup()
	status := metav1.ConditionFalse
	if reason == v1alpha1.ReasonReady {
		status = metav1.ConditionTrue
	}
	g.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}}
	g.Status.VotersInForce, g.Status.Quorum, g.Status.Members = 3, 2, nil
	for i, state := range states {
		pod := render.MemberPod(g, i)
		g.Status.Members = append(g.Status.Members, v1alpha1.GroupMemberStatus{Number: int32(i + 1), Pod: pod, Role: v1alpha1.MemberVoter, State: state})
		switch state {
		case v1alpha1.MemberLeading:
			g.Status.Leader = pod
			g.Status.HealthyVoters++
		case v1alpha1.MemberFollowing:
			g.Status.HealthyVoters++
		}
	}
	return g
}

// A group without a majority: who is missing and why, what brings it back, and whose disk is the best when nothing does.
func TestExplainGroupWithoutQuorum(t *testing.T) {
	pending := aMember("orders", "orders-member-0")
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available: 1 Insufficient memory."}}}
	c := clusterOf(t, groupOf(v1alpha1.ReasonNoQuorum, "1 of 3 voters answer, 2 must agree: no request is answered", v1alpha1.MemberUnreachable, v1alpha1.MemberUnreachable, v1alpha1.MemberBehind),
		pending, aMember("orders", "orders-member-2"))
	c.sidecars = answers{"orders-member-2 v1/group": &dataplane.GroupState{Phase: dataplane.PhaseRunning, Reason: "NoQuorum", ID: 3, Last: 4711}}
	out, _, err := execute(t, c, "explain", "rg/orders")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "explain-group-no-quorum", out)
}

// A full disk and a damaged one: each says what is wrong and the next command.
func TestExplainGroupWithBadDisks(t *testing.T) {
	c := clusterOf(t, groupOf(v1alpha1.ReasonMembersNotReady, "2 of 3 voters are healthy, 2 must agree; orders-member-1: DiskFull", v1alpha1.MemberLeading, v1alpha1.MemberFailed, v1alpha1.MemberFollowing),
		aMember("orders", "orders-member-0"), aMember("orders", "orders-member-1"), aMember("orders", "orders-member-2"))
	c.sidecars = answers{
		"orders-member-0 v1/group": &dataplane.GroupState{ID: 1, Last: 90}, "orders-member-2 v1/group": &dataplane.GroupState{ID: 3, Last: 90},
		"orders-member-1 v1/group": &dataplane.GroupState{ID: 2, Last: 70, Phase: dataplane.PhaseFailed, Reason: "DiskFull", Message: "write /var/lib/bobtail/data: No space left on device"},
	}
	out, _, err := execute(t, c, "explain", "replicationgroup/orders")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "explain-group-disk-full", out)
	c.sidecars.(answers)["orders-member-1 v1/group"].(*dataplane.GroupState).Reason = "DiskDamaged"
	out, _, err = execute(t, c, "explain", "rg/orders", "-o", "json")
	if err != nil || !strings.Contains(out, "kubectl -n shop delete pvc data-orders-member-1 --wait=false") {
		t.Errorf("a damaged disk: %v\n%s", err, out)
	}
}

// A group that never began, because its members' containers end or never start: their reason and the next command.
func TestExplainGroupBeforeItBegins(t *testing.T) {
	g := groupOf(v1alpha1.ReasonWaitingForMembers, "the group begins when all 3 members are there: orders-member-0 does not answer (container member: CrashLoopBackOff, exit code 2)")
	crashing, pulling, well := aMember("orders", "orders-member-0"), aMember("orders", "orders-member-1"), aMember("orders", "orders-member-2")
	crashing.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar"}, {Name: "member",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 20s restarting failed container"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}}}
	pulling.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "member",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "kv:1 is not there"}}}}}
	c := clusterOf(t, g, crashing, pulling, well)
	c.sidecars = answers{}
	out, _, err := execute(t, c, "explain", "rg/orders")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "explain-group-not-begun", out)
}

// What is well says so; what is not there names both kinds.
func TestExplainGroups(t *testing.T) {
	well := groupOf(v1alpha1.ReasonReady, "3 of 3 voters are healthy, 2 must agree", v1alpha1.MemberLeading, v1alpha1.MemberFollowing, v1alpha1.MemberFollowing)
	c := clusterOf(t, well)
	if out, _, err := execute(t, c, "explain", "rg/orders"); err != nil || !strings.Contains(out, "Nothing stands out") {
		t.Errorf("%v\n%s", err, out)
	}
	for arg, says := range map[string]string{"rg/none": "read ReplicationGroup none", "rg/": "must be slo/NAME or rg/NAME", "pod/x": "must be slo/NAME or rg/NAME"} {
		if _, _, err := execute(t, c, "explain", arg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// Reasons of the whole group, and what is advised.
func TestDiagnoseGroup(t *testing.T) {
	for _, row := range []struct {
		name, reason string
		change       func(*v1alpha1.ReplicationGroup)
		rows         []memberRow
		cause, next  string
	}{
		{"nobody leads", v1alpha1.ReasonNoLeader, nil, nil, causeNoLeader, "UDP port 8100"},
		{"no box", v1alpha1.ReasonNoBox, nil, nil, causeNoBox, "bobtail.dev/component=box"},
		{"no switch for a box", v1alpha1.ReasonNoBox, func(g *v1alpha1.ReplicationGroup) {
			g.Spec.Box = &v1alpha1.GroupBox{Placement: v1alpha1.BoxOnSwitch, Switch: &v1alpha1.GroupSwitch{Name: "leaf-4"}}
		}, nil, causeNoBox, "describe programmableswitch leaf-4"},
		{"anything else", v1alpha1.ReasonKeysLost, nil, nil, v1alpha1.ReasonKeysLost, "describe rg orders"},
		{"in memory there is nothing to go on with", v1alpha1.ReasonNoQuorum, func(g *v1alpha1.ReplicationGroup) { g.Spec.Storage.Policy = v1alpha1.StorageVolatile },
			[]memberRow{{Pod: "orders-member-2", Last: 3, State: "Following"}}, causeNoQuorum, "delete no PersistentVolumeClaim"},
		{"the aggregator is bypassed", v1alpha1.ReasonReady, func(g *v1alpha1.ReplicationGroup) { g.Status.Aggregator = v1alpha1.AggregatorBypassed }, nil, causeBypassed, "component=aggregator"},
		{"a learner", v1alpha1.ReasonReady, nil, []memberRow{{Pod: "orders-member-3", State: "Behind", Reason: "Learner"}}, causeBehind, "describe pod orders-member-3"},
		{"the disk is damaged and nobody agrees", v1alpha1.ReasonNoLeader, nil, []memberRow{{}, {Pod: "orders-member-1", State: "Failed", Reason: "DiskDamaged"}}, causeMemberUp, "keep its disk"},
	} {
		g := groupOf(row.reason, "as it is")
		if row.change != nil {
			row.change(g)
		}
		got := diagnoseGroup(g, row.rows)
		if len(got) == 0 {
			t.Fatalf("%s: nothing is found", row.name)
		}
		last := got[len(got)-1]
		if last.Cause != row.cause && got[0].Cause != row.cause || !strings.Contains(last.Advice+got[0].Advice, row.next) {
			t.Errorf("%s: %+v", row.name, got)
		}
		if strings.Contains(got[0].Advice, "recover") {
			t.Errorf("%s: recovery is advised: %s", row.name, got[0].Advice)
		}
	}
	g := groupOf("", "")
	g.Status.Conditions = nil
	if got := diagnoseGroup(g, nil); len(got) != 1 || got[0].Cause != "NotKnownYet" {
		t.Errorf("a new group: %+v", got)
	}
}

// The status of a cluster names groups that are not well, and the command that says why.
func TestStatusOfGroups(t *testing.T) {
	c := clusterOf(t, groupOf(v1alpha1.ReasonNoQuorum, "1 of 3 voters answer"))
	got := c.groups(t.Context())
	if len(got) != 2 || got[1].Outcome != failed || !strings.Contains(got[1].Says, "Ready=False NoQuorum: 1 of 3 voters answer") || got[1].Next != "kubectl bobtail explain rg/orders -n shop" {
		t.Errorf("%+v", got)
	}
}

// What groups do stands below the services; one that does not answer says which command tells why.
func TestTopOfGroups(t *testing.T) {
	c := clusterOf(t, groupOf(v1alpha1.ReasonReady, "", v1alpha1.MemberLeading, v1alpha1.MemberFollowing), aMember("orders", "orders-member-0"), aMember("orders", "orders-member-1"))
	lag := int64(0)
	edit(t, c, stuckGroup(), func(g *v1alpha1.ReplicationGroup) { g.Status.Voters, g.Status.LagEntries = "3/3", &lag })
	c.sidecars = answers{"orders-member-0 v1/histogram?latency": reply(steps(map[time.Duration]int{2 * time.Millisecond: 15_000}), 0)}
	out, errs, err := execute(t, c, "top")
	if err != nil || !strings.Contains(errs, "shop/orders: read pod orders-member-1: connection refused") {
		t.Errorf("%v: %q", err, errs)
	}
	golden(t, "top-groups", out)
	edit(t, c, stuckGroup(), func(g *v1alpha1.ReplicationGroup) {
		g.Status.Conditions[0].Status, g.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonNoQuorum
	})
	if _, errs, err = execute(t, c, "top", "-A"); err != nil || !strings.Contains(errs, "NoQuorum): kubectl bobtail -n shop explain rg/orders") {
		t.Errorf("%v: %q", err, errs)
	}
}
