// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Each policy of the API has its model; only JBSQ has a bound on a worker's queue.
func TestOfRouter(t *testing.T) {
	for policy, want := range map[v1alpha1.RouterPolicy]struct {
		model Policy
		depth int
	}{
		v1alpha1.PolicyJBSQ: {Bounded, 3}, v1alpha1.PolicyJSQ: {Bounded, unbounded}, v1alpha1.PolicyRandom: {Random, unbounded},
		v1alpha1.PolicyRoundRobin: {Blind, unbounded}, v1alpha1.PolicyPowerOfTwo: {Blind, unbounded},
	} {
		r := v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementSoftware, Policy: policy, WorkerQueueDepth: 3}
		if model, depth := OfRouter(r); model != want.model || depth != want.depth {
			t.Errorf("%s: %v to a depth of %d, want %v to %d", policy, model, depth, want.model, want.depth)
		}
		r.Placement = v1alpha1.PlacementNone
		if model, depth := OfRouter(r); model != Blind || depth != unbounded {
			t.Errorf("%s without a router: %v to a depth of %d", policy, model, depth)
		}
	}
}
