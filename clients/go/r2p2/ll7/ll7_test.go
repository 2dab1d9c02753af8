// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestIndexAndUpperEdge(t *testing.T) {
	for _, c := range []struct {
		v     uint64
		index int
		edge  uint64
	}{
		{0, 0, 1023},
		{1023, 0, 1023},
		{1024, 1, 1031},
		{1031, 1, 1031},
		{1032, 2, 1039},
		{2047, 128, 2047},
		{2048, 129, 2063},
		{1_000_000, 1 + (19-10)*128 + 116, 1_003_519},
		{1<<37 - 1, 3456, 1<<37 - 1},
		{1 << 37, Overflow, 1 << 37},
		{math.MaxUint64, Overflow, 1 << 37},
	} {
		if got := Index(c.v); got != c.index {
			t.Errorf("Index(%d) = %d, want %d", c.v, got, c.index)
		}
		if got := UpperEdge(c.index); got != c.edge {
			t.Errorf("UpperEdge(%d) = %d, want %d", c.index, got, c.edge)
		}
	}
}

// DESIGN §1 rule 5: buckets are at most 1 % wide from 1 µs up, and they tile
// the line without a gap.
func TestBucketsTileTheLine(t *testing.T) {
	low := uint64(0)
	for i := range Overflow {
		high := UpperEdge(i)
		if Index(low) != i || Index(high) != i || Index(high+1) != i+1 {
			t.Fatalf("bucket %d does not hold exactly %d..%d", i, low, high)
		}
		if i > 0 && float64(high-low+1) > 0.01*float64(low) {
			t.Fatalf("bucket %d is %d wide at %d, more than 1 %%", i, high-low+1, low)
		}
		low = high + 1
	}
	if low != OverflowEdge {
		t.Fatalf("the overflow bucket starts at %d, want %d", low, OverflowEdge)
	}
}

func TestPercentileAgainstSortedSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	samples := make([]uint64, 0, 5000)
	for range 5000 {
		v := uint64(math.Exp(r.Float64()*18) * 1000)
		samples = append(samples, v)
		h.Record(v)
	}
	slices.Sort(samples)
	for _, c := range []struct {
		p    string
		rank int
	}{{"0.02", 1}, {"50", 2500}, {"99", 4950}, {"99.9", 4995}, {"99.98", 4999}, {"100", 5000}} {
		got, err := h.Percentile(c.p)
		if err != nil {
			t.Fatal(err)
		}
		want := UpperEdge(Index(samples[c.rank-1]))
		if got.Nanoseconds != want {
			t.Errorf("p%s = %v, want %d ns", c.p, got, want)
		}
	}
}

// A binary float would make rank 1000 of 99.9 % of 1000.
func TestPercentileRankIsExact(t *testing.T) {
	var h Histogram
	for range 999 {
		h.Record(2000)
	}
	h.Record(1_000_000_000)
	if got, _ := h.Percentile("99.9"); got.Nanoseconds != UpperEdge(Index(2000)) {
		t.Errorf("p99.9 = %v, want the 999th of 1000 values", got)
	}
	if got, _ := h.Percentile("99.91"); got.Nanoseconds != UpperEdge(Index(1_000_000_000)) {
		t.Errorf("p99.91 = %v, want the 1000th of 1000 values", got)
	}
}

func TestPercentileBounds(t *testing.T) {
	var h Histogram
	if v, _ := h.Percentile("99"); v.Bound != NoValue || !math.IsNaN(v.Microseconds()) || v.String() != "–" {
		t.Errorf("empty histogram gives %v", v)
	}
	h.Record(5_000_000)
	h.RecordInf()
	if v, _ := h.Percentile("50"); v.Bound != Finite || v.String() != "5014µs" || v.Microseconds() != 5014 {
		t.Errorf("p50 = %v", v)
	}
	if v, _ := h.Percentile("99"); v.Bound != Infinite || !math.IsInf(v.Microseconds(), 1) || v.String() != "+∞" {
		t.Errorf("p99 = %v, want +∞: unanswered requests count", v)
	}
	h.Reset()
	h.Record(1 << 40)
	if v, _ := h.Percentile("1"); v.Bound != AtLeast || v.String() != "≥137438953µs" {
		t.Errorf("overflow = %v", v)
	}
	for _, p := range []string{"", "0", "0.0", "100.1", "-1", "9 9", "99.", ".9", "1e1", "NaN", "99.99999999", "9999999999"} {
		if _, err := h.Percentile(p); !errors.Is(err, ErrPercentile) {
			t.Errorf("Percentile(%q) = %v, want ErrPercentile", p, err)
		}
	}
}

func TestMergeEqualsOneHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var one, a, b Histogram
	for i := range 1000 {
		v := r.Uint64N(1 << 38)
		one.Record(v)
		if i%3 == 0 {
			a.Record(v)
		} else {
			b.Record(v)
		}
	}
	one.RecordInf()
	b.RecordInf()
	m := a.Clone()
	m.Merge(&b)
	m.Merge(nil)
	m.Merge(&Histogram{})
	want, _ := json.Marshal(&one)
	got, _ := json.Marshal(m)
	if string(got) != string(want) {
		t.Errorf("merged %s\nwant   %s", got, want)
	}
}

func TestJSON(t *testing.T) {
	var h Histogram
	h.Record(0)
	h.Record(1500)
	h.Record(1500)
	h.RecordInf()
	text, err := json.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"encoding":"ll7","total":4,"inf":1,"sumNanoseconds":3000,"buckets":[[0,1],[60,2]]}`
	if string(text) != want {
		t.Fatalf("got  %s\nwant %s", text, want)
	}
	var back Histogram
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.Total() != 4 || back.Inf() != 1 || back.Count(60) != 2 || back.SumNanoseconds() != 3000 {
		t.Errorf("read back %+v", back)
	}
	if text, _ := json.Marshal(&Histogram{}); string(text) != `{"encoding":"ll7","total":0,"inf":0,"sumNanoseconds":0,"buckets":[]}` {
		t.Errorf("empty: %s", text)
	}
}

func TestJSONRefusesWhatDoesNotAddUp(t *testing.T) {
	for _, c := range []struct{ text, field string }{
		{`{"encoding":"hdr","total":0,"inf":0,"sumNanoseconds":0,"buckets":[]}`, "encoding"},
		{`{"encoding":"ll7","total":2,"inf":0,"sumNanoseconds":0,"buckets":[[1,1]]}`, "total"},
		{`{"encoding":"ll7","total":2,"inf":0,"sumNanoseconds":0,"buckets":[[3458,2]]}`, "buckets[0]: index must ascend within 0..3457"},
		{`{"encoding":"ll7","total":2,"inf":0,"sumNanoseconds":0,"buckets":[[5,1],[5,1]]}`, "buckets[1]"},
		{`{"encoding":"ll7","total":1,"inf":0,"sumNanoseconds":0,"buckets":[[5,18446744073709551615],[6,2]]}`, "buckets[1]"},
		{`{"encoding":"ll7","total":-1}`, "total"},
		{`[]`, ""},
	} {
		h := Histogram{inf: 7, total: 7}
		err := json.Unmarshal([]byte(c.text), &h)
		if err == nil || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s: error %v, want one naming %q", c.text, err, c.field)
		}
		if h.total != 7 {
			t.Errorf("%s: the histogram changed although it was refused", c.text)
		}
	}
}

func TestCountAtMost(t *testing.T) {
	var h Histogram
	for _, v := range []uint64{500, 1500, 5000, 1 << 39} {
		h.Record(v)
	}
	h.RecordInf()
	for _, c := range []struct{ limit, want uint64 }{{100, 0}, {1023, 1}, {1500, 1}, {1503, 2}, {6000, 3}, {math.MaxUint64, 3}} {
		if got := h.CountAtMost(c.limit); got != c.want {
			t.Errorf("CountAtMost(%d) = %d, want %d", c.limit, got, c.want)
		}
	}
}

// What is a percentile, as a share, and what is none: nine digits at most, a point between two of them.
func TestParsePercent(t *testing.T) {
	for text, want := range map[string][2]uint64{
		"1": {1, 100}, "50": {50, 100}, "100": {100, 100}, "99.9": {999, 1000}, "0.000001": {1, 100_000_000}, "99.999999": {99_999_999, 100_000_000},
		"001": {1, 100}, "000000001": {1, 100}, "0000000001": {}, "": {}, "0": {}, "0.0": {}, "101": {}, "100.1": {}, "0.0000001": {},
		"5.": {}, ".5": {}, ".": {}, "5.5.5": {}, "5/": {}, "5:": {}, "1 ": {}, "-1": {}, "+1": {}, "5e1": {},
	} {
		num, den, err := parsePercent(text)
		if (err == nil) != (want != [2]uint64{}) || err == nil && want != [2]uint64{num, den} {
			t.Errorf("%q: %d/%d, %v, want %v", text, num, den, err, want)
		}
	}
}

// Many at once are as many one by one.
func TestRecordMany(t *testing.T) {
	one, many := &Histogram{}, &Histogram{}
	for v, times := range map[uint64]int{900: 3, 5000: 2, 7000: 0} {
		many.RecordMany(v, uint64(times))
		for range times {
			one.Record(v)
		}
	}
	if many.Total() != 5 || many.SumNanoseconds() != 3*900+2*5000 || many.Total() != one.Total() || many.CountAtMost(1023) != 3 {
		t.Errorf("%d values, %d ns, %d below 1024 ns", many.Total(), many.SumNanoseconds(), many.CountAtMost(1023))
	}
}
