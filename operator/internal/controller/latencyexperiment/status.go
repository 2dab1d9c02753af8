// SPDX-License-Identifier: Apache-2.0

// The status of an experiment, computed in one place.
package latencyexperiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
)

// Bounds of the schema.
const (
	maxReason  = 512
	maxTarget  = 1024
	maxResults = 40
)

func writeStatus(e *v1alpha1.LatencyExperiment, accepted, programmed verdict.Verdict, o outcome, now time.Time) {
	st := &e.Status
	st.ObservedGeneration = e.Generation
	if o.over {
		st.Results = results(o.summary)
		st.Loads, st.Observed = int32(len(st.Results)), observed(st.Results) // at most maxResults
	}
	ready := decideReady(accepted, o)
	verdict.SetAll(&st.Conditions, map[string]verdict.Verdict{
		v1alpha1.ConditionAccepted: accepted, v1alpha1.ConditionProgrammed: programmed,
		v1alpha1.ConditionReady: ready, v1alpha1.ConditionConclusive: decideConclusive(ready, st.Results),
	}, e.Generation, now)
}

func results(s report.Summary) []v1alpha1.ExperimentResult {
	var out []v1alpha1.ExperimentResult
	for _, l := range s.Loads[:min(len(s.Loads), maxResults)] {
		r := v1alpha1.ExperimentResult{
			OfferedRequestsPerSecond: max(l.Offered, 0), AchievedRequestsPerSecond: max(l.Achieved, 0),
			ObservedMicroseconds: l.Value, ObservedLowMicroseconds: l.Low, ObservedHighMicroseconds: l.High,
			Verdict: v1alpha1.VerdictInconclusive, Reason: message.Bounded(l.Reason, maxReason),
		}
		switch {
		case s.Changing:
			start := max(l.Start, 0)
			r.Verdict, r.StartSeconds = v1alpha1.VerdictFollowed, &start
		case l.Conclusive:
			r.Verdict = v1alpha1.VerdictConclusive
		}
		out = append(out, r)
	}
	return out
}

// observed speaks of the highest load that may be trusted, of none when there is
// none; of a load that changes it names the worst phase.
func observed(all []v1alpha1.ExperimentResult) string {
	if worst := worstPhase(all); worst != nil {
		return fmt.Sprintf("up to %dus at %d/s", *worst.ObservedMicroseconds, worst.OfferedRequestsPerSecond)
	}
	for _, r := range slices.Backward(all) {
		if r.Verdict == v1alpha1.VerdictConclusive && r.ObservedMicroseconds != nil && r.ObservedLowMicroseconds != nil && r.ObservedHighMicroseconds != nil {
			return fmt.Sprintf("%dus (%d-%dus) at %d/s", *r.ObservedMicroseconds, *r.ObservedLowMicroseconds, *r.ObservedHighMicroseconds, r.OfferedRequestsPerSecond)
		}
	}
	return ""
}

// worstPhase is the followed phase with the highest percentile; nil when there is
// none, or the percentile of one is infinite.
func worstPhase(all []v1alpha1.ExperimentResult) (worst *v1alpha1.ExperimentResult) {
	for i := range all {
		r := &all[i]
		if r.Verdict != v1alpha1.VerdictFollowed || r.ObservedMicroseconds == nil {
			return nil
		}
		if worst == nil || *r.ObservedMicroseconds > *worst.ObservedMicroseconds {
			worst = r
		}
	}
	return worst
}
