// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"slices"
)

// A Distribution is fully specified: nothing of it is estimated from the samples
// it is compared with. Logarithms keep the far tail exact.
type Distribution interface {
	LogCDF(x float64) float64
	LogSurvival(x float64) float64
}

// Exponential is the distribution of the gaps of Poisson arrivals.
type Exponential struct{ Mean float64 }

// LogCDF is ln Pr[X ≤ x].
func (e Exponential) LogCDF(x float64) float64 {
	if x <= 0 {
		return math.Inf(-1)
	}
	return math.Log(-math.Expm1(-x / e.Mean))
}

// LogSurvival is ln Pr[X > x].
func (e Exponential) LogSurvival(x float64) float64 { return -max(x, 0) / e.Mean }

// AndersonDarling compares the samples with the distribution they were meant to
// follow (L-40). It returns the statistic A² and the probability of one at least
// as large if they do. A sample outside the distribution's support makes A²
// infinite and p zero. NaN, NaN for fewer than two samples.
func AndersonDarling(samples []float64, d Distribution) (a2, p float64) {
	n := len(samples)
	if n < 2 {
		return math.NaN(), math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	sum := 0.0
	for i := range n {
		sum += float64(2*i+1) * (d.LogCDF(sorted[i]) + d.LogSurvival(sorted[n-1-i]))
	}
	a2 = -float64(n) - sum/float64(n)
	if math.IsNaN(a2) || math.IsInf(a2, 0) {
		return math.Inf(1), 0
	}
	return a2, 1 - andersonCDF(n, a2)
}

// andersonCDF is Pr[A² < z] for n samples: Marsaglia and Marsaglia, Evaluating
// the Anderson-Darling Distribution, J. Stat. Software 9(2), 2004; good to six
// digits.
func andersonCDF(n int, z float64) float64 {
	if z <= 0 {
		return 0
	}
	x := andersonLimit(z)
	return min(1, max(0, x+andersonFinite(float64(n), x)))
}

// andersonLimit is the distribution of A² for infinitely many samples.
func andersonLimit(z float64) float64 {
	if z < 2 {
		return math.Exp(-1.2337141/z) / math.Sqrt(z) *
			polynomial(z, 2.00012, 0.247105, -0.0649821, 0.0347962, -0.011672, 0.00168691)
	}
	return math.Exp(-math.Exp(polynomial(z, 1.0776, -2.30695, 0.43424, -0.082433, 0.008056, -0.0003146)))
}

// andersonFinite corrects the limit x for n samples.
func andersonFinite(n, x float64) float64 {
	if x > 0.8 {
		return polynomial(x, -130.2137, 745.2337, -1705.091, 1950.646, -1116.360, 255.7844) / n
	}
	c := 0.01265 + 0.1757/n
	if x < c {
		t := math.Sqrt(x/c) * (1 - x/c) * (49*x/c - 102)
		return t * (0.0037/(n*n) + 0.00078/n + 0.00006) / n
	}
	t := polynomial((x-c)/(0.8-c), -0.00022633, 6.54034, -14.6538, 14.458, -8.259, 1.91864)
	return t * (0.04213 + 0.01365/n) / n
}

// polynomial is the sum of coefficient[i]·x^i.
func polynomial(x float64, coefficient ...float64) float64 {
	sum := 0.0
	for _, c := range slices.Backward(coefficient) {
		sum = sum*x + c
	}
	return sum
}

// MaxJitter is how far any gap strays from a fixed period, as a share of the
// period: the check of fixed arrivals, which have no distribution to compare (L-44).
func MaxJitter(gaps []float64, period float64) float64 {
	worst := 0.0
	for _, gap := range gaps {
		worst = max(worst, math.Abs(gap-period)/period)
	}
	return worst
}
