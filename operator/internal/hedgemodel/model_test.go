// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import (
	"math"
	"testing"
)

func aService() Service {
	return Service{Workers: 16, Routers: 1, Depth: 1, Load: 0.2, HiccupShare: 0.01, HiccupLength: 15,
		BusyShare: 0.5, BudgetShare: 1, Percentile: 0.99, Requests: 20000, Seed: 1}
}

// Load in the simulator's table counts service without jitter.
func nominal(load float64) float64 { return load * (1 + 0.01*15) }

// The table of docs/hedging.md, from the shipped router on real packets: p50, p99
// and copies, without and with load-aware copies. A p99 without copies is compared
// where it does not hang on whether a 0.99 or a 1.01 % of the draws are hiccups.
func TestModelAgreesWithTheRouterOnRealPackets(t *testing.T) {
	for _, c := range []struct {
		workers                int
		load, busyShare        float64
		median, tail, copies   float64
		plainMedian, plainTail float64
	}{
		{16, 0.10, 0.5, 0.72, 4.61, 0.97, 0.73, 0},
		{16, 0.30, 0.5, 0.73, 4.66, 0.47, 0.73, 0},
		{16, 0.50, 0.5, 0.75, 5.37, 0.12, 0.74, 0},
		{16, 0.50, 1.0, 0.97, 4.95, 0.47, 0.74, 0},
		{2, 0.20, 0.5, 1.07, 6.78, 0.77, 0.80, 15.17},
		{2, 0.40, 0.5, 1.60, 13.11, 0.47, 1.03, 15.50},
	} {
		s := aService()
		s.Workers, s.Load, s.BusyShare = c.workers, nominal(c.load), c.busyShare
		a := Ask(s)
		near := func(what string, got, want, share float64) {
			if math.Abs(got-want) > share*want+0.01 {
				t.Errorf("%d workers, load %v, busy %v: %s %.3f, on packets %.3f", c.workers, c.load, c.busyShare, what, got, want)
			}
		}
		near("p50", a.With.Median, c.median, 0.06)
		near("p99", a.With.Tail, c.tail, 0.12)
		near("copies", a.With.Copies, c.copies, 0.06)
		near("p50 without", a.Without.Median, c.plainMedian, 0.06)
		if c.workers == 2 {
			near("p99 without", a.Without.Tail, c.plainTail, 0.06)
		}
	}
}

// what the gate says where the table leaves no doubt.
func TestR248Gate(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Service)
		want Verdict
	}{
		{"jitter makes the tail", func(*Service) {}, Pays},
		{"no jitter", func(s *Service) { s.HiccupShare = 0 }, TailTooLittle},
		{"rare hiccups do not reach p99", func(s *Service) { s.HiccupShare = 0.0001 }, TailTooLittle},
		{"but the percentile that they make", func(s *Service) {
			s.HiccupShare, s.HiccupLength, s.Percentile, s.Requests = 0.002, 40, 0.999, 60000
		}, Pays},
		{"two workers: requests wait behind copies", func(s *Service) { s.Workers = 2 }, MedianRises},
		{"overloaded", func(s *Service) { s.Load = 1.2 }, Overloaded},
		{"two routers", func(s *Service) { s.Routers, s.Depth = 2, 1 }, Pays},
	} {
		s := aService()
		c.edit(&s)
		if a := Ask(s); a.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.name, a.Verdict, c.want, a)
		}
	}
}

// its numbers are those of the simulator's gate, on either side of each.
func TestR248GateAtItsEdges(t *testing.T) {
	plain := Outcome{Busy: 0.97, Median: 1, Tail: 10}
	for _, c := range []struct {
		busy, median, tail float64
		want               Verdict
	}{
		{0.97, 1.019, 8.99, Pays}, {0.97, 1.021, 8.99, MedianRises}, {0.97, 1.019, 9.01, TailTooLittle}, {0.979, 1, 1, Pays}, {0.981, 1, 1, Overloaded},
		{0.981, 2, 20, Overloaded}, {0.97, 2, 20, MedianRises},
	} {
		plain.Busy = c.busy
		if got := judge(plain, Outcome{Busy: 1, Median: c.median, Tail: c.tail}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Without copies and jitter it is M/M/4, whose p99 at load 0.8 is known.
func TestModelWithoutCopiesIsAQueue(t *testing.T) {
	s := aService()
	s.Workers, s.Load, s.HiccupShare, s.BusyShare, s.Requests = 4, 0.8, 0, 0, 200000
	o := Run(s)
	if math.Abs(o.Busy-0.8) > 0.02 {
		t.Errorf("busy %.3f", o.Busy)
	}
	if math.Abs(o.Tail-6.893) > 0.25 {
		t.Errorf("p99 %.3f", o.Tail)
	}
}

func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	s := aService()
	s.Routers, s.Depth, s.Load, s.BusyShare = 3, 2, 0.7, 1
	r := Run(s)
	if r.Copies <= 0 || r.Copies >= 1 {
		t.Errorf("copies %v", r.Copies)
	}
	if math.IsNaN(r.Median) || r.Tail < r.Median {
		t.Errorf("%+v", r)
	}
}

func TestAskAllReportsTheOneThatFails(t *testing.T) {
	good, bad := aService(), aService()
	bad.HiccupShare = 0
	if a := AskAll(good, bad); a.Verdict != TailTooLittle || a.Asked.HiccupShare != 0 {
		t.Errorf("%+v", a)
	}
	if a := AskAll(good, good); a.Verdict != Pays {
		t.Errorf("%+v", a)
	}
}
