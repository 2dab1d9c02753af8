// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"testing"
	"time"
)

// DESIGN §1 rule 5: one-second slices, 600 of them, merged over any window that
// has passed; what is older is gone.
func TestWindow(t *testing.T) {
	now := uint64(1)
	w := &Window{clock: func() uint64 { return now }}
	for now = 1; now <= 1000; now++ {
		for range now % 5 {
			w.Arrived()
			w.Record(time.Duration(now) * time.Microsecond)
		}
		w.Rejected()
	}
	now = 1000 // one value in second 996, two in 997, …, none in 1000
	for _, c := range []struct {
		seconds  int
		end      uint64
		total    uint64
		rejected uint64
		covered  int
	}{
		{1, 0, 0, 1, 1}, {5, 0, 10, 5, 5}, {5, 1000, 10, 5, 5}, {2, 999, 7, 2, 2}, {600, 0, 1200, 600, 600},
		{600, 5000, 1200, 600, 600}, {10, 100, 0, 0, 10}, {600, 3, 0, 0, 3},
	} {
		s := w.Last(c.seconds, c.end)
		if s.Histogram.Total() != c.total || s.Arrived != c.total || s.Rejected != c.rejected || s.Covered != c.covered {
			t.Errorf("Last(%d, %d) = %d values, %d arrived, %d rejected, %d covered; want %+v",
				c.seconds, c.end, s.Histogram.Total(), s.Arrived, s.Rejected, s.Covered, c)
		}
	}
	now = 2000
	if s := w.Last(600, 0); s.Histogram.Total() != 0 {
		t.Errorf("after a silence of 1000 s there are still %d values", s.Histogram.Total())
	}
	if s := NewWindow(); s.Second() != 1 || s.Last(1, 0).Covered != 1 {
		t.Error("a new window lives in its first second")
	}
}

// Counts of somebody else go where values go, those without an answer among them.
func TestWindowMerge(t *testing.T) {
	now := uint64(1)
	w := &Window{clock: func() uint64 { return now }}
	var h Histogram
	h.Record(5000)
	h.Record(5000)
	h.RecordInf()
	w.Record(5 * time.Microsecond)
	w.Merge(&h)
	now = 2
	w.Merge(&h)
	w.Merge(&Histogram{})
	for seconds, want := range map[int][3]uint64{1: {3, 1, 10_000}, 2: {7, 2, 25_000}} {
		if s := w.Last(seconds, 0).Histogram; s.Total() != want[0] || s.Inf() != want[1] || s.SumNanoseconds() != want[2] || s.Count(Index(5000)) != want[0]-want[1] {
			t.Errorf("%d s: %d values, %d without an answer, %d ns in all; want %v", seconds, s.Total(), s.Inf(), s.SumNanoseconds(), want)
		}
	}
}
