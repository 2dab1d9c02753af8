// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// FlowSignal is what a server tells a client of flow control (F-31): below
// 0x8000 so many requests may be unanswered, from there on so many microseconds
// are to be silent.
type FlowSignal uint16

const (
	// FlowAsk in a REQUEST says that its client wants to be told (F-49).
	FlowAsk FlowSignal = 0x7fff
	// FlowPeriod is what window 0, which nobody sends, is read as.
	FlowPeriod = 500 * time.Microsecond

	flowIdle = 0x8000
)

// Tokens is how many requests may be unanswered; 0 with a silence.
func (s FlowSignal) Tokens() int {
	if s >= flowIdle {
		return 0
	}
	return int(s)
}

// Silence is for how long nothing may be sent, and whether there is one.
func (s FlowSignal) Silence() (time.Duration, bool) {
	switch {
	case s == 0:
		return FlowPeriod, true
	case s < flowIdle:
		return 0, false
	}
	return time.Duration(s&^flowIdle) * time.Microsecond, true
}
