// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Service is what is modelled. Times are in mean service times without jitter.
type Service struct {
	// Workers execute one request at a time; Routers share them, each with
	// Depth places in every worker's queue.
	Workers, Routers, Depth int
	// Load is the share of the workers' time that first copies take, jitter
	// included.
	Load float64
	// HiccupShare of all executions take HiccupLength longer.
	HiccupShare, HiccupLength float64
	// Fixed service times, or Bimodal ones, of which nine in ten take half of the
	// mean and the others 5.5 times that; else exponential ones.
	Fixed, Bimodal bool
	// BusyShare is the share of workers that may be busy when a copy is sent
	// 0…1; 0: no copies. BudgetShare bounds copies per request.
	BusyShare, BudgetShare float64
	Cancel                 Cancellation
	// Heeded is the share of CANCELs that end the execution they name; the others
	// change nothing. Reaction is what an application takes to let go; Lag is the
	// time from a CANCEL to its FEEDBACK, there and back and with the reaction. On
	// its way a CANCEL loses no more time than the request behind it.
	Heeded, Reaction, Lag float64
	// ProbeShare of requests is copied to compare both executions: these copies
	// are not taken back.
	ProbeShare float64
	// Percentile of Tail, as a share: 0.99.
	Percentile float64
	Requests   int
	Seed       uint64
}

// Cancellation says which copies are taken back.
type Cancellation int

// Cancellations.
const (
	None       Cancellation = iota
	Answered                // the other copy of what was answered
	Preemptive              // also the youngest one, for a newcomer that finds no idle worker
)

// Outcome of a run.
type Outcome struct {
	Median, Tail float64
	// Copies sent per request.
	Copies float64
	// TakenBack is the share of them that ended by a CANCEL.
	TakenBack float64
	// Busy is the share of the workers' time.
	Busy float64
}

type request struct {
	router  int
	arrived float64
	took    float64 // without jitter, of all executions
	hiccup  [2]bool // of the first and the second execution
	copies  int     // sent so far
	probe   bool
	sent    float64       // for the first time
	copy    [2]*execution // on their way; the first one is that which copies are made beside
	// answered: the first copy to end has.
	answered bool
}

// execution is one copy of a request at a worker.
type execution struct {
	request *request
	worker  int
	number  int     // of the request's copies, from 0
	sent    float64 // from the router
	second  bool    // of the two on their way
	kept    bool    // no CANCEL for it (any more)
	// madeRoom: taken back for a newcomer. over: the router knows that it ended.
	madeRoom, over bool
}

type worker struct {
	queue []*execution // the first one is being executed
	ends  float64      // when; infinite: there is none
}

type run struct {
	Service
	now     float64
	workers []worker
	routers []*router
	stops   []pending // CANCELs under way, in order of time
	heard   []pending // their FEEDBACK, too
	more    *rand.Rand
	took    []float64 // of requests
	busy    float64
	copies  int
	taken   int
}

// serve serves the requests. The same service has the same requests, with and
// without copies: arrivals, service times and hiccups of first executions are
// drawn before anything is decided.
func serve(s Service) Outcome {
	r := &run{Service: s, workers: make([]worker, s.Workers)}
	for i := range r.workers {
		r.workers[i].ends = math.Inf(1)
	}
	for i := range s.Routers {
		r.routers = append(r.routers, newRouter(i, s.Workers))
	}
	mean := (1 + s.HiccupShare*s.HiccupLength) / (s.Load * float64(s.Workers))
	draw := rand.New(rand.NewPCG(s.Seed, 1))
	r.more = rand.New(rand.NewPCG(s.Seed, 2))
	arrival := 0.0
	for range s.Requests {
		arrival += draw.ExpFloat64() * mean
		r.until(arrival)
		q := &request{router: draw.IntN(s.Routers), arrived: arrival, took: s.serviceTime(draw.ExpFloat64())}
		q.hiccup = [2]bool{draw.Float64() < s.HiccupShare, draw.Float64() < s.HiccupShare}
		q.probe = s.ProbeShare > 0 && r.more.Float64() < s.ProbeShare
		r.arrive(q)
	}
	busy := r.busy / (arrival * float64(s.Workers))
	r.until(math.Inf(1))
	return r.outcome(busy)
}

// serviceTime of a request, from an exponential draw: whatever the distribution, as
// many numbers are drawn.
func (s *Service) serviceTime(e float64) float64 {
	switch {
	case s.Fixed:
		return 1
	case s.Bimodal && e > math.Ln10:
		return 5.5
	case s.Bimodal:
		return 0.5
	}
	return e
}

func (r *run) outcome(busy float64) Outcome {
	took := r.took[len(r.took)/10:] // the beginning is empty queues
	slices.Sort(took)
	at := func(share float64) float64 { return took[min(len(took)-1, int(math.Ceil(share*float64(len(took))))-1)] }
	return Outcome{Median: at(0.5), Tail: at(r.Percentile), Copies: float64(r.copies) / float64(r.Requests),
		TakenBack: float64(r.taken) / math.Max(1, float64(r.copies)), Busy: busy}
}

// until lets everything happen that happens before a time. There are few workers:
// looking at all of them takes no longer than keeping them in order.
func (r *run) until(then float64) {
	for {
		next := 0
		for w := range r.workers {
			if r.workers[w].ends < r.workers[next].ends {
				next = w
			}
		}
		at := r.workers[next].ends
		if r.cancelNext(math.Min(at, then)) {
			continue
		}
		if at > then || math.IsInf(at, 1) {
			break
		}
		r.now = at
		r.finish(next)
	}
	if !math.IsInf(then, 1) {
		r.now = then
	}
}

// begin puts a copy of a request at the end of a worker's queue.
func (r *run) begin(w int, q *request, second bool) *execution {
	e := &execution{request: q, worker: w, number: q.copies, sent: r.now, second: second}
	q.copies++
	q.copy[index(second)] = e
	r.workers[w].queue = append(r.workers[w].queue, e)
	r.routers[q.router].outstanding[w]++
	if len(r.workers[w].queue) == 1 {
		r.execute(w)
	}
	return e
}

func index(second bool) int {
	if second {
		return 1
	}
	return 0
}

func (r *run) execute(w int) {
	e := r.workers[w].queue[0]
	d := e.request.took
	if r.hiccups(e) {
		d += r.HiccupLength
	}
	r.busy += d
	r.workers[w].ends = r.now + d
}

// hiccups says whether an execution has one: drawn with the request for its first
// two copies, so that runs with and without copies have the same.
func (r *run) hiccups(e *execution) bool {
	if e.number < len(e.request.hiccup) {
		return e.request.hiccup[e.number]
	}
	return r.more.Float64() < r.HiccupShare
}

func (r *run) finish(w int) {
	e := r.workers[w].queue[0]
	r.next(w)
	of, q := r.ended(e), e.request
	if !q.answered {
		q.answered = true
		r.took = append(r.took, r.now-q.arrived)
		r.takeBack(q.copy[index(!e.second)])
	}
	r.pump(of)
	r.hedge(of)
}

// next ends what a worker executes; it goes on with what waits.
func (r *run) next(w int) {
	r.workers[w].queue, r.workers[w].ends = r.workers[w].queue[1:], math.Inf(1)
	if len(r.workers[w].queue) > 0 {
		r.execute(w)
	}
}

// ended is what the router makes of a FEEDBACK.
func (r *run) ended(e *execution) *router {
	of := r.routers[e.request.router]
	of.outstanding[e.worker]--
	e.over = true
	if e.request.copy[index(e.second)] == e {
		e.request.copy[index(e.second)] = nil
	}
	if e.second && !e.madeRoom {
		of.copies--
	}
	return of
}
