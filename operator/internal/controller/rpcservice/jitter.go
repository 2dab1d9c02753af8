// SPDX-License-Identifier: Apache-2.0

// What the routers' probes say of the jitter of a service.
package rpcservice

import (
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// jitterStatus merges what the routers measured: counts add up, means weigh by
// what they are the mean of. Nil: nobody has compared anything.
func jitterStatus(s *snapshot) *v1alpha1.JitterStatus {
	var compared, hiccups, longer, service float64
	for _, p := range s.routers {
		h := hedgingOf(s.states[p.Name])
		if h == nil {
			continue
		}
		n := float64(h.Compared)
		compared += n
		hiccups += n * float64(h.HiccupMillionths)
		longer += n * float64(h.HiccupMillionths) * float64(h.HiccupNanoseconds)
		service += n * float64(h.ServiceNanoseconds)
	}
	if compared == 0 {
		return nil
	}
	out := &v1alpha1.JitterStatus{
		Compared: twoDigits(compared), HiccupsPerMillion: twoDigits(hiccups / compared),
		ServiceMicroseconds: twoDigits(service / compared / 1000),
	}
	if hiccups > 0 {
		out.HiccupMicroseconds = twoDigits(longer / hiccups / 1000)
	}
	return out
}

func hedgingOf(a answer) *dataplane.HedgingState {
	if a.state == nil || a.state.Dataplane == nil {
		return nil
	}
	return a.state.Dataplane.Hedging
}

// twoDigits keeps a status from being written again for every request.
func twoDigits(v float64) int64 {
	unit := int64(1)
	for n := int64(v); n/unit >= 100; {
		unit *= 10
	}
	return int64(v) / unit * unit
}
