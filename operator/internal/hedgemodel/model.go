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
	// Fixed service times; else exponential ones.
	Fixed bool
	// BusyShare is the share of workers that may be busy when a copy is sent
	// 0…1; 0: no copies. BudgetShare bounds copies per request.
	BusyShare, BudgetShare float64
	// Percentile of Tail, as a share: 0.99.
	Percentile float64
	Requests   int
	Seed       uint64
}

// Outcome of a run.
type Outcome struct {
	Median, Tail float64
	// Copies sent per request.
	Copies float64
	// Busy is the share of the workers' time.
	Busy float64
}

type request struct {
	router   int
	arrived  float64
	took     float64 // without jitter, of both executions
	hiccup   [2]bool // of the first and the second execution
	worker   int     // of the first copy, once forwarded
	answered bool
}

// execution is one copy of a request at a worker.
type execution struct {
	request *request
	copy    bool
}

type worker struct {
	queue []execution // the first one is being executed
	ends  float64     // when; infinite: there is none
}

type run struct {
	Service
	now     float64
	workers []worker
	routers []*router
	took    []float64 // of requests
	busy    float64
	copies  int
}

// Run serves the requests. The same service has the same requests, with and
// without copies: arrivals, service times and hiccups of first executions are
// drawn before anything is decided.
func Run(s Service) Outcome {
	r := &run{Service: s, workers: make([]worker, s.Workers)}
	for i := range r.workers {
		r.workers[i].ends = math.Inf(1)
	}
	for i := range s.Routers {
		r.routers = append(r.routers, newRouter(i, s.Workers))
	}
	mean := (1 + s.HiccupShare*s.HiccupLength) / (s.Load * float64(s.Workers))
	draw := rand.New(rand.NewPCG(s.Seed, 1)) //nolint:gosec // a model, not a secret
	arrival := 0.0
	for range s.Requests {
		arrival += draw.ExpFloat64() * mean
		r.until(arrival)
		q := &request{router: draw.IntN(s.Routers), arrived: arrival, took: 1}
		if e := draw.ExpFloat64(); !s.Fixed {
			q.took = e
		}
		q.hiccup = [2]bool{draw.Float64() < s.HiccupShare, draw.Float64() < s.HiccupShare}
		r.arrive(q)
	}
	busy := r.busy / (arrival * float64(s.Workers))
	r.until(math.Inf(1))
	return r.outcome(busy)
}

func (r *run) outcome(busy float64) Outcome {
	took := r.took[len(r.took)/10:] // the beginning is empty queues
	slices.Sort(took)
	at := func(share float64) float64 { return took[min(len(took)-1, int(math.Ceil(share*float64(len(took))))-1)] }
	return Outcome{Median: at(0.5), Tail: at(r.Percentile), Copies: float64(r.copies) / float64(r.Requests), Busy: busy}
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
		if at := r.workers[next].ends; at > then || math.IsInf(at, 1) {
			break
		}
		r.now = r.workers[next].ends
		r.finish(next)
	}
	if !math.IsInf(then, 1) {
		r.now = then
	}
}

// begin puts a copy at the end of a worker's queue.
func (r *run) begin(w int, e execution) {
	r.workers[w].queue = append(r.workers[w].queue, e)
	r.routers[e.request.router].outstanding[w]++
	if len(r.workers[w].queue) == 1 {
		r.execute(w)
	}
}

func (r *run) execute(w int) {
	e := r.workers[w].queue[0]
	which := 0
	if e.copy {
		which = 1
	}
	d := e.request.took
	if e.request.hiccup[which] {
		d += r.HiccupLength
	}
	r.busy += d
	r.workers[w].ends = r.now + d
}

func (r *run) finish(w int) {
	e := r.workers[w].queue[0]
	r.workers[w].queue, r.workers[w].ends = r.workers[w].queue[1:], math.Inf(1)
	if len(r.workers[w].queue) > 0 {
		r.execute(w)
	}
	of := r.routers[e.request.router]
	of.outstanding[w]--
	if e.copy {
		of.copies--
	}
	if !e.request.answered {
		e.request.answered = true
		r.took = append(r.took, r.now-e.request.arrived)
	}
	r.pump(of)
	r.hedge(of)
}
