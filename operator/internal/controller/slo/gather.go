// SPDX-License-Identifier: Apache-2.0

// Gather reads the target of an objective and the histograms of everybody who
// measures for it.
package slo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Sidecars reads what dataplanes have measured.
type Sidecars interface {
	Histogram(ctx context.Context, t dataplane.Target, name string, windowSeconds int) (*dataplane.HistogramReply, error)
	Parts(ctx context.Context, t dataplane.Target, name string, windowSeconds, parts int) (*dataplane.HistogramReply, error)
	History(ctx context.Context, t dataplane.Target) (*dataplane.History, error)
	Connects(ctx context.Context, t dataplane.Target, namespace, service string, windowSeconds, parts int) (*dataplane.Connects, error)
}

// The histograms an objective is about: how long requests took, and how long
// their execution alone.
const (
	latency = "latency"
	service = "service"
	hold    = "hold" // waiting in a router
)

// serviceWindow is over how many seconds service times are collected: all that
// the dataplane remembers, because their distribution changes slowly.
const serviceWindow = 600

// part is what one router or server has measured over the window.
type part = dataplane.Reading[*dataplane.HistogramReply]

// record is the day's history of one router or server.
type record = dataplane.Reading[*dataplane.History]

// snapshot is the world as one reconciliation sees it.
type snapshot struct {
	slo    *v1alpha1.ServiceLevelObjective
	target *v1alpha1.RpcService // nil when it does not exist, or is a group
	group  *v1alpha1.ReplicationGroup
	parts  []part
	// slow says that what changes slowly was read too: records and service
	// times.
	slow     bool
	records  []record
	services []part
	holds    []part // of routers, over the window; none where there are none
	nodes    nodes  // who measures for a target of protocol TCP
	refused  uint64 // by a switch, over the window: no pod saw them
	// onSwitch is what the switch of the target measured; nil: it has none, or keeps no times.
	onSwitch *SwitchMeasured

	enforcement enforcement
}

func (r *Reconciler) gather(ctx context.Context, slo *v1alpha1.ServiceLevelObjective, slow bool) (*snapshot, error) {
	s := &snapshot{slo: slo, slow: slow}
	if slo.Spec.TargetRef.Names(v1alpha1.TargetGroup, slo.Spec.TargetRef.Name) {
		return s, r.gatherGroup(ctx, s)
	}
	target := &v1alpha1.RpcService{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: slo.Namespace, Name: slo.Spec.TargetRef.Name}, target)
	if apierrors.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the target RpcService %s: %w", slo.Spec.TargetRef.Name, err)
	}
	s.target = target
	if err := r.gatherEnforcement(ctx, s); err != nil {
		return nil, err
	}
	if render.TCP(target) {
		return s, r.gatherConnects(ctx, s)
	}
	s.onSwitch = r.measuredBySwitch(slo, target)
	measuring, err := r.gatherLatencies(ctx, s, target, s.measuringComponent())
	if err != nil {
		return nil, err
	}
	s.addSwitch(target)
	if s.onSwitch == nil {
		s.refused = r.refusedBySwitch(slo, target)
	}
	if !slow {
		return s, nil
	}
	if s.source() == v1alpha1.SourceRouter {
		s.holds = dataplane.ReadAll(ctx, measuring, func(ctx context.Context, t dataplane.Target) (*dataplane.HistogramReply, error) {
			return r.Sidecars.Histogram(ctx, t, hold, int(slo.Spec.WindowSeconds))
		})
	}
	pods, err := r.pods(ctx, target, v1alpha1.ComponentServer)
	if err != nil {
		return nil, err
	}
	s.services = dataplane.ReadAll(ctx, running(target, pods), func(ctx context.Context, t dataplane.Target) (*dataplane.HistogramReply, error) {
		return r.Sidecars.Histogram(ctx, t, service, serviceWindow)
	})
	return s, nil
}

// gatherLatencies reads the pods that see every request, and their records where what
// changes slowly is asked for.
func (r *Reconciler) gatherLatencies(ctx context.Context, s *snapshot, target client.Object, component string) ([]dataplane.Asked, error) {
	pods, err := r.pods(ctx, target, component)
	if err != nil {
		return nil, err
	}
	measuring := running(target, pods)
	s.parts = dataplane.ReadAll(ctx, measuring, func(ctx context.Context, t dataplane.Target) (*dataplane.HistogramReply, error) {
		return r.Sidecars.Parts(ctx, t, latency, int(s.slo.Spec.WindowSeconds), s.windowParts())
	})
	if s.slow {
		s.records = dataplane.ReadAll(ctx, measuring, r.Sidecars.History)
	}
	return measuring, nil
}

func (r *Reconciler) pods(ctx context.Context, target client.Object, component string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := r.Client.List(ctx, list, client.InNamespace(target.GetNamespace()), client.MatchingLabels{
		v1alpha1.LabelService: target.GetName(), v1alpha1.LabelComponent: component,
	})
	if err != nil {
		return nil, fmt.Errorf("list the %s pods of %s: %w", component, target.GetName(), err)
	}
	return list.Items, nil
}

// measuringComponent is who sees every request: the routers, besides a switch in their place; or, without any, or with a
// switch that keeps no times of the service, the servers.
func (s *snapshot) measuringComponent() string {
	placement := s.target.Spec.Router.Placement
	if placement == v1alpha1.PlacementNone || placement == v1alpha1.PlacementSwitch && s.onSwitch == nil {
		return v1alpha1.ComponentServer
	}
	return v1alpha1.ComponentRouter
}
