// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// tally is what intervals say of a percentile that is known, in how many windows.
type tally struct {
	windows                   int
	above, below              int // the whole interval is
	alone                     int // holds it when requests pass for independent
	missed, shown, unknown    int // verdicts when the objective is the percentile
	missedAtLess, shownAtMore int // at 0.7 and 1.5 of it
	open                      int
}

// is says whether so many are at least that share of the windows.
func (c tally) is(n int, share float64) bool { return float64(n) >= share*float64(c.windows) }

func read(parts []*ll7.Histogram) *snapshot {
	whole := &dataplane.Histogram{}
	for _, h := range parts {
		whole.Merge(h)
	}
	return &snapshot{slo: anObjective("99", 1), target: aTarget(), parts: []part{{Name: "a", Required: true, Reply: &dataplane.HistogramReply{
		Histogram: whole, Parts: parts, CoveredSeconds: windowSeconds, Requests: whole.Total()}}}}
}

// tallied runs a queue and judges each of its windows.
func tallied(t *testing.T, q queue) (out tally) {
	t.Helper()
	var all dataplane.Histogram
	var windows [][]*ll7.Histogram
	q.run(func(parts []*ll7.Histogram) {
		windows = append(windows, parts)
		for _, h := range parts {
			all.Merge(h)
		}
	})
	truth := q.percentile(0.99, &all)
	bucket := ll7.UpperEdge(ll7.Index(uint64(truth)))
	add := func(to *int, when bool) {
		if when {
			*to++
		}
	}
	for _, parts := range windows {
		s := read(parts)
		m, err := measure(s)
		if err != nil {
			t.Fatal(err)
		}
		add(&out.above, m.low.Nanoseconds > bucket)
		add(&out.below, m.high.Bound == ll7.Finite && m.high.Nanoseconds < bucket)
		add(&out.open, m.open)
		low, high, _ := independently(s.parts[0].Reply.Histogram, 0.99)
		add(&out.alone, low.Nanoseconds <= bucket && bucket <= high.Nanoseconds)
		met := func(factor float64) verdict.Verdict {
			// Times here are at least 100 us: a microsecond more is nothing.
			s.slo.Spec.LatencyMicroseconds = int32(float64(bucket)*factor/1000) + 1
			return decideMet(s.slo, m, 1000)
		}
		at := met(1)
		add(&out.missed, at.Status == metav1.ConditionFalse)
		add(&out.shown, at.Reason == v1alpha1.ReasonObjectiveMet)
		add(&out.unknown, at.Status == metav1.ConditionUnknown)
		add(&out.missedAtLess, met(0.7).Status == metav1.ConditionFalse)
		add(&out.shownAtMore, met(1.5).Reason == v1alpha1.ReasonObjectiveMet)
	}
	out.windows = len(windows)
	return out
}

// L-58: the interval holds the percentile in nine of ten windows at least where a window
// holds enough independent stretches: a long queue is forgotten after some
// service/(workers (1 - sqrt(load))^2), and 30 s are 90 times that or more here.
// Where requests wait, those that take them for independent do not come near.
func TestCoverageOfQueues(t *testing.T) {
	t.Parallel()
	for _, q := range []queue{
		{name: "independent", load: 0.5, service: 0.0005, windows: 100},
		{name: "M/M/1 at 0.7", workers: 1, load: 0.7, service: 0.001, windows: 100},
		{name: "M/M/16 at 0.9", workers: 16, load: 0.9, service: 0.004, windows: 60},
		{name: "M/M/64 at 0.97", workers: 64, load: 0.97, service: 0.005, windows: 40},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := tallied(t, q)
			t.Logf("%+v", c)
			if !c.is(c.windows-c.above-c.below, 0.9) || c.is(c.missed, 0.05) || c.is(c.shown, 0.101) {
				t.Error("with the objective at the percentile: the interval lies beside it, or says False or that it is met, too often")
			}
			if q.workers == 0 && !(c.is(c.alone, 0.9) && c.is(c.missedAtLess, 1) && c.is(c.shownAtMore, 1)) {
				t.Error("independent requests leave doubt")
			}
			if q.workers > 0 && c.is(c.alone, 0.6) {
				t.Error("nothing is alike here: the test shows nothing")
			}
			if !c.is(c.missedAtLess, 0.5) || !c.is(c.shownAtMore, 0.5) {
				t.Error("the interval is of no use: neither False at 0.7 of the percentile nor shown to be met at 1.5 of it")
			}
		})
	}
}

// Where a window holds a stretch or two, no window says what the percentile is in the
// long run. What must not happen is a miss that is none.
func TestNoMissIsMadeUp(t *testing.T) {
	t.Parallel()
	for _, q := range []queue{
		{name: "M/M/16 at 0.95, slow", workers: 16, load: 0.95, service: 0.02, windows: 100},
		{name: "M/M/64 at 0.97, slow", workers: 64, load: 0.97, service: 0.1, windows: 100},
		{name: "swings within the window", workers: 8, load: 0.75, service: 0.01, swing: 0.2, period: 20, windows: 60},
		{name: "swings of two windows", workers: 8, load: 0.75, service: 0.01, swing: 0.2, period: 60, windows: 100},
		{name: "swings of ten windows", workers: 8, load: 0.75, service: 0.01, swing: 0.2, period: 300, windows: 100},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := tallied(t, q)
			t.Logf("%+v", c)
			if c.is(c.missed, 0.05) {
				t.Errorf("False in %d of %d windows with the objective at the percentile", c.missed, c.windows)
			}
			if !c.is(c.windows-c.alone, 0.5) {
				t.Error("nothing is alike here: the test shows nothing")
			}
		})
	}
}

// stretch is a part of n requests of 900 us, of which some take 1100 us.
func stretch(n, slow int) *ll7.Histogram {
	h := measured(n-slow, 900, 0, 3).Histogram
	h.Merge(measured(slow, 1100, 0, 3).Histogram)
	return h
}

// L-58: as many slow requests show a miss when they are spread, and show nothing when they
// come in one stretch; a stretch that lasts shows it again.
func TestStretches(t *testing.T) {
	for _, c := range []struct {
		name   string
		slow   []int // of 1000, from part to part
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		{"spread", []int{20, 22, 18, 20, 20, 21, 19, 20, 20, 20}, "False", v1alpha1.ReasonObjectiveMissed, "interval 1.1"},
		{"one stretch", []int{0, 0, 200, 0, 0, 0, 0, 0, 0, 0}, "Unknown", v1alpha1.ReasonTooFewIndependentSamples, "without an end"},
		{"one stretch, all of it slow", []int{0, 0, 1000, 0, 0, 0, 0, 0, 0, 0}, "Unknown", v1alpha1.ReasonTooFewIndependentSamples, "without an end"},
		{"one stretch, but within the allowance", []int{0, 0, 90, 0, 0, 0, 0, 0, 0, 0}, "True", v1alpha1.ReasonObjectiveInInterval, "without an end"},
		{"one stretch, as much above the allowance as chance makes it", []int{0, 0, 115, 0, 0, 0, 0, 0, 0, 0}, "True", v1alpha1.ReasonObjectiveInInterval, "without an end"},
		{"one stretch, more above it than that", []int{0, 0, 125, 0, 0, 0, 0, 0, 0, 0}, "Unknown", v1alpha1.ReasonTooFewIndependentSamples, "without an end"},
		{"two fifths of the window", []int{1000, 1000, 1000, 1000, 10, 0, 0, 0, 0, 0}, "False", v1alpha1.ReasonObjectiveMissed, ""},
		{"less than that", []int{1000, 1000, 1000, 980, 0, 0, 0, 0, 0, 0}, "Unknown", v1alpha1.ReasonTooFewIndependentSamples, ""},
		{"nothing", []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "True", v1alpha1.ReasonObjectiveMet, ""},
		{"hardly anything", []int{2, 1, 0, 2, 1, 2, 1, 0, 1, 2}, "True", v1alpha1.ReasonObjectiveMet, ""},
		{"about as much as allowed", []int{10, 12, 8, 11, 9, 12, 11, 10, 12, 9}, "True", v1alpha1.ReasonObjectiveInInterval, "to 1.1"},
		{"a young service", []int{400}, "Unknown", v1alpha1.ReasonTooFewIndependentSamples, "95 % interval not known"},
		{"two parts", []int{30, 60}, "Unknown", v1alpha1.ReasonTooFewIndependentSamples, "901us and above"},
		{"two parts, all slow", []int{1000, 1000}, "False", v1alpha1.ReasonObjectiveMissed, ""},
		{"four parts, mostly slow", []int{900, 800, 1000, 900}, "False", v1alpha1.ReasonObjectiveMissed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var parts []*ll7.Histogram
			for _, slow := range c.slow {
				parts = append(parts, stretch(1000, slow))
			}
			s := read(parts)
			s.slo.Spec.LatencyMicroseconds = 1000
			m, err := measure(s)
			if err != nil {
				t.Fatal(err)
			}
			v := decideMet(s.slo, m, 1000)
			if v.Status != c.status || v.Reason != c.reason || !strings.Contains(v.Message, c.says) {
				t.Errorf("%s %s: %q, %d independent", v.Status, v.Reason, v.Message, m.independent)
			}
			if strings.Contains(v.Message, "independent") != (m.unknown || m.independent < m.samples/3) {
				t.Errorf("%q, of %d", v.Message, m.samples)
			}
		})
	}
}

// L-58, and what docs/guides/operations.md says of it: for how many of the ten parts every
// request must be slow until that is a miss, by Markov's inequality for high
// percentiles, by Student's t for the others; before, it is Unknown at most.
func TestOutages(t *testing.T) {
	for percentile, want := range map[string]int{"99.9": 1, "99.5": 3, "99": 5, "98.5": 7, "98": 7, "97.5": 7, "95": 7, "90": 7, "75": 9, "50": 9} {
		for slow := 1; slow <= windowParts; slow++ {
			var parts []*ll7.Histogram
			for i := range windowParts {
				parts = append(parts, stretch(2000, map[bool]int{true: 2000}[i < slow]))
			}
			s := read(parts)
			s.slo.Spec.Percentile, s.slo.Spec.LatencyMicroseconds = percentile, 1000
			m, err := measure(s)
			if err != nil {
				t.Fatal(err)
			}
			v, allowed := decideMet(s.slo, m, 1000), m.value.Nanoseconds <= 1_000_000
			if (v.Status == metav1.ConditionFalse) != (slow >= want) || (v.Status == metav1.ConditionTrue) != allowed {
				t.Errorf("p%s, %d parts of %d slow: %s %s; want False from %d on", percentile, slow, windowParts, v.Status, v.Reason, want)
			}
		}
	}
}

// Parts of several routers are merged from the newest on, whatever their age; one
// that does not tell its parts takes the whole back to requests that pass for
// independent, and the message says so.
func TestPartsOfSeveral(t *testing.T) {
	two := func(n int) *dataplane.HistogramReply {
		r := measured(0, 0, 0, 30)
		for range n {
			h := stretch(100*n, n)
			r.Parts = append(r.Parts, h)
			r.Histogram.Merge(h)
		}
		return r
	}
	all := []part{{Name: "a", Reply: two(10)}, {Name: "b", Reply: two(3)}, {Name: "c", Reply: &dataplane.HistogramReply{Histogram: &dataplane.Histogram{}}}, {Name: "d", Err: fmt.Errorf("gone")}}
	parts, without := inParts(all)
	if len(parts) != 10 || without != nil || parts[0].Total() != 1300 || parts[3].Total() != 1000 || two(10).Parts[0].Total() != 1000 {
		t.Errorf("%d parts, not of %v", len(parts), without)
	}
	old := measured(1500, 900, 0, 30)
	all = append(all, part{Name: "old", Required: true, Reply: old})
	s := &snapshot{slo: anObjective("99", 1000), target: aTarget(), parts: all}
	m, err := measure(s)
	if err != nil {
		t.Fatal(err)
	}
	v := decideMet(s.slo, m, 1000)
	if parts, _ := inParts(all); parts != nil || v.Status != metav1.ConditionTrue || !strings.Contains(v.Message, "old does not tell") {
		t.Errorf("%s: %q", v.Status, v.Message)
	}
}
