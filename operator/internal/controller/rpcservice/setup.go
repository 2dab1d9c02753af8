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
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
)

// concurrent services: a reconciliation mostly waits for sidecars, up to 2 s for
// one that does not answer, and must not hold up the others meanwhile.
const concurrent = 16

// Watches are those that a feature needs besides, each to be begun when the cluster has
// what the feature needs (decision 0024).
type Watches struct {
	Devices, Switches func(ctrl.Manager) error
}

// SetupWithManager registers the controller, with the watches that every release had the
// right to.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) (*Watches, error) {
	r.applied = apply.New(r.Client, r.Live, fieldManager, r.Now)
	spec := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	b := ctrl.NewControllerManagedBy(mgr).Named("rpcservice").
		For(&v1alpha1.RpcService{}, spec).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(serviceOf)).
		Watches(&v1alpha1.ServiceLevelObjective{}, handler.EnqueueRequestsFromMapFunc(targetOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrent})
	for _, o := range []client.Object{
		&appsv1.Deployment{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{},
		&networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		b = b.Owns(o)
	}
	c, err := b.Build(r)
	if err != nil {
		return nil, fmt.Errorf("set up the RpcService controller: %w", err)
	}
	return &Watches{
		Devices:  also(c, &discoveryv1.EndpointSlice{}, "EndpointSlices", serviceOf),
		Switches: also(c, &v1alpha1.ProgrammableSwitch{}, "ProgrammableSwitches", r.atSwitch),
	}, nil
}

func also(c controller.Controller, kind client.Object, named string, of handler.MapFunc) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		if err := c.Watch(source.Kind(mgr.GetCache(), kind, handler.EnqueueRequestsFromMapFunc(of))); err != nil {
			return fmt.Errorf("watch %s: %w", named, err)
		}
		return nil
	}
}

// targetOf finds the service of an objective: its routers may have to enforce
// it, or to stop.
func targetOf(_ context.Context, o client.Object) []reconcile.Request {
	slo, ok := o.(*v1alpha1.ServiceLevelObjective)
	if !ok || !slo.Spec.TargetRef.Names(v1alpha1.TargetService, slo.Spec.TargetRef.Name) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: slo.Namespace, Name: slo.Spec.TargetRef.Name}}}
}

// atSwitch finds the services of a switch: those that it knows, and those that name it.
func (r *Reconciler) atSwitch(ctx context.Context, o client.Object) (out []reconcile.Request) {
	list := &v1alpha1.RpcServiceList{}
	if r.Client.List(ctx, list) != nil {
		return nil // it only makes it sooner
	}
	for i := range list.Items {
		s := &list.Items[i]
		asked, had := s.Spec.Router.Switch, s.Status.Switch
		if asked != nil && asked.Name == o.GetName() || had != nil && had.Name == o.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		}
	}
	return out
}

// serviceOf finds the service of a pod by its label.
func serviceOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelService]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
