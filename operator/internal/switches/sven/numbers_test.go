// SPDX-License-Identifier: Apache-2.0

package sven

import (
	"math"
	"testing"
	"time"
)

// A window counts by its length, at most once.
func TestWeight(t *testing.T) {
	for _, c := range []struct {
		span time.Duration
		want float64
	}{{0, 0}, {weighty / 4, 0.25}, {weighty, 1}, {2 * weighty, 1}} {
		if got := (Report{Span: c.span}).weight(); got != c.want {
			t.Errorf("%v: %v, want %v", c.span, got, c.want)
		}
	}
}

// The published loop takes its first share as it is, smooths the later ones, and goes a step down at the objective.
func TestPublishedShares(t *testing.T) {
	c := Config{Latency: time.Millisecond, Per100k: 90_000, Published: true, Droppable: all()}
	l := New(c)
	for i, w := range []struct {
		within, samples uint64
		level, share    float64
	}{
		{0, 0, 0, 1},                  // nobody: all are within, and a level is never below 0
		{5, 10, stepAIAD, 0.85},       // 0.3 * 0.5 + 0.7 * 1
		{10, 10, 2 * stepAIAD, 0.895}, // 0.3 + 0.7 * 0.85
		{10, 10, stepAIAD, 0.9265},    // 0.3 + 0.7 * 0.895
	} {
		l.Look(Report{Within: w.within, Samples: w.samples})
		if math.Abs(l.level-w.level) > 1e-9 || math.Abs(l.aiad.share-w.share) > 1e-9 {
			t.Errorf("look %d: level %v, share %v, want %v and %v", i, l.level, l.aiad.share, w.level, w.share)
		}
	}
	first := New(c)
	if first.Look(Report{Within: 9, Samples: 10}); first.level != 0 || first.aiad.share != 0.9 {
		t.Errorf("at the objective: level %v, share %v", first.level, first.aiad.share)
	}
	if first.Look(Report{Within: 8, Samples: 10}); first.level != stepAIAD {
		t.Errorf("below the objective: level %v", first.level)
	}
}

// How far a share of the arrivals opens or closes for a miss: nothing within the band, and never more than the most.
func TestStep(t *testing.T) {
	for _, c := range []struct{ miss, want float64 }{
		{0, 0}, {band, 0}, {-band, 0}, {0.5, 0.5 * (attack + attackMore*0.5)}, {errorMost, attackMost}, {9, attackMost},
		{-0.5, -release * 0.5}, {-1, -release}, {-9, -release},
	} {
		if got := step(c.miss); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.miss, got, c.want)
		}
	}
}

// The lowest class is refused first, each as far as may be; what cannot be refused is left.
func TestLevel(t *testing.T) {
	var two [Classes]bool
	two[0], two[2] = true, true
	r := Report{}
	r.Admitted[0], r.Refused[0], r.Admitted[1], r.Admitted[2] = 60, 40, 1000, 200
	c := Config{Droppable: two}
	for _, w := range []struct{ wanted, level, left float64 }{
		{-1, 0, 0}, {0, 0, 0}, {50, 0.5, 0}, {100 * most, most, 0}, {100*most + 20, most + 0.1, 0}, {300 * most, 2 * most, 0}, {300*most + 7, 2 * most, 7},
	} {
		level, left := c.level(r, w.wanted)
		if math.Abs(level-w.level) > 1e-9 || math.Abs(left-w.left) > 1e-9 {
			t.Errorf("%v: level %v, %v left, want %v and %v", w.wanted, level, left, w.level, w.left)
		}
	}
	l := New(c)
	l.level = most + 0.25
	want := [Classes]uint16{}
	m := most
	want[0], want[2] = uint16(m*(1<<16)), 1<<14
	if got := l.Shares(); got != want {
		t.Errorf("shares %v, want %v", got, want)
	}
}

// Debt grows with what is spent beyond the budget, by the length of the window, and shrinks to nothing when all is well.
func TestDebt(t *testing.T) {
	c := Config{Latency: time.Millisecond, Per100k: 90_000}
	for _, w := range []struct {
		samples, within uint64
		span            time.Duration
		debt, want      float64
	}{
		{0, 0, weighty, 0.1, 0.1},
		{10, 9, weighty, 0.1, 0.1},              // just the budget
		{10, 10, weighty, 0.1, 0.1 - debtGain},  // nothing of it
		{10, 7, weighty, 0.1, 0.1 + 2*debtGain}, // three times of it
		{10, 7, weighty / 2, 0.1, 0.1 + debtGain},
		{10, 0, weighty, 0, 9 * debtGain},
		{10, 10, weighty, 0, 0},
		{10, 0, weighty, debtMost, debtMost},
	} {
		tr := track{debt: w.debt}
		tr.settle(c, Report{Samples: w.samples, Within: w.within, Span: w.span})
		if math.Abs(tr.debt-w.want) > 1e-9 {
			t.Errorf("%d of %d in %v: debt %v, want %v", w.within, w.samples, w.span, tr.debt, w.want)
		}
	}
}

// What is missed of the target, by many samples and by few.
func TestMiss(t *testing.T) {
	c := Config{Latency: time.Millisecond, Per100k: 90_000}
	at := func(ratio float64) time.Duration { return time.Duration(ratio * target * float64(time.Millisecond)) }
	for _, w := range []struct {
		percentile time.Duration
		debt, want float64
	}{
		{Never, 0.1, errorMost}, {at(2), 0.1, math.Log(2) + 0.1}, {at(0.5), 0.1, math.Log(0.5) + 0.1}, {at(0.95), 0.1, 0},
	} {
		tr := track{debt: w.debt}
		if got := tr.miss(c, Report{Percentile: w.percentile}); math.Abs(got-w.want) > 1e-6 {
			t.Errorf("%v: %v, want %v", w.percentile, got, w.want)
		}
	}
	for _, w := range []struct {
		samples, within uint64
		want            float64
	}{{0, 0, -1}, {40, 29, -1}, {40, 28, errorMost}} { // of 4 that may: 4 + 3 * 2 + 1 = 11, and no more
		if got := (&track{}).missOfFew(c, Report{Samples: w.samples, Within: w.within}); got != w.want {
			t.Errorf("%d of %d: %v, want %v", w.within, w.samples, got, w.want)
		}
	}
}
