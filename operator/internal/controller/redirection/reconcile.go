// SPDX-License-Identifier: Apache-2.0

// Package redirection serves the Services that ask for CRAB: it gives them
// addresses, says which ones cannot be served and why, and tells when the agents
// of all nodes know them. It does nothing to packets; agents read Services and
// EndpointSlices themselves and work on while it is away.
package redirection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// +kubebuilder:rbac:groups="",resources=services;nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=services/status,verbs=patch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups=bobtail.dev,resources=nodedataplanes;rpcservices,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldManager is the one owner of all fields this controller writes.
const fieldManager = "bobtail-redirection"

// Reconciler serves the Services of the whole cluster in one go: they share one
// pool, and one at a time cannot give the same address twice.
type Reconciler struct {
	// Cluster is a cache of all Services, EndpointSlices, Nodes and NodeDataplanes.
	Cluster client.Reader
	// Live reads from the API server, Writer writes.
	Live   client.Reader
	Writer client.Client
	// Pool holds the addresses.
	Pool crabplan.Pool
	// Observe is told how much of the pool is in use; it may be nil.
	Observe func(PoolUse)
	// Board is where switches are asked, and answer.
	Board *switchboard.Board
	// Events tells users what becomes of their Services.
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// Reconcile decides about all Services and writes the statuses that change.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	s, err := r.gather(ctx, r.Cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	decisions, given := decide(s)
	if given {
		// The cache may not have seen an address given a moment ago, perhaps by
		// the operator that led before.
		if s, err = r.gather(ctx, r.Live); err != nil {
			return ctrl.Result{}, err
		}
		decisions, _ = decide(s)
	}
	var onSwitches []crabplan.VIP
	for i, d := range decisions {
		onSwitches = append(onSwitches, d.vips...)
		decisions[i] = withSwitch(d, r.Board)
	}
	r.Board.Ask(onSwitches)
	if r.Observe != nil {
		r.Observe(poolUse(s, decisions))
	}
	before := map[client.ObjectKey]*corev1.Service{}
	for i := range s.services {
		before[client.ObjectKeyFromObject(&s.services[i])] = &s.services[i]
	}
	var errs []error
	for _, d := range decisions {
		errs = append(errs, r.patchStatus(ctx, before[client.ObjectKeyFromObject(d.service)], d))
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.next}, nil
}

// patchStatus merges by condition type, so that conditions of others stay.
func (r *Reconciler) patchStatus(ctx context.Context, before *corev1.Service, d decision) error {
	after := before.DeepCopy()
	writeStatus(after, d, r.Now())
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	told := after.DeepCopy()
	err := r.Writer.Status().Patch(ctx, after, client.StrategicMergeFrom(before), client.FieldOwner(fieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Service %s: %w", crabplan.Name(before), err)
	}
	if err == nil {
		r.announce(before, told)
	}
	return nil
}

// announce makes an event for each answer that changed, and for a new address.
func (r *Reconciler) announce(before, after *corev1.Service) {
	for _, kind := range conditionTypes {
		c, old := meta.FindStatusCondition(after.Status.Conditions, kind), meta.FindStatusCondition(before.Status.Conditions, kind)
		if c == nil || old != nil && old.Status == c.Status && old.Reason == c.Reason {
			continue
		}
		r.Events.Eventf(after, nil, level(c), c.Reason, kind, "%s", message.Bounded(c.Message, 1000))
	}
	if !crabplan.WantsVIP(after) {
		return
	}
	had := crabplan.Addresses(before)
	for _, is := range crabplan.Addresses(after) {
		if !slices.Contains(had, is) {
			r.Events.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.EventAddressGiven, "Allocate", "the Service has the address %s of the pool %s", is, r.Pool)
		}
	}
}

// level: a Service that waits for agents is nothing to worry about yet.
func level(c *metav1.Condition) string {
	if warned[c.Reason] || c.Status == metav1.ConditionFalse && !quiet[c.Reason] {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
