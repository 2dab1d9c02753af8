// SPDX-License-Identifier: Apache-2.0

package crab

import "testing"

// Rows as clusters showed them: with an upper bound of the percentile, without one, and before enough was measured.
func TestRowOfAnObjectiveThatIsMet(t *testing.T) {
	for row, want := range map[string]bool{
		"shop-p75   shop     75    1s          114us      92.7us-379us   2                True      60        ClientNode": true,
		"shop-p75   shop     75    1s          112us      >=84.5us       2                True      60        ClientNode": true,
		"shop-p75   shop     75    1s          112us      >=84.5us       2                False     60        ClientNode": false,
		"shop-p75   shop     75    1s                                                     Unknown   0":                    false,
		"shop-p75   shop     75    1s          112us                     2                True      60        ClientNode": false,
	} {
		if got := metRow.MatchString(row); got != want {
			t.Errorf("%q matches: %v, want %v", row, got, want)
		}
	}
}
