// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval names the two order statistics, as 1-based ranks of the sorted
// samples, between which a percentile of the underlying distribution lies with
// the wanted confidence (L-43).
type Interval struct {
	Low, High uint64
	// Defined is false when a rank fell outside 1…n and was cut to it: the
	// samples do not reach far enough into the tail (L-45).
	Defined bool
}

// PercentileInterval gives the ranks for n independent samples, percentile p and
// confidence gamma, both as shares of one, exclusive. The number of samples below
// the percentile is binomial, here by its normal approximation.
func PercentileInterval(n uint64, p, gamma float64) Interval {
	if n == 0 {
		return Interval{}
	}
	eta := distuv.UnitNormal.Quantile((1 + gamma) / 2)
	mean := float64(n) * p
	half := eta * math.Sqrt(mean*(1-p))
	low, high := math.Floor(mean-half), math.Ceil(mean+half)+1
	return Interval{
		Low:     uint64(max(1, low)),
		High:    uint64(min(float64(n), high)),
		Defined: low >= 1 && high <= float64(n),
	}
}

// SamplesNeeded is the smallest number of samples that gives a defined interval
// (L-45): 563 for p99 at 95 %.
func SamplesNeeded(p, gamma float64) uint64 {
	n := uint64(1)
	for !PercentileInterval(n, p, gamma).Defined {
		n *= 2
	}
	low := n / 2 // not defined, or 0
	for n-low > 1 {
		middle := low + (n-low)/2
		if PercentileInterval(middle, p, gamma).Defined {
			n = middle
		} else {
			low = middle
		}
	}
	// Rounding makes the edge ragged by a sample or two: take its lower end.
	for n > 1 && anyDefined(n, p, gamma) != n {
		n = anyDefined(n, p, gamma)
	}
	return n
}

// anyDefined is the smallest size within ragged below n whose interval is defined.
func anyDefined(n uint64, p, gamma float64) uint64 {
	const ragged = 8
	for smaller := n - min(ragged, n-1); smaller < n; smaller++ {
		if PercentileInterval(smaller, p, gamma).Defined {
			return smaller
		}
	}
	return n
}
