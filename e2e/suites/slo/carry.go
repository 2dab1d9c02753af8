// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"fmt"
	"strings"
	"time"
)

// leastCarried is the goal of e2e_slo_capacity_of_workers: with less the machine
// stands in the way of the workers, and shares of such a capacity say little of them.
const leastCarried = 0.75

// longer service times ask less of a machine that cannot carry a setup.
var longer = []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}

// cannotCarry says why the machine and not the workers decided what was measured;
// nothing if they did.
func (s *Suite) cannotCarry() string {
	why := ""
	switch share := s.capacity() / s.Setup.Nominal(); {
	case s.cut != nil:
		why = s.cut.Error()
	case s.swept == 0:
		why = fmt.Sprintf("no load of the sweep met p99 <= %s", s.Setup.latency())
	case share < leastCarried:
		why = fmt.Sprintf("p99 <= %s allows %.0f requests/s, %.3f of what they can do, less than %.2f", s.Setup.latency(), s.capacity(), share, leastCarried)
	default:
		return ""
	}
	return fmt.Sprintf("the machine cannot carry %d workers of %s: %s%s", s.Setup.Replicas*s.Setup.Workers, s.Setup.Service, why, s.sweptElsewhere())
}

// sweptElsewhere is how much of the processors' time the sweep did not have.
func (s *Suite) sweptElsewhere() string {
	share, seconds := 0.0, 0
	for _, p := range s.points {
		share, seconds = share+p.elsewhere.Share()*float64(p.elsewhere.Seconds), seconds+p.elsewhere.Seconds
	}
	if seconds == 0 {
		return ""
	}
	return fmt.Sprintf("; %.0f %% of the processors' time went elsewhere during the sweep", 100*share/float64(seconds))
}

// instead are the service times that are tried in addition.
func (s Setup) instead() (times []time.Duration) {
	for _, t := range longer {
		if t > s.Service {
			times = append(times, t)
		}
	}
	return times
}

// again is the same suite with another service time, whose figures have its name.
func (s *Suite) again(service time.Duration) *Suite {
	setup := s.Setup
	setup.Service = service
	return &Suite{Env: s.Env, Steps: s.Steps, Got: s.Got, Setup: setup, additional: service.String() + "_"}
}

// summary is a row for every service time that was measured, that which was asked for
// first.
func summary(all []*Suite) string {
	if len(all) < 2 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\nWhat was asked for, and in addition what the machine was tried with; figures without a service time in their name are those of the first:\n")
	for _, s := range all {
		verdict := s.cannotCarry()
		if verdict == "" {
			verdict = "the machine carries them"
		}
		fmt.Fprintf(&out, "%6s  %s", s.Setup.Service, verdict)
		for _, r := range s.judged() {
			if r.controller == "Track" && r.short == nil {
				fmt.Fprintf(&out, "; p99 %.3f of the objective, worst 5 s %.3f, goodput %.3f of the capacity",
					over(p99(r.routers), s.Setup.latency()), over(r.worst, s.Setup.latency()), r.inTime/s.capacity())
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}
