// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"slices"
	"testing"
)

// Ranks count from 1, and equal samples share the mean of theirs, wherever they stand.
func TestRanks(t *testing.T) {
	for _, c := range []struct{ series, want []float64 }{
		{nil, []float64{}}, {[]float64{7}, []float64{1}}, {[]float64{30, 10, 20}, []float64{3, 1, 2}}, {[]float64{30, 10, 10, 20}, []float64{4, 1.5, 1.5, 3}},
		{[]float64{5, 5, 5}, []float64{2, 2, 2}}, {[]float64{9, 1, 9}, []float64{2.5, 1, 2.5}},
	} {
		if got := ranks(c.series); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.series, got, c.want)
		}
	}
}

// Four pairs are enough to be correlated, eight samples to be tested for a level, and one fewer is not.
func TestFewestSamples(t *testing.T) {
	series := []float64{4, 1, 3, 1.5, 5, 2, 4.5, 0.5}
	for n, enough := range map[int]bool{4: false, 5: true} {
		if rho, p := RankAutocorrelation(series[:n], 1); math.IsNaN(rho) == enough || math.IsNaN(p) == enough {
			t.Errorf("%d samples: %v, %v", n, rho, p)
		}
	}
	for n, enough := range map[int]bool{7: false, 8: true} {
		if got, err := AugmentedDickeyFuller(series[:n]); (err == nil) != enough {
			t.Errorf("%d samples: %+v, %v", n, got, err)
		}
	}
}

// The ranks of an interval may be the first and the last of the samples; one beyond them is none.
func TestIntervalOfAllSamples(t *testing.T) {
	if got := PercentileInterval(10, 0.5, 0.95); got != (Interval{1, 10, true}) {
		t.Errorf("the median of 10: %+v", got)
	}
	if got := PercentileInterval(9, 0.5, 0.95); got.Defined && (got.Low < 1 || got.High > 9) || got.Low < 1 || got.High > 9 {
		t.Errorf("the median of 9: %+v", got)
	}
}

// As many samples as are needed are enough, and none of the sizes right below them is.
func TestNoFewerSamplesAreEnough(t *testing.T) {
	for percent := 1; percent < 100; percent++ {
		for _, gamma := range []float64{0.5, 0.9, 0.95, 0.99} {
			p := float64(percent) / 100
			want := uint64(1)
			for !PercentileInterval(want, p, gamma).Defined {
				want++
			}
			if got := SamplesNeeded(p, gamma); got != want {
				t.Errorf("p %v at %v: %d, want %d", p, gamma, got, want)
			}
		}
	}
}

// By hand: where all but one of five are slow, they are one run in two of the five ways, and at most two in all of them.
func TestRunsOfManySlowOnes(t *testing.T) {
	for _, c := range []struct {
		series []float64
		runs   int
		p      float64
	}{{[]float64{1, 9, 8, 7, 6}, 1, 0.4}, {[]float64{9, 8, 7, 6, 1}, 1, 0.4}, {[]float64{9, 8, 1, 7, 6}, 2, 1}} {
		if got := SlowRuns(c.series, 0.2, 1); got.Slow != 4 || got.Runs != c.runs || math.Abs(got.P-c.p) > 1e-12 {
			t.Errorf("%v: %+v, want %d runs, p %v", c.series, got, c.runs, c.p)
		}
	}
}

// Where one approximation of a distribution ends, the bound itself is still its own.
func TestWhereApproximationsEnd(t *testing.T) {
	for _, c := range []struct {
		what             string
		got, want, close float64
	}{
		{"A² of 0", andersonCDF(5, 0), 0, 0},
		{"the first correction's end", andersonFinite(10, 0.01265+0.1757/10), -0.00022633 * (0.04213 + 0.01365/10) / 10, 1e-18},
		{"the second correction's end", andersonFinite(10, 0.8), (-0.00022633 + 6.54034 - 14.6538 + 14.458 - 8.259 + 1.91864) * (0.04213 + 0.01365/10) / 10, 1e-9},
		{"a unit root for certain", mackinnonP(2.75), 1, 0},
		{"nearly", mackinnonP(2.74), 0.99909, 1e-5},
		{"the middle", mackinnonP(-1.61), 0.477976, 1e-6},
		{"no unit root for certain", mackinnonP(-18.84), 0, 0},
	} {
		if math.IsNaN(c.got) || math.Abs(c.got-c.want) > c.close {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if got := mackinnonP(-18.83); got <= 0 || got > 1e-20 {
		t.Errorf("at the lower bound: %v", got)
	}
}
