// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A recording is whole nanoseconds, within bounds, of which one at least is no 0.
func TestParseGaps(t *testing.T) {
	longest := fmt.Sprint(int64(maxGap))
	for text, want := range map[string][]int64{
		"1 2\n\t3": {1, 2, 3}, "0 1": {0, 1}, longest: {maxGap}, longest + " " + longest: {maxGap, maxGap},
		"": nil, "0 0": nil, "-1": nil, "1.5": nil, "1 x": nil, fmt.Sprint(int64(maxGap) + 1): nil,
	} {
		got, err := ParseGaps(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := ParseGaps("7 7 -7"); err == nil || !strings.Contains(err.Error(), "gap 3,") {
		t.Errorf("%v does not say which gap", err)
	}
	if got, err := ParseGaps(strings.Repeat("1 ", maxGaps)); err != nil || len(got) != maxGaps {
		t.Errorf("%d gaps, %v", len(got), err)
	}
	if _, err := ParseGaps(strings.Repeat("1 ", maxGaps+1)); err == nil {
		t.Error("more gaps than there may be")
	}
}
