// SPDX-License-Identifier: Apache-2.0

package switches

// A switch tells nobody what time it is. Its program counts packets by two digits of its clock: of 2^20 units, and of
// 2^26. Which cells counted between two readings says when the last packet came.
const (
	counterMoments = "moments"
	counterSpans   = "spans"
	digits         = 64
	// MomentBits is the unit of what is known, some 1.05 s.
	MomentBits = 20
	moments    = digits * digits
)

// Moment is a time of a switch's clock, in units of 2^MomentBits. It begins anew after 4,096.
type Moment uint16

// After is the moment so many later.
func (m Moment) After(n int) Moment { return Moment((int(m) + n) % moments) }

// Ticks is when it begins.
func (m Moment) Ticks() uint32 { return uint32(m) << MomentBits }

// ClockCells are those two digits; none: the program has no such counters.
func (i *Info) ClockCells() (out []Cell) {
	for _, name := range []string{counterSpans, counterMoments} {
		c := i.counter(name)
		if c == nil || c.GetSize() < digits {
			return nil
		}
		for n := range int64(digits) {
			out = append(out, Cell{c.GetPreamble().GetId(), n})
		}
	}
	return out
}

// Clock is what is known of a switch's clock.
type Clock struct {
	before map[Cell]uint64
}

// Read takes all cells of ClockCells and says when the last packet since the reading before came; false: none came, or
// more time went by than the digits tell.
func (c *Clock) Read(i *Info, read map[Cell]uint64) (Moment, bool) {
	cells, before := i.ClockCells(), c.before
	c.before = read
	if len(cells) == 0 || len(before) < len(cells) || len(read) < len(cells) {
		return 0, false
	}
	var last [2]int
	for n := range last {
		digit, ok := lastCounted(cells[n*digits:(n+1)*digits], before, read)
		if !ok {
			return 0, false
		}
		last[n] = digit
	}
	return Moment(last[0]*digits + last[1]), true
}

// lastCounted is the end of the run of cells that counted. One run without a gap is what time makes; an idle switch may
// leave gaps, and then nobody knows which of them is the last.
func lastCounted(cells []Cell, before, read map[Cell]uint64) (last int, ok bool) {
	counted := func(n int) bool {
		c := cells[(n+digits)%digits]
		return read[c] > before[c]
	}
	ends := 0
	for n := range digits {
		if read[cells[n]] < before[cells[n]] {
			return 0, false // it began anew
		}
		if counted(n) && !counted(n+1) {
			last = n
			ends++
		}
	}
	return last, ends == 1
}
