// SPDX-License-Identifier: Apache-2.0

// Gather reads all Services that CRAB has to do with, and what the plan needs.
package redirection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// gather reads Services from the given reader: the cache, or the API server
// itself before an address is given away.
func (r *Reconciler) gather(ctx context.Context, from client.Reader) (snapshot, error) {
	s := snapshot{pool: r.Pool}
	services, slices, nodes, agents := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &corev1.NodeList{}, &v1alpha1.NodeDataplaneList{}
	rpc := &v1alpha1.RpcServiceList{}
	if err := from.List(ctx, services); err != nil {
		return s, fmt.Errorf("list Services: %w", err)
	}
	// What is only read is not copied.
	if err := r.Cluster.List(ctx, slices, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("list EndpointSlices: %w", err)
	}
	if err := r.Cluster.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("list Nodes: %w", err)
	}
	if err := r.Cluster.List(ctx, agents, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("list NodeDataplanes: %w", err)
	}
	if err := r.Cluster.List(ctx, rpc, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("list RpcServices: %w", err)
	}
	for _, service := range services.Items {
		if relevant(&service) {
			s.services = append(s.services, service)
		}
	}
	s.slices, s.nodes, s.agents, s.rpc = slices.Items, nodes.Items, ofCRAB(agents.Items), rpc.Items
	s.absent, s.next = absent(s.agents, s.nodes, r.Now())
	return s, nil
}

// relevant Services are CRAB's, or were. One that is being deleted has its address
// until it is gone.
func relevant(s *corev1.Service) bool {
	return crabplan.Concerns(s) || marked(s)
}
