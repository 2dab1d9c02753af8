// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import "math"

// smoothing of what R-251 calls the last 256 requests or so.
const smoothing = 1.0 / 256

// mostSaved copies of an unused budget.
const mostSaved = 64

// golden is how far the start of a search moves on: ties are spread evenly, and the
// turns of several routers drift apart.
const golden = 0.6180339887

// router sees only what it sent itself.
type router struct {
	outstanding []int
	held        []*request // waiting for a place
	alone       []*request // forwarded, without a hedged request, the oldest first
	pairs       []*request // with two, the last copy last
	copies      int        // under way
	busy        float64    // share of workers busy with first copies, smoothed over arrivals
	seen        float64    // weight of what busy has seen
	budget      float64
	turn        int     // where the search for a copy's worker starts
	start       float64 // and that for a first one: a share of the workers
}

func newRouter(i, workers int) *router {
	return &router{outstanding: make([]int, workers), start: float64(i) / 7}
}

// arrive looks at the workers, then places the request.
func (r *run) arrive(q *request) {
	of := r.routers[q.router]
	busy := 0
	for _, n := range of.outstanding {
		if n > 0 {
			busy++
		}
	}
	of.busy += smoothing * (float64(max(0, busy-of.copies)) - of.busy)
	of.seen += smoothing * (float64(len(of.outstanding)) - of.seen)
	if r.Cancel != Preemptive || len(of.held) > 0 || of.idle(-1) >= 0 || !r.preempt(of, q) {
		of.held = append(of.held, q)
		r.pump(of)
	}
	r.hedge(of)
}

// preempt gives a request the worker of a copy; false: there is none to take back.
func (r *run) preempt(of *router, q *request) bool {
	w := r.makeRoom(of)
	if w >= 0 {
		r.send(of, q, w)
	}
	return w >= 0
}

// pump is JBSQ: the least loaded worker with a place.
func (r *run) pump(of *router) {
	for len(of.held) > 0 {
		w := of.least(r.Depth)
		if w < 0 {
			return
		}
		r.send(of, of.held[0], w)
		of.held = of.held[1:]
	}
}

// send forwards a request for the first time.
func (r *run) send(of *router, q *request, w int) {
	q.sent = r.now
	of.budget = min(of.budget+r.BudgetShare, mostSaved)
	r.begin(w, q, false)
	if r.BusyShare > 0 {
		of.alone = append(of.alone, q)
	}
}

// least outstanding requests below depth, ties from a start that moves on; -1: none.
func (of *router) least(depth int) int {
	best := -1
	from := int(of.start * float64(len(of.outstanding)))
	for i := range of.outstanding {
		w := (from + i) % len(of.outstanding)
		if n := of.outstanding[w]; n < depth && (best < 0 || n < of.outstanding[best]) {
			best = w
		}
	}
	if best >= 0 {
		of.start = math.Mod(of.start+golden, 1)
	}
	return best
}

// hedge is mode LoadAware: while nothing waits, requests that run alone get a
// copy, the oldest first, where another worker is idle. What waits takes the place
// of a copy before, if it may.
func (r *run) hedge(of *router) {
	for r.Cancel == Preemptive && len(of.held) > 0 && r.preempt(of, of.held[0]) {
		of.held = of.held[1:]
	}
	for len(of.held) == 0 && len(of.alone) > 0 {
		q := of.alone[0]
		if q.answered {
			of.alone = of.alone[1:]
			continue
		}
		w := of.idle(q.copy[0].worker)
		if w < 0 || !r.allowed(of) {
			return
		}
		of.alone = of.alone[1:]
		of.turn = w + 1
		r.double(of, q, w)
	}
}

// double sends a hedged request. A probe is one that leaves with the first; its
// copies are left alone.
func (r *run) double(of *router, q *request, w int) {
	of.budget--
	of.copies++
	r.copies++
	e := r.begin(w, q, true)
	if q.probe && q.sent == r.now {
		e.kept, q.copy[0].kept = true, true
	}
	if r.Cancel == Preemptive && !e.kept {
		of.pairs = append(of.pairs, q)
	}
}

// idle is a worker that owes the router nothing, other than one; -1: none.
func (of *router) idle(other int) int {
	for i := range of.outstanding {
		if w := (of.turn + i) % len(of.outstanding); w != other && of.outstanding[w] == 0 {
			return w
		}
	}
	return -1
}

// allowed is R-251.
func (r *run) allowed(of *router) bool {
	busy := 0
	for _, n := range of.outstanding {
		if n > 0 {
			busy++
		}
	}
	return float64(busy) <= r.BusyShare*float64(len(of.outstanding)) &&
		of.busy*2 <= (r.BusyShare+1)*of.seen && of.budget >= 1
}
