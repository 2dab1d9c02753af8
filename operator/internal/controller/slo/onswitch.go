// SPDX-License-Identifier: Apache-2.0

// What a switch refuses never reaches a server, and is added to what they tell.
package slo

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// SwitchRefusals are requests of a service that its switch answered with DROP, since the
// operator began to read its counters.
type SwitchRefusals struct {
	Since time.Time
	Count uint64
}

// refusedAt is what was known at a time.
type refusedAt struct {
	at time.Time
	SwitchRefusals
}

// refusals remembers what switches had counted, to say what came in a window.
type refusals struct {
	mu sync.Mutex
	by map[types.NamespacedName][]refusedAt
}

// within takes a new reading and says how many came since the oldest one of the window. A
// switch whose counts began anew is a new one.
func (r *refusals) within(key types.NamespacedName, now SwitchRefusals, at time.Time, window time.Duration) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[types.NamespacedName][]refusedAt{}
	}
	all := r.by[key]
	if last := len(all) - 1; last >= 0 && (!all[last].Since.Equal(now.Since) || now.Count < all[last].Count) {
		all = nil
	}
	all = append(all, refusedAt{at, now})
	for len(all) > 1 && !all[1].at.After(at.Add(-window)) {
		all = all[1:]
	}
	r.by[key] = all
	return now.Count - all[0].Count
}

func (r *refusals) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, key)
}

// refusedBySwitch is how many requests the switch of the target refused in the window.
func (r *Reconciler) refusedBySwitch(slo *v1alpha1.ServiceLevelObjective, target *v1alpha1.RpcService) uint64 {
	if r.Refusals == nil || target.Status.Switch == nil {
		return 0
	}
	now, known := r.Refusals(target.Status.Switch.Name, target.Namespace, target.Name)
	if !known {
		return 0
	}
	key := types.NamespacedName{Namespace: slo.Namespace, Name: slo.Name}
	return r.refused.within(key, now, r.Now(), time.Duration(slo.Spec.WindowSeconds)*time.Second)
}
