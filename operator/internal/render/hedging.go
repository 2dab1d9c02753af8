// SPDX-License-Identifier: Apache-2.0

package render

import (
	"math"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// TriedShare of the requests are copied to see whether servers let go of copies.
const TriedShare = 0.01

// delayPercentile of a Delayed service that names none.
const delayPercentile = 95

// HedgingMode is the mode that routers are told: routers know no Auto. decided is what
// stands in its place; nil: nothing yet.
func HedgingMode(s *v1alpha1.RpcService, decided *v1alpha1.HedgingStatus) v1alpha1.HedgingMode {
	switch h := s.Spec.Hedging; {
	case h == nil:
		return v1alpha1.HedgingOff
	case h.Mode != v1alpha1.HedgingAuto:
		return h.Mode
	case decided != nil && decided.Mode == v1alpha1.HedgingLoadAware && decided.Reason == v1alpha1.HedgingPays:
		return v1alpha1.HedgingLoadAware
	}
	return v1alpha1.HedgingProbe
}

// hedging is what a configuration says of hedged requests; nil: there are none.
func hedging(s *v1alpha1.RpcService, decided *v1alpha1.HedgingStatus) *dataplane.Hedging {
	h, mode := s.Spec.Hedging, HedgingMode(s, decided)
	if mode == v1alpha1.HedgingOff {
		return nil
	}
	percentile := int32(delayPercentile)
	if h.DelayPercentile != nil {
		percentile = *h.DelayPercentile
	}
	out := &dataplane.Hedging{
		Mode: string(mode), BusyPercent: int(h.BusyPercent), BudgetPercent: int(h.BudgetPercent),
		PercentilePer100000: int(percentile) * 1000,
	}
	if mode != v1alpha1.HedgingProbe && h.Cancellation != v1alpha1.CancellationNone {
		out.Cancellation = string(h.Cancellation)
	}
	if h.ProbePerMillion != nil {
		out.ProbePerMillion = int(*h.ProbePerMillion)
	}
	if TriesCancels(s, decided) {
		tryCancels(out)
	}
	return out
}

// TriesCancels says whether routers send a few copies only to see whether servers
// let go of them.
func TriesCancels(s *v1alpha1.RpcService, decided *v1alpha1.HedgingStatus) bool {
	h := s.Spec.Hedging
	return h != nil && decided != nil && h.Mode == v1alpha1.HedgingAuto && cancels(h) && decided.Reason == v1alpha1.HedgingTooFewCancels
}

func cancels(h *v1alpha1.RpcServiceHedging) bool {
	return h.Cancellation == v1alpha1.CancellationAnswered || h.Cancellation == v1alpha1.CancellationPreemptive
}

// tryCancels bounds the copies to one in a hundred requests besides the probes. Where
// servers might not let go, nobody is sent to a worker that is busy.
func tryCancels(h *dataplane.Hedging) {
	h.Mode, h.Cancellation = string(v1alpha1.HedgingLoadAware), string(v1alpha1.CancellationAnswered)
	h.BudgetPercent = min(h.BudgetPercent, int(math.Ceil(100*(TriedShare+float64(h.ProbePerMillion)/1e6))))
}
