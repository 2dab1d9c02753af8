// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

type vectors struct {
	Anderson []struct {
		Samples     []float64
		Mean, A2, P float64
	}
	Spearman []struct {
		Series []float64
		Lag    int
		Rho, P float64
	}
	Fuller []struct {
		Series             []float64
		Statistic, P       float64
		Lags, Observations int
	}
	Runs []struct {
		Series          []float64
		Percentile      float64
		Lag, Slow, Runs int
		Mean, P         float64
	}
	Ranks []struct {
		N         uint64
		P, Gamma  float64
		Low, High int64
	}
}

func read(t *testing.T) vectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Anderson) == 0 || len(v.Spearman) == 0 || len(v.Fuller) == 0 || len(v.Ranks) == 0 || len(v.Runs) == 0 {
		t.Fatal("vectors.json lacks a section")
	}
	return v
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

// L-40: A² to rounding; p as far as 20,000 Monte Carlo samples tell it.
func TestAndersonDarlingVectors(t *testing.T) {
	for _, c := range read(t).Anderson {
		a2, p := AndersonDarling(c.Samples, Exponential{c.Mean})
		near(t, "A²", a2, c.A2, 1e-9*max(1, c.A2))
		near(t, "p", p, c.P, 4*math.Sqrt(c.P*(1-c.P)/20000)+1e-4)
	}
}

// L-40: published critical values of the fully specified case.
func TestAndersonDarlingCriticalValues(t *testing.T) {
	for critical, alpha := range map[float64]float64{1.933: 0.10, 2.492: 0.05, 3.070: 0.025, 3.857: 0.01} {
		near(t, "alpha", 1-andersonCDF(1_000_000, critical), alpha, 0.03*alpha) // tables are rounded
	}
}

// L-40: the test keeps its level, and finds arrivals that are not Poisson.
func TestAndersonDarlingLevelAndPower(t *testing.T) {
	const seed, rounds, n = 11, 2000, 500
	random := rand.New(rand.NewPCG(seed, seed))
	rejected, found := 0, 0
	for range rounds {
		poisson, late := make([]float64, n), make([]float64, n)
		for i := range n {
			poisson[i] = random.ExpFloat64()
			late[i] = 0.15 + 0.85*random.ExpFloat64() // a sender that needs a while for each
		}
		if _, p := AndersonDarling(poisson, Exponential{1}); p < 0.01 {
			rejected++
		}
		if _, p := AndersonDarling(late, Exponential{1}); p < 0.01 {
			found++
		}
	}
	if rejected < rounds*4/1000 || rejected > rounds*18/1000 {
		t.Errorf("at level 1 %% it rejects %d of %d true ones (seed %d)", rejected, rounds, seed)
	}
	if found < rounds {
		t.Errorf("found %d of %d senders with a floor of 15 %% of the gap (seed %d)", found, rounds, seed)
	}
}

func TestAndersonDarlingEdges(t *testing.T) {
	if a2, p := AndersonDarling([]float64{1, -1, 2}, Exponential{1}); !math.IsInf(a2, 1) || p != 0 {
		t.Errorf("a negative gap: A² %v, p %v", a2, p)
	}
	if a2, _ := AndersonDarling([]float64{1}, Exponential{1}); !math.IsNaN(a2) {
		t.Errorf("one sample: A² %v", a2)
	}
	samples := []float64{3, 1, 2}
	AndersonDarling(samples, Exponential{2})
	if samples[0] != 3 || samples[1] != 1 {
		t.Error("the caller's samples were sorted: their order in time is lost")
	}
}

// L-44: fixed arrivals are judged by their jitter.
func TestMaxJitter(t *testing.T) {
	near(t, "jitter", MaxJitter([]float64{10, 10.5, 9.8, 10}, 10), 0.05, 1e-12)
}

// L-41.
func TestRankAutocorrelationVectors(t *testing.T) {
	for _, c := range read(t).Spearman {
		rho, p := RankAutocorrelation(c.Series, c.Lag)
		near(t, "rho", rho, c.Rho, 1e-12)
		near(t, "p", p, c.P, 1e-12+1e-6*c.P)
	}
}

// L-41: the lag that makes a correlated series independent; L-44: huge series are judged by 20,000 pairs.
func TestIndependentLag(t *testing.T) {
	const seed = 5
	random := rand.New(rand.NewPCG(seed, seed))
	free, bound := make([]float64, 50_000), make([]float64, 50_000)
	for i := range free {
		free[i] = random.ExpFloat64()
		bound[i] = free[i]
		if i > 0 {
			bound[i] += 0.8 * bound[i-1]
		}
	}
	if lag, ok := IndependentLag(free, 0.99, 0.01); !ok || lag != 1 {
		t.Errorf("independent samples: lag %d, %v (seed %d)", lag, ok, seed)
	}
	if lag, ok := IndependentLag(bound, 0.99, 0.01); !ok || lag < 10 || lag > 50 {
		t.Errorf("correlation 0.8^lag: lag %d, %v (seed %d)", lag, ok, seed)
	}
	ramp := make([]float64, 5000)
	for i := range ramp {
		ramp[i] = float64(i)
	}
	if lag, ok := IndependentLag(ramp, 0.99, 0.01); ok {
		t.Errorf("a ramp is independent at lag %d", lag)
	}
	if rho, p := RankAutocorrelation([]float64{1, 2, 3}, 1); !math.IsNaN(rho) || !math.IsNaN(p) {
		t.Errorf("three samples: %v, %v", rho, p)
	}
	if rho, p := RankAutocorrelation(make([]float64, 100), 1); rho != 0 || p != 1 {
		t.Errorf("a constant series: %v, %v", rho, p)
	}
}

// L-42.
func TestAugmentedDickeyFullerVectors(t *testing.T) {
	for _, c := range read(t).Fuller {
		got, err := AugmentedDickeyFuller(c.Series)
		if err != nil {
			t.Fatal(err)
		}
		if got.Lags != c.Lags || got.Observations != c.Observations {
			t.Errorf("lags %d of %d rows, want %d of %d", got.Lags, got.Observations, c.Lags, c.Observations)
		}
		near(t, "statistic", got.Statistic, c.Statistic, 1e-6*max(1, math.Abs(c.Statistic)))
		near(t, "p", got.P, c.P, 1e-6)
	}
}

func TestAugmentedDickeyFullerEdges(t *testing.T) {
	if _, err := AugmentedDickeyFuller(make([]float64, 7)); !errors.Is(err, ErrTooShort) {
		t.Errorf("seven samples: %v", err)
	}
	if _, err := AugmentedDickeyFuller(make([]float64, 100)); !errors.Is(err, ErrConstant) {
		t.Errorf("a constant series: %v", err)
	}
	swing := make([]float64, 100)
	for i := range swing {
		swing[i] = float64(i % 2)
	}
	if got, err := AugmentedDickeyFuller(swing); !errors.Is(err, errSingular) || got != (Stationarity{}) {
		t.Errorf("a perfectly regular series, which no statistic exists of: %+v, %v", got, err)
	}
}

// L-43, L-45, L-65.
func TestPercentileInterval(t *testing.T) {
	for _, c := range read(t).Ranks {
		got := PercentileInterval(c.N, c.P, c.Gamma)
		defined := c.Low >= 1 && c.High <= int64(c.N)
		want := Interval{uint64(max(c.Low, 1)), uint64(min(c.High, int64(c.N))), defined}
		if got != want {
			t.Errorf("n %d, p %v, gamma %v: %+v, want %+v", c.N, c.P, c.Gamma, got, want)
		}
	}
	if got := PercentileInterval(0, 0.99, 0.95); got.Defined {
		t.Errorf("of no samples: %+v", got)
	}
}

// L-45: the published sizes; two of them stand on a quantile rounded up to 1.96.
func TestSamplesNeeded(t *testing.T) {
	for p, want := range map[float64]uint64{0.99: 563, 0.999: 5662, 0.9999: 56647} {
		if got := SamplesNeeded(p, 0.95); got != want && got != want-1 {
			t.Errorf("p %v: %d samples, want %d", p, got, want)
		}
	}
}

// L-43: the interval holds the truth as often as it says, for a light and a heavy tail.
func TestPercentileIntervalCoverage(t *testing.T) {
	const seed, rounds, n, p = 3, 4000, 2000, 0.99
	random := rand.New(rand.NewPCG(seed, seed))
	interval := PercentileInterval(n, p, 0.95)
	covered := 0
	for range rounds {
		below := uint64(0) // samples below the true percentile: the interval holds it if Low ≤ below < High
		for range n {
			if random.Float64() < p {
				below++
			}
		}
		if interval.Low <= below && below < interval.High {
			covered++
		}
	}
	if share := float64(covered) / rounds; share < 0.93 || share > 0.98 {
		t.Errorf("the interval holds the truth in %.3f of the cases (seed %d)", share, seed)
	}
}
