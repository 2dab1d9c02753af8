// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/stretches"
)

// Every rank is read from the bucket that holds it.
func TestAtRank(t *testing.T) {
	h := &dataplane.Histogram{}
	values := []uint64{}
	for i := range uint64(997) {
		v := 2000 + i*1000
		values = append(values, v)
		h.Record(v)
	}
	for i, want := range values {
		v, err := stretches.AtRank(h, uint64(i)+1)
		if err != nil || v.Nanoseconds != ll7.UpperEdge(ll7.Index(want)) {
			t.Fatalf("rank %d: %v, %v; want the bucket of %d", i+1, v, err, want)
		}
	}
}

// Of independent requests, the interval without parts covers the true percentile in
// about 95 of 100 measurements. Of queues: TestCoverageOfQueues.
func TestCoverage(t *testing.T) {
	const seed, rounds, n = 7, 1000, 2000
	random := rand.New(rand.NewPCG(seed, seed))
	truth := uint64(-math.Log(0.01) * 1e6) // p99 of an exponential of mean 1 ms
	covered := 0
	for range rounds {
		h := &dataplane.Histogram{}
		for range n {
			h.Record(uint64(random.ExpFloat64() * 1e6))
		}
		low, high, err := independently(h, 0.99)
		if err != nil {
			t.Fatal(err)
		}
		if low.Nanoseconds <= truth && truth <= high.Nanoseconds {
			covered++
		}
	}
	if covered < rounds*93/100 || covered > rounds*99/100 {
		t.Errorf("the interval covers the truth in %d of %d rounds (seed %d)", covered, rounds, seed)
	}
}

// Where the upper end falls on unanswered requests there is none.
func TestUnansweredUpperEnd(t *testing.T) {
	h := measured(991, 900, 9, 30).Histogram
	low, high, err := independently(h, 0.99)
	if err != nil || low.Bound != ll7.Finite || high.Bound != ll7.Infinite {
		t.Errorf("%v..%v, %v", low, high, err)
	}
	if microseconds(high) != nil || microseconds(low) == nil {
		t.Error("an infinite end is shown as a number")
	}
	if got := bothEnds(low, high); got != ">="+written(low) {
		t.Errorf("without an upper end the column shows %q", got)
	}
	if s, err := spanOf(&dataplane.Histogram{}, nil, "99"); err != nil || s.low.Bound != ll7.NoValue {
		t.Errorf("of nothing: %v, %v", s, err)
	}
}

func TestIntervalForPeople(t *testing.T) {
	at := func(ns uint64) dataplane.Value { return dataplane.Value{Bound: ll7.Finite, Nanoseconds: ns} }
	never := dataplane.Value{Bound: ll7.Infinite}
	for want, ends := range map[string][2]dataplane.Value{
		"11.8ms-12.9ms": {at(11_800_000), at(12_900_000)}, "999us-1ms": {at(999_000), at(1_000_000)}, ">=11.8ms": {at(11_800_000), never},
		">=2s": {at(2_000_000_000), {}}, "+Inf": {never, never}, ">=100s": {{Bound: ll7.AtLeast, Nanoseconds: 100_000_000_000}, never}, "": {},
	} {
		if got := bothEnds(ends[0], ends[1]); got != want {
			t.Errorf("%v to %v: %q, want %q", ends[0], ends[1], got, want)
		}
	}
}
