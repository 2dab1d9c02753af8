// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// The dataplane remembers ten minutes; error budgets ask for a day. The history
// keeps the last day in slices of five minutes, whatever objectives there are:
// any threshold can be put to the histograms later. It lives as long as the
// sidecar, so that operators may come and go.
const (
	sliceLength = 5 * time.Minute
	sliceCount  = 24*int(time.Hour/sliceLength) + 1
)

// historyWindows are what is asked of it.
var historyWindows = []time.Duration{time.Hour, 24 * time.Hour}

// tally is a histogram with the requests that arrived and were rejected
// meanwhile.
type tally struct {
	latency            ll7.Histogram
	requests, rejected uint64
}

func (t *tally) add(h *ll7.Histogram, requests, rejected uint64) {
	t.latency.Merge(h)
	t.requests += requests
	t.rejected += rejected
}

// slice is a finished part of the past.
type slice struct {
	begun              time.Time
	latency            ll7.Sparse
	requests, rejected uint64
}

type history struct {
	started time.Time // zero before the first addition
	all     tally     // since started
	slices  []slice   // oldest first
	current tally     // since begun
	begun   time.Time
}

// add takes what was measured since the last addition.
func (h *history) add(now time.Time, latency *ll7.Histogram, requests, rejected uint64) {
	if h.started.IsZero() {
		h.started, h.begun = now, now
	}
	if now.Sub(h.begun) >= sliceLength {
		h.slices = append(h.slices, slice{h.begun, h.current.latency.Sparse(), h.current.requests, h.current.rejected})
		h.slices = h.slices[max(0, len(h.slices)-sliceCount):]
		h.current, h.begun = tally{}, now
	}
	h.current.add(latency, requests, rejected)
	h.all.add(latency, requests, rejected)
}

// read returns the whole and each window. A window begins with a slice, so it is
// up to one slice longer than asked for, and says how long it is.
func (h *history) read(now time.Time) *dataplane.History {
	out := &dataplane.History{Started: h.started}
	if h.started.IsZero() {
		return out
	}
	out.All = window(&h.all, now.Sub(h.started), 0)
	for _, length := range historyWindows {
		sum, since := h.over(now.Add(-length))
		out.Windows = append(out.Windows, window(sum, now.Sub(since), length))
	}
	return out
}

// over adds up the slices that end after from.
func (h *history) over(from time.Time) (*tally, time.Time) {
	sum, since := &tally{}, h.begun
	sum.add(&h.current.latency, h.current.requests, h.current.rejected)
	end := h.begun
	for i := len(h.slices) - 1; i >= 0 && end.After(from); i-- {
		s := &h.slices[i]
		sum.latency.MergeSparse(s.latency)
		sum.requests += s.requests
		sum.rejected += s.rejected
		since, end = s.begun, s.begun
	}
	return sum, since
}

func window(t *tally, covered, length time.Duration) dataplane.HistoryWindow {
	return dataplane.HistoryWindow{
		WindowSeconds: int(length / time.Second), CoveredSeconds: int(covered / time.Second),
		Latency: t.latency.Clone(), Requests: t.requests, Rejected: t.rejected,
	}
}
