// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// what the specification says arrives in the document, Off and absence
// leave it out.
func TestR249HedgingIsRendered(t *testing.T) {
	probes, percentile := int32(2000), int32(90)
	full := v1alpha1.RpcServiceHedging{Mode: v1alpha1.HedgingDelayed, BusyPercent: 40, BudgetPercent: 5, DelayPercentile: &percentile, ProbePerMillion: &probes}
	least := v1alpha1.RpcServiceHedging{Mode: v1alpha1.HedgingLoadAware, BusyPercent: 50, BudgetPercent: 100}
	preempts, decides := least, least
	preempts.Cancellation = v1alpha1.CancellationPreemptive
	decides.Mode, decides.Cancellation = v1alpha1.HedgingAuto, v1alpha1.CancellationAnswered
	least.Cancellation = v1alpha1.CancellationNone
	asks := decides
	asks.Cancellation, asks.ProbePerMillion = v1alpha1.CancellationPreemptive, &probes
	off := full
	off.Mode = v1alpha1.HedgingOff
	auto := least
	auto.Mode = v1alpha1.HedgingAuto
	for _, c := range []struct {
		name    string
		in      *v1alpha1.RpcServiceHedging
		decided *v1alpha1.HedgingStatus
		want    *dataplane.Hedging
	}{
		{"absent", nil, nil, nil},
		{"off", &off, nil, nil},
		{"least", &least, nil, &dataplane.Hedging{Mode: "LoadAware", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000}},
		{"full", &full, nil, &dataplane.Hedging{Mode: "Delayed", BusyPercent: 40, BudgetPercent: 5, PercentilePer100000: 90000, ProbePerMillion: 2000}},
		{"preemptive", &preempts, nil, &dataplane.Hedging{Mode: "LoadAware", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000, Cancellation: "Preemptive"}},
		{"auto with cancellation, undecided", &decides, nil, &dataplane.Hedging{Mode: "Probe", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000}},
		{"auto with cancellation, pays", &decides, &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays},
			&dataplane.Hedging{Mode: "LoadAware", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000, Cancellation: "Answered"}},
		{"auto, nobody knows whether servers let go", &decides, &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingProbe, Reason: v1alpha1.HedgingTooFewCancels},
			&dataplane.Hedging{Mode: "LoadAware", BusyPercent: 50, BudgetPercent: 1, PercentilePer100000: 95000, Cancellation: "Answered"}},
		{"the same with probes, and Preemptive", &asks, &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingProbe, Reason: v1alpha1.HedgingTooFewCancels},
			&dataplane.Hedging{Mode: "LoadAware", BusyPercent: 50, BudgetPercent: 2, PercentilePer100000: 95000, ProbePerMillion: 2000, Cancellation: "Answered"}},
		{"the same, without cancellation any more", &auto, &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingProbe, Reason: v1alpha1.HedgingTooFewCancels},
			&dataplane.Hedging{Mode: "Probe", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000}},
		{"auto, undecided", &auto, nil, &dataplane.Hedging{Mode: "Probe", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000}},
		{"auto, pays", &auto, &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays},
			&dataplane.Hedging{Mode: "LoadAware", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000}},
		{"auto, from a service that was LoadAware", &auto, &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingAsSpecified},
			&dataplane.Hedging{Mode: "Probe", BusyPercent: 50, BudgetPercent: 100, PercentilePer100000: 95000}},
	} {
		s := &v1alpha1.RpcService{}
		s.Spec.Hedging = c.in
		got := Config(s, Peers{Hedging: c.decided}).Service.Hedging
		if (got == nil) != (c.want == nil) || (got != nil && *got != *c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
