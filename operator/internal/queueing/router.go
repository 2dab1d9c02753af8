// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// unbounded stands for a policy without a bound on a worker's queue.
const unbounded = 1 << 20

// OfRouter is the policy a service's routers follow and its depth. A policy that is
// not in the API's table is refused by name: no model may stand for it unseen.
func OfRouter(r v1alpha1.RpcServiceRouter) (Policy, int, error) {
	if r.Placement == v1alpha1.PlacementNone {
		return Blind, unbounded, nil
	}
	traits, _ := r.Policy.Traits()
	switch traits.Sight {
	case v1alpha1.SeesBoundedQueues:
		return Bounded, int(r.WorkerQueueDepth), nil
	case v1alpha1.SeesQueues:
		return Bounded, unbounded, nil
	case v1alpha1.SeesSomeQueues:
		return Blind, unbounded, nil
	case v1alpha1.SeesNothing:
		return Random, unbounded, nil
	}
	return 0, 0, fmt.Errorf("no queueing model for the policy %q: must be %s", r.Policy, v1alpha1.RouterPolicyNames())
}
