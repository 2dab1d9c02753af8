// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

var dawn = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// play adds ten requests of 2 ms, one of them rejected, every five seconds.
func play(h *history, from time.Time, span time.Duration) time.Time {
	one := &ll7.Histogram{}
	for range 9 {
		one.Record(2_000_000)
	}
	for t := from; t.Before(from.Add(span)); t = t.Add(5 * time.Second) {
		h.add(t, one, 10, 1)
	}
	return from.Add(span)
}

func TestYoungHistory(t *testing.T) {
	h := &history{}
	if r := h.read(dawn); !r.Started.IsZero() || r.All.Latency != nil || len(r.Windows) != 0 {
		t.Errorf("before anything was recorded: %+v", r)
	}
	now := play(h, dawn, 12*time.Minute)
	r := h.read(now)
	if !r.Started.Equal(dawn) || len(r.Windows) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, w := range append(r.Windows, r.All) {
		if w.CoveredSeconds != 720 || w.Requests != 1440 || w.Rejected != 144 || w.Latency.Total() != 1296 {
			t.Errorf("window %d: covers %d s, %d requests, %d rejected, %d measured", w.WindowSeconds, w.CoveredSeconds, w.Requests, w.Rejected, w.Latency.Total())
		}
	}
}

// After two days: an hour is an hour and at most one slice more, a day a day,
// and the memory stops growing.
func TestOldHistory(t *testing.T) {
	h := &history{}
	now := play(h, dawn, 48*time.Hour+3*time.Minute)
	if len(h.slices) > sliceCount {
		t.Errorf("%d slices, at most %d", len(h.slices), sliceCount)
	}
	r := h.read(now)
	for i, want := range []time.Duration{time.Hour, 24 * time.Hour} {
		w := r.Windows[i]
		covered := time.Duration(w.CoveredSeconds) * time.Second
		if w.WindowSeconds != int(want/time.Second) || covered < want || covered > want+sliceLength {
			t.Errorf("window %d s covers %s", w.WindowSeconds, covered)
		}
		if w.Requests != uint64(w.CoveredSeconds)*2 || w.Latency.Total()*10 != w.Requests*9 {
			t.Errorf("window %d s holds %d requests, %d measured", w.WindowSeconds, w.Requests, w.Latency.Total())
		}
	}
	if r.All.Requests != uint64((48*3600+180)*2) {
		t.Errorf("%d requests in all", r.All.Requests)
	}
}

// A window ends where a slice begins: at that very moment it is as long as was asked
// for, a second earlier it holds the slice before. A slice is done after five minutes.
func TestWindowsOfSlices(t *testing.T) {
	for _, c := range []struct {
		age, since              time.Duration // of the history, since its last addition
		slices, hour, day, last int
	}{
		{5 * time.Second, 0, 0, 5, 5, 5},
		{5 * time.Minute, 0, 0, 300, 300, 300},
		{5*time.Minute + 5*time.Second, 0, 1, 305, 305, 305},
		{time.Hour + 5*time.Minute, 0, 12, 3600, 3900, 3900},
		{time.Hour + 5*time.Minute, -5 * time.Second, 12, 3895, 3895, 3895},
		{time.Hour + 5*time.Minute + 5*time.Second, -5 * time.Second, 13, 3600, 3900, 3900},
		{time.Hour + 5*time.Minute + 5*time.Second, -6 * time.Second, 13, 3899, 3899, 3899},
		{25 * time.Hour, 0, 289, 3600, 86_400, 90_000},
		{25*time.Hour + 5*time.Second, -5 * time.Second, 289, 3600, 86_400, 90_000},
	} {
		h := &history{}
		now := play(h, dawn, c.age).Add(c.since)
		r := h.read(now)
		if len(h.slices) != c.slices || r.Windows[0].CoveredSeconds != c.hour || r.Windows[1].CoveredSeconds != c.day || r.All.CoveredSeconds != c.last {
			t.Errorf("%v old: %d slices, an hour of %d s, a day of %d s, all of %d s; want %+v", c.age, len(h.slices),
				r.Windows[0].CoveredSeconds, r.Windows[1].CoveredSeconds, r.All.CoveredSeconds, c)
		}
		if all := r.Windows[0]; all.Requests != 10*uint64((c.hour-int(c.since/time.Second)+4)/5) {
			t.Errorf("%v old: %d requests in an hour of %d s", c.age, all.Requests, c.hour)
		}
	}
}

// A silent stretch (the dataplane was away) leaves no slices behind, and what
// came before it is forgotten in time.
func TestHistoryWithAGap(t *testing.T) {
	h := &history{}
	end := play(h, dawn, 10*time.Minute)
	now := play(h, end.Add(2*time.Hour), 10*time.Minute)
	r := h.read(now)
	if r.Windows[1].Requests != 2400 {
		t.Errorf("the day holds %d requests", r.Windows[1].Requests)
	}
	// The slice that was open when the gap began reaches into the hour.
	if n := r.Windows[0].Requests; n < 1200 || n > 1200+600 {
		t.Errorf("the hour holds %d requests", n)
	}
}
