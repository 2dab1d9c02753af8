// SPDX-License-Identifier: Apache-2.0

// How far to trust a percentile: the confidence interval of an order statistic.
package slo

import (
	"fmt"
	"math"
	"math/big"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// z is the two-sided 95 % quantile of the normal distribution.
const z = 1.959964

// ranks are the 1-based ranks between which the percentile q (a share of one)
// of the underlying distribution lies with 95 % confidence, given n samples:
// the number of samples below it is binomial, here by its normal approximation,
// which `tail` samples beyond the percentile justify. Requests are taken as
// independent; queueing makes neighbours alike, so the true interval is wider.
func ranks(n uint64, q float64) (low, high uint64) {
	mean := float64(n) * q
	half := z * math.Sqrt(mean*(1-q))
	low = uint64(max(1, math.Floor(mean-half)))
	high = uint64(min(float64(n), math.Ceil(mean+half)+1))
	return low, high
}

// confidence reads the interval's ends from the merged histogram.
func confidence(h *dataplane.Histogram, percentile string) (low, high dataplane.Value, err error) {
	p, ok := new(big.Rat).SetString(percentile)
	if !ok || h.Total() == 0 {
		return low, high, nil
	}
	q, _ := new(big.Rat).Quo(p, big.NewRat(100, 1)).Float64()
	from, to := ranks(h.Total(), q)
	if low, err = atRank(h, from); err != nil {
		return low, high, err
	}
	high, err = atRank(h, to)
	return low, high, err
}

// atRank is the value of one rank. Histograms are asked by percentile, so the
// rank is written as one, cut (not rounded) to six digits: the histogram rounds
// the rank up again.
func atRank(h *dataplane.Histogram, rank uint64) (dataplane.Value, error) {
	share := new(big.Int).SetUint64(rank)
	share.Mul(share, big.NewInt(100_000_000)).Div(share, new(big.Int).SetUint64(h.Total()))
	millionths := max(share.Uint64(), 1)
	v, err := h.Percentile(fmt.Sprintf("%d.%06d", millionths/1_000_000, millionths%1_000_000))
	if err != nil {
		return v, fmt.Errorf("read rank %d of %d: %w", rank, h.Total(), err)
	}
	return v, nil
}
