// SPDX-License-Identifier: Apache-2.0

// Package reports gives policies by load what they need: it counts the
// connections of the servers on this node, tells the nodes that balance them,
// and hands to the programs what other nodes tell.
package reports

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Options of a Reporter.
type Options struct {
	Node string // this one's name
	// Connections counts what servers of this node have open; Write tells the
	// programs of a load (redirect.Plane).
	Connections func() (map[netip.AddrPort]uint32, error)
	Write       func(redirect.VIPKey, netip.Addr, redirect.Report) error
	// Tell sends loads to another node; what cannot be sent is lost.
	Tell func(node string, all []loads.Load)
	// Owner of a VIP; empty when there is none.
	Owner func(netip.Addr) string
	Now   func() time.Duration
}

// Counters say what became of reports.
type Counters struct {
	loads.Counters
	// CountFailed are rounds without a count of this node's connections.
	CountFailed uint64
	// WriteFailed are loads that the programs' maps did not take.
	WriteFailed uint64
}

// Reporter does it. Methods may be called from several goroutines.
type Reporter struct {
	options Options
	changed chan struct{}

	mu       sync.Mutex
	table    *loads.Table
	served   []loads.Served
	owners   map[netip.Addr]map[string]time.Duration // when a node was last known to own a VIP
	silence  map[netip.AddrPort]loads.Silent         // as it was told last
	counters Counters
	failing  bool // the last count failed, and that is in the log
}

// New makes one that has nothing to do yet.
func New(o Options) *Reporter {
	return &Reporter{options: o, changed: make(chan struct{}, 1), table: loads.NewTable(), owners: map[netip.Addr]map[string]time.Duration{}}
}

// Set says which VIPs by load have servers on this node, and which are balanced
// here. A served VIP without balancers is told to its owner, and to its last one.
func (r *Reporter) Set(served []loads.Served, balanced []loads.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served = served
	maps.DeleteFunc(r.owners, func(vip netip.Addr, _ map[string]time.Duration) bool {
		return !slices.ContainsFunc(served, func(s loads.Served) bool { return s.VIP.Addr() == vip })
	})
	r.table.Set(r.options.Now(), balanced)
}

// Run counts and tells until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	tick := time.NewTicker(loads.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.round()
		}
	}
}

func (r *Reporter) round() {
	r.mu.Lock()
	served := slices.Clone(r.served)
	r.mu.Unlock()
	for i := range served {
		if len(served[i].Balancers) == 0 {
			served[i].Balancers = r.ownersOf(served[i].VIP.Addr())
		}
	}
	if len(served) > 0 {
		for node, all := range loads.ByBalancer(r.options.Node, served, r.count()) {
			if node == r.options.Node {
				r.Hear(node, all)
			} else {
				r.options.Tell(node, all)
			}
		}
	}
	r.look()
}

// ownersOf are the node that owns a VIP and those that did a moment ago.
func (r *Reporter) ownersOf(vip netip.Addr) []string {
	owner, now := r.options.Owner(vip), r.options.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners[vip] == nil {
		r.owners[vip] = map[string]time.Duration{}
	}
	if owner != "" {
		r.owners[vip][owner] = now
	}
	maps.DeleteFunc(r.owners[vip], func(_ string, seen time.Duration) bool { return now-seen > loads.Linger })
	return slices.Sorted(maps.Keys(r.owners[vip]))
}

func (r *Reporter) count() map[netip.AddrPort]uint32 {
	open, err := r.options.Connections()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !r.failing {
		slog.Error("the connections of this node's servers are not counted; balancers choose at random among them", "error", err)
	}
	if r.failing = err != nil; r.failing {
		r.counters.CountFailed++
		return nil
	}
	return open
}

// Hear takes what a node tells of its servers.
func (r *Reporter) Hear(node string, all []loads.Load) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.table.Hear(r.options.Now(), node, all) {
		key := redirect.VIPKey{Addr: u.VIP.Addr(), Port: u.VIP.Port()}
		if err := r.options.Write(key, u.Server, redirect.Report{OpenConnections: u.Open}); err != nil {
			r.counters.WriteFailed++ // the plan is ahead of the maps, for a moment
		}
	}
}

// look whether other VIPs lack reports than before.
func (r *Reporter) look() {
	r.mu.Lock()
	now := r.table.Silence(r.options.Now())
	news := !reflect.DeepEqual(now, r.silence) && len(now)+len(r.silence) > 0
	r.silence = now
	r.mu.Unlock()
	if !news {
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Changed tells that Silence has changed.
func (r *Reporter) Changed() <-chan struct{} { return r.changed }

// Silence says which VIPs are balanced here without the reports they need.
func (r *Reporter) Silence() map[netip.AddrPort]loads.Silent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.silence)
}

// Stale counts the servers whose last report is too old to count.
func (r *Reporter) Stale() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.table.Stale(r.options.Now())
}

// Counters so far.
func (r *Reporter) Counters() Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counters
	c.Counters = r.table.Counters()
	return c
}
