// SPDX-License-Identifier: Apache-2.0

// Mode Auto: second copies while both what was measured and a model of the
// service say that they pay.
package rpcservice

import (
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/hedgemodel"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const (
	// decideEvery is how long a decision stands at least.
	decideEvery = time.Minute
	// enoughHiccups must have been seen before one speaks of how often they are.
	enoughHiccups = 10
	// mostModelled workers: more of them change nothing but the time it takes.
	mostModelled = 64
	leastLoad    = 0.01
)

// decideHedging says what routers do about second copies, and why.
func decideHedging(s *snapshot) *v1alpha1.HedgingStatus {
	spec, was := s.service.Spec.Hedging, s.service.Status.Hedging
	switch {
	case spec == nil:
		return nil
	case spec.Mode != v1alpha1.HedgingAuto:
		return &v1alpha1.HedgingStatus{Mode: spec.Mode, Reason: v1alpha1.HedgingAsSpecified}
	case was != nil && was.DecidedTime != nil && s.now.Sub(was.DecidedTime.Time) < standsFor(was):
		return was
	}
	j, p := measuredJitter(s), judgedPercentile(s)
	load := int32(math.Round(100 * math.Min(j.load, 10))) // clamped
	out := &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingProbe, DecidedTime: &metav1.Time{Time: s.now}, LoadPercent: &load}
	if out.Reason, out.Message = measuredEnough(j, p); out.Reason != "" {
		return out
	}
	answer := hedgemodel.AskAll(services(s, j, p)...)
	out.Reason, out.Message = v1alpha1.HedgingReason(answer.Verdict), explainAnswer(answer, j)
	if answer.Verdict == hedgemodel.Pays {
		out.Mode = v1alpha1.HedgingLoadAware
	}
	return out
}

// standsFor is how long a decision stands: what only waits for probes is asked
// again soon, because it costs nothing.
func standsFor(was *v1alpha1.HedgingStatus) time.Duration {
	if was.Reason == v1alpha1.HedgingTooFewProbes {
		return decideEvery / 6
	}
	return decideEvery
}

// judgedPercentile is the one that matters to the service: the highest of its
// objectives, but not one that no probes could reach in time; else p99.
func judgedPercentile(s *snapshot) float64 {
	p := 99.0
	for i := range s.objectives {
		slo := &s.objectives[i]
		v, err := strconv.ParseFloat(slo.Spec.Percentile, 64)
		if err == nil && slo.Spec.TargetRef.Name == s.service.Name && slo.DeletionTimestamp == nil {
			p = math.Max(p, math.Min(v, 99.9))
		}
	}
	return p / 100
}

// measuredEnough says no before any model is asked; an empty reason: go on.
func measuredEnough(j jitter, percentile float64) (reason v1alpha1.HedgingReason, message string) {
	// So many pairs show hiccups half as frequent as would reach the percentile.
	needed := enoughHiccups / (1 - percentile)
	seen := hiccupsSeen(j)
	switch {
	case j.service == 0 || (seen < enoughHiccups && j.compared < needed):
		return v1alpha1.HedgingTooFewProbes, fmt.Sprintf("%d requests were executed twice at once; %d show hiccups that matter to p%g, or that there are none",
			twoDigits(j.compared), twoDigits(needed), percentile*100)
	case seen < enoughHiccups:
		return v1alpha1.HedgingNoHiccups, fmt.Sprintf("of %d requests that were executed twice at once %d took much longer once",
			twoDigits(j.compared), twoDigits(seen))
	}
	return "", ""
}

// hiccupsSeen is how many of the pairs differed.
func hiccupsSeen(j jitter) float64 { return j.compared * 2 * j.share * (1 - j.share) }

// services are those that have to profit: the measured one, of either kind of
// service times, as nobody measured these; and before copies are switched on also
// a busier one and one with the fewest hiccups that the probes allow, so that what
// is switched on is not switched off again by noise.
func services(s *snapshot, j jitter, percentile float64) []hedgemodel.Service {
	loads, shares := []float64{j.load}, []float64{j.share}
	if render.HedgingMode(s.service) != v1alpha1.HedgingLoadAware {
		loads = append(loads, 1.2*j.load+0.02)
		shares = append(shares, j.share*math.Max(0, 1-1.96/math.Sqrt(hiccupsSeen(j))))
	}
	routers := 0
	for _, p := range s.routers {
		if hedgingOf(s.states[p.Name]) != nil {
			routers++
		}
	}
	routers = max(routers, 1)
	spec := s.service.Spec
	var out []hedgemodel.Service
	for _, fixed := range []bool{false, true} {
		for _, load := range loads {
			for _, share := range shares {
				out = append(out, hedgemodel.Service{
					Workers: min(max(countReadyWorkers(s), 1), mostModelled), Routers: routers, Depth: max(1, int(spec.Router.WorkerQueueDepth)/routers),
					Load: math.Max(load, leastLoad), HiccupShare: share, HiccupLength: j.hiccup / j.service, Fixed: fixed,
					BusyShare: float64(spec.Hedging.BusyPercent) / 100, BudgetShare: float64(spec.Hedging.BudgetPercent) / 100,
					Percentile: percentile, Requests: modelled(percentile), Seed: 1,
				})
			}
		}
	}
	return out
}

// modelled requests: sixty or more lie beyond the percentile.
func modelled(percentile float64) int {
	return int(math.Min(60000, math.Max(20000, 200/(1-percentile))))
}

// explainAnswer gives the model's numbers in the units of the service.
func explainAnswer(a hedgemodel.Answer, j jitter) string {
	kind := "exponential"
	if a.Asked.Fixed {
		kind = "fixed"
	}
	written := func(v float64) string {
		return time.Duration(v * j.service * 1e9).Round(time.Duration(math.Max(1, math.Pow(10, math.Floor(math.Log10(v*j.service*1e9))-2)))).String()
	}
	return fmt.Sprintf("with copies the model says p%g %s instead of %s, p50 %s instead of %s, %.2f copies per request: "+
		"%s service times of %s, %.2g%% of them %s longer, %.0f%% load, %d workers, %d routers",
		a.Asked.Percentile*100, written(a.With.Tail), written(a.Without.Tail), written(a.With.Median), written(a.Without.Median), a.With.Copies,
		kind, written(1), a.Asked.HiccupShare*100, written(a.Asked.HiccupLength), a.Asked.Load*100, a.Asked.Workers, a.Asked.Routers)
}
