// SPDX-License-Identifier: Apache-2.0

package sven

import (
	"math"
	"testing"
	"time"
)

// One look of the default loop: what is judged by which samples, what ends an admission control that refuses nobody, and
// that what cannot be refused is not remembered as refused.
func TestOneLookOfTheTrack(t *testing.T) {
	const objective = time.Millisecond
	all := [Classes]bool{}
	all[0] = true
	at := func(ratio float64) time.Duration { return time.Duration(math.Exp(ratio) * target * float64(objective)) }
	beyond := func(miss float64) float64 { return 0.5 * (1 - miss*(attack+attackMore*miss)) } // is admitted, of half before
	for _, c := range []struct {
		name       string
		droppable  [Classes]bool
		percentile time.Duration
		samples    uint64
		level      float64
		next       float64
		admit      float64 // afterwards; from 0.5
	}{
		{"enough samples beyond the target", all, at(0.5), 100, 0.5, 1 - beyond(0.5), beyond(0.5)},
		{"a sample less says nothing of them", all, at(0.5), 99, 0.5, 0.485, 0.515},
		{"within the band nobody begins to refuse", all, at(0.039), 100, 0, 0, 1},
		{"beyond the band somebody does", all, at(0.05), 100, 0, 1 - beyond(0.05), beyond(0.05)},
		{"nobody may be refused", [Classes]bool{}, at(0.5), 100, 0.5, 0, 1},
	} {
		r := Report{Completed: 100, Samples: c.samples, Within: c.samples, Percentile: c.percentile, Span: weighty}
		r.Admitted[0] = 100
		tr := track{admit: 0.5}
		next := tr.next(Config{Latency: objective, Per100k: 90_000, Droppable: c.droppable}, r, c.level)
		if math.Abs(next-c.next) > 1e-6 || math.Abs(tr.admit-c.admit) > 1e-6 {
			t.Errorf("%s: level %v with %v admitted, want %v with %v", c.name, next, tr.admit, c.next, c.admit)
		}
	}
	tr := track{admit: 0.5}
	if got := tr.next(Config{Latency: objective, Per100k: 90_000, Droppable: all}, Report{Samples: 100}, 0.25); got != 0.25 || tr.admit != 0.5 {
		t.Errorf("nothing arrives: level %v, %v admitted", got, tr.admit)
	}
}
