// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// L-49.
func TestSlowRunsVectors(t *testing.T) {
	for _, c := range read(t).Runs {
		got := SlowRuns(c.Series, c.Percentile, c.Lag)
		if got.Slow != c.Slow || got.Runs != c.Runs {
			t.Errorf("%d slow samples in %d runs, want %d in %d", got.Slow, got.Runs, c.Slow, c.Runs)
		}
		near(t, "mean", got.Mean, c.Mean, 1e-9*max(1, c.Mean))
		near(t, "p", got.P, c.P, 1e-9)
	}
}

// L-49: by hand: two slow samples among five places are neighbours in 4 of 10 ways.
func TestSlowRunsByHand(t *testing.T) {
	if got := SlowRuns([]float64{1, 9, 8, 2, 3}, 0.6, 1); got.Slow != 2 || got.Runs != 1 || math.Abs(got.P-0.4) > 1e-12 {
		t.Errorf("%+v, want 2 slow samples in 1 run, p 0.4", got)
	}
	if got := SlowRuns([]float64{1, 9, 8, 2, 3}, 0.6, 2); got.Runs != 2 || got.P != 1 {
		t.Errorf("two apart: %+v, want 2 runs, p 1", got)
	}
	for name, series := range map[string][]float64{"none": nil, "constant": make([]float64, 100), "unanswered": {math.Inf(1), math.Inf(1)}} {
		if got := SlowRuns(series, 0.9, 1); got.P != 1 {
			t.Errorf("%s: p %v, want 1", name, got.P)
		}
	}
}

// L-49: the test keeps its level, and sees clusters in the tail that the ranks hide.
func TestSlowRunsLevelAndPower(t *testing.T) {
	needs.Draws(t)
	const seed, rounds, n, p = 7, 400, 10_000, 0.99
	random := rand.New(rand.NewPCG(seed, seed))
	rejected, byRuns, byRanks := 0, 0, 0
	for range rounds {
		free, bound := make([]float64, n), make([]float64, n)
		for i := range n {
			free[i], bound[i] = random.ExpFloat64(), random.ExpFloat64()
			if i > 0 && bound[i-1] > 4.6 && random.Float64() < 0.15 {
				bound[i] = bound[i-1] + random.Float64() // one slow request in seven holds up the next
			}
		}
		if SlowRuns(free, p, 1).P <= 0.01 {
			rejected++
		}
		if SlowRuns(bound, p, 1).P <= 0.01 {
			byRuns++
		}
		if _, rank := RankAutocorrelation(bound, 1); rank <= 0.01 {
			byRanks++
		}
	}
	if rejected > rounds*25/1000 {
		t.Errorf("at level 1 %% it rejects %d of %d true ones (seed %d)", rejected, rounds, seed)
	}
	if byRuns < rounds*99/100 || byRanks > rounds/10 {
		t.Errorf("clusters found: %d of %d by runs, %d by ranks (seed %d)", byRuns, rounds, byRanks, seed)
	}
}
