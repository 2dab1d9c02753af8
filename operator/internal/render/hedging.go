// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// delayPercentile of a Delayed service that names none.
const delayPercentile = 95

// hedging is what a configuration says of second copies; nil: there are none.
func hedging(h *v1alpha1.RpcServiceHedging) *dataplane.Hedging {
	if h == nil || h.Mode == v1alpha1.HedgingOff {
		return nil
	}
	percentile := int32(delayPercentile)
	if h.DelayPercentile != nil {
		percentile = *h.DelayPercentile
	}
	out := &dataplane.Hedging{
		Mode: string(h.Mode), BusyPercent: int(h.BusyPercent), BudgetPercent: int(h.BudgetPercent),
		PercentilePer100000: int(percentile) * 1000,
	}
	if h.ProbePerMillion != nil {
		out.ProbePerMillion = int(*h.ProbePerMillion)
	}
	return out
}
