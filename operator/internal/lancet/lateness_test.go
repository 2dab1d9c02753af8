// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// lateOnes are n requests, of which some are late by so much.
func lateOnes(n, some int, by time.Duration) []time.Duration {
	out := make([]time.Duration, n)
	for i := range some {
		out[i*n/some] = by
	}
	return out
}

// L-59: of recorded arrivals one request in a hundred may leave later than a tenth of
// the mean gap of its stream.
func TestRecordedArrivalsAreJudgedByLateness(t *testing.T) {
	e := Experiment{Percentile: 0.99, Arrivals: Trace}.WithDefaults()
	for _, c := range []struct {
		name    string
		streams int
		late    []time.Duration
		ok      bool
		says    string
	}{
		{"on time", 1, lateOnes(1000, 0, 0), true, "0.00 % of 1000 requests"},
		{"a few are late", 1, lateOnes(1000, 10, time.Second), true, "the latest 1s"},
		{"more are late", 1, lateOnes(1000, 11, 101*time.Microsecond), false, "1.10 % of 1000 requests left more than 100µs late"},
		{"more are late, but by less", 1, lateOnes(1000, 900, 100*time.Microsecond), true, "0.00 %"},
		{"of four streams the gaps are longer", 4, lateOnes(1000, 900, 400*time.Microsecond), true, "more than 400µs late"},
		{"nothing is known", 1, nil, false, "when it was due"},
	} {
		m := Measurement{Elapsed: time.Second, Sent: 1000, Offered: 1000, Streams: c.streams, Late: c.late}
		found, action := judgeArrivals(e, []Measurement{m})
		if found[0].Passed != c.ok || (action.Failed == CheckArrivals) == c.ok || !strings.Contains(found[0].Detail, c.says) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
	m := Measurement{Elapsed: time.Second, Sent: 1000, Offered: 1000, Slots: 16, Late: lateOnes(1000, 100, time.Second),
		Samples: []Sample{{Latency: 40 * time.Millisecond, Other: 12 * time.Millisecond}}}
	if found, _ := judgeArrivals(e, []Measurement{m}); !strings.Contains(found[0].Detail, "room for 16 on its connections") {
		t.Errorf("too few connections are not named: %+v", found)
	}
}

// L-59: an experiment with recorded arrivals and an agent that is late is not
// conclusive; on time, it is.
func TestALateAgentReplaysNoTrace(t *testing.T) {
	for late, want := range map[time.Duration]bool{0: true, time.Millisecond: false} {
		q := newQueue(3, 4, 1)
		q.service = func(r *rand.Rand) float64 { return r.ExpFloat64() * 0.0001 }
		q.late = func(_ float64, r *rand.Rand) time.Duration {
			if r.Float64() < 0.05 {
				return late
			}
			return 0
		}
		got, err := Run(context.Background(), Experiment{Load: 2000, Arrivals: Trace, Percentile: 0.99, Width: time.Millisecond}, q.agents(), q)
		if err != nil || got.Conclusive != want {
			t.Errorf("late by %v: %v, %+v", late, err, got.Reasons)
		}
		if why := strings.Join(got.Reasons, "; "); !want && !strings.Contains(why, "Arrivals, agent 0: ") {
			t.Errorf("because %q", why)
		}
	}
}

// L-59: a phase whose requests leave late, or whose load is not reached, has a warning
// that names it, the agent and the figure; its neighbours have none.
func TestPhasesAreDoubted(t *testing.T) {
	phases := []Phase{{Load: 1000, Duration: 2 * time.Second}, {Load: 4000, Duration: 2 * time.Second}, {Load: 1000, Duration: 2 * time.Second}}
	follow := func(change func(q *queue)) []string {
		t.Helper()
		q := newQueue(3, 8, 1)
		q.service = func(r *rand.Rand) float64 { return r.ExpFloat64() * 0.001 }
		change(q)
		intervals, err := Follow(context.Background(), Experiment{Percentile: 0.99}, phases, q.agents())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, i := range intervals {
			out = append(out, strings.Join(i.Result.Warnings, "; "))
		}
		return out
	}
	for i, w := range follow(func(*queue) {}) {
		if w != "" {
			t.Errorf("nothing is wrong with phase %d: %s", i, w)
		}
	}
	within := func(now float64, i int) bool { return now >= float64(2*i) && now < float64(2*i+2) }
	got := follow(func(q *queue) {
		// More than a tenth of a gap of 250 us, less than that of one of a millisecond.
		q.late = func(float64, *rand.Rand) time.Duration { return 30 * time.Microsecond }
	})
	if got[0] != "" || got[2] != "" || !strings.HasPrefix(got[1], "phase 1: Arrivals, agent 0: ") || !strings.Contains(got[1], "more than 25µs late") {
		t.Errorf("late in phase 1: %q", got)
	}
	got = follow(func(q *queue) {
		even := q.gap
		q.gap = func(r *rand.Rand) float64 { // a third of the last phase's load is missing
			if within(q.now, 2) {
				return 1.5 * even(r)
			}
			return even(r)
		}
	})
	if got[0] != "" || got[1] != "" || !strings.HasPrefix(got[2], "phase 2: Load, agent 0: ") || !strings.Contains(got[2], "of 1000.0 requests/s, off by 3") {
		t.Errorf("load missing in phase 2: %q", got)
	}
}

// A hundred requests are 110 now and then: that is chance, and no doubt.
func TestShortPhasesVary(t *testing.T) {
	e := Experiment{Percentile: 0.99}.WithDefaults()
	for sent, doubt := range map[uint64]bool{100: false, 75: false, 135: false, 59: true, 145: true} {
		m := Measurement{Elapsed: time.Second, Sent: sent, Offered: 100, Late: lateOnes(100, 0, 0)}
		if got := doubts(e, 4, []Measurement{m}); (got != nil) != doubt || doubt && !strings.HasPrefix(got[0], "phase 4: Load, agent 0: ") {
			t.Errorf("%d of 100: %v", sent, got)
		}
	}
}

// The figures of a doubt are those of its phase: 260 requests in two seconds where 100 a
// second were asked for, and may be missed by 5 % and three deviations of 7.07 requests.
func TestFiguresOfADoubt(t *testing.T) {
	e := Experiment{Percentile: 0.99, LoadTolerance: 0.05}.WithDefaults()
	m := Measurement{Elapsed: 2 * time.Second, Sent: 260, Offered: 100, Late: lateOnes(100, 0, 0)}
	got := doubts(e, 4, []Measurement{m})
	if len(got) != 1 || !strings.Contains(got[0], "130.0 of 100.0 requests/s, off by 30.0 % (at most 26 %)") {
		t.Errorf("%q", got)
	}
}
