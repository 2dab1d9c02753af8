// SPDX-License-Identifier: Apache-2.0

// Act carries a plan out, as far as the API server lets it, and says how far.
package rpcservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/gate"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// outcome is what became of a plan.
type outcome struct {
	// accepted is that of the plan, or what the API server said against it.
	accepted verdict.Verdict
	// document is the configuration that was handed out; none: its hash is empty.
	document desired
	// written is the version of each object as it was last written, by name.
	written map[string]string
	// resizeRefused is what the API server said against a change of CPU, by pod.
	resizeRefused map[string]string
	// failed is what may pass and is tried again.
	failed error
}

// act writes what the plan says.
func (r *Reconciler) act(ctx context.Context, s *snapshot, p *plan) *outcome {
	out := &outcome{accepted: p.accepted, failed: p.failed, written: map[string]string{}, resizeRefused: map[string]string{}}
	r.keep(s, p.remember)
	secrets := p.secrets && out.note(r.writeKeys(ctx, s, p)) && out.note(r.writeCertificate(ctx, s, p))
	r.writeObjects(ctx, p, out)
	r.resizePods(ctx, p, out)
	r.replaceLost(ctx, s, p, out)
	if secrets && p.failed == nil {
		r.writeConfig(ctx, s, p, out)
	}
	return out
}

// keep remembers what the plan says.
func (r *Reconciler) keep(s *snapshot, m memory) {
	r.cancels.put(s.service, m.counted)
	r.denials.put(client.ObjectKeyFromObject(s.service), m.denial)
	r.lags.put(client.ObjectKeyFromObject(s.service), m.lagged)
}

// writeObjects writes what a specification that was accepted renders to, up to the
// first object that is refused.
func (r *Reconciler) writeObjects(ctx context.Context, p *plan, out *outcome) {
	for _, o := range p.objects {
		if !out.accepted.OK() || !out.note(r.applied.Apply(ctx, o, true)) {
			break
		}
	}
	for _, o := range p.objects {
		if o.GetObjectKind().GroupVersionKind().Kind == "Deployment" {
			out.written[o.GetName()] = r.applied.Written(o)
		}
	}
}

// resizePods changes the CPU of pods in place. A pod that cannot be changed goes on with
// what it has: the status says why.
func (r *Reconciler) resizePods(ctx context.Context, p *plan, out *outcome) {
	if !out.accepted.OK() {
		return
	}
	for _, one := range p.resizes {
		main := one.pod.Spec.Containers[0]
		text, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": main.Name, "resources": render.WithCores(main.Resources, one.cores)}}}})
		if err == nil {
			err = r.Client.SubResource("resize").Patch(ctx, one.pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, text), client.FieldOwner(fieldManager))
		}
		switch {
		case client.IgnoreNotFound(err) == nil:
		case refusal(err) != "":
			out.resizeRefused[one.pod.Name] = err.Error()
		default:
			out.failed = errors.Join(out.failed, fmt.Errorf("change the CPU of pod %s: %w", one.pod.Name, err))
		}
	}
}

// writeKeys writes the keyring, which pods need first.
func (r *Reconciler) writeKeys(ctx context.Context, s *snapshot, p *plan) error {
	if p.keys.equal(s.keys) && !s.keysOrphaned {
		return nil
	}
	data, annotations := p.keys.secret()
	if err := r.applySecret(ctx, s, render.Secret(p.input, render.KeysName(s.service), annotations, data)); err != nil {
		return err
	}
	switch {
	case len(s.keys.keys) == 0 && len(runningKeys(s)) > 0:
		r.Events.Eventf(s.service, nil, corev1.EventTypeWarning, v1alpha1.EventKeyRotation, "RotateKeys",
			"Secret %s with the packet keys %v was gone: new keys %v", render.KeysName(s.service), runningKeys(s), p.keys.ids())
	case len(s.keys.keys) > 0 && !p.keys.equal(s.keys):
		r.Events.Eventf(s.service, nil, corev1.EventTypeNormal, v1alpha1.EventKeyRotation, "RotateKeys", "packet keys %v, stage %q", p.keys.ids(), p.keys.stage)
	}
	return nil
}

// writeCertificate issues the certificate of the sidecars, if that is planned.
func (r *Reconciler) writeCertificate(ctx context.Context, s *snapshot, p *plan) error {
	if p.certificate == "" {
		return nil
	}
	data, err := s.authority.IssueServer(dataplane.SidecarServerName(s.service.Name, s.service.Namespace), s.now)
	if err != nil {
		return err
	}
	if err := r.applySecret(ctx, s, render.Secret(p.input, render.TLSName(s.service), nil, data)); err != nil {
		return err
	}
	if s.tls != nil {
		r.Events.Eventf(s.service, nil, corev1.EventTypeNormal, v1alpha1.EventCertificateRenewed, "RenewCertificate", "sidecar certificate issued anew: %s", p.certificate)
	}
	return nil
}

// applySecret writes a Secret and forgets what was read of it.
func (r *Reconciler) applySecret(ctx context.Context, s *snapshot, o render.Object) error {
	r.secrets.Forget(client.ObjectKeyFromObject(s.service))
	return r.applied.Apply(ctx, o, false)
}

// writeConfig comes last: only when the API server has taken every object of a
// specification may routers and servers hear of it.
func (r *Reconciler) writeConfig(ctx context.Context, s *snapshot, p *plan, out *outcome) {
	out.document = p.document
	if p.accepted.OK() && !out.accepted.OK() {
		var err error
		out.document, err = keptConfig(s, p)
		out.note(err)
	}
	d := out.document
	if d.hash == "" {
		return
	}
	cm := render.ConfigMap(p.input, d.text, d.hash)
	if len(d.sameGeneration) > 0 {
		cm.Annotations = map[string]string{dataplane.AnnotationSameGeneration: join(d.sameGeneration)}
	}
	out.note(r.applied.Apply(ctx, cm, true))
}

// note takes an error and says whether there was none. What the user must mend becomes
// the verdict of Accepted, what may pass becomes an error and is tried again.
func (out *outcome) note(err error) bool {
	switch reason := refusal(err); {
	case err == nil:
		return true
	case reason == "":
		out.failed = errors.Join(out.failed, err)
	case out.accepted.OK():
		out.accepted = verdict.No(reason, err.Error())
	}
	return false
}

// refusal is the reason to tell the user when trying again would change
// nothing: the API server or the document's own bounds said no. It is empty for
// errors that may pass.
func refusal(err error) string {
	var field *dataplane.FieldError
	switch {
	case errors.As(err, &field):
		return v1alpha1.ReasonInvalidConfiguration
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return v1alpha1.ReasonApplyFailed
	}
	return ""
}

// patchJoined writes the readiness gate of server pods where it has changed.
// Each condition is an entry of its own in a server-side apply, so the kubelet's
// conditions are not touched.
func (r *Reconciler) patchJoined(ctx context.Context, s *snapshot, joined map[string]verdict.Verdict) error {
	var failed error
	for _, p := range s.servers {
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

// errStale: the service has changed since it was read.
var errStale = errors.New("the RpcService has changed since it was read")

// patchStatus writes the status if it has changed.
func (r *Reconciler) patchStatus(ctx context.Context, before, after *v1alpha1.RpcService) error {
	if sameStatus(before, after) {
		return nil
	}
	// What was read may be older than what was written last. Then nothing is written, and
	// nothing is told twice.
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
