// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a trace: gaps, and each of them (11 days; a trace is scaled to the load).
const maxGaps, maxGap = 65_536, 1_000_000_000_000_000

// ParseGaps reads recorded gaps: whole nanoseconds separated by white space.
func ParseGaps(text string) ([]int64, error) {
	var out []int64
	sum := int64(0)
	for field := range strings.FieldsSeq(text) {
		gap, err := strconv.ParseInt(field, 10, 64)
		if err != nil || gap < 0 || gap > maxGap {
			return nil, fmt.Errorf("gap %d, %.40q: must be whole nanoseconds, 0 to %d", len(out)+1, field, int64(maxGap))
		}
		if out = append(out, gap); len(out) > maxGaps {
			return nil, fmt.Errorf("more than %d gaps", maxGaps)
		}
		sum = min(sum+gap, maxGap)
	}
	if sum == 0 {
		return nil, fmt.Errorf("%d gaps and none above 0: there must be one", len(out))
	}
	return out, nil
}
