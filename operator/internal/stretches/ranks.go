// SPDX-License-Identifier: Apache-2.0

package stretches

import (
	"fmt"
	"math/big"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/stats"
)

// Independently reads the ends of a percentile's interval from a merged histogram (L-43), as if no request had anything to
// do with its neighbour. Queueing makes neighbours alike: this is for readings without parts, and says too much. Near the
// largest sample its ends are cut to the samples there are; reaches says that they were not.
func Independently(h *ll7.Histogram, p float64) (low, high ll7.Value, reaches bool, err error) {
	ranks := stats.PercentileInterval(h.Total(), p, Confidence)
	if low, err = AtRank(h, ranks.Low); err != nil {
		return low, high, false, err
	}
	high, err = AtRank(h, ranks.High)
	return low, high, ranks.Defined, err
}

// AtRank is the value of one rank. Histograms are asked by percentile, so the rank is written as one, cut (not rounded) to
// six digits: the histogram rounds the rank up again.
func AtRank(h *ll7.Histogram, rank uint64) (ll7.Value, error) {
	share := new(big.Int).SetUint64(rank)
	share.Mul(share, big.NewInt(100_000_000)).Div(share, new(big.Int).SetUint64(h.Total()))
	millionths := max(share.Uint64(), 1)
	v, err := h.Percentile(fmt.Sprintf("%d.%06d", millionths/1_000_000, millionths%1_000_000))
	if err != nil {
		return v, fmt.Errorf("read rank %d of %d: %w", rank, h.Total(), err)
	}
	return v, nil
}
