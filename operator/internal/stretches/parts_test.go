// SPDX-License-Identifier: Apache-2.0

package stretches

import (
	"fmt"
	"math"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// tails are parts of so many requests each, of which the given numbers were slow.
func tails(size int, slow ...int) (parts []*ll7.Histogram) {
	for _, n := range slow {
		h := requests(size-n, 900, 0)
		h.Merge(requests(n, 5000, 0))
		parts = append(parts, h)
	}
	return parts
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }

// Neighbours are put together two by two, the odd one stays alone.
func TestPaired(t *testing.T) {
	for _, c := range []struct{ parts, want []int }{
		{nil, nil}, {[]int{1}, []int{1}}, {[]int{1, 2}, []int{3}}, {[]int{1, 2, 4}, []int{3, 4}}, {[]int{1, 2, 4, 8}, []int{3, 12}},
	} {
		var parts []*ll7.Histogram
		for _, n := range c.parts {
			parts = append(parts, requests(n, 900, 0))
		}
		got := paired(parts)
		for i := range got {
			if len(got) != len(c.want) || got[i].Total() != uint64(c.want[i]) {
				t.Errorf("%v: %d pairs, the %d. of %d", c.parts, len(got), i+1, got[i].Total())
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%v: %d pairs", c.parts, len(got))
		}
		for i, n := range c.parts { // what is read is not changed
			if parts[i].Total() != uint64(n) {
				t.Errorf("%v: part %d holds %d now", c.parts, i, parts[i].Total())
			}
		}
	}
}

// Two parts say how they differ, one does not; pairs are judged from four of them on.
// Parts without requests are none.
func TestHowThePartsAreCut(t *testing.T) {
	for _, c := range []struct {
		parts int
		want  []int
	}{{0, nil}, {1, nil}, {2, []int{2}}, {6, []int{6}}, {7, []int{7, 4}}, {8, []int{8, 4}}, {10, []int{10, 5}}} {
		parts := []*ll7.Histogram{{}}
		for range c.parts {
			parts = append(parts, requests(3, 900, 0), &ll7.Histogram{})
		}
		s := New(parts, 0.99)
		if len(s.groups) != len(c.want) || s.total != float64(3*c.parts) {
			t.Fatalf("%d parts: %d groups of %v requests", c.parts, len(s.groups), s.total)
		}
		for i, n := range c.want {
			if len(s.groups[i].size) != n {
				t.Errorf("%d parts: group %d has %d", c.parts, i, len(s.groups[i].size))
			}
		}
		if out := s.Interval(); out.Unknown != (c.want == nil) {
			t.Errorf("%d parts: %+v", c.parts, out)
		}
	}
}

// By hand: of four parts with 100 requests each, 0, 8, 0 and 0 are slow. The share is
// 8/400; the parts are 2, 6, 2 and 2 requests off it, whose squares add up to 48; 4/3 of
// that over 400² is the variance. Student's t of three differences is 3.18245.
func TestByHand(t *testing.T) {
	const student = 3.182446305
	s := New(tails(100, 0, 8, 0, 0), 0.99)
	for i, want := range map[int]float64{-1: 1, 0: 0.02, 1: 0} {
		if got := s.share(i); !near(got, want) {
			t.Errorf("share %d: %v, want %v", i, got, want)
		}
	}
	for i, want := range []float64{4.0 / 3 * 48 / 160_000, 0} {
		if got := s.groups[0].variance(i, s.total); !near(got, want) {
			t.Errorf("variance %d: %v, want %v", i, got, want)
		}
	}
	least := math.Sqrt(0.01 * 0.99 / 400) // that of independent requests
	for i, want := range map[int]float64{-1: student * least, 0: student * 0.02, 1: student * least} {
		if got := s.reach(i); !near(got, want) {
			t.Errorf("reach %d: %v, want %v", i, got, want)
		}
	}
	if got, want := s.independent(1), uint64(49); got != want { // 0.02 · 0.98 ÷ 0.0004
		t.Errorf("as %d independent ones, want %d", got, want)
	}
	if got := New(tails(100, 2, 2, 2, 2), 0.99).independent(1); got != 400 {
		t.Errorf("equal parts are %d independent requests, want all", got)
	}
	// A share of 0.2 doubts more than one of q does: 0.16 is scaled to twice 0.01 · 0.99.
	s = New(tails(100, 10, 30, 20, 20), 0.99)
	reach := student * math.Sqrt(4.0/3*200/160_000)
	if got, want := s.reachAt(1), reach*math.Sqrt(0.0198/0.16); !near(got, want) || !near(s.reach(0), reach) {
		t.Errorf("reach %v at the percentile, want %v; %v beside it, want %v", got, want, s.reach(0), reach)
	}
}

// served are parts whose numbers of requests of each speed differ a little.
func served(parts int) (out []*ll7.Histogram) {
	for k := range parts {
		h := requests(500, 100, 0)
		for us, n := range map[uint64]int{200: 300 + k, 400: 150 - k, 800: 40, 1600: 8 + k%3, 3200: 2 - k%2} {
			h.Merge(requests(n, us, 0))
		}
		out = append(out, h)
	}
	return out
}

// Whole intervals: the upper edges of the buckets that their ends lie in, where nothing
// bounds the high end it is open, and as how many independent requests all count.
func TestWholeIntervals(t *testing.T) {
	burst, overflow := served(10), served(10)
	burst[3].Merge(requests(100, 6400, 0))
	for _, h := range overflow {
		h.Merge(requests(20, ll7.OverflowEdge/1000+1, 0))
	}
	for _, c := range []struct {
		name, want  string
		parts       []*ll7.Histogram
		p           float64
		independent uint64
	}{
		{"the median", "101µs to 201µs", served(10), 0.5, 10004},
		{"p90", "402µs to 402µs", served(10), 0.9, 10004},
		{"p99", "803µs to 1606µs", served(10), 0.99, 10004},
		{"p99.9", "1606µs to 3212µs", served(10), 0.999, 10004},
		{"p99.99", "3212µs to +∞, open", served(10), 0.9999, 10004},
		{"of two parts", "803µs to +∞, open", served(2), 0.99, 2000},
		{"of seven", "803µs to 1606µs", served(7), 0.99, 7003},
		{"a burst", "803µs to +∞, open", burst, 0.99, 102},
		{"a burst at p95", "402µs to 803µs", burst, 0.95, 209},
		{"beyond the histogram", "≥137438953µs to ≥137438953µs", overflow, 0.99, 10204},
	} {
		i := New(c.parts, c.p).Interval()
		got := fmt.Sprintf("%v to %v", i.Low, i.High)
		if i.Open {
			got += ", open"
		}
		if got != c.want || i.Independent != c.independent || i.Unknown {
			t.Errorf("%s: %s of %d independent requests, want %s of %d", c.name, got, i.Independent, c.want, c.independent)
		}
	}
}

// Every rank is read as itself: of fast requests the last one is fast, and the next is slow.
func TestAtRank(t *testing.T) {
	for _, total := range []int{1, 3, 7, 1000, 1024} {
		for fast := range total + 1 {
			h := requests(fast, 900, 0)
			h.Merge(requests(total-fast, 5000, 0))
			for rank, slow := range map[int]bool{fast: false, fast + 1: true, 1: fast == 0, total: fast < total} {
				if rank < 1 || rank > total {
					continue
				}
				v, err := AtRank(h, uint64(rank))
				if err != nil || (v.Nanoseconds > 1_000_000) != slow {
					t.Errorf("rank %d of %d, %d of them fast: %v, %v", rank, total, fast, v, err)
				}
			}
		}
	}
	if v, err := AtRank(requests(2, 900, 0), 0); err != nil || v.Nanoseconds > 1_000_000 {
		t.Errorf("below the first: %v, %v", v, err)
	}
}

// L-45: 563 independent samples bound p99, 562 do not.
func TestIndependently(t *testing.T) {
	for n, want := range map[int]bool{562: false, 563: true} {
		h := requests(n-10, 900, 0)
		h.Merge(requests(10, 5000, 0))
		low, high, reaches, err := Independently(h, 0.99)
		if err != nil || reaches != want || low.Nanoseconds > 1_000_000 || high.Nanoseconds < 5_000_000 {
			t.Errorf("%d: %v to %v, reaches %v, %v", n, low, high, reaches, err)
		}
	}
}
