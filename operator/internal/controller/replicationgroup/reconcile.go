// SPDX-License-Identifier: Apache-2.0

// Package replicationgroup makes a ReplicationGroup real: it gathers what is into a
// snapshot, plans what should be, acts on the plan, and writes the status once at the
// end. It never stands between clients and members: what it does not do waits, and what
// runs goes on.
package replicationgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/secrets"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
)

// Pods are evicted, not deleted: the API server then holds every restart to the group's
// disruption budget.
// +kubebuilder:rbac:groups=bobtail.dev,resources=replicationgroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=bobtail.dev,resources=replicationgroups/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldManager is the one owner of all fields this controller writes.
const fieldManager = "bobtail-replicationgroup"

// How often a group is looked at when nothing happens by itself: sidecars do not call,
// they are asked.
const (
	converging = time.Second
	steady     = 5 * time.Second
	// stale is how long the cache gets to see what was written last.
	stale = 100 * time.Millisecond
	// patience is how long something may be unfinished before it is looked at less often.
	patience = 2 * time.Minute
	// concurrent groups: a reconciliation mostly waits for sidecars.
	concurrent = 8
)

// Reconciler reconciles ReplicationGroups.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Sidecars reads what members run, and hands commands to them.
	Sidecars Sidecars
	// Authority returns the operator's certificate authority.
	Authority func(context.Context) (*pki.Authority, error)
	// Events tells users what happened.
	Events events.EventRecorder
	// Observe, when set, is told every group for the operator's own metrics; nil: it is
	// gone.
	Observe func(key types.NamespacedName, group *v1alpha1.ReplicationGroup)
	// Registry, Version and OperatorNamespace go into what is rendered.
	Registry, Version, OperatorNamespace, OTLPEndpoint string
	// Now is the clock.
	Now func() time.Time
	// Board is where groups ask switches to be their aggregators.
	Board *switchboard.Board

	applied *apply.Applied
	secrets secrets.Read
	// board guards boardTold: every group has asked once.
	board     sync.Mutex
	boardTold bool
}

// forget drops what is remembered of a group that is gone.
func (r *Reconciler) forget(group types.NamespacedName) {
	r.Board.WithdrawGroup(group.String(), false)
	r.Board.WithdrawGroup(group.String(), true)
	r.applied.Forget(group)
	r.secrets.Forget(group)
	if r.Observe != nil {
		r.Observe(group, nil)
	}
}

// Reconcile brings one group a step nearer to what it should be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	group := &v1alpha1.ReplicationGroup{}
	err := r.Client.Get(ctx, req.NamespacedName, group)
	if err != nil || group.DeletionTimestamp != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s, err := r.gather(ctx, group)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := planFor(s)
	if err := r.askSwitch(ctx, s, p); err != nil {
		return ctrl.Result{}, err
	}
	done := r.act(ctx, s, p)
	if errors.Is(done.failed, errStale) {
		return ctrl.Result{RequeueAfter: stale}, nil
	}
	v := conclude(s, p, done)
	failed := errors.Join(done.failed, p.failed, r.patchJoined(ctx, s, v.joined))
	after := withStatus(s, p, done, v)
	err = r.patchStatus(ctx, done.before, after)
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: stale}, failed
	}
	if failed = errors.Join(failed, err); failed != nil {
		return ctrl.Result{}, failed
	}
	if r.Observe != nil {
		r.Observe(req.NamespacedName, after)
	}
	return ctrl.Result{RequeueAfter: interval(s.now, after, v)}, nil
}

// interval is when to look again.
func interval(now time.Time, group *v1alpha1.ReplicationGroup, v verdicts) time.Duration {
	last := group.CreationTimestamp.Time
	for _, c := range group.Status.Conditions {
		if c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	if v.programmed.OK() && v.ready.OK() || now.Sub(last) > patience {
		return steady
	}
	return converging
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.applied = apply.New(r.Client, r.Live, fieldManager, r.Now)
	b := ctrl.NewControllerManagedBy(mgr).Named("replicationgroup").
		For(&v1alpha1.ReplicationGroup{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(groupOf)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(groupOfBackup)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrent})
	for _, o := range []client.Object{
		&appsv1.StatefulSet{}, &appsv1.Deployment{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{},
		&networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		b = b.Owns(o)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the ReplicationGroup controller: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(r.tellBoard)); err != nil {
		return fmt.Errorf("tell switches which groups there are: %w", err)
	}
	return nil
}

// groupOf finds the group of a pod by its labels.
func groupOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelService]
	components := []string{v1alpha1.ComponentMember, v1alpha1.ComponentBox, v1alpha1.ComponentAggregator}
	if name == "" || !slices.Contains(components, o.GetLabels()[v1alpha1.LabelComponent]) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
