// SPDX-License-Identifier: Apache-2.0

// Mode Auto: hedged requests while both what was measured and a model of the
// service say that they pay.
package rpcservice

import (
	"fmt"
	"math"
	"slices"
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
	// cancelLag is the way of a CANCEL and its FEEDBACK, in mean service times, which
	// are measured with such a way in them: more than a service of which it is a
	// fourth is not for copies that are taken back.
	cancelLag = 0.25
)

// decideHedging says what routers do about hedged requests, and why, and which share of
// copies that can be taken back the model expects servers to let go of; 0: it was not
// asked.
func decideHedging(s *snapshot) (out *v1alpha1.HedgingStatus, expected float64) {
	spec := s.service.Spec.Hedging
	switch {
	case spec == nil:
		return nil, 0
	case spec.Mode != v1alpha1.HedgingAuto:
		return &v1alpha1.HedgingStatus{Mode: spec.Mode, Reason: v1alpha1.HedgingAsSpecified, Cancellation: cancellationOf(spec)}, 0
	case !decidesHedging(s):
		return s.service.Status.Hedging, 0
	}
	out, expected = askMeasurementAndModel(s, measuredJitter(s), judgedPercentile(s))
	compareTails(s, out)
	return out, expected
}

// decidesHedging says whether mode Auto is to be asked again.
func decidesHedging(s *snapshot) bool {
	spec, was := s.service.Spec.Hedging, s.service.Status.Hedging
	if spec == nil || spec.Mode != v1alpha1.HedgingAuto {
		return false
	}
	return was == nil || was.DecidedTime == nil || was.Cancellation != cancellationOf(spec) || s.now.Sub(was.DecidedTime.Time) >= standsFor(was)
}

// askMeasurementAndModel is the decision before anybody looks at what came of the
// last one.
func askMeasurementAndModel(s *snapshot, j jitter, p float64) (out *v1alpha1.HedgingStatus, expected float64) {
	spec := s.service.Spec.Hedging
	load := int32(math.Round(100 * math.Min(j.load, 10))) // clamped
	out = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingProbe, DecidedTime: &metav1.Time{Time: s.now}, LoadPercent: &load, Cancellation: cancellationOf(spec)}
	if out.Cancellation != v1alpha1.CancellationNone {
		out.Cancels = &v1alpha1.HedgingCancels{Expected: int64(s.counted.sum.expected), TakenBack: int64(s.counted.sum.taken)}
	}
	if out.Reason, out.Message = measuredEnough(j, p); out.Reason != "" {
		return out, 0
	}
	a := askModel(s, j, p)
	out.Reason, out.Message = a.reason, a.message
	if out.Reason == v1alpha1.HedgingPays {
		out.Mode = v1alpha1.HedgingLoadAware
	}
	return out, a.expected
}

// opinion is what the model makes of copies.
type opinion struct {
	reason   v1alpha1.HedgingReason
	message  string
	expected float64 // share of copies that servers let go of; 0: of none
}

// askModel: where copies can be taken back and nobody knows whether servers let go
// of them, copies must pay even if none does. If they pay only otherwise, a few are
// sent to see.
func askModel(s *snapshot, j jitter, percentile float64) opinion {
	all, cancels := services(s, j, percentile), s.counted.sum
	tell := func(a hedgemodel.Answer, expected float64) opinion {
		return opinion{v1alpha1.HedgingReason(a.Verdict), explainAnswer(a, j, cancels), expected}
	}
	if all[0].Cancel == hedgemodel.None {
		return tell(hedgemodel.AskAll(all...), 0)
	}
	expected := takenIfHeeded(all, 1)
	tries := render.TriesCancels(s.service, s.service.Status.Hedging)
	if heeded, known := cancels.heeded(); known && (!tries || cancels.expected >= triedCancels) {
		return tell(hedgemodel.AskAll(heed(all, heeded)...), expected)
	}
	if a := hedgemodel.AskAll(heed(all, 0)...); a.Verdict == hedgemodel.Pays {
		return tell(a, expected)
	}
	a := hedgemodel.AskAll(heed(all, 1)...)
	out := tell(a, expected)
	if a.Verdict != hedgemodel.Pays {
		return out
	}
	return opinion{v1alpha1.HedgingTooFewCancels, fmt.Sprintf("if servers let go of copies, of which so far %d of %d were, and some %d tell: ",
		int64(cancels.taken), int64(cancels.expected), triedCancels) + out.message, takenIfHeeded(all, render.TriedShare)}
}

// heed sets what becomes of CANCELs. What makes fewer of them end a copy than the
// model says may be servers that go on, and may be slow ones: of exponential service
// times 1 − e^−reaction end before. It counts as either.
func heed(all []hedgemodel.Service, share float64) []hedgemodel.Service {
	out := slices.Clone(all)
	for i := range out {
		out[i].Heeded = share
		if share > 0 {
			out[i].Reaction = -math.Log(share)
		}
		out[i].Lag = cancelLag + out[i].Reaction
	}
	return out
}

// takenIfHeeded is the share of copies that servers let go of if they all do, with so
// many copies per request, of that kind of service times of which it is more.
func takenIfHeeded(all []hedgemodel.Service, budget float64) float64 {
	most := 0.0
	for _, one := range heed([]hedgemodel.Service{all[0], all[len(all)/2]}, 1) {
		if budget < one.BudgetShare {
			one.BudgetShare, one.ProbeShare, one.Cancel = budget, 0, hedgemodel.Answered
		}
		one.Lag = 0
		most = math.Max(most, hedgemodel.Run(one).TakenBack)
	}
	return most
}

// standsFor is how long a decision stands: what only waits for probes is asked again
// soon, because no model is run for it.
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
		if err == nil && slo.Spec.TargetRef.Names(v1alpha1.TargetService, s.service.Name) && slo.DeletionTimestamp == nil {
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
	if render.HedgingMode(s.service, s.service.Status.Hedging) != v1alpha1.HedgingLoadAware {
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
	cancel := map[v1alpha1.HedgingCancellation]hedgemodel.Cancellation{v1alpha1.CancellationAnswered: hedgemodel.Answered,
		v1alpha1.CancellationPreemptive: hedgemodel.Preemptive}[spec.Hedging.Cancellation]
	probes := 0.0
	if cancel != hedgemodel.None && spec.Hedging.ProbePerMillion != nil {
		probes = float64(*spec.Hedging.ProbePerMillion) / 1e6
	}
	var out []hedgemodel.Service
	for _, fixed := range []bool{false, true} {
		for _, load := range loads {
			for _, share := range shares {
				out = append(out, hedgemodel.Service{
					Workers: min(max(countReadyWorkers(s), 1), mostModelled), Routers: routers, Depth: max(1, int(spec.Router.WorkerQueueDepth)/routers),
					Load: math.Max(load, leastLoad), HiccupShare: share, HiccupLength: j.hiccup / j.service, Fixed: fixed,
					BusyShare: float64(spec.Hedging.BusyPercent) / 100, BudgetShare: float64(spec.Hedging.BudgetPercent) / 100,
					Cancel: cancel, ProbeShare: probes, Percentile: percentile, Requests: modelled(percentile), Seed: 1,
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
func explainAnswer(a hedgemodel.Answer, j jitter, c cancelled) string {
	kind := "exponential"
	if a.Asked.Fixed {
		kind = "fixed"
	}
	written := func(v float64) string {
		return time.Duration(v * j.service * 1e9).Round(time.Duration(math.Max(1, math.Pow(10, math.Floor(math.Log10(v*j.service*1e9))-2)))).String()
	}
	return fmt.Sprintf("with copies%s the model says p%g %s instead of %s, p50 %s instead of %s, %.2f copies per request: "+
		"%s service times of %s, %.2g%% of them %s longer, %.0f%% load, %d workers, %d routers", explainCancels(a.Asked, c),
		a.Asked.Percentile*100, written(a.With.Tail), written(a.Without.Tail), written(a.With.Median), written(a.Without.Median), a.With.Copies,
		kind, written(1), a.Asked.HiccupShare*100, written(a.Asked.HiccupLength), a.Asked.Load*100, a.Asked.Workers, a.Asked.Routers)
}

// explainCancels names the cancellation and what is known of it.
func explainCancels(asked hedgemodel.Service, c cancelled) string {
	name := map[hedgemodel.Cancellation]v1alpha1.HedgingCancellation{hedgemodel.Answered: v1alpha1.CancellationAnswered,
		hedgemodel.Preemptive: v1alpha1.CancellationPreemptive}[asked.Cancel]
	_, known := c.heeded()
	switch {
	case asked.Cancel == hedgemodel.None:
		return ""
	case known:
		return fmt.Sprintf(", taken back %s as %d were of %d that can be,", name, int64(c.taken), int64(c.expected))
	case asked.Heeded == 0:
		return fmt.Sprintf(", cancellation %s, even if no server lets go of one,", name)
	}
	return fmt.Sprintf(", taken back %s,", name)
}
