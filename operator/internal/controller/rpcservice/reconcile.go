// SPDX-License-Identifier: Apache-2.0

// Package rpcservice makes an RpcService real: it gathers what is, decides what
// should be, applies the difference, and writes the status once at the end.
package rpcservice

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// +kubebuilder:rbac:groups=bobtail.dev,resources=rpcservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=bobtail.dev,resources=rpcservices/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// How often a service is looked at when nothing happens by itself: sidecars do
// not call, they are asked.
const (
	converging = time.Second
	steady     = 5 * time.Second
	// patience is how long something may be unfinished before it is looked
	// at less often.
	patience = 2 * time.Minute
)

// Reconciler reconciles RpcServices.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Sidecars reads what dataplanes run.
	Sidecars Sidecars
	// Authority returns the operator's certificate authority.
	Authority func(context.Context) (*pki.Authority, error)
	// Redirection says what CRAB makes of a Service; nil: there is no CRAB.
	Redirection Redirection
	// Events tells users what happened.
	Events events.EventRecorder
	// Registry, Version and OperatorNamespace go into what is rendered.
	Registry, Version, OperatorNamespace, OTLPEndpoint string
	// FastPath is the choice for services that leave theirs out.
	FastPath v1alpha1.FastPathMode
	// Now is the clock.
	Now func() time.Time

	applied *applied
	secrets secretsRead
	cancels cancelsSeen
	levels  levelsRead
	denials denialsSeen
}

// forget drops what is remembered of a service that is gone.
func (r *Reconciler) forget(service types.NamespacedName) {
	r.applied.forget(service)
	r.cancels.forget(service)
	r.secrets.forget(service)
	r.denials.forget(service)
}

// applySecret writes a Secret and forgets what was read of it.
func (r *Reconciler) applySecret(ctx context.Context, s *snapshot, o render.Object) error {
	r.secrets.forget(client.ObjectKeyFromObject(s.service))
	return r.applied.apply(ctx, o, false)
}

// Reconcile brings one service a step nearer to what it should be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	service := &v1alpha1.RpcService{}
	if err := r.Client.Get(ctx, req.NamespacedName, service); err != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if service.DeletionTimestamp != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	in := render.Input{Service: service, Registry: r.Registry, Version: r.Version, OperatorNamespace: r.OperatorNamespace, OTLPEndpoint: r.OTLPEndpoint}
	s, err := r.gather(ctx, service, in)
	if err != nil {
		return ctrl.Result{}, err
	}
	in.FastPath = s.fastPath.given()

	before := service.DeepCopy()
	s.cancels = r.cancels.look(s)
	service.Status.Hedging = decideHedging(s)
	r.cancels.expect(s)
	out := outcome{accepted: decideAccepted(s)}
	defer func() {
		writeStatus(s, &out)
		if err = errors.Join(err, r.patchStatus(ctx, before, service)); err == nil {
			result.RequeueAfter = interval(s, out)
		}
	}()
	if render.TCP(service) {
		return ctrl.Result{}, r.actTCP(ctx, s, in, &out)
	}
	return ctrl.Result{}, r.act(ctx, s, in, &out)
}

// act writes what should be there and fills in the outcome.
func (r *Reconciler) act(ctx context.Context, s *snapshot, in render.Input, out *outcome) error {
	a := attempt{out: out}
	var keys keyring
	secrets := false
	if out.accepted.ok || s.configMap != nil && !s.secretTaken {
		keys, secrets = r.writeSecrets(ctx, s, in, &a)
	}
	if secrets {
		// A document that breaks a bound is known before anything is changed.
		_, err := decideConfig(s, out.accepted.ok, keys.named())
		a.note(err)
	}
	in.LiveWorkers = mostWorkers(s.servers)
	wanted := r.applyObjects(ctx, in, &a)
	if secrets {
		r.writeConfig(ctx, s, in, keys.named(), &a)
	}
	s.rollingOut = r.rollingOut(s, wanted)
	out.programmed = decideProgrammed(s, out.desired)
	if !out.accepted.ok {
		out.programmed = verdict{reason: v1alpha1.ReasonNotAccepted, message: "the last accepted configuration keeps serving"}
	}
	out.joined = decideJoined(s, out.desired)
	a.note(r.patchJoined(ctx, s, out.joined))
	return a.failed
}

// applyObjects writes what a specification that was accepted renders to, up to the
// first object that is refused.
func (r *Reconciler) applyObjects(ctx context.Context, in render.Input, a *attempt) []render.Object {
	wanted := render.Objects(in)
	for _, o := range wanted {
		if !a.out.accepted.ok || !a.note(r.applied.apply(ctx, o, true)) {
			break
		}
	}
	return wanted
}

// writeSecrets writes keys and certificate, which pods need first, and says
// whether they are there. They are kept current even while the specification is
// not accepted: what serves must go on serving.
func (r *Reconciler) writeSecrets(ctx context.Context, s *snapshot, in render.Input, a *attempt) (keyring, bool) {
	keys, err := r.applyKeys(ctx, s, in, a.out.accepted.ok)
	return keys, a.note(err) && a.note(r.applyCertificate(ctx, s, in))
}

// writeConfig comes last: only when the API server has taken every object of a
// specification may routers and servers hear of it.
func (r *Reconciler) writeConfig(ctx context.Context, s *snapshot, in render.Input, keyIDs []int, a *attempt) {
	var err error
	a.out.desired, err = decideConfig(s, a.out.accepted.ok, keyIDs)
	if a.note(err) && a.out.desired.hash != "" {
		a.note(r.applyConfig(ctx, in, a.out.desired))
	}
}

// attempt collects what went wrong: what the user must mend becomes the verdict
// of Accepted, what may pass becomes an error and is tried again.
type attempt struct {
	out    *outcome
	failed error
}

// note takes an error and says whether there was none.
func (a *attempt) note(err error) bool {
	switch reason := refusal(err); {
	case err == nil:
		return true
	case reason == "":
		a.failed = errors.Join(a.failed, err)
	case a.out.accepted.ok:
		a.out.accepted = verdict{reason: reason, message: err.Error()}
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

func currentKeys(s *snapshot) keyring {
	if s.keys == nil {
		return parseKeyring(nil, nil)
	}
	return parseKeyring(s.keys.Data, s.keys.Annotations)
}

// applyKeys makes and rotates the keys and returns them as they now are.
func (r *Reconciler) applyKeys(ctx context.Context, s *snapshot, in render.Input, rotate bool) (keyring, error) {
	have := currentKeys(s)
	if !rotate && len(have.keys) > 0 {
		return have, nil
	}
	token := s.service.Annotations[v1alpha1.AnnotationRotateKeys]
	next := have.advance(s.now, token, acknowledgedExactly(s, have.named()), newKey)
	if running := readLive(s.configMap).keyIDs(); len(have.keys) == 0 && len(running) > 0 {
		next = replaceLost(running, s.now, token, newKey)
	}
	if next.equal(have) {
		return have, nil
	}
	data, annotations := next.secret()
	if err := r.applySecret(ctx, s, render.Secret(in, render.KeysName(s.service), annotations, data)); err != nil {
		return have, err
	}
	if len(have.keys) > 0 {
		r.Events.Eventf(s.service, nil, corev1.EventTypeNormal, v1alpha1.EventKeyRotation, "RotateKeys", "packet keys %v, stage %q", next.ids(), next.stage)
	}
	return next, nil
}

// applyCertificate makes and renews the certificate of the sidecars.
func (r *Reconciler) applyCertificate(ctx context.Context, s *snapshot, in render.Input) error {
	name := dataplane.SidecarServerName(s.service.Name, s.service.Namespace)
	var data map[string][]byte
	if s.tls != nil {
		data = s.tls.Data
	}
	why := s.authority.Stale(data, name, s.now)
	if why == "" {
		return nil
	}
	data, err := s.authority.IssueServer(name, s.now)
	if err != nil {
		return err
	}
	if err := r.applySecret(ctx, s, render.Secret(in, render.TLSName(s.service), nil, data)); err != nil {
		return err
	}
	if s.tls != nil {
		r.Events.Eventf(s.service, nil, corev1.EventTypeNormal, v1alpha1.EventCertificateRenewed, "RenewCertificate", "sidecar certificate issued anew: %s", why)
	}
	return nil
}

// newKey makes one packet key: 128 bits, as 32 hex digits.
func newKey() []byte {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		panic("crypto/rand failed, which the Go runtime excludes: " + err.Error())
	}
	return []byte(hex.EncodeToString(raw))
}

func (r *Reconciler) applyConfig(ctx context.Context, in render.Input, d desired) error {
	cm := render.ConfigMap(in, d.text, d.hash)
	if len(d.sameGeneration) > 0 {
		cm.Annotations = map[string]string{dataplane.AnnotationSameGeneration: join(d.sameGeneration)}
	}
	return r.applied.apply(ctx, cm, true)
}

// interval is when to look again.
func interval(s *snapshot, out outcome) time.Duration {
	unfinished := !out.programmed.ok || !out.ready.ok
	for _, v := range out.joined {
		unfinished = unfinished || !v.ok
	}
	if !unfinished || s.now.Sub(lastTransition(s.service)) > patience {
		return steady
	}
	return converging
}

// patchStatus writes the status if it has changed.
func (r *Reconciler) patchStatus(ctx context.Context, before, after *v1alpha1.RpcService) error {
	if sameStatus(before, after) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	r.announce(before, after)
	return nil
}
