// SPDX-License-Identifier: Apache-2.0

package stretches

import (
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// requests of so many microseconds each, and unanswered ones.
func requests(count int, microseconds uint64, unanswered int) *ll7.Histogram {
	h := &ll7.Histogram{}
	for range count {
		h.Record(microseconds * 1000)
	}
	for range unanswered {
		h.RecordInf()
	}
	return h
}

// L-58: service times that hardly differ put most requests into two buckets. How many fall
// into which says nothing about the percentile, and its interval ends.
func TestFewBuckets(t *testing.T) {
	var parts []*ll7.Histogram
	for _, more := range []int{15, -15, 20, -20, 10, -10, 16, -16, 12, -12} {
		h := requests(600-more, 900, 0)
		h.Merge(requests(395+more, 910, 0))
		h.Merge(requests(5, 5000, 0))
		parts = append(parts, h)
	}
	st := New(parts, 0.99)
	if len(st.buckets) != 3 || st.reach(0) < st.q {
		t.Fatalf("%d buckets, reach %g: the test shows nothing", len(st.buckets), st.reach(0))
	}
	if s := st.Interval(); s.Open || s.Low != s.High || s.High != st.value(1) {
		t.Errorf("%+v, want the second bucket alone", s)
	}
}

// Requests that were never answered are the slowest of all.
func TestUnansweredStretches(t *testing.T) {
	var parts []*ll7.Histogram
	for i := range Parts {
		parts = append(parts, requests(1000-20-i%2, 900, 20+i%2))
	}
	if s := New(parts, 0.99).Interval(); s.Low.Bound != ll7.Infinite || s.High.Bound != ll7.Infinite || s.Open {
		t.Errorf("%+v", s)
	}
	for i := range parts {
		parts[i] = requests(1000-8-i%2, 900, 8+i%2)
	}
	if s := New(parts, 0.99).Interval(); s.Low.Bound != ll7.Finite || s.High.Bound != ll7.Infinite || s.Open {
		t.Errorf("%+v", s)
	}
}
