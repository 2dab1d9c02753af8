// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// queue is M/M/k in virtual time, whose load may swing. Zero workers: nobody waits.
type queue struct {
	name          string
	workers       int
	load, service float64 // of each worker; mean, in seconds
	swing, period float64 // of the load, in seconds
	windows       int
}

type freeAt []float64

func (h freeAt) Len() int           { return len(h) }
func (h freeAt) Less(i, j int) bool { return h[i] < h[j] }
func (h freeAt) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *freeAt) Push(any)          { panic("workers stay") }
func (h *freeAt) Pop() any          { panic("workers stay") }

const windowSeconds = 30

// run tells every window in its parts, the newest first. One goes before, unseen.
func (q queue) run(seen func(parts []*ll7.Histogram)) {
	random := rand.New(rand.NewPCG(11, uint64(q.workers)))
	free := make(freeAt, max(q.workers, 1))
	highest := (q.load + q.swing) * float64(len(free)) / q.service
	now := 0.0
	for w := range q.windows + 1 {
		parts := make([]*ll7.Histogram, windowParts)
		for i := range parts {
			parts[i] = &ll7.Histogram{}
		}
		for begin := float64(w * windowSeconds); ; {
			if now += random.ExpFloat64() / highest; now >= begin+windowSeconds {
				break
			}
			load := q.load
			if q.swing > 0 {
				load += q.swing * math.Sin(2*math.Pi*now/q.period)
				if random.Float64()*(q.load+q.swing) > load {
					continue
				}
			}
			end := now + random.ExpFloat64()*q.service
			if q.workers > 0 {
				end += max(0, free[0]-now)
				free[0] = end
				heap.Fix(&free, 0)
			}
			parts[windowParts-1-int((now-begin)*windowParts/windowSeconds)].Record(uint64((end - now) * 1e9))
		}
		if w > 0 {
			seen(parts)
		}
	}
}

// percentile of the latency, in nanoseconds: the known one of M/M/k (Erlang's C), or
// where the load swings that of all windows together.
func (q queue) percentile(p float64, all *ll7.Histogram) float64 {
	if q.swing > 0 {
		v, _ := all.Percentile(fmt.Sprintf("%g", p*100))
		return float64(v.Nanoseconds)
	}
	k, rate := float64(q.workers), 1/q.service
	blocked := 1.0 // Erlang's B
	for i := range q.workers {
		blocked = q.load * k * blocked / (float64(i+1) + q.load*k*blocked)
	}
	waits := blocked / (1 - q.load*(1-blocked))
	drain := k * rate * (1 - q.load)
	if q.workers == 0 {
		waits, drain = 0, 2*rate
	}
	low, high := 0.0, 1000*q.service
	for range 60 {
		t := (low + high) / 2
		beyond := (1-waits)*math.Exp(-rate*t) + waits*(drain*math.Exp(-rate*t)-rate*math.Exp(-drain*t))/(drain-rate)
		if beyond > 1-p {
			low = t
		} else {
			high = t
		}
	}
	return low * 1e9
}

// The simulation agrees with what is known of M/M/k.
func TestQueue(t *testing.T) {
	t.Parallel()
	for _, q := range []queue{{workers: 1, load: 0.7, service: 0.001, windows: 40}, {workers: 16, load: 0.9, service: 0.002, windows: 10}, {load: 0.3, service: 0.0001, windows: 2}} {
		var all dataplane.Histogram
		q.run(func(parts []*ll7.Histogram) {
			for _, h := range parts {
				all.Merge(h)
			}
		})
		v, err := all.Percentile("99")
		if want := q.percentile(0.99, nil); err != nil || math.Abs(float64(v.Nanoseconds)/want-1) > 0.05 {
			t.Errorf("%+v: %v, want %.0f ns", q, v, want)
		}
	}
}
