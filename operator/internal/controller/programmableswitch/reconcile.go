// SPDX-License-Identifier: Apache-2.0

// Package programmableswitch says what each ProgrammableSwitch is to hold, has a keeper
// see to it, and writes what became of it into the status. It never waits for a switch.
package programmableswitch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

// The right to patch the kind itself is for its finalizer.
// +kubebuilder:rbac:groups=bobtail.dev,resources=programmableswitches,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=bobtail.dev,resources=programmableswitches/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=get
// +kubebuilder:rbac:groups=bobtail.dev,resources=rpcservices,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch

// fieldManager is the one owner of all fields this controller writes.
const fieldManager = "bobtail-programmableswitch"

// Switches looks after them.
type Switches interface {
	Set(name string, d keeper.Desired)
	Clear(name string)
	Forget(name string)
	State(name string) (keeper.State, bool)
}

// Reconciler reconciles ProgrammableSwitches.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Switches looks after the switches themselves; News brings the names of those of
	// which something is new.
	Switches Switches
	News     <-chan event.GenericEvent
	// Board is where redirected Services ask.
	Board *switchboard.Board
	// Events tells users when the answer changes.
	Events events.EventRecorder
	// Observe, when set, is told every state for the operator's own metrics, and when a
	// switch is gone (known is false).
	Observe func(name string, s keeper.State, known bool)
	// Now is the clock.
	Now func() time.Time
	// Namespace is the operator's own, where Secrets and ConfigMaps are.
	Namespace string

	parts parts
}

// again is how often a switch is looked at of which nothing is heard: ConfigMaps and
// Secrets are not watched.
const again = 15 * time.Second

// Reconcile brings one switch one step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	psw := &v1alpha1.ProgrammableSwitch{}
	if err := r.Client.Get(ctx, req.NamespacedName, psw); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s, err := r.gather(ctx, psw)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := planFor(s)
	if gone, err := r.act(ctx, s, p); err != nil || gone {
		return ctrl.Result{}, err
	}
	s.state, s.known = r.Switches.State(psw.Name)
	if r.Observe != nil {
		r.Observe(psw.Name, s.state, s.known)
	}
	after := psw.DeepCopy()
	writeStatus(after, s, p, r.Now())
	r.Board.Answer(psw.Name, after.Status.Services, psw.DeletionTimestamp == nil)
	err = r.patchStatus(ctx, psw, after)
	if apierrors.IsConflict(err) { // what was read is older than what was written last
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

func (r *Reconciler) forget(name string) {
	r.Board.Answer(name, nil, false)
	r.Switches.Forget(name)
	if r.Observe != nil {
		r.Observe(name, keeper.State{}, false)
	}
}

// ofService finds the switches of a service.
func (r *Reconciler) ofService(_ context.Context, o client.Object) (out []reconcile.Request) {
	service, ok := o.(*v1alpha1.RpcService)
	if !ok {
		return nil
	}
	for _, name := range switchesOf(service) {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// ofConfig finds the switches of the service that a configuration is of.
func (r *Reconciler) ofConfig(ctx context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelService]
	service := &v1alpha1.RpcService{}
	if name == "" || r.Client.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, service) != nil {
		return nil // what is gone is heard of from the service itself
	}
	return r.ofService(ctx, service)
}

// asked finds the switch of which something else is asked; without a name, all of them.
func (r *Reconciler) asked(ctx context.Context, o client.Object) (out []reconcile.Request) {
	if o.GetName() != "" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
	}
	list := &v1alpha1.ProgrammableSwitchList{}
	if r.Client.List(ctx, list) != nil {
		return nil // they look by themselves before long
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
	}
	return out
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("programmableswitch").
		For(&v1alpha1.ProgrammableSwitch{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.RpcService{}, handler.EnqueueRequestsFromMapFunc(r.ofService)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.ofConfig)).
		WatchesRawSource(source.Channel(r.Board.Asks(), handler.EnqueueRequestsFromMapFunc(r.asked))).
		WatchesRawSource(source.Channel(r.News, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the ProgrammableSwitch controller: %w", err)
	}
	return nil
}
