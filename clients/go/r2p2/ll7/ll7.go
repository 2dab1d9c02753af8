// SPDX-License-Identifier: Apache-2.0

// Package ll7 is the one latency-histogram encoding of Bobtail, the Go twin of
// dataplane/src/base/histogram.h.
//
// Values are nanoseconds. Bucket 0 holds everything below 1024 ns; each power
// of two from 2^10 to 2^36 is cut into 128 equal buckets, so that a bucket is
// at most 1/128 (0.8 %) of its own value wide; everything from 2^37 ns up goes
// to one overflow bucket. Requests that were never answered are kept apart and
// count as +∞ in every percentile.
//
// Histograms are merged, percentiles never are: add the counts of all parts,
// then ask for the percentile.
package ll7

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

const (
	// Buckets is the number of counters, the overflow bucket included.
	Buckets = 3458
	// Overflow is the index of the bucket for values of 2^37 ns and more.
	Overflow = Buckets - 1
	// OverflowEdge is the lowest value, in ns, of the overflow bucket.
	OverflowEdge = uint64(1) << 37

	minExponent = 10
	subBuckets  = 128
)

// Index returns the bucket of a value in nanoseconds.
func Index(v uint64) int {
	if v < 1<<minExponent {
		return 0
	}
	e := bits.Len64(v) - 1
	if e >= 37 {
		return Overflow
	}
	return 1 + (e-minExponent)*subBuckets + int((v>>(e-7))&(subBuckets-1))
}

// UpperEdge returns the inclusive upper edge of a bucket in nanoseconds: the
// lowest value of the next bucket minus one. This is the value reported for
// the bucket. For Overflow it returns OverflowEdge, to be read as "at least".
func UpperEdge(index int) uint64 {
	switch {
	case index <= 0:
		return 1<<minExponent - 1
	case index >= Overflow:
		return OverflowEdge
	}
	e := (index-1)/subBuckets + minExponent
	sub := uint64((index - 1) % subBuckets)
	return (subBuckets+sub+1)<<(e-7) - 1
}

// Histogram is a mergeable latency histogram. The zero value is empty and
// ready for use. It is not safe for concurrent use.
type Histogram struct {
	counts []uint64 // nil while empty, else Buckets long
	inf    uint64
	sum    uint64
	total  uint64 // all counts + inf
}

// Record adds one value in nanoseconds.
func (h *Histogram) Record(v uint64) {
	h.grow()
	h.counts[Index(v)]++
	h.sum += v
	h.total++
}

// RecordMany adds the same value so many times.
func (h *Histogram) RecordMany(v, times uint64) {
	if times == 0 {
		return
	}
	h.grow()
	h.counts[Index(v)] += times
	h.sum += v * times
	h.total += times
}

// RecordInf adds one request that was never answered (+∞).
func (h *Histogram) RecordInf() {
	h.inf++
	h.total++
}

// Total returns the number of requests, the unanswered ones included.
func (h *Histogram) Total() uint64 { return h.total }

// Inf returns the number of requests that were never answered.
func (h *Histogram) Inf() uint64 { return h.inf }

// SumNanoseconds returns the sum of all finite values.
func (h *Histogram) SumNanoseconds() uint64 { return h.sum }

// Count returns the number of values in one bucket.
func (h *Histogram) Count(index int) uint64 {
	if h.counts == nil || index < 0 || index >= Buckets {
		return 0
	}
	return h.counts[index]
}

// Merge adds the counts of o; o may be nil.
func (h *Histogram) Merge(o *Histogram) {
	if o == nil {
		return
	}
	h.inf += o.inf
	h.sum += o.sum
	h.total += o.total
	if o.counts == nil {
		return
	}
	h.grow()
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// Clone returns an independent copy.
func (h *Histogram) Clone() *Histogram {
	c := &Histogram{}
	c.Merge(h)
	return c
}

// Reset empties the histogram and keeps its memory.
func (h *Histogram) Reset() {
	clear(h.counts)
	h.inf, h.sum, h.total = 0, 0, 0
}

func (h *Histogram) grow() {
	if h.counts == nil {
		h.counts = make([]uint64, Buckets)
	}
}

// CountAtMost returns how many values are certainly not above limit ns: the
// sum of all buckets whose upper edge is ≤ limit. It under-counts by at most
// one bucket (0.8 % of limit).
func (h *Histogram) CountAtMost(limit uint64) uint64 {
	var n uint64
	for i, c := range h.counts {
		if i == Overflow || UpperEdge(i) > limit {
			break
		}
		n += c
	}
	return n
}

// Bound says how to read a Value.
type Bound int

const (
	// NoValue: the histogram is empty.
	NoValue Bound = iota
	// Finite: Nanoseconds is the upper edge of the bucket.
	Finite
	// AtLeast: the value lies in the overflow bucket, at or above Nanoseconds.
	AtLeast
	// Infinite: the percentile falls on unanswered requests.
	Infinite
)

// Value is a percentile read from a histogram.
type Value struct {
	Bound       Bound
	Nanoseconds uint64
}

// Microseconds returns the value in µs, rounded up, and math.Inf(1) when the
// percentile falls on unanswered requests; NaN when the histogram is empty.
func (v Value) Microseconds() float64 {
	switch v.Bound {
	case NoValue:
		return math.NaN()
	case Infinite:
		return math.Inf(1)
	}
	return math.Ceil(float64(v.Nanoseconds) / 1000)
}

// String prints the value in microseconds: "812µs", "≥137438953µs", "+∞", "–".
func (v Value) String() string {
	switch v.Bound {
	case NoValue:
		return "–"
	case Infinite:
		return "+∞"
	case AtLeast:
		return fmt.Sprintf("≥%dµs", v.Nanoseconds/1000)
	}
	return fmt.Sprintf("%dµs", (v.Nanoseconds+999)/1000)
}

// ErrPercentile is returned for a percentile that is not a decimal in (0, 100].
var ErrPercentile = errors.New(`percentile must be a decimal above 0 and at most 100 with at most 6 digits after the point, such as "99.9"`)

// Percentile returns the value of the percentile written as a decimal, such as
// "99" or "99.9": the smallest bucket whose cumulative count reaches
// ceil(p/100 · total). A decimal string keeps the rank exact, where
// 99.9/100·1000 in binary floating point would not be 999.
func (h *Histogram) Percentile(p string) (Value, error) {
	num, den, err := parsePercent(p)
	if err != nil {
		return Value{}, err
	}
	return h.atRank(ceilMulDiv(h.total, num, den)), nil
}

func (h *Histogram) atRank(rank uint64) Value {
	if h.total == 0 {
		return Value{}
	}
	var seen uint64
	for i, c := range h.counts {
		seen += c
		if c > 0 && seen >= rank {
			if i == Overflow {
				return Value{AtLeast, OverflowEdge}
			}
			return Value{Finite, UpperEdge(i)}
		}
	}
	return Value{Bound: Infinite}
}

// parsePercent turns "99.9" into 999/1000 (a share of one, not of a hundred).
func parsePercent(p string) (num, den uint64, err error) {
	den = 100
	digits, point := 0, false
	for _, r := range []byte(p) {
		switch {
		case r == '.' && !point && digits > 0:
			point = true
		case r >= '0' && r <= '9' && digits < 9:
			digits++
			num = num*10 + uint64(r-'0')
			if point {
				den *= 10
			}
		default:
			return 0, 0, fmt.Errorf("%w; got %q", ErrPercentile, p)
		}
	}
	if digits == 0 || num == 0 || num > den || den > 100_000_000 || p[len(p)-1] == '.' {
		return 0, 0, fmt.Errorf("%w; got %q", ErrPercentile, p)
	}
	return num, den, nil
}

// ceilMulDiv returns ceil(a·num/den) for num ≤ den without overflow.
func ceilMulDiv(a, num, den uint64) uint64 {
	hi, lo := bits.Mul64(a, num)
	q, r := bits.Div64(hi, lo, den)
	if r > 0 {
		q++
	}
	return q
}
