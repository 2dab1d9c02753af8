// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
)

// The workers that a router suspects or ejected are counted, each by what it is.
func TestJudgedWorkersAreCounted(t *testing.T) {
	c, all := aCluster(t, false)
	all["cart-router-a v1/state"] = &dataplane.SidecarState{Dataplane: &dataplane.State{Members: []dataplane.WorkerState{
		{Suspect: true}, {Suspect: true}, {Suspect: true, Ejected: true}, {Ejected: true}, {}}}}
	all["cart-router-b v1/state"] = &dataplane.SidecarState{}
	o, err := c.observe(t.Context(), aService(), 10)
	if err != nil || o.suspect != 3 || o.ejected != 2 || len(o.unread) != 0 {
		t.Errorf("%d suspect, %d ejected, unread %v, %v", o.suspect, o.ejected, o.unread, err)
	}
	delete(all, "cart-router-b v1/state")
	if o, err = c.observe(t.Context(), aService(), 10); err != nil || len(o.unread) != 1 {
		t.Errorf("unread %v, %v", o.unread, err)
	}
}

// Of the counters and gauges of a router only those of the drops and of the queue are taken.
func TestCountersOfARouter(t *testing.T) {
	c, all := aCluster(t, false)
	all["cart-router-b v1/counters"] = &dataplane.Counters{
		Counters: []dataplane.Sample{{Name: "router_dropped_total", Labels: map[string]string{"reason": "a"}, Value: 2}, {Name: "x", Value: 5}, {Name: "router_dropped_total", Labels: map[string]string{"reason": "a"}, Value: 3}},
		Gauges:   []dataplane.Sample{{Name: "router_held", Value: 4}, {Name: "x", Value: 5}, {Name: "router_held", Value: 2}},
	}
	if o, err := c.observe(t.Context(), aService(), 10); err != nil || o.drops["a"] != 5 || o.held != 6 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestBoundsOfAPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*planned)
		want   string
	}{
		{"all is well", func(*planned) {}, ""},
		{"the most workers", func(p *planned) { p.perReplica = 64 }, ""},
		{"no overhead and no round trip", func(p *planned) { p.overhead, p.roundTrip = 0, 0 }, ""},
		{"the shortest objective", func(p *planned) { p.latency = 1 }, ""},
		{"no rate", func(p *planned) { p.rate = 0 }, "--rate"},
		{"an endless rate", func(p *planned) { p.rate = math.Inf(1) }, "--rate"},
		{"no objective", func(p *planned) { p.latency = 0 }, "--latency"},
		{"a negative one", func(p *planned) { p.latency = -1 }, "--latency"},
		{"no service times", func(p *planned) { p.Service = queueing.Service{} }, "--service"},
		{"a negative overhead", func(p *planned) { p.overhead = -1 }, "--overhead"},
		{"a negative round trip", func(p *planned) { p.roundTrip = -1 }, "--round-trip"},
		{"no worker", func(p *planned) { p.perReplica = 0 }, "must be 1 to 64; got 0"},
		{"too many workers", func(p *planned) { p.perReplica = 65 }, "must be 1 to 64; got 65"},
		{"an unknown policy", func(p *planned) { p.router.Policy = "Best" }, "--policy"},
	} {
		p := &planned{planOptions: planOptions{rate: 1, latency: time.Millisecond, overhead: 1, roundTrip: 1, perReplica: 1,
			router: v1alpha1.RpcServiceRouter{Policy: v1alpha1.PolicyJBSQ, WorkerQueueDepth: 3}},
			Question: queueing.Question{Service: queueing.Service{Seconds: []float64{1}, Weights: []float64{1}}}}
		c.change(p)
		if got := text(p.check()); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Each of the named distributions has its own shape and the mean that was given.
func TestNamedDistributions(t *testing.T) {
	for _, c := range []struct {
		text, meanText  string
		mean, variation float64
	}{
		{"deterministic:10us", "10", 10e-6, 0}, {"bimodal1:10us", "10", 10e-6, 2.25}, {"exponential:10us", "10", 10e-6, 1}, {"deterministic:1ns", "0.001", 1e-9, 0},
		{"deterministic:1500ms", "1.5e+06", 1.5, 0},
	} {
		p := &planned{}
		s, err := p.named(c.text)
		name, _, _ := strings.Cut(c.text, ":")
		if err != nil || math.Abs(s.Mean()/c.mean-1) > 1e-8 || math.Abs(s.SquaredVariation()-c.variation) > 1e-3 || p.meanText != c.meanText || p.distribution != name {
			t.Errorf("%s: mean %v, c² %v, %q %q, %v", c.text, s.Mean(), s.SquaredVariation(), p.distribution, p.meanText, err)
		}
	}
	bimodal, _ := (&planned{}).named("bimodal1:10us")
	if len(bimodal.Seconds) != 2 || math.Abs(bimodal.Seconds[0]-5e-6) > 1e-12 || math.Abs(bimodal.Seconds[1]-55e-6) > 1e-12 || bimodal.Weights[0] != 9*bimodal.Weights[1] {
		t.Errorf("%+v", bimodal)
	}
	for _, wrong := range []string{"", "exponential", "exponential:", "exponential:x", "exponential:10", "exponential:0s", "exponential:-1us", ":1us", "poisson:1us"} {
		if _, err := (&planned{}).named(wrong); err == nil || !strings.HasPrefix(err.Error(), "--service: must be ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// As many replicas as workers need, and none where there are no workers or too many.
func TestRowsOfAPlan(t *testing.T) {
	p := &planned{planOptions: planOptions{rate: 100, perReplica: 4, percentile: "99"},
		Question: queueing.Question{Service: queueing.Service{Seconds: []float64{0.01}, Weights: []float64{1e9}}, P: 0.99, Limit: 0.1, Depth: 3}}
	if got := p.most(); got != 1020 {
		t.Errorf("most %d", got)
	}
	for k, replicas := range map[int]int{1: 1, 4: 1, 5: 2, 8: 2, 9: 3, 1020: 255} {
		if r := p.row("x", k); r.Replicas != replicas || r.Workers != k || r.Cores != k || math.Abs(r.Busy-1/float64(k)) > 1e-9 {
			t.Errorf("%d: %+v", k, r)
		}
	}
	for _, k := range []int{0, 1021} {
		if r := p.row("x", k); r != (planRow{Name: "x"}) {
			t.Errorf("%d: %+v", k, r)
		}
	}
	p.perReplica = 64
	if got := p.most(); got != 15*64 {
		t.Errorf("most %d", got)
	}
	p.perReplica = 1
	if got := p.most(); got != 256 {
		t.Errorf("most %d", got)
	}
}

// The percentile of service times is the first beyond which few enough lie.
func TestQuantileOfServiceTimes(t *testing.T) {
	s := queueing.Service{Seconds: []float64{1, 2, 3, 4}, Weights: []float64{1, 1, 1, 1}}
	for p, want := range map[float64]time.Duration{0.25: time.Second, 0.5: 2 * time.Second, 0.75: 3 * time.Second, 0.8: 4 * time.Second} {
		if got := serviceQuantile(&planned{Question: queueing.Question{Service: s, P: p}}); got != want {
			t.Errorf("%v: %s, want %s", p, got, want)
		}
	}
	if got := serviceQuantile(&planned{}); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
}

// Of rows that need as few workers the first counts, which is the smallest depth; those without do not.
func TestBestOfTheSimulated(t *testing.T) {
	for _, c := range []struct {
		rows []simulated
		want simulated
	}{
		{nil, simulated{}}, {[]simulated{{"a", 0}}, simulated{}}, {[]simulated{{"a", 0}, {"b", 3}}, simulated{"b", 3}},
		{[]simulated{{"a", 3}, {"b", 3}, {"c", 0}}, simulated{"a", 3}}, {[]simulated{{"a", 3}, {"b", 2}, {"c", 1}, {"d", 2}}, simulated{"c", 1}},
	} {
		if got := (&simulation{rows: c.rows}).best(); got != c.want {
			t.Errorf("%+v: %+v", c.rows, got)
		}
	}
}

// The depths that are simulated lie around the one that hides the round trip, within those there are, with the service's own.
func TestDepthsAroundTheOneThatHides(t *testing.T) {
	for _, c := range []struct {
		trip float64 // in service times
		own  uint32
		want string
	}{
		{0, 3, "JBSQ:3"}, {1, 3, "JBSQ:1-6"}, {1, 6, "JBSQ:1-6"}, {1, 7, "JBSQ:1-6,JBSQ:7"}, {3, 2, "JBSQ:2-8"}, {3, 1, "JBSQ:2-8,JBSQ:1"}, {3, 8, "JBSQ:2-8"},
		{59, 60, "JBSQ:58-64"}, {200, 62, "JBSQ:62-64"}, {200, 61, "JBSQ:62-64,JBSQ:61"},
	} {
		p := &planned{planOptions: planOptions{roundTrip: time.Duration(c.trip * 1e6), router: v1alpha1.RpcServiceRouter{Policy: v1alpha1.PolicyJBSQ, WorkerQueueDepth: int32(c.own)}},
			Question: queueing.Question{Service: queueing.Service{Seconds: []float64{1e-3}, Weights: []float64{1}}}}
		if got := p.simulatedPolicies(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Half of the round trip leads to the worker, half back, and what is left of the overhead comes with the reply.
func TestWaysOfASimulatedRequest(t *testing.T) {
	for _, c := range []struct {
		trip, overhead time.Duration
		want           string
	}{
		{10 * time.Microsecond, 0, "--dispatch=5 --feedback=5 --reply=0 "},
		{8 * time.Microsecond, 8 * time.Microsecond, "--dispatch=4 --feedback=4 --reply=4 "},
		{10 * time.Microsecond, 5 * time.Microsecond, "--dispatch=5 --feedback=5 --reply=0 "},
		{0, 8 * time.Microsecond, "--dispatch=4 --feedback=4 --reply=4 "},
		{0, 0, "--dispatch=0 --feedback=0 --reply=0 "},
	} {
		p := &planned{planOptions: planOptions{roundTrip: c.trip, latency: 300 * time.Microsecond, rate: 7, percentile: "99", router: v1alpha1.RpcServiceRouter{Policy: v1alpha1.PolicyJBSQ, WorkerQueueDepth: 3}},
			Question: queueing.Question{P: 0.99, Overhead: c.overhead.Seconds(), Service: queueing.Service{Seconds: []float64{1e-5}, Weights: []float64{1}}}}
		got := strings.Join(p.simulatorArgs("T"), " ")
		if !strings.Contains(got, c.want) || !strings.Contains(got, "--distribution=trace:T --slo=300 --rate=7 --percentile=99 ") {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for p, want := range map[float64]float64{0.5: 200_000, 0.9975: 200_000, 0.999: 500_000, 0.9999: 5_000_000} {
		if got := (&planned{Question: queueing.Question{P: p}}).requests(); got != want {
			t.Errorf("%v: %v requests", p, got)
		}
	}
}

// What is just within a limit is within it, and advice that would not help is not given.
func TestLimitsOfAPlan(t *testing.T) {
	s := queueing.Service{Seconds: []float64{1, 2, 3, 4}, Weights: []float64{1, 1, 1, 1}}
	for limit, want := range map[float64]bool{3.5: false, 3: false, 2.9: true} {
		p := &planned{Question: queueing.Question{Service: s, P: 0.75, Limit: limit + 1, Overhead: 1}}
		if _, tooHigh := p.floor(); tooHigh != want {
			t.Errorf("limit %v: too high %v", limit, tooHigh)
		}
	}
	for workers, want := range map[int]bool{1: true, 4: false, 30: true, 31: false, 64: false} {
		if got := (&planned{planOptions: planOptions{perReplica: workers}}).larger() != ""; got != want {
			t.Errorf("replicas of %d: larger %v", workers, got)
		}
	}
	p := &planned{planOptions: planOptions{perReplica: 8, percentile: "99", latency: time.Second}, Question: queueing.Question{Service: queueing.Service{Seconds: []float64{1}, Weights: []float64{1}}, P: 0.99, Limit: 9}}
	for rate, want := range map[float64]string{1016: "1016 workers, the most", 1017: "keep 1017 workers busy without a rest"} {
		p.rate = rate
		if got := text(p.refusal(func(int) queueing.Estimate { return queueing.Estimate{} })); !strings.Contains(got, want) {
			t.Errorf("%v: %s", rate, got)
		}
	}
	for low, want := range map[float64]string{1: "surely: at worst, 1016 workers", 0.99: "surely: none; "} {
		if got := p.doubt(queueing.Estimate{Low: low}); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s", low, got)
		}
	}
}

// What is said of the depth n: nothing where there is none, a rule of thumb without a simulator, else what it found.
func TestWhatIsSaidOfTheDepth(t *testing.T) {
	found := &simulation{rows: []simulated{{"JBSQ(1)", 0}, {"JBSQ(2)", 5}, {"JBSQ(3)", 4}}}
	for _, c := range []struct {
		name   string
		policy v1alpha1.RouterPolicy
		place  v1alpha1.RouterPlacement
		trip   time.Duration
		over   float64
		sim    *simulation
		want   string
	}{
		{"a policy without depth", v1alpha1.PolicyRoundRobin, v1alpha1.PlacementSoftware, 15 * time.Microsecond, 0, found, ""},
		{"no router", v1alpha1.PolicyJBSQ, v1alpha1.PlacementNone, 15 * time.Microsecond, 0, found, ""},
		{"no round trip", v1alpha1.PolicyJBSQ, v1alpha1.PlacementSoftware, 0, 0, found, "\nn: give --round-trip (router to worker and back) for the queue depth\n"},
		{"simulated", v1alpha1.PolicyJBSQ, v1alpha1.PlacementSoftware, 15 * time.Microsecond, 0, found, "\nn: 3, simulated with a round trip of 15µs; workers needed: JBSQ(2) 5, JBSQ(3) 4\n"},
		{"with the overhead for it", v1alpha1.PolicyJBSQ, v1alpha1.PlacementSoftware, 0, 20e-6, found, "\nn: 3, simulated with a round trip of at most the overhead, 20µs; workers needed: JBSQ(2) 5, JBSQ(3) 4\n"},
		{"none does it", v1alpha1.PolicyJBSQ, v1alpha1.PlacementSoftware, 15 * time.Microsecond, 0, &simulation{rows: []simulated{{"JBSQ(1)", 0}}}, ""},
		{"not simulated", v1alpha1.PolicyJBSQ, v1alpha1.PlacementSoftware, 15 * time.Microsecond, 0, &simulation{why: "w"}, "\nsimulated: no: w\n\nn: 3 hides a round trip of 15µs behind service times of 10µs, by rule of thumb; more for very variable ones\n"},
	} {
		p := &planned{planOptions: planOptions{roundTrip: c.trip, router: v1alpha1.RpcServiceRouter{Policy: c.policy, Placement: c.place, WorkerQueueDepth: 3}},
			Question: queueing.Question{Overhead: c.over, Service: queueing.Service{Seconds: []float64{1e-5}, Weights: []float64{1}}}}
		var out strings.Builder
		if p.printDepth(&out, c.sim); out.String() != c.want {
			t.Errorf("%s: %q", c.name, out.String())
		}
	}
}
