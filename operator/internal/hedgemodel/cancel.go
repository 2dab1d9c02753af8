// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import "slices"

// pending is what a CANCEL does at a time.
type pending struct {
	at   float64
	copy *execution
}

// takeBack sends a CANCEL for a copy, unless it has ended or had one.
func (r *run) takeBack(e *execution) {
	if r.Cancel == None || e == nil || e.kept {
		return
	}
	e.kept = true
	if r.Heeded < 1 && r.more.Float64() >= r.Heeded {
		return
	}
	r.stops = append(r.stops, pending{r.now + r.Reaction, e})
}

// cancelNext does what CANCELs do next, up to a time; false: nothing.
func (r *run) cancelNext(until float64) bool {
	switch {
	case len(r.stops) > 0 && r.stops[0].at <= until && (len(r.heard) == 0 || r.stops[0].at <= r.heard[0].at):
		p := r.stops[0]
		r.stops, r.now = r.stops[1:], p.at
		r.stop(p.copy)
	case len(r.heard) > 0 && r.heard[0].at <= until:
		p := r.heard[0]
		r.heard, r.now = r.heard[1:], p.at
		r.takenBack(p.copy)
	default:
		return false
	}
	return true
}

// stop ends a copy at its worker, which goes on with what waits.
func (r *run) stop(e *execution) {
	heard := r.now + max(0, r.Lag-r.Reaction)
	w := &r.workers[e.worker]
	if e.over || (w.queue[0] == e && w.ends <= heard) { // it ends by itself before
		return
	}
	if w.queue[0] == e {
		r.busy -= w.ends - r.now
		r.next(e.worker)
	} else {
		w.queue = slices.DeleteFunc(slices.Clone(w.queue), func(other *execution) bool { return other == e })
	}
	r.taken++
	r.heard = append(r.heard, pending{heard, e})
}

// takenBack is what the router makes of the FEEDBACK that says so: the request, if
// not answered yet, may be copied again.
func (r *run) takenBack(e *execution) {
	of, q := r.ended(e), e.request
	if !q.answered {
		at, _ := slices.BinarySearchFunc(of.alone, q.sent, func(other *request, sent float64) int {
			if other.sent <= sent {
				return -1
			}
			return 1
		})
		of.alone = slices.Insert(of.alone, at, q)
	}
	r.pump(of)
	r.hedge(of)
}

// makeRoom takes back the copy that began last, either one where both began at once,
// and returns its worker; -1: there is none.
func (r *run) makeRoom(of *router) int {
	var victim *execution
	equals := 0
	of.pairs = slices.DeleteFunc(of.pairs, func(q *request) bool { return !q.twice() })
	for i := len(of.pairs) - 1; i >= 0; i-- {
		q := of.pairs[i]
		if victim != nil && q.copy[1].sent != victim.sent {
			break
		}
		for _, e := range q.copy {
			if e.sent != q.copy[1].sent || e.kept || of.outstanding[e.worker] > r.Depth {
				continue
			}
			if equals++; r.more.IntN(equals) == 0 {
				victim = e
			}
		}
	}
	if victim == nil {
		return -1
	}
	if q := victim.request; !victim.second { // the survivor is the first copy from now on
		q.copy[0], q.copy[1] = q.copy[1], q.copy[0]
		q.copy[0].second, q.copy[1].second = false, true
	}
	victim.madeRoom = true
	r.takeBack(victim)
	of.copies--
	of.budget = min(of.budget+1, mostSaved)
	return victim.worker
}

// twice: both copies are on their way, to answer.
func (q *request) twice() bool {
	return !q.answered && q.copy[0] != nil && q.copy[1] != nil && !q.copy[1].madeRoom
}
