// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// accumulator turns the dataplane's one-second slices into the ever-growing
// histogram Prometheus wants, and into the history of a day: it adds up seconds
// that are over, each exactly once. A gap (sidecar down, dataplane restarted)
// loses its seconds, which Prometheus reads as no traffic.
type accumulator struct {
	link  *link
	every time.Duration
	now   func() time.Time

	mu     sync.Mutex
	past   history
	source string
	last   uint64 // newest second that is in past; 0 before the first look
}

func newAccumulator(l *link) *accumulator {
	return &accumulator{link: l, every: 5 * time.Second, now: time.Now}
}

// total returns a copy of the sum, nil before the dataplane answered once.
func (a *accumulator) total() (*ll7.Histogram, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.past.started.IsZero() {
		return nil, ""
	}
	return a.past.all.latency.Clone(), a.source
}

// history returns the long record.
func (a *accumulator) history() *dataplane.History {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.past.read(a.now())
}

func (a *accumulator) run(ctx context.Context) {
	t := time.NewTicker(a.every)
	defer t.Stop()
	for {
		a.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// step adds the seconds that ended since the last one. The second before the
// present one is left for the next step: a packet timed just before the tick
// may still be on its way into its slice.
func (a *accumulator) step(ctx context.Context) {
	now, err := ask(ctx, a.link, histogramOf(ctl.HistogramLatency, 1))
	if err != nil || now.Second < 2 {
		return
	}
	until := now.Second - 2
	a.mu.Lock()
	last := a.last
	a.mu.Unlock()
	if last == 0 || last > until+1 {
		last = until // first look, or the clock started anew
	}
	if until <= last {
		a.add(&dataplane.HistogramReply{Source: now.Source}, last)
		return
	}
	window := min(until-last, ctl.MaxWindowSeconds-3)
	h, err := ask(ctx, a.link, func(s *dataplane.Socket, ctx context.Context) (*dataplane.HistogramReply, error) {
		return s.HistogramUntil(ctx, ctl.HistogramLatency, int(window), until)
	})
	if err == nil {
		a.add(h, until)
	}
}

func (a *accumulator) add(h *dataplane.HistogramReply, last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.past.add(a.now(), h.Histogram, h.Requests, h.Rejected)
	a.source, a.last = h.Source, last
}

func histogramOf(name string, window int) func(*dataplane.Socket, context.Context) (*dataplane.HistogramReply, error) {
	return func(s *dataplane.Socket, ctx context.Context) (*dataplane.HistogramReply, error) {
		return s.Histogram(ctx, name, window)
	}
}
