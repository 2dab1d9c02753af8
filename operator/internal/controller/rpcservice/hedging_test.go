// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// anAutoService has 16 workers that are ready, and two routers that say the same.
func anAutoService(h dataplane.HedgingState) *snapshot {
	service := aService()
	service.Spec.Hedging = &v1alpha1.RpcServiceHedging{Mode: v1alpha1.HedgingAuto, BusyPercent: 50, BudgetPercent: 100}
	service.Spec.WorkersPerReplica = 8
	s := &snapshot{service: service, now: time.Unix(1000, 0), servers: pods("RJ RJ"), routers: pods("R R"), states: map[string]answer{}}
	for _, p := range s.servers {
		p.Annotations = map[string]string{"bobtail.dev/workers": "8"}
	}
	for i, p := range s.routers {
		p.Name = "router" + string(rune('a'+i))
		s.states[p.Name] = answer{state: &dataplane.SidecarState{Dataplane: &dataplane.State{Hedging: &h}}}
	}
	return s
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
		got := decideHedging(anAutoService(h))
		if got.Mode != c.mode || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s %s %q", c.name, got.Mode, got.Reason, got.Message)
		}
	}
}

// Two workers: requests would wait behind copies.
func TestR254TheMedianCounts(t *testing.T) {
	h := jittery()
	h.BusyMillionths = 150_000
	s := anAutoService(h)
	s.servers = s.servers[:1]
	s.servers[0].Annotations["bobtail.dev/workers"] = "2"
	if got := decideHedging(s); got.Reason != v1alpha1.HedgingMedianRises {
		t.Errorf("%+v", got)
	}
}

// Hiccups that p99 does not see count when an objective looks further out.
func TestR254ObjectivesChooseThePercentile(t *testing.T) {
	h := jittery()
	h.HiccupMillionths, h.Compared, h.BusyMillionths = 3000, 20000, 40_000
	s := anAutoService(h)
	if got := decideHedging(s); got.Reason != v1alpha1.HedgingTailTooLittle {
		t.Errorf("p99: %+v", got)
	}
	slo := v1alpha1.ServiceLevelObjective{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "far"}}
	slo.Spec.TargetRef.Name, slo.Spec.Percentile = "echo", "99.9"
	s.objectives = []v1alpha1.ServiceLevelObjective{slo}
	if got := decideHedging(s); got.Reason != v1alpha1.HedgingPays || !strings.Contains(got.Message, "p99.9") {
		t.Errorf("p99.9: %+v", got)
	}
}

// A decision stands for a while, then is made again; it asks for less to stay on
// than to switch on.
func TestR254DecisionsStand(t *testing.T) {
	s := anAutoService(jittery())
	s.service.Status.Hedging = decideHedging(s)
	if s.service.Status.Hedging.Mode != v1alpha1.HedgingLoadAware {
		t.Fatalf("%+v", s.service.Status.Hedging)
	}
	s.states = map[string]answer{}
	s.now = s.now.Add(decideEvery - time.Second)
	if got := decideHedging(s); got.Mode != v1alpha1.HedgingLoadAware {
		t.Errorf("within the time: %+v", got)
	}
	s.now = s.now.Add(2 * time.Second)
	if got := decideHedging(s); got.Mode != v1alpha1.HedgingProbe || got.Reason != v1alpha1.HedgingTooFewProbes {
		t.Errorf("after it, with routers that know nothing: %+v", got)
	}

	edge := jittery()
	edge.HiccupMillionths, edge.Compared = 11_500, 600 // the fewest the probes allow do not reach p99
	off, on := anAutoService(edge), anAutoService(edge)
	on.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingPays}
	if got := decideHedging(off); got.Mode != v1alpha1.HedgingProbe {
		t.Errorf("switched on at the edge: %+v", got)
	}
	if got := decideHedging(on); got.Mode != v1alpha1.HedgingLoadAware {
		t.Errorf("switched off at the edge: %+v", got)
	}
}

func TestHedgingStatusOfOtherModes(t *testing.T) {
	s := anAutoService(jittery())
	s.service.Spec.Hedging.Mode = v1alpha1.HedgingDelayed
	if got := decideHedging(s); got.Mode != v1alpha1.HedgingDelayed || got.Reason != v1alpha1.HedgingAsSpecified {
		t.Errorf("%+v", got)
	}
	s.service.Spec.Hedging = nil
	if got := decideHedging(s); got != nil {
		t.Errorf("%+v", got)
	}
}
