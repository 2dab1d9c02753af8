// SPDX-License-Identifier: Apache-2.0

package manager

import "testing"

// A container without a limit has none here, either; nor has one whose file nobody understands.
func TestMostOf(t *testing.T) {
	for text, want := range map[string]int64{"268435456\n": 241591911, "max\n": 0, "": 0, "-5": 0, "0\n": 0} {
		if got, limited := mostOf(text); got != want || limited != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", text, got, limited, want)
		}
	}
}
