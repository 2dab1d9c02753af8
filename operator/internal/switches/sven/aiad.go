// SPDX-License-Identifier: Apache-2.0

package sven

// The published loop (Listing 11.1): 0.01 up or down on a smoothed share of samples within the objective.
const (
	alpha    = 0.3 // the text gives no weight
	stepAIAD = 0.01
)

type aiad struct{ share float64 }

func (a *aiad) next(c Config, r Report, level float64) float64 {
	share := 1.0
	if r.Samples > 0 {
		share = float64(r.Within) / float64(r.Samples)
	}
	if a.share < 0 {
		a.share = share
	} else {
		a.share = alpha*share + (1-alpha)*a.share
	}
	if a.share*100_000 < float64(c.Per100k) {
		return level + stepAIAD
	}
	return level - stepAIAD
}
