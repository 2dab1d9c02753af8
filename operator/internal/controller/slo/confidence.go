// SPDX-License-Identifier: Apache-2.0

// How far to trust a percentile: the confidence interval of an order statistic.
package slo

import (
	"fmt"
	"math/big"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/stats"
)

// confidenceLevel is the one the API promises.
const confidenceLevel = 0.95

// confidence reads the interval's ends from the merged histogram (L-43). Requests
// are taken as independent; queueing makes neighbours alike, so the true interval
// is wider. Near the largest sample its ends are cut to the samples there are.
func confidence(h *dataplane.Histogram, percentile string) (low, high dataplane.Value, err error) {
	p, ok := new(big.Rat).SetString(percentile)
	if !ok || h.Total() == 0 {
		return low, high, nil
	}
	q, _ := new(big.Rat).Quo(p, big.NewRat(100, 1)).Float64()
	ranks := stats.PercentileInterval(h.Total(), q, confidenceLevel)
	if low, err = atRank(h, ranks.Low); err != nil {
		return low, high, err
	}
	high, err = atRank(h, ranks.High)
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
