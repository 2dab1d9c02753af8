// SPDX-License-Identifier: Apache-2.0

// What the routers' probes say of the jitter of a service.
package rpcservice

import (
	"math"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// jitter is what routers measured together. Times are in seconds.
type jitter struct {
	compared float64 // pairs of executions
	share    float64 // of executions that had a hiccup
	hiccup   float64 // how much longer these took, in the mean
	service  float64 // mean of the others
	load     float64 // share of the workers that was busy with first copies
}

// measuredJitter merges: counts add up, means weigh by what they are the mean of,
// and a worker is as busy as all routers together make it.
func measuredJitter(s *snapshot) jitter {
	var j jitter
	var hiccups, longer, service float64
	for _, p := range s.routers {
		h := hedgingOf(s.states[p.Name])
		if h == nil {
			continue
		}
		n := float64(h.Compared)
		j.compared += n
		j.load += float64(h.BusyMillionths) / 1e6
		hiccups += n * float64(h.HiccupMillionths)
		longer += n * float64(h.HiccupMillionths) * float64(h.HiccupNanoseconds)
		service += n * float64(h.ServiceNanoseconds)
	}
	if j.compared > 0 {
		j.share, j.service = hiccups/j.compared/1e6, service/j.compared/1e9
	}
	if hiccups > 0 {
		j.hiccup = longer / hiccups / 1e9
	}
	return j
}

// jitterStatus is that for people; nil: nobody has compared anything.
func jitterStatus(s *snapshot) *v1alpha1.JitterStatus {
	j := measuredJitter(s)
	if j.compared == 0 {
		return nil
	}
	return &v1alpha1.JitterStatus{
		Compared: twoDigits(j.compared), HiccupsPerMillion: twoDigits(math.Round(j.share * 1e6)),
		ServiceMicroseconds: twoDigits(math.Round(j.service * 1e6)), HiccupMicroseconds: twoDigits(math.Round(j.hiccup * 1e6)),
	}
}

func hedgingOf(a stateRead) *dataplane.HedgingState {
	if a.Reply == nil || a.Reply.Dataplane == nil {
		return nil
	}
	return a.Reply.Dataplane.Hedging
}

// twoDigits keeps a status from being written again for every request.
func twoDigits(v float64) int64 {
	unit := int64(1)
	for n := int64(v); n/unit >= 100; {
		unit *= 10
	}
	return int64(v) / unit * unit
}
