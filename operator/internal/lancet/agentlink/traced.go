// SPDX-License-Identifier: Apache-2.0

package agentlink

import "time"

// Traced is a sample that carried a trace id, by the clock of this program;
// the agent's was read when its window was complete.
type Traced struct {
	ID         uint64
	Start, End time.Time // sent and answered; alike without an answer
	Failure    string    // why there is none, "" when there is
}

// outcomes are those of the records, in order.
var outcomes = []string{"answered", "timeout", "disconnected", "errorReply", "badReply", "dropped", "notSent", "refused"}

// decodeTraced reads the traced ones of the records; zero is the agent's time 0.
func decodeTraced(raw []byte, zero time.Time) []Traced {
	var out []Traced
	for i := 0; i+recordBytes <= len(raw); i += recordBytes {
		r := decodeRecord(raw[i:])
		if r.trace == 0 {
			continue
		}
		sent := zero.Add(span(r.left()))
		t := Traced{ID: r.trace, Start: sent, End: sent}
		switch {
		case r.outcome == 0 && r.received != absent:
			t.End = zero.Add(span(r.received))
		case int(r.outcome) < len(outcomes):
			t.Failure = outcomes[r.outcome]
		}
		out = append(out, t)
	}
	return out
}
