// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// stand carries steps out, against an API server and a leader that answer as they are told.
type stand struct {
	*Reconciler
	events  *events.FakeRecorder
	refuse  error // of whatever is written to a status, or evicted
	answer  error // of the leader
	changes []string
	gates   []string
}

func newStand(t *testing.T, objects ...client.Object) *stand {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &stand{events: events.NewFakeRecorder(100)}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.ReplicationGroup{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if s.refuse != nil {
					return s.refuse
				}
				return c.Status().Patch(ctx, o, p, opts...)
			},
			SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
				return s.refuse
			},
			SubResourceApply: func(_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
				s.gates = append(s.gates, o.(interface{ GetName() string }).GetName())
				return s.refuse
			},
		}).Build()
	s.Reconciler = &Reconciler{Client: c, Live: c, Sidecars: s, Events: s.events, Now: func() time.Time { return start }}
	return s
}

func (s *stand) State(context.Context, dataplane.Target) (*dataplane.SidecarState, error) {
	return nil, errors.New("not asked")
}

func (s *stand) Group(context.Context, dataplane.Target) (*dataplane.GroupState, error) {
	return nil, errors.New("not asked")
}

func (s *stand) Change(_ context.Context, t dataplane.Target, c dataplane.GroupChange) (*dataplane.GroupChanged, error) {
	s.changes = append(s.changes, fmt.Sprintf("%s %d %s@%s at %s", c.Op, c.ID, c.Name, c.Address, strings.Split(t.Address, ":")[0]))
	return nil, s.answer
}

func (s *stand) told() (out []string) {
	for len(s.events.Events) > 0 {
		out = append(out, <-s.events.Events)
	}
	return out
}

// The leader is told of a step, wherever it runs; what it says against it is remembered.
func TestStepsAreHandedToTheLeader(t *testing.T) {
	refusal := &dataplane.ReadError{Kind: dataplane.Refused, Refusal: &dataplane.CtlError{Message: "busy"}, Err: errors.New("x")}
	for _, c := range []struct {
		next          step
		change        func(*scene)
		answer        error
		want, refused string
	}{
		{step{kind: stepRemove, number: 3}, nil, nil, "remove 3 @ at 10.0.0.2", ""},
		{step{kind: stepAdd, number: 3}, nil, nil, "add 3 orders-member-2-a@10.0.0.3 at 10.0.0.2", ""},
		{step{kind: stepAdd, number: 7}, nil, nil, "", ""},
		{step{kind: stepRemove, number: 3}, func(s *scene) { s.said(1).Role = dataplane.RoleFollower }, nil, "", ""},
		{step{}, nil, nil, "", ""},
		{step{kind: stepPromote, number: 2}, nil, refusal, "promote 2 @ at 10.0.0.2", "promote of member 2: "},
		{step{kind: stepPromote, number: 2}, nil, errors.New("gone"), "promote 2 @ at 10.0.0.2", "promote of member 2: the leader's sidecar does not take it: gone"},
	} {
		s := newScene(t).formedBy(3)
		s.said(0).Role, s.said(1).Role = dataplane.RoleFollower, dataplane.RoleLeader
		if c.change != nil {
			c.change(s)
		}
		stand, out := newStand(t), &outcome{}
		stand.answer = c.answer
		stand.take(context.Background(), s.snapshot, c.next, out)
		if got := strings.Join(stand.changes, ", "); got != c.want || !strings.HasPrefix(out.refused, c.refused) || (out.refused == "") != (c.refused == "") {
			t.Errorf("%+v: %q, refused %q; want %q, %q", c.next, got, out.refused, c.want, c.refused)
		}
		if strings.Contains(out.refused, "does not take it") != (c.answer != nil && c.answer != error(refusal)) {
			t.Errorf("%+v: refused %q", c.next, out.refused)
		}
	}
}

// A pod that was taken away is told of; where there is no room it is tried again, and other errors are errors.
func TestEvictions(t *testing.T) {
	for _, c := range []struct {
		place           int
		err             error
		told            int
		refused, failed string
	}{
		{1, nil, 1, "", ""},
		{9, nil, 0, "", ""},
		{1, apierrors.NewTooManyRequests("budget", 1), 0, "restart of orders-member-1: the disruption budget has no room yet", ""},
		{1, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x"), 0, "", ""},
		{1, errors.New("no"), 0, "", "evict pod orders-member-1: no"},
	} {
		stand, out := newStand(t), &outcome{}
		stand.refuse = c.err
		stand.take(context.Background(), newScene(t).formedBy(3).snapshot, step{kind: stepEvict, number: 2, ordinal: c.place}, out)
		failed := ""
		if out.failed != nil {
			failed = out.failed.Error()
		}
		if n := len(stand.told()); n != c.told || out.refused != c.refused || failed != c.failed || len(stand.changes) != 0 {
			t.Errorf("%v: told %d times, refused %q, failed %q, leader told %v", c.err, n, out.refused, failed, stand.changes)
		}
	}
}

// What the user must mend is no error, and what may pass no verdict; what was said first stands.
func TestNotes(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	yes, no := verdict.Yes(v1alpha1.ReasonAccepted, ""), verdict.No(v1alpha1.ReasonNameConflict, "taken")
	for name, c := range map[string]struct {
		err      error
		accepted verdict.Verdict
		reason   string
		failed   bool
	}{
		"none":      {nil, yes, v1alpha1.ReasonAccepted, false},
		"passing":   {errors.New("x"), yes, v1alpha1.ReasonAccepted, true},
		"invalid":   {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), yes, v1alpha1.ReasonApplyFailed, false},
		"forbidden": {apierrors.NewForbidden(pods, "x", nil), yes, v1alpha1.ReasonApplyFailed, false},
		"bad":       {apierrors.NewBadRequest("x"), yes, v1alpha1.ReasonApplyFailed, false},
		"second":    {apierrors.NewBadRequest("x"), no, v1alpha1.ReasonNameConflict, false},
	} {
		out := &outcome{accepted: c.accepted}
		if ok := out.note(c.err); ok != (c.err == nil) || out.accepted.Reason != c.reason || (out.failed != nil) != c.failed {
			t.Errorf("%s: %t, %+v, %v", name, ok, out.accepted, out.failed)
		}
	}
}

// Members are written down before anybody is told, with what was known of them; what has not changed is not written.
func TestTheRecordIsWritten(t *testing.T) {
	g := aGroup()
	lag := int64(5)
	g.Status.ClusterID, g.Status.NextNumber = "c", 3
	g.Status.Members = []v1alpha1.GroupMemberStatus{{Number: 1, Name: "a", Pod: "p", Role: v1alpha1.MemberVoter, State: v1alpha1.MemberLeading, LagEntries: &lag}, {Number: 2, Name: "b", Pod: "q", Role: v1alpha1.MemberLearner}}
	stand := newStand(t, g)
	if err := stand.Client.Get(context.Background(), client.ObjectKeyFromObject(g), g); err != nil {
		t.Fatal(err)
	}
	s := &snapshot{group: g}
	stand.refuse = errors.New("no")
	if same, err := stand.writeRecord(context.Background(), s, recordOf(g)); err != nil || same != g {
		t.Errorf("the same record: %v", err)
	}
	next := recordOf(g)
	next.next, next.members = 4, append(next.members[:1:1], v1alpha1.GroupMemberStatus{Number: 3, Name: "c", Pod: "q"})
	for _, c := range []struct {
		refuse error
		says   string
	}{
		{stand.refuse, "write down the members: no"},
		{apierrors.NewConflict(schema.GroupResource{}, "x", nil), errStale.Error()},
		{apierrors.NewNotFound(schema.GroupResource{}, "x"), errStale.Error()},
	} {
		stand.refuse = c.refuse
		if got, err := stand.writeRecord(context.Background(), s, next); got != nil || err == nil || err.Error() != c.says || errors.Is(err, errStale) != (c.says == errStale.Error()) {
			t.Errorf("%v: %v", c.refuse, err)
		}
	}
	stand.refuse = nil
	after, err := stand.writeRecord(context.Background(), s, next)
	if err != nil {
		t.Fatal(err)
	}
	want := g.DeepCopy().Status
	want.NextNumber, want.Members[1] = 4, v1alpha1.GroupMemberStatus{Number: 3, Name: "c", Pod: "q"}
	if !equality.Semantic.DeepEqual(after.Status, want) || g.Status.Members[1].Number != 2 {
		t.Errorf("%+v, want %+v", after.Status, want)
	}
}

// A status is written when it is new to a reader, and told of when it was.
func TestStatusesAreWritten(t *testing.T) {
	g := aGroup()
	for _, c := range []struct {
		refuse error
		says   string
		told   int
	}{
		{nil, "", 1}, {errors.New("no"), "write the status: no", 0}, {apierrors.NewConflict(schema.GroupResource{}, "x", nil), errStale.Error(), 0},
	} {
		stand := newStand(t, g.DeepCopy())
		before := &v1alpha1.ReplicationGroup{}
		if err := stand.Client.Get(context.Background(), client.ObjectKeyFromObject(g), before); err != nil {
			t.Fatal(err)
		}
		stand.refuse = c.refuse
		if err := stand.patchStatus(context.Background(), before, before.DeepCopy()); err != nil {
			t.Errorf("nothing new: %v", err)
		}
		after := before.DeepCopy()
		after.Status.Leader, after.Status.Term = "orders-member-1", 4
		err := stand.patchStatus(context.Background(), before, after)
		if (err == nil) != (c.says == "") || err != nil && err.Error() != c.says || len(stand.told()) != c.told {
			t.Errorf("%v: %v", c.refuse, err)
		}
	}
}

// The gate of a pod is written where it says something else, of every pod, and one that has gone is no error.
func TestGatesAreWritten(t *testing.T) {
	s := newScene(t).formedBy(3)
	yes := verdict.Yes(v1alpha1.ReasonJoined, "m")
	s.pods[0].Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.PodConditionJoined, Status: corev1.ConditionTrue, Reason: yes.Reason, Message: yes.Message}}
	joined := map[string]verdict.Verdict{render.MemberPod(s.group, 0): yes, render.MemberPod(s.group, 2): yes}
	for _, c := range []struct {
		refuse error
		says   string
	}{{nil, ""}, {errors.New("no"), "set bobtail.dev/joined of pod orders-member-2: no"}, {apierrors.NewNotFound(schema.GroupResource{}, "x"), ""}} {
		stand := newStand(t)
		stand.refuse = c.refuse
		err := stand.patchJoined(context.Background(), s.snapshot, joined)
		if got := strings.Join(stand.gates, ","); got != "orders-member-2" || (err == nil) != (c.says == "") || err != nil && !strings.HasSuffix(err.Error(), "of pod orders-member-2: no") {
			t.Errorf("gates of %s: %v", got, err)
		}
	}
}

// An event is made of an answer, a leader or a membership that is new.
func TestWhatIsAnnounced(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason string) func(*v1alpha1.ReplicationGroupStatus) {
		return func(st *v1alpha1.ReplicationGroupStatus) {
			st.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "m"}}
		}
	}
	leads := func(pod string, term int64) func(*v1alpha1.ReplicationGroupStatus) {
		return func(st *v1alpha1.ReplicationGroupStatus) { st.Leader, st.Term = pod, term }
	}
	at := metav1.NewTime(start)
	members := func(formed bool, all ...v1alpha1.GroupMemberStatus) func(*v1alpha1.ReplicationGroupStatus) {
		return func(st *v1alpha1.ReplicationGroupStatus) {
			if st.Members = all; formed {
				st.FormedTime = &at
			}
		}
	}
	one := v1alpha1.GroupMemberStatus{Number: 1, Pod: "p", Role: v1alpha1.MemberVoter}
	two := v1alpha1.GroupMemberStatus{Number: 2, Pod: "q", Role: v1alpha1.MemberLearner}
	joining := v1alpha1.GroupMemberStatus{Number: 3, Pod: "p", Role: v1alpha1.MemberJoining}
	nothing := func(*v1alpha1.ReplicationGroupStatus) {}
	for _, c := range []struct {
		before, after func(*v1alpha1.ReplicationGroupStatus)
		want          string
	}{
		{nothing, condition("True", "Ready"), "Normal Ready Ready is True: m"},
		{nothing, condition("False", v1alpha1.ReasonNoQuorum), "Warning NoQuorum Ready is False: m"},
		{nothing, condition("Unknown", v1alpha1.ReasonNoQuorum), "Normal NoQuorum Ready is Unknown: m"},
		{nothing, condition("False", v1alpha1.ReasonRollingOut), "Normal RollingOut Ready is False: m"},
		{condition("True", "Ready"), condition("True", "Ready"), ""},
		{condition("True", "Ready"), condition("True", "Other"), "Normal Other Ready is True: m"},
		{condition("False", "Ready"), condition("True", "Ready"), "Normal Ready Ready is True: m"},
		{leads("a", 1), leads("a", 1), ""}, {leads("a", 1), leads("", 2), ""},
		{leads("a", 1), leads("b", 1), "Normal LeaderElected b leads in term 1"}, {leads("a", 1), leads("a", 2), "Normal LeaderElected a leads in term 2"},
		{members(true, one), members(true, one, two), "Normal MembershipChanged members: p (1, Voter), q (2, Learner); before: p (1, Voter)"},
		{members(false, one), members(true, one, two), ""}, {members(true, one), members(true), ""},
		{members(true, one), members(true, one, joining), "Warning MemberReplaced p came with an empty disk: it is taken in as member 3 in place of 1"},
		{members(true, one, joining), members(true, one, joining), ""},
	} {
		stand, before, after := newStand(t), aGroup(), aGroup()
		c.before(&before.Status)
		c.after(&after.Status)
		stand.announce(before, after)
		if got := strings.Join(stand.told(), "; "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What a sidecar says of a document is Programmed, or the first reason why not.
func TestAcknowledgement(t *testing.T) {
	for _, c := range []struct {
		state        *dataplane.SidecarState
		reason, more string
	}{
		{nil, v1alpha1.ReasonUnreachable, ""},
		{&dataplane.SidecarState{AppliedHash: "h"}, v1alpha1.ReasonProgrammed, ""},
		{&dataplane.SidecarState{LastError: &dataplane.ApplyError{Hash: "h", Field: "f", Message: "m"}}, v1alpha1.ReasonRejected, "f: m"},
		{&dataplane.SidecarState{LastError: &dataplane.ApplyError{Hash: "old", Field: "f", Message: "m"}}, v1alpha1.ReasonReconciling, ""},
		{&dataplane.SidecarState{}, v1alpha1.ReasonReconciling, ""},
	} {
		if reason, more := acknowledgement(c.state, "h"); reason != c.reason || more != c.more {
			t.Errorf("%+v: %s %q", c.state, reason, more)
		}
	}
}

// What is written for a specification is written until something is refused, and members hear of it last.
func TestObjectsAreWrittenInTheirOrder(t *testing.T) {
	for _, c := range []struct {
		accepted verdict.Verdict
		hash     string
		failed   error
		want     int
		document bool
	}{
		{verdict.Yes(v1alpha1.ReasonAccepted, ""), "", nil, 2, false},
		{verdict.Yes(v1alpha1.ReasonAccepted, ""), "h", nil, 2, true},
		{verdict.Yes(v1alpha1.ReasonAccepted, ""), "h", errors.New("x"), 2, false},
		{verdict.No(v1alpha1.ReasonNameConflict, ""), "h", nil, 0, false},
	} {
		s := newScene(t).formedBy(3)
		stand := newStand(t)
		var applied []string
		c2 := interceptor.NewClient(stand.Client.(client.WithWatch), interceptor.Funcs{
			Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
				named := o.(interface{ GetName() string })
				applied = append(applied, named.GetName())
				return nil
			},
		})
		stand.applied = apply.New(c2, c2, fieldManager, stand.Now)
		all := render.GroupObjects(s.input)[:2]
		p := &plan{accepted: c.accepted, objects: all, hash: c.hash, failed: c.failed, input: s.input, text: []byte("{}")}
		out := &outcome{accepted: c.accepted}
		stand.writeObjects(context.Background(), p, out)
		n := len(applied)
		stand.writeDocument(context.Background(), s.snapshot, p, out)
		if out.failed != nil || n != c.want || (len(applied) == n+1) != c.document {
			t.Errorf("%+v: applied %v, %v", c, applied, out.failed)
		}
	}
}
