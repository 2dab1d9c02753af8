// SPDX-License-Identifier: Apache-2.0

package sven

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is a service of some workers behind one queue, on a clock of its own, as a switch sees it.
type world struct {
	random  *rand.Rand
	loop    *Loop
	free    times // when each worker is free
	service time.Duration
	rate    func(at time.Duration) float64 // requests a second
	now     time.Duration
	done    []finished
}

type finished struct {
	class     int
	at        time.Duration
	took      time.Duration
	refused   bool
	completed time.Duration
}

type times []time.Duration

func (t times) Len() int           { return len(t) }
func (t times) Less(a, b int) bool { return t[a] < t[b] }
func (t times) Swap(a, b int)      { t[a], t[b] = t[b], t[a] }
func (t *times) Push(v any)        { *t = append(*t, v.(time.Duration)) }
func (t *times) Pop() any {
	last := len(*t) - 1
	v := (*t)[last]
	*t = (*t)[:last]
	return v
}

// run plays the loop as a keeper does: shares are those of the last look, and looks are a period apart.
func (w *world) run(length time.Duration, classOf func() int) {
	shares := w.loop.Shares()
	begun, next := w.now, w.now+w.loop.Config().Period()
	first := len(w.done)
	for end := w.now + length; w.now < end; {
		w.now += time.Duration(w.random.ExpFloat64() / w.rate(w.now) * 1e9)
		for next <= w.now {
			report := w.report(first, begun, next)
			if w.loop.Config().Ready(report.Samples, report.Span) {
				w.loop.Look(report)
				shares, begun = w.loop.Shares(), next
			}
			next += w.loop.Config().Period()
		}
		class := classOf()
		one := finished{class: class, at: w.now}
		if one.refused = w.random.IntN(1<<16) < int(shares[class]); !one.refused {
			start := max(heap.Pop(&w.free).(time.Duration), w.now)
			one.completed = start + time.Duration(w.random.ExpFloat64()*float64(w.service))
			one.took = one.completed - w.now
			heap.Push(&w.free, one.completed)
		}
		w.done = append(w.done, one)
		for first < len(w.done) && w.done[first].at < begun && (w.done[first].refused || w.done[first].completed < begun) {
			first++
		}
	}
}

func (w *world) report(first int, begun, now time.Duration) (r Report) {
	r.Span = now - begun
	var took []time.Duration
	for _, d := range w.done[first:] {
		if d.at >= begun && d.at < now {
			if d.refused {
				r.Refused[d.class]++
			} else {
				r.Admitted[d.class]++
			}
		}
		if !d.refused && d.completed >= begun && d.completed < now {
			took = append(took, d.took)
			if d.took <= w.loop.Config().Latency {
				r.Within++
			}
		}
	}
	r.Samples, r.Completed = uint64(len(took)), uint64(len(took))
	if slices.Sort(took); len(took) > 0 {
		r.Percentile = took[(len(took)*int(w.loop.Config().Per100k)-1)/100_000]
	}
	return r
}

func newWorld(c Config, load float64) *world {
	w := &world{random: rand.New(rand.NewPCG(1, 2)), loop: New(c), service: 500 * time.Microsecond, free: make(times, 8)}
	w.rate = func(time.Duration) float64 { return load * 8 / w.service.Seconds() }
	return w
}

func all() (out [Classes]bool) {
	for n := range out {
		out[n] = n != 1 && n != 2
	}
	return out
}

func zero() int { return 0 }

// measuredFrom says of requests from a time on: the percentile of those let in over the objective, their rate over what
// the workers can, and the share that was refused.
func (w *world) measuredFrom(from time.Duration) (percentile, goodput, refused float64) {
	var took []time.Duration
	n := 0
	for _, d := range w.done {
		if d.at < from {
			continue
		}
		n++
		if !d.refused {
			took = append(took, d.took)
		}
	}
	slices.Sort(took)
	at := took[(len(took)*int(w.loop.Config().Per100k)-1)/100_000]
	return float64(at) / float64(w.loop.Config().Latency), float64(len(took)) / (w.now - from).Seconds() * w.service.Seconds() / float64(len(w.free)), 1 - float64(len(took))/float64(n)
}

// At every load beyond what the workers can, the percentile stays near the objective and the workers stay busy; below
// it nobody is refused.
func TestTrackKeepsThePercentile(t *testing.T) {
	for _, load := range []float64{0.5, 1.1, 1.5, 3} {
		w := newWorld(Config{Latency: 5 * time.Millisecond, Per100k: 99000, Droppable: all()}, load)
		w.run(20*time.Second, zero)
		p99, goodput, refused := w.measuredFrom(8 * time.Second)
		t.Logf("load %.1f: p99 is %.2f of the objective, goodput %.2f, %.1f %% refused", load, p99, goodput, 100*refused)
		if load < 1 && refused > 0 {
			t.Errorf("load %.1f: %.2f %% refused", load, 100*refused)
		}
		if p99 > 1.25 || load > 1 && goodput < 0.8 {
			t.Errorf("load %.1f: p99 is %.2f of the objective, goodput %.2f", load, p99, goodput)
		}
	}
}

// The published loop swings around the objective; it refuses under overload and lets go of it.
func TestPublishedLoop(t *testing.T) {
	w := newWorld(Config{Latency: 5 * time.Millisecond, Per100k: 99000, Droppable: all(), Published: true}, 1.5)
	w.run(30*time.Second, zero)
	p99, goodput, refused := w.measuredFrom(15 * time.Second)
	t.Logf("p99 is %.2f of the objective, goodput %.2f, %.1f %% refused", p99, goodput, 100*refused)
	if refused < 0.2 || refused > 0.6 || goodput < 0.6 {
		t.Errorf("%.1f %% refused, goodput %.2f", 100*refused, goodput)
	}
	w.rate = func(time.Duration) float64 { return 0.3 * 8 / w.service.Seconds() }
	w.run(30*time.Second, zero)
	if s := w.loop.Shares(); s != [Classes]uint16{} {
		t.Errorf("refuses %v of what is no load", s)
	}
}

// Lower classes go first, up to 99 % of them; those that may not be refused never are.
func TestLadder(t *testing.T) {
	c := Config{Latency: time.Millisecond, Per100k: 99000, Droppable: all()}
	r := Report{Admitted: [Classes]uint64{0: 1000, 1: 1000, 4: 1000}}
	for _, row := range []struct {
		wanted float64
		want   [Classes]float64
		left   float64
	}{
		{-1, [Classes]float64{}, 0}, {500, [Classes]float64{0: 0.5}, 0}, {990 + 100, [Classes]float64{0: 0.99, 3: 0.99, 4: 0.1}, 0},
		{2500, [Classes]float64{0: 0.99, 3: 0.99, 4: 0.99, 5: 0.99, 6: 0.99, 7: 0.99}, 2500 - 1980},
	} {
		l := New(c)
		level, left := c.level(r, row.wanted)
		l.level = level
		for class, share := range l.Shares() {
			if math.Abs(float64(share)/(1<<16)-row.want[class]) > 1e-3 {
				t.Errorf("of %.0f wanted %.3f of class %d is refused, want %.3f", row.wanted, float64(share)/(1<<16), class, row.want[class])
			}
		}
		if math.Abs(left-row.left) > 1e-6 {
			t.Errorf("of %.0f wanted %.1f are left, want %.1f", row.wanted, left, row.left)
		}
	}
}

// Windows wait for samples, not for ever.
func TestReady(t *testing.T) {
	for per, enough := range map[uint32]uint64{99000: 1000, 99900: 10000, 90000: 100, 99990: 100000} {
		c := Config{Per100k: per}
		if c.Enough() != enough || c.Ready(enough-1, time.Second-1) || !c.Ready(enough, 0) || !c.Ready(0, time.Second) {
			t.Errorf("percentile %d: %d are enough", per, c.Enough())
		}
	}
}

// Few samples that are slow are heard; few that are not allow to open.
func TestFewSamples(t *testing.T) {
	c := Config{Latency: time.Millisecond, Per100k: 99000, Droppable: all()}
	slow := Report{Admitted: [Classes]uint64{0: 50}, Completed: 50, Samples: 50, Within: 20, Percentile: 9 * time.Millisecond, Span: Longest}
	l := New(c)
	if l.Look(slow); l.Shares()[0] == 0 {
		t.Error("thirty of fifty are too slow, and nobody is refused")
	}
	fast := slow
	fast.Within, fast.Percentile = 50, 100*time.Microsecond
	before := l.Shares()[0]
	if l.Look(fast); l.Shares()[0] >= before {
		t.Errorf("nobody is slow, and %d of 65,536 are refused after %d", l.Shares()[0], before)
	}
	idle := Report{Span: Longest}
	before = l.Shares()[0]
	if l.Look(idle); l.Shares()[0] != before {
		t.Error("a window without requests changes rates")
	}
}
