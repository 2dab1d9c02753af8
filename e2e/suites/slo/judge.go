// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"fmt"
)

// The goals of e2e_overload_p99_over_slo and e2e_overload_goodput_share.
const (
	mostOver     = 1.1
	leastGoodput = 0.9
)

// judgement of one try of an overload: it is the one that counts, or the overload is
// measured again, and why.
type judgement struct {
	again bool
	why   string
}

// judge says what a try is worth. Every load of the sweep has several tries and the
// best counts; with one, an overload would be held to a capacity of the machine's good
// moments in whatever moment it got. So one that missed is measured again as often as a
// load of the sweep, but only if the machine was seen to be disturbed: a miss on a
// machine left alone is the controller's. The last try counts, whatever it says.
func (s *Suite) judge(r row) judgement {
	missed := s.missed(r)
	switch {
	case r.tries == 1:
		return judgement{why: "has one try"}
	case missed == "":
		return judgement{why: "met the goals"}
	case r.try >= r.tries:
		return judgement{why: missed + "; the last try"}
	case r.unknown != nil:
		return judgement{why: fmt.Sprintf("%s; whether the machine was disturbed is not known: %v", missed, r.unknown)}
	case r.elsewhere.Disturbed == 0:
		return judgement{why: fmt.Sprintf("%s, and the machine was not disturbed (%s)", missed, r.elsewhere)}
	}
	return judgement{again: true, why: fmt.Sprintf("%s while the machine was disturbed (%s): measured again", missed, r.elsewhere)}
}

// missed says which goal a try of the default controller did not meet.
func (s *Suite) missed(r row) string {
	over, goodput := over(p99(r.routers), s.Setup.latency()), r.inTime/s.capacity()
	switch {
	case r.short != nil:
		return "missed: the load was not offered"
	case !(over <= mostOver): // or is no number
		return fmt.Sprintf("missed: p99 is %.3f of the objective, more than %.1f", over, mostOver)
	case !(goodput >= leastGoodput):
		return fmt.Sprintf("missed: goodput is %.3f of the capacity, less than %.1f", goodput, leastGoodput)
	}
	return ""
}

// judged are the tries that count, one of each phase that has come to an end.
func (s *Suite) judged() (rows []row) {
	for _, r := range s.rows {
		if !r.again {
			rows = append(rows, r)
		}
	}
	return rows
}
