// SPDX-License-Identifier: Apache-2.0

// What wakes the controller up, and what it keeps in memory.
package redirection

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// SetupWithManager registers the controller with a cache of its own: the
// operator's other one holds only what the operator made.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: slim,
	})
	if err != nil {
		return fmt.Errorf("create the cache of Services and EndpointSlices: %w", err)
	}
	if err := mgr.Add(all); err != nil {
		return fmt.Errorf("add the cache of Services and EndpointSlices: %w", err)
	}
	r.Cluster = all
	c, err := controller.New("redirection", mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: 1})
	if err != nil {
		return fmt.Errorf("set up the controller of redirected Services: %w", err)
	}
	wake := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "cluster"}}}
	})
	for o, changed := range map[client.Object]predicate.Predicate{
		&corev1.Service{}: whenRelevant(), &discoveryv1.EndpointSlice{}: r.whenOfOurs(),
		&corev1.Node{}:            whenDifferent(ofNode),
		&v1alpha1.NodeDataplane{}: whenDifferent(acknowledged),
		&v1alpha1.RpcService{}:    whenDifferent(device),
	} {
		if err := c.Watch(source.Kind(all, o, wake, changed)); err != nil {
			return fmt.Errorf("watch for redirected Services: %w", err)
		}
	}
	if err := c.Watch(source.Channel(r.Board.Replies(), wake)); err != nil {
		return fmt.Errorf("listen to switches of redirected Services: %w", err)
	}
	return nil
}

// slim drops what nobody here looks at: most of a Node is its list of images.
func slim(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.Node:
		ready := readiness(o)
		o.Status = corev1.NodeStatus{Addresses: o.Status.Addresses}
		if ready != nil {
			o.Status.Conditions = []corev1.NodeCondition{*ready}
		}
		o.Annotations, o.Labels, o.Spec = nil, nil, corev1.NodeSpec{}
	case *v1alpha1.NodeDataplane:
		o.Status.Devices, o.Status.Peers, o.Status.Counters = nil, nil, nil
		if o.Status.Host != nil { // that it is there says who writes
			o.Status.Host = &v1alpha1.NodeHost{}
		}
	}
	return cache.TransformStripManagedFields()(in)
}

// whenRelevant lets Services through that are CRAB's, or were before the change.
func whenRelevant() predicate.Predicate {
	is := func(o client.Object) bool {
		s, ok := o.(*corev1.Service)
		return ok && relevant(s)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return is(e.ObjectOld) || is(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			s, ok := e.Object.(*corev1.Service)
			return ok && marked(s)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// whenOfOurs lets the slices of such Services through. A Service that comes later
// wakes the controller itself.
func (r *Reconciler) whenOfOurs() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		s := &corev1.Service{}
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[discoveryv1.LabelServiceName]}
		return key.Name != "" && r.Cluster.Get(context.Background(), key, s) == nil && relevant(s)
	})
}

// whenDifferent looks at one part of an object.
func whenDifferent(part func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !reflect.DeepEqual(part(e.ObjectOld), part(e.ObjectNew))
	}}
}

// ofNode is what of a Node concerns Services.
func ofNode(o client.Object) any {
	n := o.(*corev1.Node)
	return []any{n.Status.Addresses, readiness(n)}
}

// device is what of an RpcService says whether CRAB reaches its servers.
func device(o client.Object) any {
	s := o.(*v1alpha1.RpcService)
	var own any
	if t := s.Spec.Server.PodTemplate; t != nil {
		own = t.Metadata.Labels
	}
	return []any{s.Status.Device, own}
}

// acknowledged is what of a NodeDataplane concerns Services; numbers of servers
// change with every pod.
func acknowledged(o client.Object) any {
	st := o.(*v1alpha1.NodeDataplane).Status
	type entry struct{ namespace, service, address, revision, fallBack string }
	var out []entry
	for _, v := range st.VIPs {
		out = append(out, entry{v.Namespace, v.Service, fmt.Sprint(v.Address, v.Port), v.Revision, v.FallBack})
	}
	var conditions []string
	for _, c := range st.Conditions {
		conditions = append(conditions, c.Type+string(c.Status)+c.Reason+c.Message)
	}
	slices.Sort(conditions)
	return []any{out, conditions, st.AgentVersion != "", st.Host != nil}
}
