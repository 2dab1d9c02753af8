// SPDX-License-Identifier: Apache-2.0

package r2p2

import "time"

// deadlines are the requests of a port by the time they end at: a heap,
// the earliest first, and one timer for all of them. Guarded by the port's mu.
type deadlines struct {
	heap  []*clientPair
	timer *time.Timer
	due   time.Time // of the timer; zero: it does not run
}

// add puts a request in. The timer is set only when it would come too late: one
// that comes too early finds nothing, and is set again.
func (d *deadlines) add(pair *clientPair, now time.Time) {
	pair.place = len(d.heap)
	d.heap = append(d.heap, pair)
	d.up(pair.place)
	if d.due.IsZero() || pair.deadline.Before(d.due) {
		d.set(pair.deadline, now)
	}
}

func (d *deadlines) set(due, now time.Time) {
	d.due = due
	d.timer.Reset(max(0, due.Sub(now)))
}

// remove takes a request out.
func (d *deadlines) remove(pair *clientPair) {
	last := len(d.heap) - 1
	i := pair.place
	d.swap(i, last)
	d.heap[last] = nil
	d.heap = d.heap[:last]
	if i < last {
		d.down(i)
		d.up(i)
	}
}

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

func (d *deadlines) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.heap[i].place, d.heap[j].place = i, j
}

func (d *deadlines) before(i, j int) bool { return d.heap[i].deadline.Before(d.heap[j].deadline) }

func (d *deadlines) up(i int) {
	for i > 0 && d.before(i, (i-1)/2) {
		d.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (d *deadlines) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(d.heap); child++ {
			if d.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		d.swap(i, least)
		i = least
	}
}
