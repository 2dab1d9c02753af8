// SPDX-License-Identifier: Apache-2.0

package r2p2

import "testing"

// a reader gets every trace once and in order, is told how many it missed,
// and begins anew when the numbers are of another life.
func TestR59TracesAreReadOnce(t *testing.T) {
	r := &traceRing{}
	size := uint64(len(r.trace))
	type read struct{ first, count, next, lost uint64 }
	check := func(name string, after uint64, n int, want read) {
		t.Helper()
		out, next, lost := r.read(after, n)
		if uint64(len(out)) != want.count || next != want.next || lost != want.lost ||
			want.count > 0 && (out[0].ID != want.first || out[want.count-1].ID != want.first+want.count-1) {
			t.Errorf("%s: %d traces, next %d, lost %d: want %+v", name, len(out), next, lost, want)
		}
	}
	note := func(n uint64) {
		for range n {
			r.note(Trace{ID: r.written})
		}
	}
	check("none", 0, 10, read{0, 0, 0, 0})
	note(5)
	check("all", 0, 10, read{0, 5, 5, 0})
	check("some", 1, 2, read{1, 2, 3, 0})
	check("no more", 5, 10, read{0, 0, 5, 0})
	check("of another life", 6, 10, read{0, 5, 5, 0})
	note(size - 5)
	check("a full ring", 0, 1<<20, read{0, size, size, 0})
	note(3)
	check("three are gone", 0, 1<<20, read{3, size, size + 3, 3})
	check("two are gone", 1, 4, read{3, 4, 7, 2})
	check("none is gone", 3, 1, read{3, 1, 4, 0})
}
