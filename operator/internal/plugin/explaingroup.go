// SPDX-License-Identifier: Apache-2.0

// Why a ReplicationGroup does not answer, or survives less than it should. What members say is read from their pods; what
// follows from it is pure.
package plugin

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/remedy"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Causes of a group, the telling ones first.
const (
	causeNoQuorum   = "NoQuorum"
	causeNoLeader   = "NoLeader"
	causeNoBox      = "NoBox"
	causeMemberDown = "MemberUnreachable"
	causeMemberUp   = "MemberUnwell"
	causeBehind     = "MemberBehind"
	causeBypassed   = "AggregatorBypassed"
)

// memberRow is one member: what the operator knows of it, and what it says itself.
type memberRow struct {
	Number  int32  `json:"number"`
	Pod     string `json:"pod"`
	Role    string `json:"role"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Last    uint64 `json:"last"` // newest entry; 0: it does not say
	Lag     *int64 `json:"lagEntries,omitempty"`
	waits   string // of its pod
	next    string // command that tells more of that; "": describe
}

// explainedGroup is the answer for programs.
type explainedGroup struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Ready     *metav1.Condition `json:"ready,omitempty"`
	Leader    string            `json:"leader,omitempty"`
	Members   []memberRow       `json:"members"`
	Findings  []finding         `json:"findings"`
}

func explainGroup(ctx context.Context, s streams, f format, c *cluster, name string) error {
	group, err := c.group(ctx, name)
	if err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(c.namespace), client.MatchingLabels(render.Selector(name, v1alpha1.ComponentMember))); err != nil {
		return fmt.Errorf("list the member pods of %s: %w", name, err)
	}
	rows := c.memberRows(ctx, group, pods.Items)
	answer := explainedGroup{group.Namespace, group.Name, meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionReady), group.Status.Leader,
		rows, append([]finding{}, diagnoseGroup(group, rows)...)}
	return f.print(s, answer, func() error {
		if err := printGroupHead(s, group, answer); err != nil {
			return err
		}
		printFindings(s, answer.Findings)
		return nil
	})
}

// memberRows asks every member that runs.
func (c *cluster) memberRows(ctx context.Context, group *v1alpha1.ReplicationGroup, pods []corev1.Pod) []memberRow {
	by := map[string]*corev1.Pod{}
	for i := range pods {
		by[pods[i].Name] = &pods[i]
	}
	rows := []memberRow{}
	if len(group.Status.Members) == 0 {
		return foundingRows(group, by)
	}
	for _, m := range group.Status.Members {
		row := memberRow{Number: m.Number, Pod: m.Pod, Role: string(m.Role), State: string(m.State), Lag: m.LagEntries}
		pod := by[m.Pod]
		row.waits, row.next = waitsFor(pod)
		if pod != nil && pod.Status.Phase == corev1.PodRunning {
			says, err := read[dataplane.GroupState](ctx, c, pod, strings.TrimPrefix(dataplane.GroupPath, "/"), nil)
			switch {
			case err != nil:
				row.waits = cmp.Or(row.waits, err.Error()) // what a container waits for is the cause
			case says.ID == int(m.Number): // and not the one that came in its place
				row.Reason, row.Message, row.Last = says.Reason, says.Message, says.Last
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// foundingRows are the members that a group wants to begin with, before it has any: those whose pods are stuck.
func foundingRows(group *v1alpha1.ReplicationGroup, pods map[string]*corev1.Pod) []memberRow {
	rows := []memberRow{}
	for place := range int(group.Spec.Members) {
		row := memberRow{Number: int32(place) + 1, Pod: render.MemberPod(group, place), Role: string(v1alpha1.MemberVoter), State: string(v1alpha1.MemberUnreachable)}
		if row.waits, row.next = waitsFor(pods[row.Pod]); row.waits != "" && pods[row.Pod] != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// waitsFor says why a pod does not run, and the command that tells more where describe does not; "" when it does.
func waitsFor(pod *corev1.Pod) (why, next string) {
	if pod == nil {
		return "there is no such pod", ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "no node takes it: " + c.Message, ""
		}
	}
	if stuck := remedy.OfPod(pod); stuck != nil {
		return stuck.Says(), stuck.Next()
	}
	if pod.Status.Phase != corev1.PodRunning {
		return fmt.Sprintf("its pod is %s", pod.Status.Phase), ""
	}
	return "", ""
}

// diagnoseGroup lists what is wrong, what shows it, and what helps.
func diagnoseGroup(group *v1alpha1.ReplicationGroup, rows []memberRow) (out []finding) {
	ready := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return []finding{{"NotKnownYet", "the group has no condition Ready", "is the operator there? kubectl bobtail status"}}
	}
	agrees := ready.Reason != v1alpha1.ReasonNoQuorum && ready.Reason != v1alpha1.ReasonNoLeader
	if f, found := ofTheGroup(group, ready, rows); found {
		out = append(out, f)
	}
	for _, r := range rows {
		if f, found := ofTheMember(group, r, agrees); found {
			out = append(out, f)
		}
	}
	if group.Status.Aggregator == v1alpha1.AggregatorBypassed {
		out = append(out, finding{causeBypassed, "the leader sends every entry itself", fmt.Sprintf(
			"the group serves; if it stays: kubectl -n %s delete pod -l %s=%s,%s=%s", group.Namespace, v1alpha1.LabelService, group.Name, v1alpha1.LabelComponent, v1alpha1.ComponentAggregator)})
	}
	return out
}

// ofTheGroup is what keeps all of it from answering.
func ofTheGroup(group *v1alpha1.ReplicationGroup, ready *metav1.Condition, rows []memberRow) (finding, bool) {
	switch {
	case ready.Status == metav1.ConditionTrue:
		return finding{}, false
	case ready.Reason == v1alpha1.ReasonNoQuorum:
		return finding{causeNoQuorum, ready.Message, withoutMajority(group, rows)}, true
	case ready.Reason == v1alpha1.ReasonNoLeader:
		return finding{causeNoLeader, ready.Message, fmt.Sprintf("wait a few seconds; if it stays, do members reach one another on UDP port 8100? kubectl -n %s logs -l %s=%s,%s=%s -c member", group.Namespace, v1alpha1.LabelService, group.Name, v1alpha1.LabelComponent, v1alpha1.ComponentMember)}, true
	case ready.Reason == v1alpha1.ReasonNoBox && group.Spec.Box != nil && group.Spec.Box.Switch != nil:
		return finding{causeNoBox, ready.Message, "kubectl describe programmableswitch " + group.Spec.Box.Switch.Name}, true
	case ready.Reason == v1alpha1.ReasonNoBox:
		return finding{causeNoBox, ready.Message, fmt.Sprintf("kubectl -n %s describe pods -l %s=%s,%s=%s", group.Namespace, v1alpha1.LabelService, group.Name, v1alpha1.LabelComponent, v1alpha1.ComponentBox)}, true
	}
	return finding{ready.Reason, ready.Message, fmt.Sprintf("kubectl -n %s describe rg %s", group.Namespace, group.Name)}, true
}

// withoutMajority says how a majority comes back, and whose disk is the best when none can.
func withoutMajority(group *v1alpha1.ReplicationGroup, rows []memberRow) string {
	advice := "bring pods back until a majority runs; delete no PersistentVolumeClaim"
	best := memberRow{}
	for _, r := range rows {
		if r.Last > best.Last {
			best = r
		}
	}
	if group.Spec.Storage.Policy == v1alpha1.StorageVolatile || best.Pod == "" {
		return advice
	}
	return fmt.Sprintf("%s. Only if a majority of disks is lost for good: of those that answer, %s has most (entry %d): kubectl bobtail -n %s recover %s --force-new-quorum --from-member=%s --into=%s-b",
		advice, best.Pod, best.Last, group.Namespace, group.Name, best.Pod, group.Name)
}

// ofTheMember is what one member lacks.
func ofTheMember(group *v1alpha1.ReplicationGroup, r memberRow, agrees bool) (finding, bool) {
	describe := fmt.Sprintf("kubectl -n %s describe pod %s", group.Namespace, r.Pod)
	switch v1alpha1.GroupMemberState(r.State) {
	case v1alpha1.MemberLeading, v1alpha1.MemberFollowing:
		return finding{}, false
	case v1alpha1.MemberUnreachable:
		if r.waits == "" {
			r.waits = "its pod runs and does not answer the operator"
		}
		if r.next != "" {
			describe = r.next
		}
		return finding{causeMemberDown, r.Pod + ": " + r.waits, describe}, true
	case v1alpha1.MemberFailed, v1alpha1.MemberForeign:
		if says := (remedy.Member{Reason: r.Reason, Namespace: group.Namespace, Pod: r.Pod, Quorum: agrees}).Says(); says != "" {
			describe = says
		}
		return finding{causeMemberUp, strings.TrimSpace(fmt.Sprintf("%s: %s %s", r.Pod, r.Reason, r.Message)), describe}, true
	}
	return finding{causeBehind, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", r.Pod, r.State, r.Reason, r.Message)),
		"it catches up by itself; if it does not, do packets on UDP port 8100 arrive? " + describe}, true
}

func printGroupHead(s streams, group *v1alpha1.ReplicationGroup, a explainedGroup) error {
	ready := "Unknown"
	if a.Ready != nil {
		ready = fmt.Sprintf("%s (%s)", a.Ready.Status, a.Ready.Reason)
	}
	leader := a.Leader
	if leader == "" {
		leader = "nobody"
	}
	fmt.Fprintf(s.out, "%s/%s: Ready=%s, %s leads, %d of %d voters healthy, %d must agree\n", a.Namespace, a.Name, ready, leader, group.Status.HealthyVoters, group.Status.VotersInForce, group.Status.Quorum)
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  MEMBER\tPOD\tROLE\tSTATE\tLAST ENTRY\tLAG")
	for _, r := range a.Members {
		last, lag := "-", "-"
		if r.Last != 0 {
			last = fmt.Sprint(r.Last)
		}
		if r.Lag != nil {
			lag = fmt.Sprint(*r.Lag)
		}
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\t%s\n", r.Number, r.Pod, r.Role, r.State, last, lag)
	}
	return w.Flush()
}
