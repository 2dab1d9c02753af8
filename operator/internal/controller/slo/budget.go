// SPDX-License-Identifier: Apache-2.0

// The error budget: how many slow requests the objective allows, and how many
// there were, over an hour and over a day.
package slo

import (
	"fmt"
	"math"
	"math/big"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// writeBudgets fills in the budgets from the ledger. They are absent while a
// router cannot be read, as what it saw is part of them.
func writeBudgets(st *v1alpha1.ServiceLevelObjectiveStatus, slo *v1alpha1.ServiceLevelObjective, records []record, led *ledger, now time.Time) {
	st.ErrorBudgets, st.ErrorRecord = nil, led.record
	_, sources := wholeSince(records)
	if len(unread(records)) > 0 || sources == 0 {
		return
	}
	st.HistorySince = &metav1.Time{Time: led.since.Truncate(time.Second)}
	st.MeasuredBy = sources
	for _, window := range []time.Duration{hour, day} {
		st.ErrorBudgets = append(st.ErrorBudgets, budget(slo, window, over(led.slices, window, now)))
	}
}

// wholeSince is from when on every record that counts is there, and how many
// routers or servers keep one.
func wholeSince(records []record) (since time.Time, sources int32) {
	for _, r := range records {
		if !kept(r) {
			continue
		}
		sources++
		if r.Required && r.Reply.Started.After(since) {
			since = r.Reply.Started
		}
	}
	return since, sources
}

func budget(slo *v1alpha1.ServiceLevelObjective, window time.Duration, c v1alpha1.ErrorCounts) v1alpha1.ErrorBudget {
	return v1alpha1.ErrorBudget{
		WindowSeconds: int32(window / time.Second), // 86400 at most
		Requests:      c.Requests, Violations: c.Violations, Rejected: c.Rejected,
		Remaining: remaining(slo.Spec.Percentile, uint64(max(c.Requests, 0)), uint64(max(c.Violations, 0))),
	}
}

// violations counts the requests above the objective. One whose bucket reaches
// above it counts: the doubt goes against the service.
func violations(h *ll7.Histogram, slo *v1alpha1.ServiceLevelObjective) uint64 {
	return h.Total() - h.CountAtMost(uint64(slo.Spec.LatencyMicroseconds)*1000)
}

// remaining is 1 - violations / allowed, as in "87.3%"; below zero once more
// was spent than there was.
func remaining(percentile string, total, bad uint64) string {
	p, ok := new(big.Rat).SetString(percentile)
	if !ok || total == 0 {
		return "100.0%"
	}
	share, _ := new(big.Rat).Quo(p, big.NewRat(100, 1)).Float64()
	left := 1 - float64(bad)/((1-share)*float64(total))
	return fmt.Sprintf("%.1f%%", 100*math.Max(left, lowestBudget))
}

// lowestBudget keeps the text short: a hundred times overspent says it all.
const lowestBudget = -100
