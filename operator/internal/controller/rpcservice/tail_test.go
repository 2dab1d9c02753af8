// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/stretches"
)

// tailsOf two routers: each part holds requests of 1 ms, and 2 % of so many.
func tailsOf(slow time.Duration) []*dataplane.HistogramReply {
	var out []*dataplane.HistogramReply
	for range 2 {
		reply := &dataplane.HistogramReply{CoveredSeconds: int(tailWindow.Seconds()), Histogram: &ll7.Histogram{}}
		for range stretches.Parts {
			part := &ll7.Histogram{}
			for i := range 1000 {
				latency := time.Millisecond
				if i%50 == 0 {
					latency = slow
				}
				part.Record(uint64(latency.Nanoseconds()))
			}
			reply.Parts = append(reply.Parts, part)
		}
		out = append(out, reply)
	}
	return out
}

// minute lets mode Auto decide once more, a minute later.
func minute(s *snapshot, slow time.Duration) *v1alpha1.HedgingStatus {
	s.now = s.now.Add(decideEvery)
	s.tails = tailsOf(slow)
	s.service.Status.Hedging = decidedHedging(s)
	return s.service.Status.Hedging
}

// the tail before and after is kept, and where it rose for two minutes in a row
// copies are taken back, for an hour; then they are tried again.
func TestR254AutoGoesBackWhenTheTailRose(t *testing.T) {
	s := anAutoService(jittery())
	h := minute(s, 10*time.Millisecond)
	if h.Reason != v1alpha1.HedgingPays || h.Tail.Without == nil || h.Tail.With != nil || h.Tail.Percentile != "99" ||
		h.Tail.Without.LowMicroseconds < 9900 || h.Tail.Without.HighMicroseconds > 10200 || h.Tail.Without.LoadPercent != 20 {
		t.Fatalf("switched on: %+v %+v", h, h.Tail)
	}
	on := s.now
	if h = minute(s, 20*time.Millisecond); h.Mode != v1alpha1.HedgingLoadAware || h.Tail.RisenMinutes != 1 || h.Tail.With.LowMicroseconds < 19000 || !h.Tail.ChangedTime.Time.Equal(on) {
		t.Fatalf("one minute is no proof: %+v %+v", h, h.Tail)
	}
	h = minute(s, 20*time.Millisecond)
	if h.Mode != v1alpha1.HedgingProbe || h.Reason != v1alpha1.HedgingTailRose || !strings.Contains(h.Message, "without copies at 20% load") ||
		!strings.Contains(h.Message, "2 minutes in a row") || !strings.Contains(h.Message, "the model says") || len(h.Message) > 1024 {
		t.Fatalf("two minutes: %+v", h)
	}
	back := s.now
	for _, since := range []time.Duration{decideEvery, heldFor - decideEvery} {
		s.now = back.Add(since - decideEvery)
		if h = minute(s, 10*time.Millisecond); h.Reason != v1alpha1.HedgingTailRose || h.Mode != v1alpha1.HedgingProbe {
			t.Fatalf("%s after: %+v", since, h)
		}
	}
	if h = minute(s, 11*time.Millisecond); h.Reason != v1alpha1.HedgingPays || h.Tail.HeldUntil != nil || h.Tail.RisenMinutes != 0 || h.Tail.With != nil ||
		h.Tail.Without.LowMicroseconds < 10900 {
		t.Fatalf("an hour after: %+v %+v", h, h.Tail)
	}
}

// what is no proof that copies did it leaves them on.
func TestR254AutoStaysWithoutProof(t *testing.T) {
	ms := time.Millisecond
	load := func(millionths uint64) func(*snapshot) {
		return func(s *snapshot) {
			for _, a := range s.states {
				a.Reply.Dataplane.Hedging.BusyMillionths = millionths
			}
		}
	}
	for name, c := range map[string]struct {
		after []time.Duration // p99 of the minutes with copies
		edit  func(*snapshot)
		risen int32
	}{
		"it fell":                 {[]time.Duration{5 * ms, 5 * ms, 5 * ms}, nil, 0},
		"a little more":           {[]time.Duration{10900 * time.Microsecond, 10900 * time.Microsecond, 10900 * time.Microsecond}, nil, 0},
		"now and then":            {[]time.Duration{20 * ms, 5 * ms, 20 * ms}, nil, 1},
		"the load rose":           {[]time.Duration{20 * ms, 20 * ms, 20 * ms}, load(112_000), 0},
		"a router does not tell":  {[]time.Duration{20 * ms, 20 * ms, 20 * ms}, nil, 0},
		"another percentile":      {[]time.Duration{20 * ms, 20 * ms, 20 * ms}, func(s *snapshot) { s.service.Status.Hedging.Tail.Percentile = "95" }, 0},
		"nothing known of before": {[]time.Duration{20 * ms, 20 * ms, 20 * ms}, func(s *snapshot) { s.service.Status.Hedging.Tail.Without = nil }, 0},
		"too long ago": {[]time.Duration{20 * ms, 20 * ms, 20 * ms}, func(s *snapshot) {
			s.service.Status.Hedging.Tail.Without.MeasuredTime = metav1.Time{Time: s.now.Add(-comparedFor)}
		}, 0},
	} {
		s := anAutoService(jittery())
		if h := minute(s, 10*ms); h.Mode != v1alpha1.HedgingLoadAware {
			t.Fatalf("%s: not on: %+v", name, h)
		}
		if c.edit != nil {
			c.edit(s)
		}
		for _, slow := range c.after {
			s.now = s.now.Add(decideEvery)
			s.tails = tailsOf(slow)
			if name == "a router does not tell" {
				s.tails[1] = nil
			}
			s.service.Status.Hedging = decidedHedging(s)
		}
		if h := s.service.Status.Hedging; h.Mode != v1alpha1.HedgingLoadAware || h.Tail.RisenMinutes != c.risen {
			t.Errorf("%s: %+v %+v", name, h, h.Tail)
		}
	}
}

// A window in which copies were switched on or off is of neither kind, and an interval
// without an end bounds nothing.
func TestWhatIsNoMeasurementOfATail(t *testing.T) {
	s := anAutoService(jittery())
	tail := &v1alpha1.HedgingTail{}
	got := func() bool { return measuredTail(s, tail, 0.99, 20) != nil }
	s.tails = tailsOf(10 * time.Millisecond)
	if !got() {
		t.Fatal("a whole minute of all routers was not taken")
	}
	tail.ChangedTime = &metav1.Time{Time: s.now.Add(-decideEvery + time.Second)}
	if got() {
		t.Error("copies were switched within the window")
	}
	tail.ChangedTime = &metav1.Time{Time: s.now.Add(-decideEvery)}
	if !got() {
		t.Error("a minute after the switch the window is of one kind")
	}
	s.tails[1].CoveredSeconds--
	if got() {
		t.Error("a router covers less than the window")
	}
	if s.tails = nil; got() {
		t.Error("nobody was asked")
	}
	s.tails = tailsOf(10 * time.Millisecond)
	for i, part := range s.tails[0].Parts { // all of the slow ones in one part
		if i > 0 {
			*part, *s.tails[1].Parts[i] = ll7.Histogram{}, ll7.Histogram{}
			for range 1000 {
				part.Record(1_000_000)
			}
		}
	}
	for range 300 {
		s.tails[0].Parts[0].Record(10_000_000)
	}
	if got() {
		t.Error("one stretch of slow requests bounds nothing")
	}
}

// copies that specification sent until now are in no measurement without them.
func TestR254SpecifiedCopiesAreCopies(t *testing.T) {
	s := anAutoService(jittery())
	s.service.Status.Hedging = &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Reason: v1alpha1.HedgingAsSpecified}
	if h := minute(s, 10*time.Millisecond); h.Mode != v1alpha1.HedgingLoadAware || h.Tail.Without != nil {
		t.Errorf("%+v %+v", h, h.Tail)
	}
}

// Both sides of the comparison are told, where both are known.
func TestR254TakeBackTellsWhatItKnows(t *testing.T) {
	one := &v1alpha1.HedgingTailMeasured{LowMicroseconds: 100, HighMicroseconds: 200, LoadPercent: 30}
	for name, c := range map[string]struct {
		without, with *v1alpha1.HedgingTailMeasured
		told          bool
	}{"both": {one, one, true}, "not with": {one, nil, false}, "not without": {nil, one, false}, "neither": {}} {
		out := &v1alpha1.HedgingStatus{Mode: v1alpha1.HedgingLoadAware, Message: "copies pay",
			Tail: &v1alpha1.HedgingTail{Percentile: "99", Without: c.without, With: c.with, HeldUntil: &metav1.Time{Time: start}}}
		takeBack(out)
		if told := strings.Contains(out.Message, "p99 was 100µs to 200µs without copies at 30% load"); told != c.told || !strings.HasSuffix(out.Message, "although copies pay") {
			t.Errorf("%s: %s", name, out.Message)
		}
		if out.Mode != v1alpha1.HedgingProbe || out.Reason != v1alpha1.HedgingTailRose {
			t.Errorf("%s: %s, %s", name, out.Mode, out.Reason)
		}
	}
}
