// SPDX-License-Identifier: Apache-2.0

package ll7

import "fmt"

// FromCounts is the histogram of values that somebody else has sorted into buckets:
// how many there are in each, their sum in nanoseconds, and how many were never
// answered.
func FromCounts(buckets map[int]uint64, sum, inf uint64) (*Histogram, error) {
	h := &Histogram{sum: sum, inf: inf, total: inf}
	for index, n := range buckets {
		if index < 0 || index >= Buckets {
			return nil, fmt.Errorf("ll7 histogram: bucket: must be 0..%d; got %d", Buckets-1, index)
		}
		h.grow()
		h.counts[index] += n
		h.total += n
	}
	return h, nil
}
