// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import "testing"

// The median and the tail are the smallest times that so many requests took at
// most, without the first tenth, when queues were empty.
func TestOutcome(t *testing.T) {
	r := &run{Service: Service{Percentile: 0.99, Requests: 112}, copies: 28, taken: 7}
	for i := range 12 {
		r.took = append(r.took, float64(1000+i)) // of the first tenth, all but one
	}
	for i := range 100 {
		r.took = append(r.took, float64(100-i))
	}
	o := r.outcome(0.25)
	want := Outcome{Median: 51, Tail: 100, Copies: 0.25, TakenBack: 0.25, Busy: 0.25}
	if o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	if r.Percentile = 1; r.outcome(0).Tail != 1011 {
		t.Errorf("the longest of all is %v", r.outcome(0).Tail)
	}
}
