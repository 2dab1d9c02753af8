// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// independencePairs bounds the pairs of one test: with more, correlations too
// small to matter for an interval would be significant (L-44).
const independencePairs = 20_000

// RankAutocorrelation compares a series, in order of transmission, with itself
// shifted by lag (L-41): Spearman's coefficient and the two-sided probability of
// one so far from zero if the samples are independent. NaN, NaN when fewer than
// four pairs are left; p is 1 for a constant series, in which nothing depends on
// anything.
func RankAutocorrelation(series []float64, lag int) (rho, p float64) {
	pairs := min(len(series)-lag, independencePairs)
	if lag < 1 || pairs < 4 {
		return math.NaN(), math.NaN()
	}
	rho = stat.Correlation(ranks(series[:pairs]), ranks(series[lag:lag+pairs]), nil)
	if math.IsNaN(rho) {
		return 0, 1
	}
	freedom := float64(pairs - 2)
	t := math.Abs(rho) * math.Sqrt(freedom/((1-rho)*(1+rho)))
	return rho, 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Survival(t)
}

// ranks gives every sample its place in the sorted series, 1-based; equal ones
// share the mean of theirs.
func ranks(series []float64) []float64 {
	order := make([]int, len(series))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(series[a], series[b]) })
	out := make([]float64, len(series))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && series[order[to]] == series[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to+1) / 2
		}
		from = to
	}
	return out
}
