// SPDX-License-Identifier: Apache-2.0

package hedgemodel

// smoothing of what R-251 calls the last 256 requests or so.
const smoothing = 1.0 / 256

// router sees only what it sent itself.
type router struct {
	outstanding []int
	held        []*request // waiting for a place
	alone       []*request // forwarded, without a second copy, the oldest first
	copies      int        // under way
	busy        float64    // share of workers busy with first copies, smoothed over arrivals
	seen        float64    // weight of what busy has seen
	budget      float64
	turn        int
}

func newRouter(i, workers int) *router {
	return &router{outstanding: make([]int, workers), turn: i}
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
	of.held = append(of.held, q)
	r.pump(of)
	r.hedge(of)
}

// pump is JBSQ: the least loaded worker with a place, ties in turn.
func (r *run) pump(of *router) {
	for len(of.held) > 0 {
		w := of.least(r.Depth)
		if w < 0 {
			return
		}
		q := of.held[0]
		of.held = of.held[1:]
		q.worker = w
		of.turn = w + 1
		of.budget = min(of.budget+r.BudgetShare, 64)
		r.begin(w, execution{request: q})
		if r.BusyShare > 0 {
			of.alone = append(of.alone, q)
		}
	}
}

// least outstanding requests below depth, from the one whose turn it is; -1: none.
func (of *router) least(depth int) int {
	best := -1
	for i := range of.outstanding {
		w := (of.turn + i) % len(of.outstanding)
		if n := of.outstanding[w]; n < depth && (best < 0 || n < of.outstanding[best]) {
			best = w
		}
	}
	return best
}

// hedge is mode LoadAware: while nothing waits, requests that run alone get a
// copy, the oldest first, where another worker is idle.
func (r *run) hedge(of *router) {
	for len(of.held) == 0 && len(of.alone) > 0 {
		q := of.alone[0]
		if q.answered {
			of.alone = of.alone[1:]
			continue
		}
		w := of.idle(q.worker)
		if w < 0 || !r.allowed(of) {
			return
		}
		of.alone = of.alone[1:]
		of.budget--
		of.copies++
		of.turn = w + 1
		r.copies++
		r.begin(w, execution{request: q, copy: true})
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
