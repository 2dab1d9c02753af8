// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

// Q-50…Q-52: the published table.
func TestTable(t *testing.T) {
	for _, c := range []struct{ rho, mm1, erlang, mm16, mm64 float64 }{
		{0.3, 6.579, 0.000045, 4.605, 4.605}, {0.5, 9.210, 0.009019, 4.606, 4.605}, {0.7, 15.351, 0.129676, 4.639, 4.605},
		{0.8, 23.026, 0.304884, 4.735, 4.610}, {0.9, 46.052, 0.591343, 5.270, 4.661}, {0.95, 92.103, 0.780192, 7.217, 4.842},
	} {
		near(t, "M/M/1 p99", MM1Quantile(c.rho, 0.99), c.mm1, 1e-3)
		near(t, "Erlang C", ErlangC(16, c.rho), c.erlang, 1e-6)
		near(t, "M/M/16 p99", MMkQuantile(16, c.rho, 0.99), c.mm16, 1e-3)
		near(t, "M/M/64 p99", MMkQuantile(64, c.rho, 0.99), c.mm64, 1e-3)
	}
}

// one worker is M/M/1, also where its formula has a pole (theta = 1 at k = 2, rho = 0.5).
func TestOneWorker(t *testing.T) {
	near(t, "M/M/1 as M/M/k", MMkQuantile(1, 0.8, 0.99), MM1Quantile(0.8, 0.99), 1e-9)
	near(t, "at the pole", MMkTail(2, 0.5, 3), (MMkTail(2, 0.5-1e-6, 3)+MMkTail(2, 0.5+1e-6, 3))/2, 1e-7)
}

//
func TestMG1Wait(t *testing.T) {
	near(t, "M/D/1", MG1Wait(0.8, 0), 2, 1e-12)
	near(t, "M/B1/1", MG1Wait(0.5, 2.25), 1.625, 1e-12)
}
