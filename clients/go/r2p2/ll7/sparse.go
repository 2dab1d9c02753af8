// SPDX-License-Identifier: Apache-2.0

package ll7

// Sparse is a histogram that holds only its filled buckets: a few hundred
// bytes instead of 27 KiB, for keeping many of them.
type Sparse struct {
	buckets         []filled // ascending
	inf, sum, total uint64
}

type filled struct {
	index uint16
	count uint64
}

// Sparse returns the histogram's counts in that form.
func (h *Histogram) Sparse() Sparse {
	s := Sparse{inf: h.inf, sum: h.sum, total: h.total}
	for i, c := range h.counts {
		if c > 0 {
			s.buckets = append(s.buckets, filled{uint16(i), c})
		}
	}
	return s
}

// MergeSparse adds the counts of s.
func (h *Histogram) MergeSparse(s Sparse) {
	h.inf += s.inf
	h.sum += s.sum
	h.total += s.total
	if len(s.buckets) > 0 {
		h.grow()
	}
	for _, b := range s.buckets {
		h.counts[b.index] += b.count
	}
}
