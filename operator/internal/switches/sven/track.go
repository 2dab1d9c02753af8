// SPDX-License-Identifier: Apache-2.0

package sven

import (
	"math"
	"time"
)

// What the default controller does, and why, is written in dataplane/src/router/admission_track.c and decision 0006; the
// numbers are its own. A switch cannot spare whoever finds an idle worker, so all of that is left out.
const (
	target      = 0.85
	band        = 0.04
	attack      = 0.06
	attackMore  = 0.06
	attackMost  = 0.30
	release     = 0.03
	errorMost   = 2.0
	ratioLeast  = 0.5
	ratioMost   = 1.25
	admitLeast  = 0.01
	debtGain    = 0.01
	overrunMost = 10.0
	debtMost    = 0.4
	weighty     = 2500 * time.Microsecond
)

type track struct {
	admit float64 // share of all arrivals to admit
	debt  float64 // requests beyond the budget, by which the target is lowered
}

func clamp(v, least, most float64) float64 { return min(max(v, least), most) }

// weight of a window in what adds up over windows.
func (r Report) weight() float64 { return min(float64(r.Span)/float64(weighty), 1) }

func (t *track) next(c Config, r Report, level float64) float64 {
	arrivals := r.arrivals()
	if arrivals == 0 {
		return level
	}
	t.settle(c, r)
	miss := t.missOfFew(c, r)
	if r.Samples >= c.Enough() {
		miss = t.miss(c, r)
	}
	if level == 0 && miss <= band {
		t.admit = 1
		return 0
	}
	ratio := 1.0
	if admitted := sum(r.Admitted); admitted > 0 {
		ratio = float64(r.Completed) / admitted
	}
	t.admit = clamp(t.admit*clamp(ratio, ratioLeast, ratioMost)*(1-r.weight()*step(miss)), admitLeast, 1)
	next, left := c.level(r, (1-t.admit)*arrivals)
	t.admit += left / arrivals // more cannot be refused: do not wind up
	return next
}

func (t *track) settle(c Config, r Report) {
	if r.Samples > 0 {
		spent := float64(r.Samples-r.Within) / float64(r.Samples) / c.budget()
		t.debt = clamp(t.debt+debtGain*r.weight()*clamp(spent-1, -1, overrunMost), 0, debtMost)
	}
}

// miss is log(percentile ÷ target). A lowered target keeps from opening, but nothing is refused for it.
func (t *track) miss(c Config, r Report) float64 {
	if r.Percentile == Never {
		return errorMost
	}
	miss := math.Log(float64(r.Percentile) / (target * float64(c.Latency)))
	if miss > 0 {
		return miss + t.debt
	}
	return min(miss+t.debt, 0)
}

// missOfFew: too few samples are heard when clearly too many exceed the objective, else they allow to open a little.
func (t *track) missOfFew(c Config, r Report) float64 {
	budget := float64(r.Samples) * c.budget()
	if float64(r.Samples-r.Within) > budget+3*math.Sqrt(budget)+1 {
		return errorMost
	}
	return -1
}

func step(miss float64) float64 {
	switch {
	case miss > band:
		miss = clamp(miss, 0, errorMost)
		return clamp(miss*(attack+attackMore*miss), 0, attackMost)
	case miss < -band:
		return release * clamp(miss, -1, 0)
	}
	return 0
}
