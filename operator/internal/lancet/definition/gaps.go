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

// GapsOf is the part of the recorded arrivals that agent i of n sends: every n-th,
// from the i-th on, so that all together send what was recorded and no rhythm is
// there n times. Where some agents only measure, their parts of the load differ, and
// each replays all gaps at its own.
func (d Definition) GapsOf(i, n int) []int64 {
	gaps := d.Interarrival.GapsNanoseconds
	if len(gaps) == 0 || d.Measurement.LatencyAgents > 0 {
		return gaps
	}
	rounds := n / gcd(n, len(gaps)) // of the record, until an agent is back at its first arrival
	var out []int64
	for k := i; k < i+rounds*len(gaps); k += n {
		sum := int64(0)
		for back := range n {
			sum += gaps[((k-back)%len(gaps)+len(gaps))%len(gaps)]
		}
		out = append(out, min(sum, maxGap))
	}
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
