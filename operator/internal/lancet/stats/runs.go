// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/combin"
)

// Runs is the outcome of a runs test of the slow samples of a series (L-49).
type Runs struct {
	Slow  int     // samples above the percentile
	Runs  int     // unbroken stretches of them
	Mean  float64 // runs to be expected of independent samples
	P     float64 // probability of as few runs or fewer, if the samples are independent
	Level float64 // the value a slow sample is above
}

// SlowRuns asks whether slow samples come one by one or in clusters: the test of
// Wald and Wolfowitz, On a Test Whether Two Samples are from the Same Population,
// Ann. Math. Stat. 11(2), 1940, on the indicator of latency above percentile p,
// one-sided and exact, so that it holds for the few exceedances of a far tail. A
// rank correlation does not see them: they are one sample in a hundred, and the
// interval of the percentile stands on them alone (L-43).
//
// Samples lag apart are compared; all lag interleaved series are laid end to end,
// which changes nothing for independent samples. P is 1 when nothing is slow or
// everything is, as in a constant series.
func SlowRuns(series []float64, p float64, lag int) Runs {
	n := len(series)
	if n == 0 || lag < 1 {
		return Runs{P: 1}
	}
	sorted := slices.Sorted(slices.Values(series))
	out := Runs{Level: sorted[min(max(int(math.Ceil(p*float64(n))), 1), n)-1]}
	before := false
	for first := range min(lag, n) {
		for i := first; i < n; i += lag {
			slow := series[i] > out.Level
			if slow {
				out.Slow++
				if !before {
					out.Runs++
				}
			}
			before = slow
		}
	}
	out.Mean = float64(out.Slow) * float64(n-out.Slow+1) / float64(n)
	out.P = fewRuns(n, out.Slow, out.Runs)
	return out
}

// fewRuns is the probability that k marked of n places, all arrangements equally
// likely, form at most runs unbroken stretches: Pr[r] = C(k−1, r−1)·C(n−k+1, r) ÷ C(n, k).
func fewRuns(n, k, runs int) float64 {
	if k == 0 || k == n {
		return 1
	}
	choose := func(n, k int) float64 { return combin.LogGeneralizedBinomial(float64(n), float64(k)) }
	all, sum := choose(n, k), 0.0
	for r := 1; r <= min(runs, n-k+1); r++ {
		sum += math.Exp(choose(k-1, r-1) + choose(n-k+1, r) - all)
	}
	return min(sum, 1)
}
