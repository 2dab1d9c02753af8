// SPDX-License-Identifier: Apache-2.0

// The status of an objective, computed in one place.
package slo

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// writeStatus fills in the status from a plan.
func writeStatus(slo *v1alpha1.ServiceLevelObjective, p *plan, now time.Time) {
	st := &slo.Status
	st.ObservedGeneration = slo.Generation
	if old := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionMet); old == nil || old.Status != p.met.Status {
		st.LastChangeTime = &metav1.Time{Time: now}
	}
	verdict.SetAll(&st.Conditions, map[string]verdict.Verdict{
		v1alpha1.ConditionAccepted:   p.accepted,
		v1alpha1.ConditionProgrammed: p.programmed,
		v1alpha1.ConditionReady:      decideReady(p.accepted, p.programmed, p.met),
		v1alpha1.ConditionMet:        p.met,
	}, slo.Generation, now)
	st.Objective = duration(uint64(slo.Spec.LatencyMicroseconds) * 1000)
	st.SamplesRequired = p.required
	writeMeasurement(st, p.met, p.measured)
}

// writeSlow fills in what was read only now and then: error budgets and the
// estimated capacity.
func writeSlow(slo *v1alpha1.ServiceLevelObjective, s *snapshot, led *ledger, p *plan, now time.Time) {
	st := &slo.Status
	if s.target == nil && s.group == nil {
		st.ErrorBudgets, st.Capacity = nil, nil
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionCapacityKnown)
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionAttainable)
		return
	}
	writeBudgets(st, slo, s.records, led, now)
	known, capacity := decideCapacity(s, p.measured, p.required)
	st.Capacity = capacity
	verdict.SetAll(&st.Conditions, map[string]verdict.Verdict{
		v1alpha1.ConditionCapacityKnown: known, v1alpha1.ConditionAttainable: decideAttainable(known),
	}, slo.Generation, now)
}

// decideReady: an objective is ready while it is being measured, whatever the
// result, and enforced if it asks for that.
func decideReady(accepted, programmed, met verdict.Verdict) verdict.Verdict {
	switch {
	case accepted.Status != metav1.ConditionTrue:
		return verdict.No(v1alpha1.ReasonNotAccepted, accepted.Message)
	case met.Reason == v1alpha1.ReasonNoMeasurementSource, met.Reason == v1alpha1.ReasonMeasurementIncomplete:
		return verdict.No(v1alpha1.ReasonNotMeasuring, met.Message)
	}
	if programmed.Status != metav1.ConditionTrue {
		return verdict.No(v1alpha1.ReasonNotProgrammed, programmed.Message)
	}
	return verdict.Yes(v1alpha1.ReasonMeasuring, met.Message)
}

// writeMeasurement shows numbers only where there are any: without a source
// everything is blank, and a percentile stands there only when it rests on enough
// requests, if not always enough independent ones for a verdict.
func writeMeasurement(st *v1alpha1.ServiceLevelObjectiveStatus, met verdict.Verdict, m measurement) {
	st.Source = m.source
	st.Observed, st.ObservedMicroseconds, st.ObservedLowMicroseconds, st.ObservedHighMicroseconds, st.ObservedRange = "", nil, nil, nil, ""
	st.Samples, st.Unanswered, st.RequestsPerSecond, st.RejectedShare, st.WindowSeconds = nil, nil, nil, "", 0
	if m.source == v1alpha1.SourceNone {
		return
	}
	st.Samples, st.Unanswered = integer(m.samples), integer(m.unanswered)
	st.RequestsPerSecond = integer(uint64(math.Round(m.perSecond)))
	if m.source != v1alpha1.SourceClientNode { // a client does not learn who refused a connection: it never came to stand
		st.RejectedShare = share(m.rejected, m.requests)
	}
	st.WindowSeconds = int32(min(m.covered, 600)) // bounded by the histogram's reach
	if met.Status == metav1.ConditionUnknown && met.Reason != v1alpha1.ReasonTooFewIndependentSamples {
		return
	}
	st.Observed = written(m.value)
	st.ObservedMicroseconds = microseconds(m.value)
	st.ObservedLowMicroseconds = microseconds(m.low)
	st.ObservedHighMicroseconds = microseconds(m.high)
	st.ObservedRange = bothEnds(m.low, m.high)
}

// bothEnds writes both ends of a confidence interval, or the lower one alone where
// nothing finite bounds it above.
func bothEnds(low, high dataplane.Value) string {
	switch {
	case low.Bound != ll7.Finite:
		return written(low)
	case high.Bound != ll7.Finite:
		return ">=" + written(low)
	}
	return written(low) + "-" + written(high)
}

// microseconds is nothing for a value that is infinite.
func microseconds(v dataplane.Value) *int64 {
	if v.Bound == ll7.Infinite || v.Bound == ll7.NoValue {
		return nil
	}
	return integer((v.Nanoseconds + 999) / 1000)
}

func integer(n uint64) *int64 {
	v := int64(min(n, math.MaxInt64)) // clamped
	return &v
}
