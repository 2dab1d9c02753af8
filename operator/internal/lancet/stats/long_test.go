// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// longSeries is an AR(1) series of thousands of points by its seed, and what SciPy
// and statsmodels say of it (testdata/vectors.py).
type longSeries struct {
	Seed      uint64
	N         int
	Phi, Last float64
	Fuller    struct {
		Statistic, P       float64
		Lags, Observations int
	}
	Spearman struct {
		Lag    int
		Rho, P float64
	}
	Runs struct {
		Percentile      float64
		Lag, Slow, Runs int
		Mean, P         float64
	}
}

// values makes the series bit by bit as vectors.py does: the product is rounded
// before the sum, which a processor could do in one step.
func (l longSeries) values() []float64 {
	out := make([]float64, l.N)
	out[0] = 0.5 / (1 - l.Phi)
	seed := l.Seed
	for i := 1; i < l.N; i++ {
		seed += 0x9E3779B97F4A7C15
		z := (seed ^ seed>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		out[i] = float64(l.Phi*out[i-1]) + math.Ldexp(float64((z^z>>31)>>11), -53)
	}
	return out
}

// L-41, L-42, L-49 of as many samples as a round has some of: here the lags that
// Akaike's criterion may choose from are dozens, and sums have thousands of terms.
func TestLongSeries(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Versions map[string]string
		Long     []longSeries
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Long) < 3 || v.Versions["numpy"] == "" || v.Versions["scipy"] == "" || v.Versions["statsmodels"] == "" {
		t.Fatalf("%d long series, versions %v", len(v.Long), v.Versions)
	}
	for _, c := range v.Long {
		series := c.values()
		if c.N < 2000 || series[c.N-1] != c.Last {
			t.Fatalf("seed %d: the last of %d values is %v, of vectors.py %v", c.Seed, c.N, series[c.N-1], c.Last)
		}
		got, err := AugmentedDickeyFuller(series)
		if err != nil || got.Lags != c.Fuller.Lags || got.Observations != c.Fuller.Observations {
			t.Errorf("seed %d: %v, lags %d of %d rows, want %+v", c.Seed, err, got.Lags, got.Observations, c.Fuller)
		}
		near(t, "statistic", got.Statistic, c.Fuller.Statistic, 1e-6*max(1, math.Abs(c.Fuller.Statistic)))
		near(t, "p of the level", got.P, c.Fuller.P, 1e-6)
		rho, p := RankAutocorrelation(series, c.Spearman.Lag)
		near(t, "rho", rho, c.Spearman.Rho, 1e-11)
		near(t, "p of the ranks", p, c.Spearman.P, 1e-12+1e-6*c.Spearman.P)
		runs := SlowRuns(series, c.Runs.Percentile, c.Runs.Lag)
		if runs.Slow != c.Runs.Slow || runs.Runs != c.Runs.Runs {
			t.Errorf("seed %d: %+v, want %+v", c.Seed, runs, c.Runs)
		}
		near(t, "p of the runs", runs.P, c.Runs.P, 1e-9)
	}
}
