// SPDX-License-Identifier: Apache-2.0

// Package rpcservice makes an RpcService real: it gathers what is into a snapshot,
// plans what should be, acts on the plan, and writes the status once at the end.
package rpcservice

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/secrets"
)

// +kubebuilder:rbac:groups=bobtail.dev,resources=rpcservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=bobtail.dev,resources=rpcservices/status,verbs=patch
// +kubebuilder:rbac:groups=bobtail.dev,resources=programmableswitches,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=pods/resize,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=k8s.cni.cncf.io,resources=network-attachment-definitions,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldManager is the one owner of all fields this controller writes.
const fieldManager = "bobtail-rpcservice"

// How often a service is looked at when nothing happens by itself: sidecars do
// not call, they are asked.
const (
	converging = time.Second
	steady     = 5 * time.Second
	// stale is how long the cache gets to see what was written last.
	stale = 100 * time.Millisecond
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
	// Devices says what the operator lacks for devices other than Kernel; begun: nothing.
	// With neither nobody knows yet. nil: nothing is lacking.
	Devices func() (begun bool, missing []string)
	// Events tells users what happened.
	Events events.EventRecorder
	// Registry, Version and OperatorNamespace go into what is rendered.
	Registry, Version, OperatorNamespace, OTLPEndpoint string
	// FastPath is the choice for services that leave theirs out.
	FastPath v1alpha1.FastPathMode
	// Now is the clock.
	Now func() time.Time

	applied *apply.Applied
	secrets secrets.Read
	cancels cancelsSeen
	levels  levelsRead
	denials denialsSeen
	lags    lagsSeen

	definitions recent[definition]
	nodes       recent[map[corev1.ResourceName]int64]
}

// forget drops what is remembered of a service that is gone.
func (r *Reconciler) forget(service types.NamespacedName) {
	r.applied.Forget(service)
	r.cancels.forget(service)
	r.secrets.Forget(service)
	r.denials.forget(service)
	r.lags.put(service, nil)
}

// Reconcile brings one service a step nearer to what it should be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	service := &v1alpha1.RpcService{}
	err := r.Client.Get(ctx, req.NamespacedName, service)
	if err != nil || service.DeletionTimestamp != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s, err := r.gather(ctx, service)
	if errors.Is(err, errEarly) {
		return ctrl.Result{RequeueAfter: stale}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	p := planFor(s)
	done := r.act(ctx, s, p)
	v := conclude(s, p, done)
	failed := errors.Join(done.failed, r.patchJoined(ctx, s, v.joined))
	after := withStatus(s, p, done, v)
	result := ctrl.Result{RequeueAfter: interval(s.now, after, v)}
	err = r.patchStatus(ctx, service, after)
	if errors.Is(err, errStale) {
		result, err = ctrl.Result{RequeueAfter: stale}, nil
	}
	if failed = errors.Join(failed, err); failed != nil {
		return ctrl.Result{}, failed
	}
	return result, nil
}

// interval is when to look again.
func interval(now time.Time, service *v1alpha1.RpcService, v verdicts) time.Duration {
	unfinished := !v.programmed.OK() || !v.ready.OK()
	for _, joined := range v.joined {
		unfinished = unfinished || !joined.OK()
	}
	if !unfinished || now.Sub(lastTransition(service)) > patience {
		return steady
	}
	return converging
}
