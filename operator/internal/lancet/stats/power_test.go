// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math/rand/v2"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// senders that are not Poisson, of mean gap 1; how far is what they leave undone.
var senders = map[string]func(r *rand.Rand, far float64) float64{
	// no two requests closer than a share of the mean gap: one connection, one thread
	"floor": func(r *rand.Rand, far float64) float64 { return far + (1-far)*r.ExpFloat64() },
	// a share of the requests leaves with the one before it: a sender that slept too long
	"bunches": func(r *rand.Rand, far float64) float64 {
		if r.Float64() < far {
			return 0.001
		}
		return (1 - 0.001*far) / (1 - far) * r.ExpFloat64()
	},
	// every transmission is late by up to a share of the mean gap
	"late": lateness(),
}

// lateness shifts neighbours: the gap gains what this one is late and loses what
// the one before it was.
func lateness() func(r *rand.Rand, far float64) float64 {
	before := 0.0
	return func(r *rand.Rand, far float64) float64 {
		late := far * r.Float64()
		gap := max(r.ExpFloat64()+late-before, 0.005) // a request takes its time to send
		before = late
		return gap
	}
}

// found is the share of senders that the test refuses at level 1 %.
func found(sender func(*rand.Rand, float64) float64, far float64, gaps, trials int) float64 {
	refused := 0
	for i := range trials {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		sample := make([]float64, gaps)
		for j := range sample {
			sample[j] = sender(r, far)
		}
		if _, p := AndersonDarling(sample, Exponential{Mean: 1}); p < 0.01 {
			refused++
		}
	}
	return float64(refused) / float64(trials)
}

// L-44: 500 gaps tell a sender that bends the latency from one that does not.
func TestPowerOfTheTestOfArrivals(t *testing.T) {
	needs.Draws(t)
	const trials = 400
	for _, c := range []struct {
		sender   string
		far      float64
		low, top float64
	}{
		{"floor", 0, 0, 0.03}, // an honest one is refused once in a hundred times
		{"floor", 0.10, 0.95, 1},
		{"floor", 0.15, 0.99, 1},
		{"bunches", 0.10, 0.95, 1},
		{"floor", 0.01, 0, 0.05}, // nor is one that bends next to nothing
	} {
		if got := found(senders[c.sender], c.far, 500, trials); got < c.low || got > c.top {
			t.Errorf("%s of %v: %.3f of 500-gap samples are refused, want %v to %v", c.sender, c.far, got, c.low, c.top)
		}
	}
	if !testing.Verbose() {
		return
	}
	for _, sender := range []string{"floor", "bunches", "late"} {
		for _, far := range []float64{0, 0.01, 0.02, 0.05, 0.1, 0.15} {
			t.Logf("%-8s %.2f: 500 %.3f, 2000 %.3f, 10000 %.3f", sender, far, found(senders[sender], far, 500, trials),
				found(senders[sender], far, 2000, trials), found(senders[sender], far, 10_000, trials/4))
		}
	}
}
