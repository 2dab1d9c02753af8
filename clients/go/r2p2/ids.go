// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"math/rand/v2"
	"time"
)

// ids hands out the request ids of one port: never one that is pending, never
// one released less than a quarantine ago, whose late reply could still come
// . The first is random, so that a restarted client does not meet the
// replies of its previous life.
type ids struct {
	next       uint16
	busy       [1 << 16 / 64]uint64 // pending or in quarantine
	released   []releasedID         // in order of time
	quarantine time.Duration
}

type releasedID struct {
	id    uint16
	until time.Time
}

// idTries bounds the search; ids come back in nearly the order they went out,
// so a free one is near or nowhere.
const idTries = 256

func newIDs(quarantine time.Duration) *ids {
	return &ids{next: uint16(rand.Uint32()), quarantine: quarantine}
}

func (a *ids) take(now time.Time) (uint16, bool) {
	for len(a.released) > 0 && !a.released[0].until.After(now) {
		id := a.released[0].id
		a.busy[id/64] &^= 1 << (id % 64)
		a.released = a.released[1:]
	}
	for range idTries {
		id := a.next
		a.next++
		if a.busy[id/64]&(1<<(id%64)) == 0 {
			a.busy[id/64] |= 1 << (id % 64)
			return id, true
		}
	}
	return 0, false
}

func (a *ids) release(id uint16, now time.Time) {
	a.released = append(a.released, releasedID{id, now.Add(a.quarantine)})
}
