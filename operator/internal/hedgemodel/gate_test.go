// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import "testing"

// copies pay where there are workers for them, the median stays, and the tail gets a tenth shorter; each bound belongs
// to those that pay.
func TestVerdictsAtTheirBounds(t *testing.T) {
	without := Outcome{Busy: mostBusy, Median: 100, Tail: 1000}
	for name, c := range map[string]struct {
		change func(without, with *Outcome)
		want   Verdict
	}{
		"at each bound":            {func(_, _ *Outcome) {}, Pays},
		"busier":                   {func(w, _ *Outcome) { w.Busy += 0.001 }, Overloaded},
		"the median rises":         {func(_, w *Outcome) { w.Median += 0.001 }, MedianRises},
		"the tail stays":           {func(_, w *Outcome) { w.Tail += 0.001 }, TailTooLittle},
		"busier, and nothing else": {func(w, v *Outcome) { w.Busy, v.Tail = 1, 1 }, Overloaded},
		"the median goes first":    {func(_, w *Outcome) { w.Median, w.Tail = 200, 2000 }, MedianRises},
	} {
		before, with := without, Outcome{Median: mostMedian * without.Median, Tail: mostTail * without.Tail}
		if c.change(&before, &with); judge(before, with) != c.want {
			t.Errorf("%s: %s, want %s", name, judge(before, with), c.want)
		}
	}
}
