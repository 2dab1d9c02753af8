// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// lateShare of the requests may leave later than e.JitterTolerance of a gap allows.
const lateShare = 0.01

// onTime judges arrivals that have no distribution to compare them with (L-59):
// every request has a time at which it was due, and how long after it the request
// left is what the agent made of the arrivals it was given.
func onTime(e Experiment, m Measurement, took float64) (bool, string) {
	if len(m.Late) == 0 {
		return false, "of no request it is known when it was due"
	}
	mean := float64(max(m.Streams, 1)) / m.Offered
	allowed := duration(e.JitterTolerance * mean)
	late := 0
	for _, l := range m.Late {
		if l > allowed {
			late++
		}
	}
	share := float64(late) / float64(len(m.Late))
	hint := ""
	if share > lateShare {
		hint = crowded(m, took)
	}
	return share <= lateShare, fmt.Sprintf("%.2f %% of %d requests left more than %v late, %.0f %% of the mean gap (at most %.0f %% of them); the latest %v%s",
		100*share, len(m.Late), allowed, 100*e.JitterTolerance, 100*lateShare, slices.Max(m.Late).Round(time.Microsecond), hint)
}

// beyondChance is by how many deviations a count of independent arrivals may miss its
// mean: a phase may hold a hundred requests only.
const beyondChance = 3

// doubts says what was wrong with a phase, in one warning: a load that changes has no
// steady state to qualify, but it has to be the one that was asked for, and leave when
// it was due (L-59).
func doubts(e Experiment, phase int, round []Measurement) []string {
	findings := every(CheckLoad, round, func(m Measurement) (bool, string) {
		seconds := m.Elapsed.Seconds()
		achieved := float64(m.Sent) / seconds
		off, most := math.Abs(achieved-m.Offered), e.LoadTolerance*m.Offered+beyondChance*math.Sqrt(m.Offered/seconds)
		return off <= most, fmt.Sprintf("%.1f of %.1f requests/s, off by %.1f %% (at most %.0f %%)",
			achieved, m.Offered, 100*off/m.Offered, 100*most/m.Offered)
	})
	took := meanTime(round)
	findings = append(findings, every(CheckArrivals, round, func(m Measurement) (bool, string) { return onTime(e, m, took) })...)
	if !failed(findings) {
		return nil
	}
	return []string{fmt.Sprintf("phase %d: %s", phase, reason(findings))}
}
