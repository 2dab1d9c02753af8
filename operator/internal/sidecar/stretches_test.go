// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// partRows are windows in parts: the newest first, each second in one of them, and none
// from before the dataplane's life. Second s holds s%5+1 values.
var partRows = []struct {
	second        uint64
	window, parts int
	want          []uint64
}{
	{100, 30, 10, []uint64{1 + 5 + 4, 3 + 2 + 1, 5 + 4 + 3, 2 + 1 + 5, 4 + 3 + 2, 10, 6, 12, 8, 9}},
	{100, 7, 3, []uint64{1 + 5, 4 + 3, 2 + 1 + 5}},
	{100, 5, 10, []uint64{1, 5, 4, 3, 2}},
	{4, 30, 10, []uint64{5 + 4 + 3, 2}},
	{3, 30, 10, []uint64{4 + 3 + 2}}, // the first part is all there is: none of no second follows
}

// lives makes the plane as old as that.
func (p *plane) lives(second uint64) {
	p.second, p.slices = second, map[uint64]int{}
	for s := uint64(1); s <= second; s++ {
		p.slices[s] = int(s%5) + 1
	}
}

// checkParts shows that a reply holds parts of so many values, and their sum.
func checkParts(t *testing.T, what string, h *dataplane.HistogramReply, want []uint64) {
	t.Helper()
	var got []uint64
	sum := uint64(0)
	for _, p := range h.Parts {
		got = append(got, p.Total())
		sum += p.Total()
	}
	if !slices.Equal(got, want) || sum != h.Histogram.Total() || h.Requests != 10*sum || h.Rejected != 3*sum {
		t.Errorf("%s: parts %v of %d values, %d requests and %d rejected, want %v", what, got, h.Histogram.Total(), h.Requests, h.Rejected, want)
	}
}

func TestReadInParts(t *testing.T) {
	r := start(t)
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	for _, c := range partRows {
		r.plane.set(func(p *plane) { p.lives(c.second) })
		h, err := operator.Parts(t.Context(), r.read, ctl.HistogramLatency, c.window, c.parts)
		if err != nil {
			t.Fatal(err)
		}
		checkParts(t, fmt.Sprintf("%+v", c), h, c.want)
	}
	for _, parts := range []int{0, -1, 61} {
		_, err := operator.Parts(t.Context(), r.read, ctl.HistogramLatency, 30, parts)
		var e *dataplane.ReadError
		if !errors.As(err, &e) || e.Kind != dataplane.Refused || e.Refusal == nil || e.Refusal.Field != "parts" {
			t.Errorf("%d parts: %v", parts, err)
		}
	}
	if h, err := operator.Parts(t.Context(), r.read, "class5", 30, 10); err != nil || h.Parts != nil || h.Histogram.Total() != 1 {
		t.Errorf("of a dataplane that keeps no seconds: %+v, %v", h, err)
	}
}

// A dataplane that knows of no parts is asked for each, with the same outcome.
func TestPartsAreReadOneByOne(t *testing.T) {
	r := start(t)
	l := &link{path: r.socket}
	defer l.close()
	s := &service{link: l}
	for _, c := range partRows {
		r.plane.set(func(p *plane) { p.lives(c.second) })
		h, err := s.histogram(t.Context(), ctl.HistogramLatency, c.window, 0)
		if err != nil || h.Parts != nil {
			t.Fatalf("%+v: %+v, %v", c, h, err)
		}
		before := l.exchanges
		if err := s.stretches(t.Context(), h, c.parts); err != nil {
			t.Fatal(err)
		}
		checkParts(t, fmt.Sprintf("%+v", c), h, c.want)
		if n := l.exchanges - before; n != uint64(len(c.want)) {
			t.Errorf("%+v: %d exchanges for %d parts", c, n, len(c.want))
		}
	}
}

// A window is the sum of its parts, also of a dataplane that is busy meanwhile.
func TestTheWindowIsTheSumOfItsParts(t *testing.T) {
	r := start(t)
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	r.plane.set(func(p *plane) { p.second, p.busy, p.slices = 100, true, map[uint64]int{100: 1, 95: 4, 80: 2} })
	h, err := operator.Parts(t.Context(), r.read, ctl.HistogramLatency, 30, 10)
	if err != nil {
		t.Fatal(err)
	}
	sum := uint64(0)
	for _, p := range h.Parts {
		sum += p.Total()
	}
	if len(h.Parts) != 10 || sum < 7 || h.Histogram.Total() != sum {
		t.Errorf("the parts hold %d values, the window %d", sum, h.Histogram.Total())
	}
}

// exchanges_per_slo_read: a window and its parts are one exchange with the dataplane;
// one that is older than that is asked for each.
func TestAWindowAndItsPartsAreOneExchange(t *testing.T) {
	r := start(t)
	l := &link{path: r.socket}
	defer l.close()
	s := &service{link: l}
	r.plane.set(func(p *plane) { p.second, p.busy, p.slices = 100, true, map[uint64]int{100: 1, 95: 4, 80: 2} })
	h, err := s.histogram(t.Context(), ctl.HistogramLatency, 30, 10)
	if err != nil || len(h.Parts) != 10 || h.CoveredSeconds != 30 {
		t.Fatalf("%+v, %v", h, err)
	}
	t.Logf("exchanges_per_slo_read %d", l.exchanges)
	if l.exchanges != 1 {
		t.Errorf("%d exchanges for a window and its parts, want 1", l.exchanges)
	}
	sum := uint64(0)
	for _, p := range h.Parts {
		sum += p.Total()
	}
	if sum < 7 || sum != h.Histogram.Total() {
		t.Errorf("the parts hold %d values, the window %d", sum, h.Histogram.Total())
	}
	if h, err = s.histogram(t.Context(), ctl.HistogramLatency, 30, ctl.MaxParts); err != nil || len(h.Parts) != ctl.MaxParts || l.exchanges != 2 {
		t.Errorf("as many parts as one answer takes: %d parts in %d exchanges, %v", len(h.Parts), l.exchanges-1, err)
	}
	if h, err = s.histogram(t.Context(), ctl.HistogramLatency, 60, 60); err != nil || len(h.Parts) != 60 || l.exchanges != 2+1+60 {
		t.Errorf("more parts than one answer takes: %d parts in %d exchanges, %v", len(h.Parts), l.exchanges-2, err)
	}
}
