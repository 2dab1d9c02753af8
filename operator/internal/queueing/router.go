// SPDX-License-Identifier: Apache-2.0

package queueing

import "github.com/bobtail-dev/bobtail/operator/api/v1alpha1"

// unbounded stands for a policy without a bound on a worker's queue.
const unbounded = 1 << 20

// OfRouter is the policy a service's routers follow and its depth.
func OfRouter(r v1alpha1.RpcServiceRouter) (Policy, int) {
	switch {
	case r.Placement == v1alpha1.PlacementNone, r.Policy == v1alpha1.PolicyRoundRobin, r.Policy == v1alpha1.PolicyPowerOfTwo:
		return Blind, unbounded
	case r.Policy == v1alpha1.PolicyRandom:
		return Random, unbounded
	case r.Policy == v1alpha1.PolicyJSQ:
		return Bounded, unbounded
	}
	return Bounded, int(r.WorkerQueueDepth)
}
