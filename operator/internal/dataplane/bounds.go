// SPDX-License-Identifier: Apache-2.0

package dataplane

import "iter"

// Bounds are those of the classic histograms that Prometheus is shown, in
// seconds, each with how many values lie below it: two for each power of two,
// 1.024 µs to 103 s. Each is an edge of the histogram's own buckets, so that no
// value is attributed by interpolation, and all who show a histogram have the
// same ones, so that theirs add up.
func Bounds(h *Histogram) iter.Seq2[float64, uint64] {
	return func(yield func(float64, uint64) bool) {
		for exp := 10; exp <= 36; exp++ {
			for _, edge := range []uint64{1 << exp, 3 << (exp - 1)} {
				if !yield(float64(edge)/1e9, h.CountAtMost(edge-1)) {
					return
				}
			}
		}
	}
}
