// SPDX-License-Identifier: Apache-2.0

// The interval of a percentile whose samples are alike in stretches: a queue that
// is long now is long for a while, so a window of 100,000 requests may hold no more
// evidence than a thousand independent ones.
//
// The window comes in parts. Were the percentile x, then a share q = 1 - p of the
// requests would take longer; how the parts differ in that share says how far the
// share of the whole window may be from q. Every x whose share is not too far is in
// the interval. The share is a ratio of two counts per part, its variance that of
// clusters (Cochran, Sampling Techniques, 3rd ed., 6.3); turning an interval of
// shares into one of the quantile is due to Woodruff (JASA 47, 1952). Ten to thirty
// parts are enough, more only shorten them (Schmeiser, Operations Research 30, 1982).
// Where neighbouring parts still move together, their differences show too little:
// pairs of parts are judged as well, and the wider answer stands.
package stretches

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Parts is in how many parts a window is read.
const Parts = 10

// Confidence of the interval: the one the API promises.
const Confidence = 0.95

// Interval of a percentile.
type Interval struct {
	Low, High dataplane.Value
	// Open: the requests are so alike in stretches that nothing bounds the
	// percentile from above, though all of them were answered. Then High is infinite.
	Open bool
	// Unknown: they all lie in one stretch, so nothing says how alike they are.
	Unknown bool
	// Independent is as how many independent requests they count.
	Independent uint64
}

// fewestPairs: with fewer, Student's t costs more than pairs show.
const fewestPairs = 4

// Stretches are the parts of a window that hold requests.
type Stretches struct {
	q       float64 // the share beyond the percentile
	total   float64
	buckets []int // those that are not empty, ascending
	// groups are the parts, and pairs of them where there are enough.
	groups []grouping
}

// grouping is one way to cut the window.
type grouping struct {
	t    float64 // Student's, for so many parts
	size []float64
	// beyond holds for every entry of buckets how many requests of each part took
	// longer.
	beyond [][]float64
}

// New takes the parts and a percentile as a share of one.
func New(parts []*ll7.Histogram, p float64) *Stretches {
	s := &Stretches{q: 1 - p}
	var all ll7.Histogram
	var held []*ll7.Histogram
	for _, h := range parts {
		if h.Total() > 0 {
			all.Merge(h)
			held = append(held, h)
		}
	}
	s.total = float64(all.Total())
	for i := range ll7.Buckets {
		if all.Count(i) > 0 {
			s.buckets = append(s.buckets, i)
		}
	}
	if len(held) >= 2 {
		s.groups = append(s.groups, s.grouped(held))
	}
	if pairs := paired(held); len(pairs) >= fewestPairs {
		s.groups = append(s.groups, s.grouped(pairs))
	}
	return s
}

func paired(parts []*ll7.Histogram) (out []*ll7.Histogram) {
	for i := 0; i < len(parts); i += 2 {
		h := parts[i].Clone()
		if i+1 < len(parts) {
			h.Merge(parts[i+1])
		}
		out = append(out, h)
	}
	return out
}

func (s *Stretches) grouped(parts []*ll7.Histogram) grouping {
	g := grouping{t: distuv.StudentsT{Sigma: 1, Nu: float64(len(parts) - 1)}.Quantile((1 + Confidence) / 2)}
	left := make([]float64, len(parts))
	for k, h := range parts {
		left[k] = float64(h.Total())
	}
	g.size = append(g.size, left...)
	for _, b := range s.buckets {
		row := make([]float64, len(parts))
		for k, h := range parts {
			left[k] -= float64(h.Count(b))
			row[k] = left[k]
		}
		g.beyond = append(g.beyond, row)
	}
	return g
}

// variance of the share beyond the i-th bucket, as the parts' differences show it.
func (g *grouping) variance(i int, total float64) float64 {
	count, sum := float64(len(g.size)), 0.0
	for _, n := range g.beyond[i] {
		sum += n
	}
	share, squares := sum/total, 0.0
	for k, n := range g.beyond[i] {
		d := n - share*g.size[k]
		squares += d * d
	}
	return count / (count - 1) * squares / (total * total)
}

// share of the requests beyond the i-th bucket; all are beyond the one before the
// first.
func (s *Stretches) share(i int) float64 {
	if i < 0 {
		return 1
	}
	sum := 0.0
	for _, n := range s.groups[0].beyond[i] {
		sum += n
	}
	return sum / s.total
}

// reach is how far the share beyond the i-th bucket may be from the truth; never
// less than for independent requests.
func (s *Stretches) reach(i int) float64 {
	least, far := s.q*(1-s.q)/s.total, 0.0
	for k := range s.groups {
		g, v := &s.groups[k], least
		if i >= 0 {
			v = max(v, g.variance(i, s.total))
		}
		far = max(far, g.t*math.Sqrt(v))
	}
	return far
}

// reachAt is the reach at the share q itself, which lies in the bucket of the
// percentile: between the shares beyond it and beyond the one before. Where the bucket
// is narrow either edge will do, and the wider reach counts. Where it holds many
// requests, as it does where service times hardly differ, the share beyond the one
// before is far above q, and so is its doubt. The variance of a share s grows like
// s(1 - s), for equally alike requests; where that is more than twice q(1 - q), the
// reach is scaled down as if it were twice.
func (s *Stretches) reachAt(here int) float64 {
	far, most := s.reach(-1), 2*s.q*(1-s.q)
	for i := max(here-1, 0); i <= min(here, len(s.buckets)-1); i++ {
		reach, share := s.reach(i), s.share(i)
		if wide := share * (1 - share); wide > most {
			reach *= math.Sqrt(most / wide)
		}
		far = max(far, reach)
	}
	return far
}

// value is that of the i-th bucket; behind the last one are the unanswered requests.
func (s *Stretches) value(i int) dataplane.Value {
	switch {
	case i >= len(s.buckets):
		return dataplane.Value{Bound: ll7.Infinite}
	case s.buckets[i] == ll7.Overflow:
		return dataplane.Value{Bound: ll7.AtLeast, Nanoseconds: ll7.OverflowEdge}
	}
	return dataplane.Value{Bound: ll7.Finite, Nanoseconds: ll7.UpperEdge(s.buckets[i])}
}

// Interval of the percentile.
func (s *Stretches) Interval() Interval {
	if len(s.groups) == 0 {
		return Interval{Unknown: true}
	}
	here := 0 // the percentile itself
	for here < len(s.buckets) && s.share(here) > s.q {
		here++
	}
	out := Interval{Low: s.value(s.lowest()), Independent: s.independent(here)}
	far := s.reachAt(here)
	if far >= s.q {
		out.High, out.Open = dataplane.Value{Bound: ll7.Infinite}, true
		return out
	}
	out.High = s.value(s.highest(here, far))
	return out
}

// lowest value whose share beyond it is not above q by more than its reach. The
// reach is that at the value itself: one long stretch of slow requests, which at the
// percentile looks like certainty, is one part's word against nine there.
//
// However alike requests are, a share that is q in the long run is 40 q in one window
// of forty at most (Markov's inequality): an outage need not last for most of the
// window to be told from chance.
func (s *Stretches) lowest() int {
	const tail = (1 - Confidence) / 2
	for i := range s.buckets {
		if share := s.share(i); share < s.q/tail && share-s.q <= s.reach(i) {
			return i
		}
	}
	return len(s.buckets)
}

// highest value whose share, itself included, is not below q by more than its reach.
// Few requests lie beyond it and show little, so the reach at the percentile counts
// as well.
func (s *Stretches) highest(here int, far float64) int {
	for i := len(s.buckets); i > here; i-- {
		if s.q-s.share(i-1) <= max(far, s.reach(i-1)) {
			return i
		}
	}
	return here
}

// independent is how many independent requests would leave the same doubt about the
// share beyond the percentile; on either side of its bucket, which may hold many.
func (s *Stretches) independent(here int) uint64 {
	out := s.total
	for i := max(here-1, 0); i <= min(here, len(s.buckets)-1); i++ {
		share := s.share(i)
		for k := range s.groups {
			if v := s.groups[k].variance(i, s.total); v > 0 {
				out = min(out, share*(1-share)/v)
			}
		}
	}
	return uint64(math.Round(out))
}
