// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func TestEveryPolicyHasAModel(t *testing.T) {
	want := map[v1alpha1.RouterPolicy]struct {
		policy Policy
		depth  int
	}{
		v1alpha1.PolicyJBSQ: {Bounded, 5}, v1alpha1.PolicyJSQ: {Bounded, unbounded}, v1alpha1.PolicyPowerOfTwo: {Blind, unbounded},
		v1alpha1.PolicyRoundRobin: {Blind, unbounded}, v1alpha1.PolicyRandom: {Random, unbounded},
	}
	for _, traits := range v1alpha1.RouterPolicies {
		policy, depth, err := OfRouter(v1alpha1.RpcServiceRouter{Policy: traits.Policy, WorkerQueueDepth: 5})
		if err != nil {
			t.Errorf("%s: %v", traits.Policy, err)
		}
		if w, known := want[traits.Policy]; known && (w.policy != policy || w.depth != depth) {
			t.Errorf("%s: %v, depth %d, want %v, depth %d", traits.Policy, policy, depth, w.policy, w.depth)
		}
	}
	policy, depth, err := OfRouter(v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementNone, Policy: v1alpha1.PolicyJBSQ, WorkerQueueDepth: 5})
	if policy != Blind || depth != unbounded || err != nil {
		t.Errorf("no router: %v, depth %d, %v", policy, depth, err)
	}
}

// What nobody has a model for was taken for JBSQ once, which promises too much.
func TestAnUnknownPolicyIsRefusedByName(t *testing.T) {
	for _, name := range []v1alpha1.RouterPolicy{"", "jbsq", "Fewest"} {
		_, _, err := OfRouter(v1alpha1.RpcServiceRouter{Policy: name, WorkerQueueDepth: 3})
		if err == nil || !strings.Contains(err.Error(), `"`+string(name)+`"`) || !strings.Contains(err.Error(), "JBSQ, JSQ") {
			t.Errorf("policy %q: %v", name, err)
		}
	}
}
