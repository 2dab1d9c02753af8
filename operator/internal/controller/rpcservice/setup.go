// SPDX-License-Identifier: Apache-2.0

// What wakes the controller up.
package rpcservice

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
)

// concurrent services: a reconciliation mostly waits for sidecars, up to 2 s for
// one that does not answer, and must not hold up the others meanwhile.
const concurrent = 16

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.applied = apply.New(r.Client, fieldManager, r.Now)
	spec := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	b := ctrl.NewControllerManagedBy(mgr).Named("rpcservice").
		For(&v1alpha1.RpcService{}, spec).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(serviceOf)).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOf)).
		Watches(&v1alpha1.ServiceLevelObjective{}, handler.EnqueueRequestsFromMapFunc(targetOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrent})
	for _, o := range []client.Object{
		&appsv1.Deployment{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{},
		&networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		b = b.Owns(o)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the RpcService controller: %w", err)
	}
	return nil
}

// targetOf finds the service of an objective: its routers may have to enforce
// it, or to stop.
func targetOf(_ context.Context, o client.Object) []reconcile.Request {
	slo, ok := o.(*v1alpha1.ServiceLevelObjective)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: slo.Namespace, Name: slo.Spec.TargetRef.Name}}}
}

// serviceOf finds the service of a pod by its label.
func serviceOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelService]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
