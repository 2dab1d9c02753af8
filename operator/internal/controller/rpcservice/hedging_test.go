// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// anAutoService has 16 workers that are ready, and two routers that say the same.
func anAutoService(h dataplane.HedgingState) *snapshot {
	service := aService()
	service.Spec.Hedging = &v1alpha1.RpcServiceHedging{Mode: v1alpha1.HedgingAuto, BusyPercent: 50, BudgetPercent: 100}
	service.Spec.WorkersPerReplica = 8
	s := &snapshot{service: service, now: time.Unix(1000, 0), servers: pods("RJ RJ"), routers: pods("R R"), states: map[string]stateRead{}}
	for _, p := range s.servers {
		p.Annotations = map[string]string{"bobtail.dev/workers": "8"}
	}
	for i, p := range s.routers {
		p.Name = "router" + string(rune('a'+i))
		s.states[p.Name] = stateRead{Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{Hedging: &h}}}
	}
	return s
}

// decidedHedging is the decision alone.
func decidedHedging(s *snapshot) *v1alpha1.HedgingStatus {
	out, _ := decideHedging(s)
	return out
}

// jittery: 2 % of the executions take 15 ms longer than 1 ms; each router keeps
// a tenth of the workers busy.
func jittery() dataplane.HedgingState {
	return dataplane.HedgingState{Mode: "Probe", BusyMillionths: 100_000, Compared: 5000, HiccupMillionths: 20_000,
		HiccupNanoseconds: 15_000_000, ServiceNanoseconds: 1_000_000}
}

// what is measured and what the model makes of it decide, and the status
// says why.
func TestR254AutoDecides(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*dataplane.HedgingState)
		mode   v1alpha1.HedgingMode
		reason v1alpha1.HedgingReason
		says   string
	}{
		{"jitter makes the tail", func(*dataplane.HedgingState) {}, v1alpha1.HedgingLoadAware, v1alpha1.HedgingPays, "instead of 16ms"},
		{"nothing compared", func(h *dataplane.HedgingState) { *h = dataplane.HedgingState{Mode: "Probe"} },
			v1alpha1.HedgingProbe, v1alpha1.HedgingTooFewProbes, "0 requests were executed twice"},
		{"too few", func(h *dataplane.HedgingState) { h.Compared = 40 }, v1alpha1.HedgingProbe, v1alpha1.HedgingTooFewProbes, "80 requests"},
		{"no hiccups", func(h *dataplane.HedgingState) { h.HiccupMillionths, h.HiccupNanoseconds = 0, 0 },
			v1alpha1.HedgingProbe, v1alpha1.HedgingNoHiccups, "of 10000 requests"},
		{"too rare for p99", func(h *dataplane.HedgingState) { h.HiccupMillionths = 2000 },
			v1alpha1.HedgingProbe, v1alpha1.HedgingTailTooLittle, "p99"},
		{"overloaded", func(h *dataplane.HedgingState) { h.BusyMillionths = 520_000 },
			v1alpha1.HedgingProbe, v1alpha1.HedgingOverloaded, "104% load"},
	} {
		h := jittery()
		c.edit(&h)
		got := decidedHedging(anAutoService(h))
		if got.Mode != c.mode || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s %s %q", c.name, got.Mode, got.Reason, got.Message)
		}
		if got.LoadPercent == nil || got.Reason == v1alpha1.HedgingOverloaded && *got.LoadPercent != 104 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// inCancels is that service with cancellation, at a load at which copies pay only if
// they are taken back, and what is known of CANCELs.
func inCancels(c v1alpha1.HedgingCancellation, known cancelled) *snapshot {
	h := jittery()
	h.BusyMillionths = 250_000
	s := anAutoService(h)
	s.service.Spec.Hedging.Cancellation, s.service.Spec.Hedging.BusyPercent = c, 100
	s.counted.sum = known
	s.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays} // less to ask
	return s
}

// cancellation counts as far as servers are known to let go of copies, and the
// status names it.
func TestR254AutoCountsOnCancels(t *testing.T) {
	const none, answered, preemptive = v1alpha1.CancellationNone, v1alpha1.CancellationAnswered, v1alpha1.CancellationPreemptive
	for _, c := range []struct {
		name   string
		cancel v1alpha1.HedgingCancellation
		known  cancelled
		mode   v1alpha1.HedgingMode
		reason v1alpha1.HedgingReason
		says   string
	}{
		{"no cancellation", none, cancelled{}, v1alpha1.HedgingProbe, v1alpha1.HedgingMedianRises, "with copies the model"},
		{"nothing known", preemptive, cancelled{}, v1alpha1.HedgingProbe, v1alpha1.HedgingTooFewCancels, "taken back Preemptive, the model"},
		{"too little known", preemptive, cancelled{49, 49}, v1alpha1.HedgingProbe, v1alpha1.HedgingTooFewCancels, "49 of 49"},
		{"servers let go", preemptive, cancelled{2000, 1990}, v1alpha1.HedgingLoadAware, v1alpha1.HedgingPays, "taken back Preemptive as 1990 were of 2000"},
		{"servers go on", preemptive, cancelled{2000, 0}, v1alpha1.HedgingProbe, v1alpha1.HedgingMedianRises, "as 0 were of 2000"},
		{"half of them", preemptive, cancelled{2000, 1000}, v1alpha1.HedgingProbe, v1alpha1.HedgingMedianRises, "as 1000 were of 2000"},
		{"only what was answered", answered, cancelled{2000, 2000}, v1alpha1.HedgingLoadAware, v1alpha1.HedgingPays, "taken back Answered as 2000"},
	} {
		got := decidedHedging(inCancels(c.cancel, c.known))
		if got.Mode != c.mode || got.Reason != c.reason || !strings.Contains(got.Message, c.says) || got.Cancellation != c.cancel {
			t.Errorf("%s: %s %s %s %q", c.name, got.Mode, got.Reason, got.Cancellation, got.Message)
		}
		if (got.Cancels != nil) != (c.cancel != none) || (got.Cancels != nil && got.Cancels.Expected != int64(c.known.expected)) {
			t.Errorf("%s: %+v", c.name, got.Cancels)
		}
	}
	s := inCancels(preemptive, cancelled{})
	s.states["routera"].Reply.Dataplane.Hedging.BusyMillionths = 0 // both routers say the same
	if got := decidedHedging(s); got.Reason != v1alpha1.HedgingPays || !strings.Contains(got.Message, "even if no server lets go") {
		t.Errorf("where copies pay anyway: %+v", got)
	}
}

// what a trial found holds for a while: it goes on until there is more than is
// needed to know.
func TestR254ATrialFindsOutForAWhile(t *testing.T) {
	for _, c := range []struct {
		was  v1alpha1.HedgingReason
		seen float64
		want v1alpha1.HedgingReason
	}{
		{v1alpha1.HedgingTooFewCancels, enoughCancels, v1alpha1.HedgingTooFewCancels},
		{v1alpha1.HedgingTooFewCancels, triedCancels, v1alpha1.HedgingMedianRises},
		{v1alpha1.HedgingMedianRises, enoughCancels, v1alpha1.HedgingMedianRises},
		{v1alpha1.HedgingMedianRises, enoughCancels - 1, v1alpha1.HedgingTooFewCancels},
	} {
		s := inCancels(v1alpha1.CancellationPreemptive, cancelled{c.seen, 0})
		s.service.Status.Hedging = &v1alpha1.HedgingStatus{Reason: c.was}
		if got := decidedHedging(s); got.Reason != c.want {
			t.Errorf("%s with %v expected: %s, want %s", c.was, c.seen, got.Reason, c.want)
		}
	}
}

// a decision about one cancellation says nothing of another.
func TestR254AnotherCancellationIsAnotherQuestion(t *testing.T) {
	s := inCancels(v1alpha1.CancellationPreemptive, cancelled{2000, 2000})
	s.service.Status.Hedging = decidedHedging(s)
	s.service.Spec.Hedging.Cancellation = ""
	if got := decidedHedging(s); got.Mode != v1alpha1.HedgingProbe || got.Cancellation != v1alpha1.CancellationNone {
		t.Errorf("%+v", got)
	}
}

// Two workers: requests would wait behind copies.
func TestR254TheMedianCounts(t *testing.T) {
	h := jittery()
	h.BusyMillionths = 150_000
	s := anAutoService(h)
	s.servers = s.servers[:1]
	s.servers[0].Annotations["bobtail.dev/workers"] = "2"
	if got := decidedHedging(s); got.Reason != v1alpha1.HedgingMedianRises {
		t.Errorf("%+v", got)
	}
}

// Hiccups that p99 does not see count when an objective looks further out.
func TestR254ObjectivesChooseThePercentile(t *testing.T) {
	h := jittery()
	h.HiccupMillionths, h.Compared, h.BusyMillionths = 3000, 20000, 10_000
	s := anAutoService(h)
	if got := decidedHedging(s); got.Reason != v1alpha1.HedgingTailTooLittle {
		t.Errorf("p99: %+v", got)
	}
	slo := v1alpha1.ServiceLevelObjective{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "far"}}
	slo.Spec.TargetRef.Name, slo.Spec.Percentile = "echo", "99.9"
	s.objectives = []v1alpha1.ServiceLevelObjective{slo}
	if got := decidedHedging(s); got.Reason != v1alpha1.HedgingPays || !strings.Contains(got.Message, "p99.9") {
		t.Errorf("p99.9: %+v", got)
	}
}

// the service's own objectives choose, those that are there, up to p99.9.
func TestR254JudgedPercentile(t *testing.T) {
	of := func(target, percentile string, gone bool) v1alpha1.ServiceLevelObjective {
		slo := v1alpha1.ServiceLevelObjective{}
		slo.Spec.TargetRef.Name, slo.Spec.Percentile = target, percentile
		if gone {
			slo.DeletionTimestamp = &metav1.Time{}
		}
		return slo
	}
	for _, c := range []struct {
		name string
		all  []v1alpha1.ServiceLevelObjective
		want float64
	}{
		{"none", nil, 0.99}, {"lower", []v1alpha1.ServiceLevelObjective{of("echo", "50", false)}, 0.99},
		{"beyond what probes reach", []v1alpha1.ServiceLevelObjective{of("echo", "99.99", false), of("echo", "99.5", false)}, 0.999},
		{"of another service", []v1alpha1.ServiceLevelObjective{of("other", "99.9", false)}, 0.99},
		{"being deleted", []v1alpha1.ServiceLevelObjective{of("echo", "99.9", true)}, 0.99},
	} {
		s := anAutoService(jittery())
		s.objectives = c.all
		if got := judgedPercentile(s); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// what has to profit: either kind of service times; before copies are
// switched on also a busier service and one with fewer hiccups.
func TestR254Services(t *testing.T) {
	s := anAutoService(jittery())
	s.service.Spec.Router.WorkerQueueDepth, s.service.Spec.Hedging.BudgetPercent = 5, 30
	j := jitter{compared: 10_000, share: 0.02, hiccup: 0.015, service: 0.001, load: 0.2}
	all := services(s, j, 0.99)
	if len(all) != 8 {
		t.Fatalf("%d services", len(all))
	}
	seen := map[string]int{}
	fewest := 0.02 * (1 - 1.96/math.Sqrt(10_000*2*0.02*0.98))
	for _, a := range all {
		if a.Workers != 16 || a.Routers != 2 || a.Depth != 2 || math.Abs(a.HiccupLength-15) > 1e-9 || a.BusyShare != 0.5 || a.BudgetShare != 0.3 || a.Percentile != 0.99 {
			t.Errorf("%+v", a)
		}
		seen[fmt.Sprintf("%v %.3f %.5f", a.Fixed, a.Load, a.HiccupShare)]++
	}
	for _, want := range []float64{0.02, fewest} {
		for _, load := range []float64{0.2, 0.26} {
			for _, fixed := range []bool{false, true} {
				if seen[fmt.Sprintf("%v %.3f %.5f", fixed, load, want)] != 1 {
					t.Errorf("fixed %v, load %v, share %v: %v", fixed, load, want, seen)
				}
			}
		}
	}
	s.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays}
	if all = services(s, j, 0.99); len(all) != 2 || all[0].Load != 0.2 || all[1].HiccupShare != 0.02 {
		t.Errorf("to stay on: %+v", all)
	}
	j.compared, j.load = 3, 0 // of almost nothing: no share below 0, no service without load
	for _, a := range services(anAutoService(jittery()), j, 0.99) {
		if a.HiccupShare < 0 || a.Load < leastLoad {
			t.Errorf("%+v", a)
		}
	}
}

// pairs differ where one of the two had a hiccup; a decision that waits for
// probes is made again soon.
func TestR254Probes(t *testing.T) {
	if got := hiccupsSeen(jitter{compared: 1000, share: 0.1}); math.Abs(got-180) > 1e-9 {
		t.Errorf("%v of 1000 pairs differ", got)
	}
	if r, _ := measuredEnough(jitter{compared: 1e6, share: 0.1}, 0.99); r != v1alpha1.HedgingTooFewProbes {
		t.Errorf("%q without a service time", r)
	}
	if r, _ := measuredEnough(jitter{compared: 100, share: 0.1, service: 1}, 0.99); r != "" {
		t.Errorf("%q: 18 hiccups in 100 pairs are enough", r)
	}
	soon := standsFor(&v1alpha1.HedgingStatus{Reason: v1alpha1.HedgingTooFewProbes})
	if usual := standsFor(&v1alpha1.HedgingStatus{Reason: v1alpha1.HedgingPays}); usual != time.Minute || soon != 10*time.Second {
		t.Errorf("%v and %v", soon, usual)
	}
}

// A decision stands for a while, then is made again; it asks for less to stay on
// than to switch on.
func TestR254DecisionsStand(t *testing.T) {
	s := anAutoService(jittery())
	s.service.Status.Hedging = decidedHedging(s)
	if s.service.Status.Hedging.Mode != v1alpha1.HedgingLoadAware {
		t.Fatalf("%+v", s.service.Status.Hedging)
	}
	s.states = map[string]stateRead{}
	s.now = s.now.Add(decideEvery - time.Second)
	if got := decidedHedging(s); got.Mode != v1alpha1.HedgingLoadAware {
		t.Errorf("within the time: %+v", got)
	}
	s.now = s.now.Add(2 * time.Second)
	if got := decidedHedging(s); got.Mode != v1alpha1.HedgingProbe || got.Reason != v1alpha1.HedgingTooFewProbes {
		t.Errorf("after it, with routers that know nothing: %+v", got)
	}

	edge := jittery()
	edge.HiccupMillionths, edge.Compared = 11_500, 600 // the fewest the probes allow do not reach p99
	off, on := anAutoService(edge), anAutoService(edge)
	off.routers, on.routers = off.routers[:1], on.routers[:1] // two meet at a worker, which copies help with
	on.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays}
	if got := decidedHedging(off); got.Mode != v1alpha1.HedgingProbe {
		t.Errorf("switched on at the edge: %+v", got)
	}
	if got := decidedHedging(on); got.Mode != v1alpha1.HedgingLoadAware {
		t.Errorf("switched off at the edge: %+v", got)
	}
}

func TestHedgingStatusOfOtherModes(t *testing.T) {
	s := anAutoService(jittery())
	s.service.Spec.Hedging.Mode = v1alpha1.HedgingDelayed
	if got := decidedHedging(s); got.Mode != v1alpha1.HedgingDelayed || got.Reason != v1alpha1.HedgingAsSpecified {
		t.Errorf("%+v", got)
	}
	s.service.Spec.Hedging = nil
	if got := decidedHedging(s); got != nil {
		t.Errorf("%+v", got)
	}
}

// Under CRDs of 0.1.0 nobody can ask for copies, and what a newer API remembered is not
// acted upon.
func TestServiceOfAnOlderAPIHasNoCopies(t *testing.T) {
	s := anAutoService(jittery())
	s.service.Status.Hedging = decidedHedging(s)
	if got := render.HedgingMode(s.service, s.service.Status.Hedging); got != v1alpha1.HedgingLoadAware {
		t.Fatalf("mode %s: the test shows nothing", got)
	}
	s.service.Spec.Hedging = nil
	if got := decidedHedging(s); got != nil {
		t.Errorf("decided %+v", got)
	}
	s.service.Status.Hedging = nil
	if got := render.HedgingMode(s.service, s.service.Status.Hedging); got != v1alpha1.HedgingOff {
		t.Errorf("mode %s", got)
	}
}
