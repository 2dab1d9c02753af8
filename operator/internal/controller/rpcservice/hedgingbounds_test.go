// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"math"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/hedgemodel"
)

// so many pairs, or so many hiccups, are enough to ask a model; one less is not.
func TestR254MeasuredEnough(t *testing.T) {
	// share so that exactly enoughHiccups were seen among 2000 pairs
	share := (1 - math.Sqrt(1-2*enoughHiccups/2000.0)) / 2
	for _, c := range []struct {
		name   string
		j      jitter
		reason v1alpha1.HedgingReason
		says   string
	}{
		{"hiccups enough", jitter{compared: 2000, share: share + 1e-9, service: 1}, "", ""},
		{"as many pairs as show that there are none", jitter{compared: 40, service: 1}, v1alpha1.HedgingNoHiccups, "of 40 requests that were executed twice at once 0 took much longer once"},
		{"a pair less", jitter{compared: 39, service: 1}, v1alpha1.HedgingTooFewProbes, "39 requests were executed twice at once; 40 show hiccups that matter to p75, or that there are none"},
		{"a hiccup less", jitter{compared: 2000, share: share - 1e-6, service: 1}, v1alpha1.HedgingNoHiccups, "of 2000 requests"},
		{"nobody measured how long one takes", jitter{compared: 2000, share: 0.5}, v1alpha1.HedgingTooFewProbes, ""},
	} {
		if reason, message := measuredEnough(c.j, 0.75); reason != c.reason || !strings.Contains(message, c.says) {
			t.Errorf("%s: %q %q", c.name, reason, message)
		}
	}
}

// Sixty requests or more lie beyond the percentile, within bounds.
func TestModelledRequests(t *testing.T) {
	for percentile, want := range map[float64]int{0.5: 20000, 0.99: 20000, 0.995: 40000, 0.999: 60000} {
		if got := modelled(percentile); math.Abs(float64(got-want)) > 1 {
			t.Errorf("%v: %d, want %d", percentile, got, want)
		}
	}
}

// What becomes of CANCELs: nobody heeds them, all do, or some, which may be slow or deaf.
func TestHeed(t *testing.T) {
	all := []hedgemodel.Service{{Cancel: hedgemodel.Answered}}
	for share, reaction := range map[float64]float64{0: 0, 1: 0, 0.5: math.Ln2} {
		got := heed(all, share)[0]
		if got.Heeded != share || math.Abs(got.Reaction-reaction) > 1e-12 || math.Abs(got.Lag-cancelLag-reaction) > 1e-12 {
			t.Errorf("%v: %+v", share, got)
		}
	}
	if all[0].Lag != 0 {
		t.Error("what was given has changed")
	}
}

// What is modelled is what is asked for: probes count where they are never taken back, depth is shared among routers.
func TestModelledServices(t *testing.T) {
	s := anAutoService(jittery())
	probe := int32(2500)
	s.service.Spec.Hedging.ProbePerMillion = &probe
	for cancel, want := range map[v1alpha1.HedgingCancellation]float64{"": 0, v1alpha1.CancellationNone: 0, v1alpha1.CancellationAnswered: 0.0025, v1alpha1.CancellationPreemptive: 0.0025} {
		s.service.Spec.Hedging.Cancellation = cancel
		all := services(s, measuredJitter(s), 0.99)
		if one := all[0]; one.ProbeShare != want || one.Workers != 16 || one.Routers != 2 || one.Depth != 1 || one.Percentile != 0.99 || one.Fixed || !all[len(all)-1].Fixed || len(all) != 8 {
			t.Errorf("%q: %d of %+v", cancel, len(all), one)
		}
	}
	s.service.Spec.Hedging.Cancellation, s.service.Spec.Hedging.ProbePerMillion = v1alpha1.CancellationAnswered, nil
	s.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays}
	if all := services(s, measuredJitter(s), 0.99); len(all) != 2 || all[0].ProbeShare != 0 || all[0].Load != 0.2 {
		t.Errorf("%d of %+v", len(all), all[0])
	}
}

// Routers that say nothing are passed over, and where nobody had a hiccup none has a length.
func TestJitterOfSomeRouters(t *testing.T) {
	s := &snapshot{service: aService(), routers: pods("r r"), states: map[string]stateRead{}}
	tells(s, 1, dataplane.HedgingState{Compared: 100, ServiceNanoseconds: 2_000_000, BusyMillionths: 300_000})
	if j := measuredJitter(s); j != (jitter{compared: 100, service: 0.002, load: 0.3}) {
		t.Errorf("%+v", j)
	}
	if a := explainAnswer(hedgemodel.Answer{Asked: hedgemodel.Service{HiccupShare: 0.02, Percentile: 0.99, Load: 0.5, Workers: 4, Routers: 2}}, jitter{service: 0.001}, cancelled{}); !strings.Contains(a, "p99 ") ||
		!strings.Contains(a, ", 2% of them ") || !strings.Contains(a, " 50% load, 4 workers, 2 routers") {
		t.Errorf("%s", a)
	}
}

// counts that stood still count, those that went back do not; pairs that were compared are no copies that could be
// taken back.
func TestR254CountsThatStandStill(t *testing.T) {
	before := routerCounts{copies: 100, compared: 10, taken: 50}
	for name, c := range map[string]struct {
		now   routerCounts
		share float64
		want  cancelled
	}{
		"as before":                  {before, 1, cancelled{}},
		"more taken":                 {routerCounts{100, 10, 53}, 1, cancelled{0, 3}},
		"more copies":                {routerCounts{140, 10, 50}, 0.5, cancelled{20, 0}},
		"of which some are compared": {routerCounts{140, 25, 50}, 1, cancelled{25, 0}},
		"more compared than copied":  {routerCounts{105, 30, 50}, 1, cancelled{}},
		"compared ones forgotten":    {routerCounts{140, 3, 50}, 1, cancelled{40, 0}},
		"fewer copies":               {routerCounts{99, 10, 60}, 1, cancelled{}},
		"fewer taken":                {routerCounts{140, 10, 49}, 1, cancelled{}},
		"no model was asked":         {routerCounts{140, 10, 60}, 0, cancelled{}},
	} {
		var sum cancelled
		if sum.add(before, c.now, c.share); sum != c.want {
			t.Errorf("%s: %+v, want %+v", name, sum, c.want)
		}
	}
	if c := (counted{share: 0.5}).expecting(0); c.share != 0.5 {
		t.Errorf("no model was asked, and %v is expected", c.share)
	}
}

// Of two servers that load their limit alike neither is closer; one without a limit never is.
func TestCloserToItsLimit(t *testing.T) {
	flow := func(load, admitted uint64) *dataplane.FlowState {
		return &dataplane.FlowState{LoadMillionths: load, AdmittedMillionths: admitted}
	}
	for _, c := range []struct {
		one, than *dataplane.FlowState
		want      bool
	}{
		{flow(2, 4), flow(1, 4), true}, {flow(1, 4), flow(2, 4), false}, {flow(1, 2), flow(2, 4), false}, {flow(2, 4), flow(1, 2), false},
		{flow(9, 0), flow(1, 4), false}, {flow(0, 4), flow(9, 0), true}, {flow(9, 0), flow(9, 0), false},
	} {
		if closer(c.one, c.than) != c.want {
			t.Errorf("%+v than %+v: %v", c.one, c.than, !c.want)
		}
	}
	for name, a := range map[string]stateRead{"silent": silent, "no dataplane": {Reply: &dataplane.SidecarState{}}} {
		if flowOf(a) != nil || hedgingOf(a) != nil {
			t.Errorf("%s: something was said", name)
		}
	}
}
