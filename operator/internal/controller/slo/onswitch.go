// SPDX-License-Identifier: Apache-2.0

// What a switch measured of a service, and refused. Where it keeps no times, servers tell them, and what it refuses, which
// never reaches them, is added.
package slo

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// SwitchMeasured is what a switch measured of a service, in the form in which routers tell it.
type SwitchMeasured struct {
	Window  *dataplane.HistogramReply
	History *dataplane.History
}

// switchReadings is how often a switch is read; a part of a window holds two readings at least.
const switchReadings = 5

// windowParts is in how many parts the window is read: a switch is not read every second.
func (s *snapshot) windowParts() int {
	if s.onSwitch == nil {
		return windowParts
	}
	return partsOnSwitch(s.slo)
}

func partsOnSwitch(slo *v1alpha1.ServiceLevelObjective) int {
	return min(max(int(slo.Spec.WindowSeconds)/(2*switchReadings), 1), windowParts)
}

// measuredBySwitch is what the switch that the target is on, or leaves, has measured.
func (r *Reconciler) measuredBySwitch(slo *v1alpha1.ServiceLevelObjective, target *v1alpha1.RpcService) *SwitchMeasured {
	if r.Switches == nil || target.Status.Switch == nil {
		return nil
	}
	m, known := r.Switches(target.Status.Switch.Name, target.Namespace, target.Name, time.Duration(slo.Spec.WindowSeconds)*time.Second, partsOnSwitch(slo))
	if !known {
		return nil
	}
	return &m
}

// addSwitch puts the switch beside the routers: each request was with one of them.
func (s *snapshot) addSwitch(target *v1alpha1.RpcService) {
	if s.onSwitch == nil {
		return
	}
	name := "switch " + target.Status.Switch.Name
	s.parts = append(s.parts, part{Name: name, Required: true, Reply: s.onSwitch.Window})
	if s.slow {
		s.records = append(s.records, record{Name: name, Required: true, Reply: s.onSwitch.History})
	}
}

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
