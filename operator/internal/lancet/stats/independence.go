// SPDX-License-Identifier: Apache-2.0

package stats

// lags are the steps by which a sampling rate may be reduced (L-41).
var lags = []int{1, 2, 5, 10, 25, 50, 100, 200, 500, 1000}

// MaxLag is the largest of them.
const MaxLag = 1000

// Independence is what both tests of a series' samples, lag apart, say: of their
// ranks (L-41) and of the slow ones among them (L-49).
type Independence struct {
	Lag   int
	Rho   float64 // rank autocorrelation
	RankP float64
	Slow  Runs
}

// Holds says whether neither test rejects independence at level alpha. Too few
// samples to tell is no.
func (i Independence) Holds(alpha float64) bool { return i.RankP > alpha && i.Slow.P > alpha }

// TestIndependence makes both tests of a series in order of transmission, of
// which percentile p, a share of one, is wanted.
func TestIndependence(series []float64, p float64, lag int) Independence {
	out := Independence{Lag: lag, Slow: SlowRuns(series, p, lag)}
	out.Rho, out.RankP = RankAutocorrelation(series, lag)
	return out
}

// IndependentLag is the smallest lag of the list at which the samples are
// independent at level alpha: 1 means that they are, k > 1 that one in k of them
// would be. False when there is none, or too few samples to tell.
func IndependentLag(series []float64, p, alpha float64) (lag int, ok bool) {
	for _, lag := range lags {
		if TestIndependence(series, p, lag).Holds(alpha) {
			return lag, true
		}
	}
	return 0, false
}
