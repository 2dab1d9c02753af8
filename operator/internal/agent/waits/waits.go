// SPDX-License-Identifier: Apache-2.0

// Package waits keeps how long the clients of this node waited for connections to
// each Service, for as long a window as an objective may have, and tells the
// operator. The kernel's counts only grow, and go on while no agent runs; a window
// is what they grew by.
package waits

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

const (
	lookEvery = time.Second // the windows are made of seconds
	// fresh is how old the last look may be when somebody asks.
	fresh = 250 * time.Millisecond
)

// Counts is where they come from.
type Counts interface {
	// Connects are all there are, since when the state was made.
	Connects() (map[redirect.VIPKey]*ll7.Histogram, error)
	// Lost are the waits that full maps kept from being counted, of whatever Service,
	// by why; one that is not known yet is not there.
	Lost() (map[string]uint64, error)
	Since() (time.Time, error)
}

// Services says whose each VIP is.
type Services = map[redirect.VIPKey]types.NamespacedName

// Waits is the record of one node. It is safe for concurrent use.
type Waits struct {
	node   string
	counts Counts
	since  time.Time

	setting sync.Mutex // is had before mu; whoever has it may read services

	mu       sync.Mutex
	services Services
	windows  map[types.NamespacedName]*ll7.Window
	last     map[redirect.VIPKey]*ll7.Histogram // the look before; nil: there was none
	lost     *ll7.Window                        // how many were lost; how long they took nobody knows
	gone     map[string]uint64                  // as of the look before
	looked   time.Time
}

// New begins the record of a node: what has been counted before is in no window.
func New(node string, counts Counts) (*Waits, error) {
	since, err := counts.Since()
	if err != nil {
		return nil, fmt.Errorf("since when connections are counted: %w", err)
	}
	w := &Waits{node: node, counts: counts, since: since, windows: map[types.NamespacedName]*ll7.Window{}, lost: ll7.NewWindow()}
	return w, w.look(time.Now())
}

// Run looks every second until ctx ends.
func (w *Waits) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			w.mu.Lock()
			err := w.look(now)
			w.mu.Unlock()
			if err != nil && !failing {
				slog.Error("how long clients wait for connections cannot be read", "error", err)
			}
			failing = err != nil
		}
	}
}

// Set says whose the VIPs are from now on. What is known already is told at no cost,
// not even that of a look under way. It may be told late: what was counted since the
// last look is a new VIP's own, and of others theirs who had them.
func (w *Waits) Set(services Services) {
	w.setting.Lock()
	defer w.setting.Unlock()
	if maps.Equal(services, w.services) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	windows := map[types.NamespacedName]*ll7.Window{}
	for _, of := range services {
		if w.windows[of] == nil {
			w.windows[of] = ll7.NewWindow()
		}
		windows[of] = w.windows[of]
	}
	both := Services{}
	maps.Copy(both, services)
	maps.Copy(both, w.services)
	w.services = both
	_ = w.look(time.Now()) // an error comes again
	w.services, w.windows = services, windows
}

// look puts what is new into the windows. Counts of a VIP that is gone are gone with
// it, so those that are less than they were belong to one that came again.
func (w *Waits) look(now time.Time) error {
	all, err := w.counts.Connects()
	if err != nil {
		return err
	}
	gone, err := w.counts.Lost()
	if err == nil {
		err = w.lose(gone)
	}
	if err != nil {
		return err
	}
	for key, h := range all {
		of, known := w.services[key]
		if !known || w.last == nil {
			continue
		}
		before := w.last[key]
		if before == nil {
			before = &ll7.Histogram{}
		}
		more, ok := h.Since(before)
		if !ok {
			more = h
		}
		w.windows[of].Merge(more)
	}
	w.last, w.gone, w.looked = all, gone, now
	return nil
}

// lose puts what was lost since the look before into its window.
func (w *Waits) lose(gone map[string]uint64) error {
	var more uint64
	for why, n := range gone {
		if before, known := w.gone[why]; known && n > before {
			more += n - before
		}
	}
	h, err := ll7.FromCounts(map[int]uint64{0: more}, 0, 0)
	if err != nil {
		return fmt.Errorf("%d lost waits: %w", more, err)
	}
	w.lost.Merge(h)
	return nil
}

// Read tells of one Service, and of so many parts of the window; known is false when
// none of its addresses is.
func (w *Waits) Read(service types.NamespacedName, seconds, parts int) (out *dataplane.Connects, known bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.looked) > fresh {
		if err := w.look(now); err != nil {
			return nil, false, err
		}
	}
	window := w.windows[service]
	if window == nil {
		return nil, false, nil
	}
	lately, all := window.Last(seconds, 0), &ll7.Histogram{}
	for key, of := range w.services {
		if of == service {
			all.Merge(w.last[key])
		}
	}
	return &dataplane.Connects{
		Node: w.node, Lost: w.lost.Last(seconds, 0).Histogram.Total(),
		Window: dataplane.HistogramReply{Name: "connect", Source: "ClientNode", WindowSeconds: seconds,
			CoveredSeconds: lately.Covered, Histogram: lately.Histogram, Requests: lately.Histogram.Total(),
			Parts: partsOf(window, seconds, parts)},
		Record: dataplane.History{Started: w.since, All: dataplane.HistoryWindow{
			CoveredSeconds: int(time.Since(w.since) / time.Second), Latency: all, Requests: all.Total()}},
	}, true, nil
}

// partsOf are equal stretches of a window, the newest first, as far back as it lives.
func partsOf(w *ll7.Window, seconds, parts int) (out []*ll7.Histogram) {
	parts = min(parts, seconds)
	for i := range parts {
		from, to := seconds*i/parts, seconds*(i+1)/parts // seconds back
		if w.Second() <= uint64(from) {
			break
		}
		out = append(out, w.Last(to-from, w.Second()-uint64(from)).Histogram)
	}
	return out
}
