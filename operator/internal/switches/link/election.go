// SPDX-License-Identifier: Apache-2.0

// Package link speaks P4Runtime with one switch. Every call ends in bounded time, what
// is read has a bound, and whatever a server answers is judged before it is believed.
package link

import (
	"cmp"
	"fmt"
	"math"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Election is an election id: the highest one makes its holder the primary.
type Election struct{ High, Low uint64 }

// ElectionOf is the id of a leader: its term, so that a later leader always outdoes an
// earlier one, and how often it has connected in it (W-20).
func ElectionOf(term int64, connections uint64) Election {
	return Election{High: uint64(max(term, 0)) + 1, Low: connections}
}

// Compare is like cmp.Compare.
func (e Election) Compare(o Election) int {
	return cmp.Or(cmp.Compare(e.High, o.High), cmp.Compare(e.Low, o.Low))
}

// above is the least id above it; false: there is none.
func (e Election) above() (Election, bool) {
	switch {
	case e.Low < math.MaxUint64:
		return Election{e.High, e.Low + 1}, true
	case e.High < math.MaxUint64:
		return Election{e.High + 1, 0}, true
	}
	return e, false
}

func (e Election) String() string { return fmt.Sprintf("%d.%d", e.High, e.Low) }

func (e Election) wire() *p4.Uint128 { return &p4.Uint128{High: e.High, Low: e.Low} }

func electionOf(u *p4.Uint128) Election { return Election{u.GetHigh(), u.GetLow()} }
