// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"math"
	"sync"
	"time"
)

// WindowSeconds is how far back a Window reaches.
const WindowSeconds = 600

// Window keeps one histogram for each of the last 600 seconds, so that a
// reader can ask for any window that has passed and none is lost when the
// reader is away. It is safe for concurrent use.
type Window struct {
	clock func() uint64 // the present second, 1 at first

	mu     sync.Mutex
	now    second
	counts [Buckets]uint32 // of the present second
	past   [WindowSeconds]second
}

// second is what one second held; buckets is sparse.
type second struct {
	at                uint64 // 0: nothing
	buckets           []bucket
	inf               uint64
	sum               uint64
	arrived, rejected uint64
}

type bucket struct {
	index uint16
	count uint32
}

// NewWindow returns an empty window.
func NewWindow() *Window {
	start := time.Now()
	return &Window{clock: func() uint64 { return uint64(time.Since(start)/time.Second) + 1 }}
}

// Second returns the present second of the window's clock, 1 at its creation.
func (w *Window) Second() uint64 { return w.clock() }

// Record adds a value that ended now.
func (w *Window) Record(d time.Duration) {
	v := uint64(max(0, d))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(w.Second())
	w.counts[Index(v)]++
	w.now.sum += v
}

// Merge adds what somebody else counted and is known now.
func (w *Window) Merge(h *Histogram) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(w.Second())
	for index, n := range h.counts {
		if n > 0 {
			w.counts[index] += uint32(min(n, math.MaxUint32)) // a second's worth
		}
	}
	w.now.sum += h.sum
	w.now.inf += h.inf
}

// Arrived counts a request that came in.
func (w *Window) Arrived() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(w.Second())
	w.now.arrived++
}

// Rejected counts a request that was refused.
func (w *Window) Rejected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(w.Second())
	w.now.rejected++
}

// turn puts the present second away when another one has begun.
func (w *Window) turn(at uint64) {
	if at == w.now.at {
		return
	}
	if w.now.at != 0 {
		w.now.buckets = w.sparse()
		w.past[w.now.at%WindowSeconds] = w.now
		clear(w.counts[:])
	}
	w.now = second{at: at}
}

func (w *Window) sparse() []bucket {
	var out []bucket
	for i, n := range w.counts {
		if n > 0 {
			out = append(out, bucket{uint16(i), n})
		}
	}
	return out
}

// Sum is what a stretch of a Window held.
type Sum struct {
	Histogram *Histogram
	// Covered is how many of the seconds asked for the window has lived.
	Covered           int
	Arrived, Rejected uint64
}

// Last sums up the given number of seconds (1 to 600) that end with second
// end, included; end 0 means the present one.
func (w *Window) Last(seconds int, end uint64) Sum {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(w.Second())
	if end == 0 || end > w.now.at {
		end = w.now.at
	}
	s := Sum{Histogram: &Histogram{}, Covered: int(min(uint64(seconds), end))}
	for at := end; at > 0 && at+uint64(seconds) > end; at-- {
		one := w.past[at%WindowSeconds]
		if at == w.now.at {
			one = w.now
			one.buckets = w.sparse()
		}
		if one.at == at {
			s.add(&one)
		}
	}
	return s
}

func (s *Sum) add(one *second) {
	h := s.Histogram
	for _, b := range one.buckets {
		h.grow()
		h.counts[b.index] += uint64(b.count)
		h.total += uint64(b.count)
	}
	h.inf += one.inf
	h.total += one.inf
	h.sum += one.sum
	s.Arrived += one.arrived
	s.Rejected += one.rejected
}
