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

// Since is what h holds beyond an earlier reading of the same growing counts; ok is
// false when h holds less of something, because the counts began anew in between.
func (h *Histogram) Since(earlier *Histogram) (more *Histogram, ok bool) {
	if h.inf < earlier.inf || h.sum < earlier.sum {
		return nil, false
	}
	more = &Histogram{sum: h.sum - earlier.sum, inf: h.inf - earlier.inf, total: h.inf - earlier.inf}
	for index := range max(len(h.counts), len(earlier.counts)) {
		now, before := h.Count(index), earlier.Count(index)
		if now < before {
			return nil, false
		}
		if now > before {
			more.grow()
			more.counts[index] = now - before
			more.total += now - before
		}
	}
	return more, true
}
