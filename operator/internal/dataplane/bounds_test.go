// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Every bound is an edge of a bucket: a value just below it counts below it, one
// at it does not.
func TestBounds(t *testing.T) {
	n, last := 0, 0.0
	for bound := range Bounds(&Histogram{}) {
		edge := uint64(bound*1e9 + 0.5)
		if ll7.Index(edge) == ll7.Index(edge-1) {
			t.Errorf("%g s lies within a bucket", bound)
		}
		h := &Histogram{}
		h.Record(edge - 1)
		h.Record(edge)
		h.RecordInf()
		for at, below := range Bounds(h) {
			if want := map[bool]uint64{at == bound: 1, at > bound: 2}[true]; below != want {
				t.Errorf("values around %g s: %d below %g s, want %d", bound, below, at, want)
			}
		}
		if bound <= last {
			t.Errorf("%g s after %g s", bound, last)
		}
		n, last = n+1, bound
	}
	if n != 54 || last < 103 || last > 104 {
		t.Errorf("%d bounds up to %g s", n, last)
	}
}
