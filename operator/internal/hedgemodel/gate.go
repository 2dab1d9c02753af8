// SPDX-License-Identifier: Apache-2.0

package hedgemodel

// Verdict of the gate.
type Verdict string

// Verdicts.
const (
	Pays          Verdict = "Pays"
	Overloaded    Verdict = "Overloaded"
	MedianRises   Verdict = "MedianWouldRise"
	TailTooLittle Verdict = "TailTooLittle"
)

// The simulator's gate has the same numbers (dataplane/sim/fanout_cells.c).
const (
	mostMedian = 1.02
	mostTail   = 0.90
	mostBusy   = 0.98
)

// Answer is a verdict with what it rests on: a run without copies, one with them.
type Answer struct {
	Verdict       Verdict
	Asked         Service
	Without, With Outcome
}

// Above such a share of busy workers one run is busier than the next, and what it says
// of copies is chance: two have to agree.
const (
	nearlyBusy = 0.75
	seeds      = 2
)

// Ask runs a service without and with copies.
func Ask(s Service) Answer {
	var first Answer
	for i := range uint64(seeds) {
		one := s
		one.Seed += i
		plain := one
		plain.BusyShare = 0
		a := Answer{Asked: s, Without: Run(plain), With: Run(one)}
		if a.Verdict = judge(a.Without, a.With); a.Verdict != Pays {
			return a
		}
		if i == 0 {
			first = a
		}
		if a.Without.Busy < nearlyBusy {
			break
		}
	}
	return first
}

func judge(without, with Outcome) Verdict {
	switch {
	case without.Busy > mostBusy:
		return Overloaded
	case with.Median > mostMedian*without.Median:
		return MedianRises
	case with.Tail > mostTail*without.Tail:
		return TailTooLittle
	}
	return Pays
}

// AskAll wants all services to profit: the answer is that of the first one that
// does not, or else of the first one.
func AskAll(services ...Service) Answer {
	var first Answer
	for i, s := range services {
		a := Ask(s)
		if a.Verdict != Pays {
			return a
		}
		if i == 0 {
			first = a
		}
	}
	return first
}
