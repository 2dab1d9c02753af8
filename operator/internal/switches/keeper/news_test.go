// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Whoever looks after a switch is woken when something else is wanted of it, whatever that is, and not by the same again.
func TestWhatIsNews(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Desired)
		want   bool
	}{
		"the same": {func(*Desired) {}, false}, "a generation": {func(d *Desired) { d.Generation++ }, true}, "an identity": {func(d *Desired) { d.Identity = "other" }, true},
		"to be cleared": {func(d *Desired) { d.Clear = true }, true}, "a revision": {func(d *Desired) { d.Revision = "other" }, true},
	} {
		k := &Keeper{} // it has not begun, so that nobody takes the news
		d := Desired{Generation: 1, Identity: "one", Revision: "a"}
		k.Set("leaf", d)
		charge := k.all["leaf"]
		if len(charge.news) != 0 {
			t.Fatal("what is wanted from the beginning is news")
		}
		c.change(&d)
		for range 2 {
			k.Set("leaf", d)
		}
		if got := charge.wanted(); (len(charge.news) == 1) != c.want || got.Generation != d.Generation || got.Identity != d.Identity || got.Clear != d.Clear || got.Revision != d.Revision {
			t.Errorf("%s: %d in the news, wanted %+v", name, len(charge.news), got)
		}
	}
	k := &Keeper{}
	k.Clear("nobody's")
	if _, known := k.State("nobody's"); known {
		t.Error("a switch that nobody looks after is cleared")
	}
	k.Set("leaf", Desired{Generation: 1})
	k.Clear("leaf")
	if d := k.all["leaf"].wanted(); !d.Clear || d.Generation != 1 {
		t.Errorf("%+v", d)
	}
	k.Forget("leaf")
	if _, known := k.State("leaf"); known || k.Counts("leaf") != nil || k.Measured("leaf") != nil {
		t.Error("it is looked after still")
	}
}

// A window has the slices that ended within it, each in the part that it ended in, the oldest in the last one.
func TestPartsOfAWindow(t *testing.T) {
	now := time.Unix(1000, 0)
	m := Measured{Since: now.Add(-time.Hour), Latency: &ll7.Histogram{}}
	for age, n := range map[time.Duration]uint64{-time.Second: 1, 0: 10, 2*time.Second - 1: 100, 2 * time.Second: 1000, 9*time.Second - 1: 10_000, 9 * time.Second: 100_000} {
		h := &ll7.Histogram{}
		h.RecordMany(5000, n)
		m.slices = append(m.slices, slice{until: now.Add(-age), requests: n, refused: n / 10, latency: h.Sparse()})
	}
	w := m.Window(now, 9*time.Second, 4) // of 2.25 s each
	var parts []uint64
	for _, p := range w.Parts {
		parts = append(parts, p.Total())
	}
	if w.Requests != 11_111 || w.Refused != 1+10+100+1000 || w.Latency.Total() != 11_111 || len(parts) != 4 || parts[0] != 1111 || parts[1] != 0 || parts[3] != 10_000 || w.Covered != 9*time.Second {
		t.Errorf("%d requests, %d refused, %d in all, parts %v, %v covered", w.Requests, w.Refused, w.Latency.Total(), parts, w.Covered)
	}
	if w = m.Window(now, 10*time.Second, 3); len(w.Parts) != 3 || w.Parts[2].Total() != 110_000 {
		t.Errorf("what a third of the length leaves over is in no part: %d parts", len(w.Parts))
	}
	young := Measured{Since: now.Add(-3 * time.Second)}
	if w = young.Window(now, 9*time.Second, 1); w.Covered != 3*time.Second || len(w.Parts) != 0 {
		t.Errorf("%v covered, %d parts", w.Covered, len(w.Parts))
	}
	if w = young.Window(now.Add(-time.Minute), 9*time.Second, 1); w.Covered != 0 {
		t.Errorf("%v covered before it began", w.Covered)
	}
}
