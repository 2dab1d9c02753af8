// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// serving is a service of 16 workers with exponential service times of 1 ms in
// two servers, and an objective of 8 ms.
func serving(samples int) *snapshot {
	target := aTarget()
	target.Name = "echo"
	target.Spec.Router.Policy, target.Spec.Router.WorkerQueueDepth = v1alpha1.PolicyJBSQ, 1
	target.Status.ReadyWorkers = 16
	random := rand.New(rand.NewPCG(5, 5))
	s := &snapshot{slo: anObjective("99", 8000), target: target, slow: true}
	for _, pod := range []string{"a", "b"} {
		h := &dataplane.Histogram{}
		for range samples / 2 {
			h.Record(uint64(random.ExpFloat64() * 1e6))
		}
		s.services = append(s.services, part{Name: pod, Required: true, Reply: &dataplane.HistogramReply{Histogram: h}})
	}
	return s
}

// M/M/16 keeps p99 within 8 mean service times up to 95.7 % load.
func TestCapacityOfExponentialService(t *testing.T) {
	s := serving(40_000)
	v, c := decideCapacity(s, measurement{}, 1000)
	if v.Status != metav1.ConditionTrue || v.Reason != v1alpha1.ReasonEstimated {
		t.Fatalf("%+v", v)
	}
	if c.LowRequestsPerSecond > 15_320 || c.HighRequestsPerSecond < 15_320 || c.HighRequestsPerSecond > 16_000 {
		t.Errorf("%+v", c)
	}
	if c.Workers != 16 || c.ServiceSamples != 40_000 || c.MeanServiceMicroseconds < 980 || c.MeanServiceMicroseconds > 1020 ||
		!strings.HasPrefix(c.ServiceVariation, "1.0") && !strings.HasPrefix(c.ServiceVariation, "0.9") || c.OverheadMicroseconds != nil {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(v.Message, c.Range+" requests/s keep p99 within 8ms on 16 workers") {
		t.Error(v.Message)
	}
}

// A queue that knows less about its workers has less capacity and a wider doubt.
func TestCapacityFollowsThePolicy(t *testing.T) {
	width := func(change func(*v1alpha1.RpcServiceRouter)) (low, high int64) {
		s := serving(20_000)
		change(&s.target.Spec.Router)
		_, c := decideCapacity(s, measurement{}, 1000)
		return c.LowRequestsPerSecond, c.HighRequestsPerSecond
	}
	low1, high1 := width(func(*v1alpha1.RpcServiceRouter) {})
	low3, high3 := width(func(r *v1alpha1.RpcServiceRouter) { r.WorkerQueueDepth = 3 })
	lowP2, _ := width(func(r *v1alpha1.RpcServiceRouter) { r.Policy = v1alpha1.PolicyPowerOfTwo })
	lowNone, highNone := width(func(r *v1alpha1.RpcServiceRouter) { r.Placement = v1alpha1.PlacementNone })
	lowR, highR := width(func(r *v1alpha1.RpcServiceRouter) { r.Policy = v1alpha1.PolicyRandom })
	lowJ, _ := width(func(r *v1alpha1.RpcServiceRouter) { r.Policy = v1alpha1.PolicyJSQ })
	if !(low3 < low1 && high3 == high1 && lowP2 < low3 && highR < low3 && lowNone == lowR && highNone == high1 && lowJ == low3) {
		t.Errorf("JBSQ(1) %d-%d, JBSQ(3) %d-%d, two choices %d-, none %d-%d, random %d-%d, JSQ %d-", low1, high1, low3, high3, lowP2, lowNone, highNone, lowR, highR, lowJ)
	}
}

func TestCapacityThatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		name, reason, message string
		change                func(*snapshot)
	}{
		{"too few", v1alpha1.ReasonTooFewSamples, "998 service times in the last 600 s; p99 needs 1000", func(*snapshot) {}},
		{"a server is silent", v1alpha1.ReasonMeasurementIncomplete, "no service times from a", func(s *snapshot) {
			s.services[0] = part{Name: "a", Required: true, Err: errors.New("refused")}
		}},
		{"no worker", v1alpha1.ReasonWorkersNotReady, "no worker of echo is ready", func(s *snapshot) { s.target.Status.ReadyWorkers = 0 }},
	} {
		s := serving(998)
		c.change(s)
		if v, e := decideCapacity(s, measurement{}, 1000); v.Status != metav1.ConditionFalse || v.Reason != c.reason || v.Message != c.message || e != nil {
			t.Errorf("%s: %+v, %+v", c.name, v, e)
		}
	}
}

func TestServiceAloneIsTooLong(t *testing.T) {
	s := serving(10_000)
	s.slo.Spec.LatencyMicroseconds = 4000 // p99 of the service time is 4.6 ms
	v, c := decideCapacity(s, measurement{}, 1000)
	if v.Status != metav1.ConditionTrue || v.Reason != v1alpha1.ReasonServiceAboveObjective || c.HighRequestsPerSecond != 0 || c.Range != "0-0" {
		t.Errorf("%+v, %+v", v, c)
	}
	if !strings.Contains(v.Message, "service time alone is 4.") || !strings.Contains(v.Message, "latencyMicroseconds") {
		t.Errorf("the floor is not named: %s", v.Message)
	}
	if warning := decideAttainable(v); warning.Status != metav1.ConditionFalse || warning.Reason != v.Reason || warning.Message != v.Message {
		t.Errorf("no warning: %+v", warning)
	}
	if accepted := decideAccepted(s); accepted.Status != metav1.ConditionTrue {
		t.Errorf("it can be measured all the same: %+v", accepted)
	}
	s.slo.Spec.LatencyMicroseconds = 9000
	if v, _ = decideCapacity(s, measurement{}, 1000); decideAttainable(v).Status != metav1.ConditionTrue {
		t.Errorf("above the floor: %+v", decideAttainable(v))
	}
	s.target.Status.ReadyWorkers = 0
	if v, _ = decideCapacity(s, measurement{}, 1000); decideAttainable(v).Status != metav1.ConditionUnknown {
		t.Errorf("nothing is known: %+v", decideAttainable(v))
	}
}

// Slow workers take less than a request a second: that is little, not none. Two
// workers of 3 s (fixed) keep p90 within 10 s at a load of their own, one of 40 s
// within 90 s at some hundredths of a request a second.
func TestLessThanOneRequestASecondIsSomeLoad(t *testing.T) {
	for _, c := range []struct {
		name              string
		workers           int32
		service, limit    uint64 // seconds
		samples           int
		status            metav1.ConditionStatus
		reason, rangeText string
	}{
		{"two workers of 3 s", 2, 3, 10, 100, metav1.ConditionTrue, v1alpha1.ReasonEstimated, "0.5"},
		{"one worker of 40 s", 1, 40, 90, 100, metav1.ConditionTrue, v1alpha1.ReasonEstimated, "0.01"},
		{"one worker of 40 s within 39 s", 1, 40, 39, 100, metav1.ConditionFalse, v1alpha1.ReasonServiceAboveObjective, "0-0"},
		{"16 workers of 1 s", 16, 1, 2, 100, metav1.ConditionTrue, v1alpha1.ReasonEstimated, "1"},
	} {
		s := serving(0)
		s.slo = anObjective("90", int32(c.limit*1_000_000))
		s.target.Status.ReadyWorkers = c.workers
		for range c.samples {
			s.services[0].Reply.Histogram.Record(c.service * 1e9)
		}
		v, e := decideCapacity(s, measurement{}, 100)
		if e == nil || v.Status != metav1.ConditionTrue || v.Reason != c.reason || !strings.HasPrefix(e.Range, c.rangeText) {
			t.Errorf("%s: %+v, %+v", c.name, v, e)
		}
		if a := decideAttainable(v); a.Status != c.status {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

func TestRangesAreWrittenForPeople(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{9100.9, 9700.2, "9100-9700"}, {0, 0, "0-0"}, {8.126, 12.9, "8-12"}, {1.239, 9.999, "1.23-9.99"}, {0.0119, 0.0349, "0.0119-0.0349"},
		{0.01234567, 0.01999999, "0.0123-0.0199"}, {0, 0.5, "0-0.5"}, {0.000_000_056_789, 0.001, "0.0000000567-0.001"},
	} {
		if got := rangeOf(c.low, c.high); got != c.want {
			t.Errorf("%v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}

// Overhead is measured while the queues are short, kept while they are long, and
// taken off the objective.
func TestOverheadIsRemembered(t *testing.T) {
	s := serving(40_000)
	_, without := decideCapacity(s, measurement{}, 1000)
	light := measurement{samples: 1000, requests: 1000, perSecond: 1600, meanSeconds: 0.0025}
	_, with := decideCapacity(s, light, 1000)
	if with.OverheadMicroseconds == nil || *with.OverheadMicroseconds < 1450 || *with.OverheadMicroseconds > 1550 {
		t.Fatalf("overhead %v, want 1500 us", with.OverheadMicroseconds)
	}
	if with.HighRequestsPerSecond >= without.HighRequestsPerSecond {
		t.Errorf("overhead costs nothing: %+v, %+v", without, with)
	}
	s.slo.Status.Capacity = with
	_, later := decideCapacity(s, measurement{samples: 1000, requests: 1000, perSecond: 15_000, meanSeconds: 0.05}, 1000)
	if *later.OverheadMicroseconds != *with.OverheadMicroseconds {
		t.Errorf("queueing was taken for overhead: %d", *later.OverheadMicroseconds)
	}
}

// A load that is low on average may have been an overload that began or ended
// within the window: what its requests waited is no overhead, and the last answer
// stays. With the 411 ms that such a window once said, no number of workers met
// an objective of 100 ms.
func TestQueueingIsNoOverhead(t *testing.T) {
	held := func(mean uint64) func(*snapshot, *measurement) {
		return func(s *snapshot, m *measurement) {
			h := &dataplane.Histogram{}
			for range m.samples {
				h.Record(mean)
			}
			s.holds = []part{{Name: "r", Required: true, Reply: &dataplane.HistogramReply{Histogram: h}}}
		}
	}
	for _, c := range []struct {
		name    string
		trusted bool
		change  func(*snapshot, *measurement)
	}{
		{"steady", true, func(*snapshot, *measurement) {}},
		{"nobody waited long", true, held(50_000)},
		{"a burst waited in the routers", false, held(400_000_000)},
		{"a router is silent", false, func(s *snapshot, _ *measurement) {
			s.holds = []part{{Name: "r", Required: true, Err: errors.New("refused")}}
		}},
		{"more arrived than ended", false, func(_ *snapshot, m *measurement) { m.requests = 40_000 }},
		{"more ended than arrived", false, func(_ *snapshot, m *measurement) { m.requests = 10_000 }},
		{"a fiftieth more arrived than ended", true, func(_ *snapshot, m *measurement) { m.requests = 24_480 }},
		{"one more than a fiftieth", false, func(_ *snapshot, m *measurement) { m.requests = 24_481 }},
		{"some were rejected", false, func(_ *snapshot, m *measurement) { m.rejected, m.requests = 10, m.requests+10 }},
		{"many were never answered", false, func(_ *snapshot, m *measurement) { m.unanswered = 500 }},
		{"one was never answered", true, func(_ *snapshot, m *measurement) { m.unanswered = 1 }},
		{"too few to tell", false, func(_ *snapshot, m *measurement) { m.samples, m.requests = 900, 900 }},
	} {
		s := serving(40_000)
		last := int64(300)
		s.slo.Status.Capacity = &v1alpha1.CapacityEstimate{OverheadMicroseconds: &last}
		m := measurement{samples: 24_000, requests: 24_000, perSecond: 1600, meanSeconds: 0.412}
		c.change(s, &m)
		_, got := decideCapacity(s, m, 1000)
		if trusted := *got.OverheadMicroseconds != last; trusted != c.trusted {
			t.Errorf("%s: overhead %d us, before %d", c.name, *got.OverheadMicroseconds, last)
		}
	}
}
