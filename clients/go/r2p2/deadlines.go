// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"container/heap"
	"time"
)

// deadlines are the requests of a port by the time they end at: a heap,
// the earliest first, and one timer for all of them. Guarded by the port's mu.
type deadlines struct {
	heap  pairsByDeadline
	timer *time.Timer
	due   time.Time // of the timer; zero: it does not run
}

// add puts a request in. The timer is set only when it would come too late: one
// that comes too early finds nothing, and is set again.
func (d *deadlines) add(pair *clientPair, now time.Time) {
	heap.Push(&d.heap, pair)
	if d.due.IsZero() || pair.deadline.Before(d.due) {
		d.set(pair.deadline, now)
	}
}

func (d *deadlines) set(due, now time.Time) {
	d.due = due
	d.timer.Reset(max(0, due.Sub(now)))
}

// remove takes a request out.
func (d *deadlines) remove(pair *clientPair) { heap.Remove(&d.heap, pair.place) }

// expired is a request whose time is over, nil when there is none; then the
// timer is set for the next.
func (d *deadlines) expired(now time.Time) *clientPair {
	if len(d.heap) == 0 {
		d.due = time.Time{}
		return nil
	}
	if first := d.heap[0]; !first.deadline.After(now) {
		return first
	}
	d.set(d.heap[0].deadline, now)
	return nil
}

// pairsByDeadline is a heap.Interface; each pair knows its place.
type pairsByDeadline []*clientPair

func (h pairsByDeadline) Len() int           { return len(h) }
func (h pairsByDeadline) Less(i, j int) bool { return h[i].deadline.Before(h[j].deadline) }

func (h pairsByDeadline) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *pairsByDeadline) Push(pair any) {
	p := pair.(*clientPair)
	p.place = len(*h)
	*h = append(*h, p)
}

func (h *pairsByDeadline) Pop() any {
	last := len(*h) - 1
	pair := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return pair
}
