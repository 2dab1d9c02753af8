// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Three measurements lie in every window, and never more than 5 s apart.
func TestInterval(t *testing.T) {
	for window, want := range map[int32]time.Duration{5: 5 * time.Second / 3, 12: 4 * time.Second, 15: longest, 600: longest} {
		slo := anObjective("99", 1)
		slo.Spec.WindowSeconds = window
		if got := interval(slo); got != want {
			t.Errorf("window %d s: %s, want %s", window, got, want)
		}
	}
}
