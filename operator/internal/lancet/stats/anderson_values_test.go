// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"testing"
)

// L-40: the values of the published formula, computed apart from this program: both branches of the limit, and all three of
// the correction for few samples.
func TestAndersonDarlingOfFewSamples(t *testing.T) {
	for _, c := range []struct {
		n    int
		z, p float64
	}{
		{2, 0.3, 0.0469345098857098}, {2, 0.25, 0.0065557990681518}, {2, 0.5, 0.274275931516616}, {2, 2, 0.902019755201631},
		{8, 0.19, 0.00621024966068038}, {8, 0.2, 0.00868109369272115}, {8, 0.7, 0.446261445799082}, {8, 1.2, 0.733774663123626},
		{8, 2, 0.906628124586574}, {8, 2.5, 0.948933352887462}, {8, 4, 0.990750617291861}, {50, 0.17, 0.00343810085314147},
		{50, 0.6, 0.352845474980342}, {50, 2.49, 0.949618630578719}, {1000, 0.18, 0.00507880770694682}, {1000, 1, 0.642735099159513}, {1000, 3.9, 0.990236662840636},
		{8, 0, 0}, {8, -1, 0},
	} {
		if got := andersonCDF(c.n, c.z); math.Abs(got-c.p) > 1e-12 {
			t.Errorf("%d samples, %v: %.15g, want %.15g", c.n, c.z, got, c.p)
		}
	}
}

// Nothing is at or below zero, and two samples are enough to compare.
func TestExponentialAtZero(t *testing.T) {
	e := Exponential{2}
	for _, x := range []float64{0, -1} {
		if got := e.LogCDF(x); !math.IsInf(got, -1) || e.LogSurvival(x) != 0 {
			t.Errorf("at %v: %v, %v", x, got, e.LogSurvival(x))
		}
	}
	if a2, p := AndersonDarling([]float64{1, 3}, e); math.IsNaN(a2) || math.IsNaN(p) || p <= 0 || p > 1 {
		t.Errorf("of two samples: %v, %v", a2, p)
	}
	if a2, p := AndersonDarling(nil, e); !math.IsNaN(a2) || !math.IsNaN(p) {
		t.Errorf("of none: %v, %v", a2, p)
	}
}

// A probability at the level rejects: only more than that holds, of both tests.
func TestIndependenceAtTheLevel(t *testing.T) {
	for _, c := range []struct {
		rank, slow float64
		want       bool
	}{{0.06, 0.06, true}, {0.05, 0.06, false}, {0.06, 0.05, false}, {0.01, 0.9, false}, {0.9, 0.01, false}, {math.NaN(), 0.9, false}} {
		if got := (Independence{RankP: c.rank, Slow: Runs{P: c.slow}}).Holds(0.05); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
