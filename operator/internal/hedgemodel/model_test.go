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

// what becomes of CANCELs, in the model.
func TestR254Cancels(t *testing.T) {
	of := func(edit func(*Service)) Outcome {
		s := aService()
		s.Load, s.BusyShare, s.Cancel, s.Heeded = 0.5, 1, Preemptive, 1
		edit(&s)
		return Run(s)
	}
	all := of(func(*Service) {})
	none := of(func(s *Service) { s.Cancel = None })
	ignored := of(func(s *Service) { s.Heeded = 0 })
	answered := of(func(s *Service) { s.Cancel = Answered })
	slow := of(func(s *Service) { s.Reaction, s.Lag = 1, 1 })
	probes := of(func(s *Service) { s.ProbeShare = 1 })
	if all.TakenBack < 0.5 || none.TakenBack != 0 || ignored.TakenBack != 0 {
		t.Errorf("taken back %v, %v without cancellation, %v of servers that go on", all.TakenBack, none.TakenBack, ignored.TakenBack)
	}
	if !(all.Median < answered.Median && answered.Median < none.Median && none.Median <= ignored.Median) {
		t.Errorf("medians: Preemptive %v, Answered %v, None %v, nobody heeds %v", all.Median, answered.Median, none.Median, ignored.Median)
	}
	if slow.TakenBack >= all.TakenBack || slow.Median <= all.Median {
		t.Errorf("slow servers: %+v, quick ones %+v", slow, all)
	}
	if probes.TakenBack >= all.TakenBack || probes.Busy <= all.Busy+0.02 {
		t.Errorf("probes are not taken back: %+v, others %+v", probes, all)
	}
	// Copies that leave together end together, but for a hiccup of either.
	together := of(func(s *Service) { s.Load, s.Workers, s.Cancel = 0.01, 64, Answered })
	if math.Abs(together.TakenBack-2*0.01*0.99) > 0.006 {
		t.Errorf("of copies that began together %v were taken back", together.TakenBack)
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
