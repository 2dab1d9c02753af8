// SPDX-License-Identifier: Apache-2.0

package switches

// Fates of packets that are of no service.
const (
	// Unserved packets were for an address of the switch's own, and a port of nobody.
	Unserved Fate = "not-served"
	// Strange packets were for a station that is in no entry.
	Strange Fate = "no-station"
)

// strays are the numbers of headers.p4, by program, of what is counted under the number that is nobody's.
var strays = map[Program]map[int64]Fate{
	ProgramRouter: {1: Malformed, 2: Malformed, 3: Malformed, 4: Malformed, 5: Malformed, 6: Malformed, 7: Malformed, 8: Malformed, 9: Malformed,
		10: Malformed, 11: Malformed, 12: Malformed, 13: Malformed, 14: Malformed, 15: Malformed, 16: Malformed, 17: Malformed, 18: Malformed,
		19: Malformed, 20: Unserved, 31: Strange},
	ProgramCRAB: {8: Malformed, 9: Malformed, 10: Malformed, 11: Malformed, 12: Malformed, 13: Malformed, 16: Unserved, 17: Strange},
	ProgramSLOG: {8: Strange, 9: Malformed},
	ProgramAggregator: {1: Malformed, 2: Malformed, 3: Malformed, 4: Malformed, 5: Malformed, 6: Malformed, 7: Malformed, 8: Malformed, 9: Malformed,
		10: Unserved, 12: Malformed, 26: Strange},
	ProgramBox: {1: Malformed, 2: Malformed, 3: Malformed, 4: Malformed, 5: Malformed, 6: Malformed, 7: Malformed, 8: Malformed, 9: Malformed,
		10: Malformed, 11: Malformed, 12: Malformed, 13: Malformed, 14: Malformed, 15: Malformed, 16: Malformed, 17: Unserved, 20: Malformed,
		21: Malformed, 22: Malformed, 28: Strange},
}

// StrayCells are the counters of discarded packets that are of no service (W-13).
func (i *Info) StrayCells() map[Cell]Fate {
	out := map[Cell]Fate{}
	c := i.counter(counterOutcomes)
	for reason, fate := range strays[i.Program()] {
		if c != nil && reason < c.GetSize() {
			out[Cell{c.GetPreamble().GetId(), reason}] = fate
		}
	}
	return out
}
