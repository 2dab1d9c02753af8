// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"math/rand/v2"
)

// Policy is how requests are placed, as far as a model can tell policies apart.
type Policy int

const (
	// Bounded is JBSQ(n), and JSQ as one whose depth does not matter.
	Bounded Policy = iota
	// Blind is round robin and the choice of two: better than random, worse
	// than Bounded, how much depends on the service times.
	Blind
	// Random has a queue of its own before every worker.
	Random
)

// heavy is the c² from which placement behind a busy worker costs more than two
// further service times: a very long one may sit there.
const heavy = 4

// mostBehind bounds the further service times: a router that sees the queues
// puts a third request behind two others only when every worker has two.
const mostBehind = 2

// bounds are the models between which the answer lies, the best first. The
// published and simulated p99 of docs/reference/protocol.md (queueing) lie between them.
func (q Question) bounds() (best, worst Model) {
	central, partitioned := Model{Servers: q.Workers}, Model{Servers: 1}
	switch {
	case q.Policy == Bounded && q.Depth == 1, q.Workers == 1:
		return central, central
	case q.Policy == Bounded && q.Service.SquaredVariation() <= heavy:
		return central, Model{Servers: q.Workers, ExtraServices: min(q.Depth-1, mostBehind)}
	case q.Policy == Random:
		return partitioned, partitioned
	}
	return central, partitioned
}

// Question asks how many requests a second a service can take.
type Question struct {
	Service Service // measured service times; weights are counts
	Policy  Policy
	// Depth is n of JBSQ(n): how many requests a worker holds, the one in
	// service included. Only Bounded looks at it.
	Depth   int
	Workers int
	// P of all requests, 0…1, should take at most Limit seconds.
	P, Limit float64
	// Overhead is what a request takes besides waiting and service, in
	// seconds; it is taken off the limit.
	Overhead float64
}

// Estimate is the answer, in requests a second. Between Low and High lies the
// truth with 95 % confidence as far as the sample decides it, and for either of
// the two models the policy lies between; Middle is half way between what the
// two models say of the sample itself.
type Estimate struct {
	Low, Middle, High float64
}

// replicates: lowest and highest of 39 enclose 95 % of a continuous
// distribution (1 - 2/40).
const replicates = 39

// Capacity answers. The same question has the same answer: the draws are seeded.
func Capacity(q Question) Estimate {
	best, worst := q.bounds()
	least, most := q.rate(worst, q.Service), q.rate(best, q.Service)
	out := Estimate{Low: min(least, most), Middle: (least + most) / 2, High: max(least, most)}
	source := rand.NewPCG(1, 2)
	for range replicates {
		s := q.Service.resample(source)
		most = q.rate(best, s)
		least = most
		if worst != best {
			least = q.rate(worst, s)
		}
		out.High, out.Low = max(out.High, most), min(out.Low, least)
	}
	return out
}

func (q Question) rate(m Model, s Service) float64 {
	load := m.MaxLoad(s, q.P, q.Limit-q.Overhead)
	if load == 0 {
		return 0
	}
	return load * float64(q.Workers) / s.Mean()
}

// OverheadAt is what a request took, in seconds, beyond what the best model says
// at the observed rate (requests a second); 0 when the model knows no answer
// because the rate is above what the workers can do.
func (q Question) OverheadAt(rate, meanSojourn float64) float64 {
	wait := q.WaitAt(rate)
	if math.IsInf(wait, 1) || math.IsNaN(meanSojourn) {
		return 0
	}
	return math.Max(0, meanSojourn-q.Service.Mean()-wait)
}

// WaitAt is how long, in seconds, the best model has requests wait on average at
// a rate (requests a second); infinite above what the workers can do.
func (q Question) WaitAt(rate float64) float64 {
	load := rate * q.Service.Mean() / float64(q.Workers)
	if !(load < highestLoad) {
		return math.Inf(1)
	}
	best, _ := q.bounds()
	return best.MeanWait(q.Service, load)
}
