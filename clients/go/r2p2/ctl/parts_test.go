// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ctl

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// seconds is a dataplane whose second s holds s%5+1 values, of ten times as many requests,
// three times as many of which were rejected. It lives since second 1.
type seconds struct {
	Dataplane
	now   atomic.Uint64
	fails atomic.Uint64 // the end of a window that cannot be read
}

func (d *seconds) Histogram(name string, window int, end uint64) (Histogram, error) {
	now := d.now.Load()
	if end == 0 {
		end = now
	} else if end == d.fails.Load() {
		return Histogram{}, &Error{CodeInternal, "", "lost"}
	}
	h := &ll7.Histogram{}
	if now == 0 { // all values there ever were
		h.Record(2_000_000)
	}
	for s := end; s > 0 && s+uint64(window) > end; s-- {
		for range s%5 + 1 {
			h.Record(2_000_000)
		}
	}
	return Histogram{
		Name: name, WindowSeconds: window, CoveredSeconds: int(min(uint64(window), end)), Histogram: h,
		Requests: 10 * h.Total(), Rejected: 3 * h.Total(), Second: now,
	}, nil
}

// A window comes in parts, the newest first: each second of it in one of them, none from
// before the dataplane's life, and the whole is their sum.
func TestHistogramInParts(t *testing.T) {
	d := &seconds{}
	socket := filepath.Join(t.TempDir(), "ctl.sock")
	l, err := Listen(socket, d)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := &fixture{}
	if f.conn, err = net.Dial("unixpacket", socket); err != nil {
		t.Fatal(err)
	}
	defer f.conn.Close()
	for _, c := range []struct {
		now, end      uint64
		window, parts int
		want          []uint64
		covered       int
	}{
		{100, 0, 7, 0, nil, 7},
		{100, 0, 7, 1, []uint64{1 + 5 + 4 + 3 + 2 + 1 + 5}, 7},
		{100, 0, 7, 3, []uint64{1 + 5, 4 + 3, 2 + 1 + 5}, 7},
		{100, 98, 7, 3, []uint64{4 + 3, 2 + 1, 5 + 4 + 3}, 7},
		{100, 101, 7, 3, []uint64{1 + 5, 4 + 3, 2 + 1 + 5}, 7}, // of a second to come nothing is known
		{100, 0, 5, 10, []uint64{1, 5, 4, 3, 2}, 5},
		{100, 0, MaxParts, MaxParts, slices.Repeat([]uint64{1, 5, 4, 3, 2}, MaxParts/5), MaxParts},
		{4, 0, 30, 10, []uint64{5 + 4 + 3, 2}, 4},
		{3, 0, 30, 10, []uint64{4 + 3 + 2}, 3}, // no part of no second follows
		{0, 0, 30, 10, nil, 0},                 // a dataplane that keeps no seconds
	} {
		d.now.Store(c.now)
		var h Histogram
		f.ask(t, fmt.Sprintf(`{"v":1,"op":"histogram","name":"latency","windowSeconds":%d,"endSecond":%d,"parts":%d}`, c.window, c.end, c.parts), &h)
		var got []uint64
		sum := uint64(0)
		for _, p := range h.Parts {
			got = append(got, p.Total())
			sum += p.Total()
		}
		if !h.OK || !slices.Equal(got, c.want) || h.CoveredSeconds != c.covered {
			t.Errorf("%+v: parts %v, covers %d s, %+v", c, got, h.CoveredSeconds, h.Error)
		}
		if all := h.Histogram.Total(); c.want != nil && sum != all || c.now == 0 && all != 1 || h.Requests != 10*all || h.Rejected != 3*all {
			t.Errorf("%+v: %d values, %d requests and %d rejected", c, all, h.Requests, h.Rejected)
		}
	}
	d.now.Store(100)
	d.fails.Store(98)
	var r Reply
	f.ask(t, `{"v":1,"op":"histogram","name":"latency","windowSeconds":7,"parts":3}`, &r)
	if r.OK || r.Error == nil || r.Error.Message != "lost" {
		t.Errorf("with a part that is lost: %+v, %+v", r, r.Error)
	}
}
