// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Service is a service-time distribution made of points: Seconds ascend, the
// Weights are positive and in any unit.
type Service struct {
	Seconds, Weights []float64
}

// FromHistogram makes a distribution of measured service times, each bucket at
// its middle. What lies beyond the histogram counts at its edge: the estimate
// is then an upper bound, and no objective reaches that far.
func FromHistogram(h *ll7.Histogram) Service {
	var s Service
	for i := range ll7.Buckets {
		if n := h.Count(i); n > 0 {
			s.add(middle(i), float64(n))
		}
	}
	return s
}

// middle of a bucket, in seconds.
func middle(index int) float64 {
	if index == 0 {
		return float64(ll7.UpperEdge(0)) / 2e9
	}
	return (float64(ll7.UpperEdge(index)) + float64(ll7.UpperEdge(index-1)+1)) / 2e9
}

func (s *Service) add(seconds, weight float64) {
	s.Seconds, s.Weights = append(s.Seconds, seconds), append(s.Weights, weight)
}

func (s Service) total() (sum float64) {
	for _, w := range s.Weights {
		sum += w
	}
	return sum
}

// Mean in seconds; NaN of nothing.
func (s Service) Mean() float64 {
	sum := 0.0
	for i, x := range s.Seconds {
		sum += x * s.Weights[i]
	}
	return sum / s.total()
}

// SquaredVariation is c², variance over squared mean: 0 when all service times
// are equal, 1 when they are exponential.
func (s Service) SquaredVariation() float64 {
	mean, sum := s.Mean(), 0.0
	for i, x := range s.Seconds {
		sum += (x - mean) * (x - mean) * s.Weights[i]
	}
	return sum / s.total() / (mean * mean)
}

// Beyond is Pr[service > t].
func (s Service) Beyond(t float64) float64 {
	sum := 0.0
	for i, x := range s.Seconds {
		if x > t {
			sum += s.Weights[i]
		}
	}
	return sum / s.total()
}

// resample draws as many service times again from the measured ones (Poisson
// bootstrap): how much the estimate moves over such draws is how far the
// sample may lie from the truth.
func (s Service) resample(source rand.Source) Service {
	var out Service
	for i, x := range s.Seconds {
		if n := (distuv.Poisson{Lambda: s.Weights[i], Src: source}).Rand(); n > 0 {
			out.add(x, n)
		}
	}
	return out
}

// plus is the distribution of the sum of 1 + extra independent service times, in
// at most a few thousand points: the parts are first put on a grid of eight
// points per power of two, which moves a value by less than 5 %.
func (s Service) plus(extra int) Service {
	for one := s.coarsened(); extra > 0; extra-- {
		s = s.coarsened().sum(one)
	}
	return s
}

func (s Service) sum(other Service) Service {
	byBucket := map[int]float64{}
	for i, a := range s.Seconds {
		for j, b := range other.Seconds {
			byBucket[ll7.Index(uint64((a+b)*1e9))] += s.Weights[i] * other.Weights[j]
		}
	}
	var out Service
	for _, bucket := range sortedKeys(byBucket) {
		out.add(middle(bucket), byBucket[bucket])
	}
	return out
}

// coarsened keeps the mean of each grid cell, so the mean of all stays exact.
func (s Service) coarsened() Service {
	weight, sum := map[int]float64{}, map[int]float64{}
	for i, x := range s.Seconds {
		cell := int(math.Floor(8 * math.Log2(x)))
		weight[cell] += s.Weights[i]
		sum[cell] += s.Weights[i] * x
	}
	var out Service
	for _, cell := range sortedKeys(weight) {
		out.add(sum[cell]/weight[cell], weight[cell])
	}
	return out
}

func sortedKeys(m map[int]float64) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
