// SPDX-License-Identifier: Apache-2.0

// Act carries a plan out, as far as the API server and the leader let it, and says how
// far.
package replicationgroup

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/evict"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/gate"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// outcome is what became of a plan.
type outcome struct {
	// accepted is that of the plan, or what the API server said against it.
	accepted verdict.Verdict
	// before is the object as it stands after the record was written.
	before *v1alpha1.ReplicationGroup
	// set is the version of the StatefulSet as it was last written; "": not by this process.
	set string
	// refused is what the leader or the disruption budget said against the step, which
	// is tried again.
	refused string
	// failed is what may pass and is tried again.
	failed error
}

// act writes what the plan says. The record comes first: a number that was told to
// anybody is never given again, whatever happens to this process.
func (r *Reconciler) act(ctx context.Context, s *snapshot, p *plan) *outcome {
	out := &outcome{accepted: p.accepted, before: s.group}
	if out.before, out.failed = r.writeRecord(ctx, s, p.record); out.failed != nil {
		return out
	}
	if p.secrets && (!out.note(r.writeKeys(ctx, s, p)) || !out.note(r.writeCertificate(ctx, s, p))) {
		return out
	}
	r.writeObjects(ctx, p, out)
	r.writeDocument(ctx, s, p, out)
	if out.accepted.OK() && out.failed == nil && s.liveHash == p.hash { // members can know what the step is about
		r.take(ctx, s, p.step, out)
	}
	return out
}

// writeObjects writes what a specification that was accepted renders to, up to the first
// object that is refused.
func (r *Reconciler) writeObjects(ctx context.Context, p *plan, out *outcome) {
	for _, o := range p.objects {
		if !p.accepted.OK() || !out.note(r.applied.Apply(ctx, o, true)) {
			return
		}
		if o.GetObjectKind().GroupVersionKind().Kind == "StatefulSet" {
			out.set = r.applied.Written(o)
		}
	}
}

// writeDocument comes last: only when the API server has taken every object may members
// hear of it.
func (r *Reconciler) writeDocument(ctx context.Context, s *snapshot, p *plan, out *outcome) {
	if p.hash != "" && p.failed == nil && out.accepted.OK() {
		out.note(r.applied.Apply(ctx, render.ConfigMap(p.input, p.text, p.hash), true))
	}
}

// writeRecord writes down who the members are, before anybody is told.
func (r *Reconciler) writeRecord(ctx context.Context, s *snapshot, next record) (*v1alpha1.ReplicationGroup, error) {
	if next.equal(recordOf(s.group)) {
		return s.group, nil
	}
	after := s.group.DeepCopy()
	after.Status.ClusterID, after.Status.NextNumber = next.cluster, next.next
	old := after.Status.Members
	after.Status.Members = nil
	for _, m := range next.members {
		for _, o := range old {
			if o.Number == m.Number {
				m.Role, m.State, m.LagEntries = o.Role, o.State, o.LagEntries
			}
		}
		after.Status.Members = append(after.Status.Members, m)
	}
	patch := client.MergeFromWithOptions(s.group, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, after, patch, client.FieldOwner(fieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, errStale
	}
	if err != nil {
		return nil, fmt.Errorf("write down the members: %w", err)
	}
	return after, nil
}

// writeKeys makes the packet keys of a group that begins. Those of a running group are
// never made anew here: members that do not have them would be strangers.
func (r *Reconciler) writeKeys(ctx context.Context, s *snapshot, p *plan) error {
	if !p.newKey {
		return nil
	}
	r.secrets.Forget(client.ObjectKeyFromObject(s.group))
	data := map[string][]byte{fmt.Sprint(firstKey): s.freshKey}
	return r.applied.Apply(ctx, render.Secret(p.input, render.KeysName(s.group), nil, data), false)
}

// writeCertificate issues the certificate of the sidecars, if that is planned.
func (r *Reconciler) writeCertificate(ctx context.Context, s *snapshot, p *plan) error {
	if p.certificate == "" {
		return nil
	}
	data, err := s.authority.IssueServer(dataplane.SidecarServerName(s.group.Name, s.group.Namespace), s.now)
	if err != nil {
		return err
	}
	r.secrets.Forget(client.ObjectKeyFromObject(s.group))
	if err := r.applied.Apply(ctx, render.Secret(p.input, render.TLSName(s.group), nil, data), false); err != nil {
		return err
	}
	if s.tls != nil {
		r.Events.Eventf(s.group, nil, corev1.EventTypeNormal, v1alpha1.EventCertificateRenewed, "RenewCertificate", "sidecar certificate issued anew: %s", p.certificate)
	}
	return nil
}

// take carries out the one step.
func (r *Reconciler) take(ctx context.Context, s *snapshot, next step, out *outcome) {
	switch next.kind {
	case stepNone:
	case stepEvict:
		r.evict(ctx, s, next, out)
	default:
		r.command(ctx, s, next, out)
	}
}

// command hands a step to the leader. What it refuses is decided anew from what it says
// next.
func (r *Reconciler) command(ctx context.Context, s *snapshot, next step, out *outcome) {
	leader := s.leading()
	change := dataplane.GroupChange{Op: next.kind, ID: next.number}
	var at *corev1.Pod
	for _, place := range s.places {
		p := s.pods[place]
		g := s.groups[p.Name]
		if g == leader {
			at = p
		}
		if next.kind == stepAdd && g != nil && g.ID == next.number {
			entry := render.BookEntry(g.Name, next.number, p.Status.PodIP)
			change.Name, change.Address, change.MemberPort, change.ClientPort = entry.Name, entry.Address, entry.MemberPort, entry.ClientPort
		}
	}
	if at == nil || next.kind == stepAdd && change.Name == "" {
		return
	}
	_, err := r.Sidecars.Change(ctx, r.target(s, at), change)
	var read *dataplane.ReadError
	switch {
	case err == nil:
	case errors.As(err, &read) && read.Refusal != nil:
		out.refused = fmt.Sprintf("%s of member %d: %s", next.kind, next.number, read.Refusal.Error())
	default:
		out.refused = fmt.Sprintf("%s of member %d: the leader's sidecar does not take it: %v", next.kind, next.number, err)
	}
}

// evict lets the member of a pod begin anew, as far as the disruption budget allows it.
func (r *Reconciler) evict(ctx context.Context, s *snapshot, next step, out *outcome) {
	p := s.pods[next.ordinal]
	if p == nil {
		return
	}
	done, err := evict.Pod(ctx, r.Client, p)
	switch {
	case done:
		r.Events.Eventf(s.group, nil, corev1.EventTypeNormal, v1alpha1.EventMemberRestarted, "Restart", "%s was evicted: its pod is not of the present specification, or has to start anew", p.Name)
	case errors.Is(err, evict.ErrNoRoom):
		out.refused = fmt.Sprintf("restart of %s: %v", p.Name, err)
	case err != nil:
		out.failed = errors.Join(out.failed, err)
	}
}

// note takes an error and says whether there was none. What the user must mend becomes
// the verdict of Accepted, what may pass becomes an error and is tried again.
func (out *outcome) note(err error) bool {
	switch {
	case err == nil:
		return true
	case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err):
		out.failed = errors.Join(out.failed, err)
	case out.accepted.OK():
		out.accepted = verdict.No(v1alpha1.ReasonApplyFailed, err.Error())
	}
	return false
}

// patchJoined writes the readiness gate of pods where it has changed.
func (r *Reconciler) patchJoined(ctx context.Context, s *snapshot, joined map[string]verdict.Verdict) error {
	var failed error
	for _, place := range s.places {
		p := s.pods[place]
		v, ok := joined[p.Name]
		if !ok || gate.Same(p, v) {
			continue
		}
		u := gate.Patch(p, v, s.now)
		err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldManager), client.ForceOwnership)
		if client.IgnoreNotFound(err) != nil {
			failed = errors.Join(failed, fmt.Errorf("set %s of pod %s: %w", v1alpha1.PodConditionJoined, p.Name, err))
		}
	}
	return failed
}

// errStale: the group has changed since it was read.
var errStale = errors.New("the ReplicationGroup has changed since it was read")

// patchStatus writes the status if it has changed.
func (r *Reconciler) patchStatus(ctx context.Context, before, after *v1alpha1.ReplicationGroup) error {
	if sameStatus(before, after) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, after, patch, client.FieldOwner(fieldManager))
	if apierrors.IsConflict(err) {
		return errStale
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	r.announce(before, after)
	return nil
}
