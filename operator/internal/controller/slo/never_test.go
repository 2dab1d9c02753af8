// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"math/rand/v2"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// sweep is how often, in seconds, an agent counts the connections that never came to
// stand: those of so many seconds all at once, 130 s late.
const sweep = 2

// secondsOf are a node's clients: so many answers each, and with a sweep what never came
// of the time before it, each with the given chance.
func secondsOf(random *rand.Rand, n, perSecond int, chance float64) []*ll7.Histogram {
	out := make([]*ll7.Histogram, n)
	waiting := 0
	for i := range out {
		out[i] = &ll7.Histogram{}
		for range perSecond {
			if random.Float64() < chance {
				waiting++
			} else {
				out[i].Record(100_000 + random.Uint64N(100_000))
			}
		}
		for ; i%sweep == 0 && waiting > 0; waiting-- {
			out[i].RecordInf()
		}
	}
	return out
}

// windowedParts of the last seconds, the newest first, as an agent cuts them.
func windowedParts(all []*ll7.Histogram, seconds int) (parts []*ll7.Histogram) {
	n := min(windowParts, seconds)
	for i := range n {
		from, to := seconds*i/n, min(seconds*(i+1)/n, len(all))
		if from >= len(all) {
			break
		}
		part := &ll7.Histogram{}
		for back := from; back < to; back++ {
			part.Merge(all[len(all)-1-back])
		}
		parts = append(parts, part)
	}
	return parts
}

func judged(t *testing.T, parts []*ll7.Histogram, seconds int) string {
	t.Helper()
	whole := &dataplane.Histogram{}
	for _, h := range parts {
		whole.Merge(h)
	}
	s := &snapshot{slo: anObjective("99", 1000), parts: []part{{Name: "a", Required: true,
		Reply: &dataplane.HistogramReply{Histogram: whole, Parts: parts, WindowSeconds: seconds, CoveredSeconds: len(parts)}}}, target: overTCP()}
	m, err := measure(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(decideMet(s.slo, m, 1000).Status)
}

// Connections that never came to stand arrive in lumps. Where they are as many as the
// percentile leaves out, in the long run, the shortest windows make up a miss no more
// often than one of twenty; nor do those of an agent that has just begun, of two parts
// and more. Where they are five times as many, a window of ten seconds shows it.
func TestLumpsMakeNoMiss(t *testing.T) {
	needs.Draws(t)
	random := rand.New(rand.NewPCG(3, 5))
	for seconds := 5; seconds <= 20; seconds++ {
		missed, young, youngs, seen := 0, 0, 0, 0
		const runs = 20
		for range runs {
			all := secondsOf(random, 3*seconds+random.IntN(sweep), 1000, 0.01)
			if judged(t, windowedParts(all, seconds), seconds) == "False" {
				missed++
			}
			for age := 2; age < seconds; age++ {
				youngs++
				if judged(t, windowedParts(all[seconds:seconds+age], seconds), seconds) == "False" {
					young++
				}
			}
			if all := secondsOf(random, 3*seconds, 1000, 0.05); judged(t, windowedParts(all, seconds), seconds) == "False" {
				seen++
			}
		}
		if missed > runs/20 || young > youngs/20 {
			t.Errorf("windows of %d s: %d of %d made up a miss, of an agent that has just begun %d of %d", seconds, missed, runs, young, youngs)
		}
		if seconds >= 10 && seen < runs*9/10 {
			t.Errorf("windows of %d s: five times too many shows in %d of %d", seconds, seen, runs)
		}
	}
}
