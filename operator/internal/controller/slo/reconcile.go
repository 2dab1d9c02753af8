// SPDX-License-Identifier: Apache-2.0

// Package slo measures ServiceLevelObjectives: every few seconds it merges the
// histograms that routers (or servers, or the nodes of clients) keep themselves,
// and writes what they say into the status. It configures nothing, and nothing is
// lost while it is away.
package slo

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// +kubebuilder:rbac:groups=bobtail.dev,resources=servicelevelobjectives,verbs=get;list;watch
// +kubebuilder:rbac:groups=bobtail.dev,resources=servicelevelobjectives/status,verbs=patch

// fieldManager is the one owner of all fields this controller writes.
const fieldManager = "bobtail-slo"

// longest is the longest time between two measurements.
const longest = 5 * time.Second

// Reconciler measures ServiceLevelObjectives.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Sidecars reads histograms.
	Sidecars Sidecars
	// Agents knows CRAB's agents; nil where there is no CRAB.
	Agents Agents
	// Refusals, when set, says what a switch refused of a service; false: nobody knows.
	Refusals func(name, namespace, service string) (SwitchRefusals, bool)
	// Switches, when set, says what a switch measured of a service; false: nothing.
	Switches func(name, namespace, service string, window time.Duration, parts int) (SwitchMeasured, bool)
	// Events tells users when the answer changes.
	Events events.EventRecorder
	// Observe, when set, is told every measurement for the operator's own
	// metrics, what happened since the one before, and when an objective is
	// gone (slo is nil).
	Observe func(key types.NamespacedName, slo *v1alpha1.ServiceLevelObjective, counted Counted)
	// Now is the clock.
	Now func() time.Time

	ledgers ledgers
	refused refusals
	told    told
}

// slowly is how often error budgets and capacity are worked out: they move over
// minutes, and a record of a day is longer to read than a window.
const slowly = 15 * time.Second

// Reconcile measures one objective once.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	slo := &v1alpha1.ServiceLevelObjective{}
	if err := r.Client.Get(ctx, req.NamespacedName, slo); err != nil {
		r.ledgers.forget(req.NamespacedName)
		r.refused.forget(req.NamespacedName)
		r.observe(req.NamespacedName, nil, Counted{})
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if slo.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	s, err := r.gather(ctx, slo, r.ledgers.due(req.NamespacedName, slo.Generation, r.Now(), slowly))
	if errors.Is(err, ErrEarly) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	p, err := planFor(s)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	after := slo.DeepCopy()
	writeStatus(after, p, r.Now())
	var counted Counted
	if s.slow {
		var led *ledger
		counted, led = r.ledgers.count(req.NamespacedName, slo, s.records, r.Now())
		writeSlow(after, s, led, p, r.Now())
	}
	if err := r.patchStatus(ctx, slo, after); err != nil {
		return ctrl.Result{}, err
	}
	r.observe(req.NamespacedName, after, counted)
	return ctrl.Result{RequeueAfter: interval(slo)}, nil
}

// interval is short enough that three measurements lie in a window.
func interval(slo *v1alpha1.ServiceLevelObjective) time.Duration {
	return min(longest, time.Duration(slo.Spec.WindowSeconds)*time.Second/3)
}

func (r *Reconciler) observe(key types.NamespacedName, slo *v1alpha1.ServiceLevelObjective, counted Counted) {
	if r.Observe != nil {
		r.Observe(key, slo, counted)
	}
}

func (r *Reconciler) patchStatus(ctx context.Context, before, after *v1alpha1.ServiceLevelObjective) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	// What was read may be older than what was written last. Then nothing is written, and
	// nothing is told twice; the next measurement is seconds away.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, after, patch, client.FieldOwner(fieldManager))
	if apierrors.IsConflict(err) {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	r.announce(before, after)
	return nil
}

// announce makes an event when the answer to Accepted or Met changes, and when the
// objective turns out to be below what the service itself takes. Whether Met is shown
// or only not refuted may change with every window, and makes none.
func (r *Reconciler) announce(before, after *v1alpha1.ServiceLevelObjective) {
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionMet, v1alpha1.ConditionAttainable} {
		c := meta.FindStatusCondition(after.Status.Conditions, kind)
		old := meta.FindStatusCondition(before.Status.Conditions, kind)
		if kind == v1alpha1.ConditionAttainable && (c == nil || c.Status != metav1.ConditionFalse) {
			continue
		}
		if c == nil || old != nil && old.Status == c.Status && (old.Reason == c.Reason || kind == v1alpha1.ConditionMet && c.Status == metav1.ConditionTrue) {
			continue
		}
		level := corev1.EventTypeNormal
		if c.Status == metav1.ConditionFalse {
			level = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, level, c.Reason, kind, "%s is %s: %s", kind, c.Status, c.Message)
	}
}

// concurrent objectives: a measurement mostly waits for sidecars, up to 2 s for
// one that does not answer, and must not hold up the others meanwhile.
const concurrent = 16

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("servicelevelobjective").
		For(&v1alpha1.ServiceLevelObjective{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.RpcService{}, handler.EnqueueRequestsFromMapFunc(r.objectivesOn(v1alpha1.TargetService)),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ReplicationGroup{}, handler.EnqueueRequestsFromMapFunc(r.objectivesOn(v1alpha1.TargetGroup)),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrent}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the ServiceLevelObjective controller: %w", err)
	}
	return nil
}

// objectivesOn finds the objectives on a target of a kind.
func (r *Reconciler) objectivesOn(kind string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) (out []reconcile.Request) {
		list := &v1alpha1.ServiceLevelObjectiveList{}
		if err := r.Client.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
			return nil
		}
		for i := range list.Items {
			if list.Items[i].Spec.TargetRef.Names(kind, o.GetName()) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
		return out
	}
}
