// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"net/netip"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

const (
	// maxRouters is how many routers a configuration may name.
	maxRouters = 16
	// routerSlots is how many routers a worker keeps counters for: the
	// configured ones, their predecessors, and those known by their tag.
	routerSlots = 40
	// joinRepeats is how many FEEDBACK messages say JOIN; any one suffices.
	joinRepeats = 3
)

// routerState is what a worker keeps for one router, and for it alone:
// without this, router A would subtract B's completions.
type routerState struct {
	Router
	id         uint32 // option kind 5 of a Transparent router
	configured bool
	received   uint64
	served     uint64
	heard      time.Time // newest request through it
	told       time.Time // newest FEEDBACK to it
	joinLeft   int
	// left: it was configured once, and is not now.
	left bool
	// incarnation is the server's when the router was joined.
	incarnation uint32
}

// heardWithin says whether a request came through the router lately.
func (r *routerState) heardWithin(d time.Duration, now time.Time) bool {
	return !r.heard.IsZero() && now.Sub(r.heard) < d
}

func newRouterState(r Router, configured bool, incarnation uint32) *routerState {
	r.Request, r.Feedback = plain(r.Request), plain(r.Feedback)
	return &routerState{Router: r, id: wire.RouterID(r.Request), configured: configured, joinLeft: joinRepeats, incarnation: incarnation}
}

// apply replaces the worker's settings; every router hears of it at once.
func (w *worker) apply(set Settings) {
	defer w.out.flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys, w.depth = set.Keys, set.QueueDepth
	before := map[*routerState]bool{}
	for _, r := range w.routers {
		before[r], r.configured = r.configured, false
	}
	for _, want := range set.Routers {
		known := w.routerAt(plain(want.Request))
		switch {
		case known == nil:
			known = w.addRouter(want, true)
		case known.left: // it joins anew; its counters go on
			known.incarnation, known.joinLeft = w.server.incarnationOfNow(), joinRepeats
		}
		known.configured, known.Feedback = true, plain(want.Feedback)
	}
	for r, was := range before {
		r.left = !r.configured && (was || r.left)
	}
	w.tellAll(0)
}

// routerAt finds a router by either of its addresses.
func (w *worker) routerAt(a netip.AddrPort) *routerState {
	for _, r := range w.routers {
		if r.Request == a || r.Feedback == a {
			return r
		}
	}
	return nil
}

// throughRouter finds the router a REQUEST came through, and the client it
// stands for. Callers hold mu.
func (w *worker) throughRouter(h *wire.Header, packet []byte, from netip.AddrPort) (*routerState, netip.AddrPort, wire.Case) {
	o := &h.Options
	if o.Present&wire.HasForwarded == 0 {
		if o.Present&wire.HasRouterID != 0 {
			for _, r := range w.routers {
				if r.id == o.RouterID {
					return r, from, wire.OK
				}
			}
		}
		return nil, from, wire.OK
	}
	r := w.routerAt(from)
	if !w.sock.honest(o.Forwarded) {
		if r != nil && r.configured && o.Forwarded == w.sock.local {
			w.unwanted(r) // no router can tell that from a client's address
		}
		return nil, from, wire.M23
	}
	if r != nil && r.configured {
		return r, o.Forwarded, wire.OK
	}
	if h.Verify(packet, w.keys, from, w.sock.local) != wire.TagValid {
		return nil, from, wire.Forwarder
	}
	if r == nil {
		feedback := netip.AddrPortFrom(from.Addr(), w.server.cfg.FeedbackPort)
		r = w.addRouter(Router{Request: from, Feedback: feedback}, false)
	}
	return r, o.Forwarded, wire.OK
}

// addRouter takes a slot, when all are taken that of the unconfigured router
// not heard from for longest; pairs it still has keep counting on its account,
// which nobody reads any more.
func (w *worker) addRouter(r Router, configured bool) *routerState {
	state := newRouterState(r, configured, w.server.incarnationOfNow())
	if len(w.routers) < routerSlots {
		w.routers = append(w.routers, state)
		return state
	}
	oldest := -1
	for i, other := range w.routers {
		if !other.configured && (oldest < 0 || other.heard.Before(w.routers[oldest].heard)) {
			oldest = i
		}
	}
	w.routers[oldest] = state // at most 16 of 40 are configured
	return state
}

// grant is how many requests a router may have at this worker: an equal share
// for each one heard from in the last second, the asking one included.
func (w *worker) grant(r *routerState, now time.Time, heard time.Duration) uint16 {
	if w.server.Leaving() {
		return 0
	}
	active := 0
	for _, other := range w.routers {
		if other == r || other.heardWithin(heard, now) {
			active++
		}
	}
	return uint16(max(1, w.depth/active-w.holds.beyond)) // they take places all the same
}

// feedback builds a FEEDBACK to r from its counters as they stand. Callers
// hold mu. pair is nil for one that answers no request.
func (w *worker) feedback(r *routerState, flags uint8, pair *serverPair) []byte {
	now := time.Now()
	f := wire.FeedbackMsg{
		Flags: flags, N: w.grant(r, now, w.server.timing().RouterHeard), Incarnation: r.incarnation,
		Received: r.received, Served: r.served,
	}
	h := wire.Header{Type: wire.Feedback, First: true, Last: true, Ext: true, Count: 1}
	if w.server.Leaving() {
		f.Flags |= wire.FeedbackLeave
	} else if r.joinLeft > 0 {
		f.Flags |= wire.FeedbackJoin
		r.joinLeft--
	}
	if pair != nil {
		f.Flags |= wire.FeedbackPair
		f.ReqID, f.Client, h.ReqID = pair.key.id, pair.key.client, pair.key.id
		if pair.trace != 0 {
			h.Options.Present |= wire.HasTrace
			h.Options.Trace = pair.trace
		}
	}
	if len(w.keys) > 0 {
		h.Options.Present |= wire.HasTag
		h.Options.KeyID = w.keys[0].ID
	}
	b, _ := h.Append(nil)
	b = f.Append(b)
	if len(w.keys) > 0 {
		h.Sign(b, &w.keys[0], w.sock.local, r.Feedback)
	}
	r.told = now
	w.server.stats.feedback.Add(1)
	return b
}

// tellAll sends a FEEDBACK to every router that is configured or was heard from
// lately, unless it had one within the last notWithin. Callers hold mu.
func (w *worker) tellAll(notWithin time.Duration) {
	now, heard, flags := time.Now(), w.server.timing().RouterHeard, uint8(0)
	if notWithin > 0 {
		flags = wire.FeedbackPeriodic
	}
	for _, r := range w.routers {
		if (r.configured || r.heardWithin(heard, now)) && now.Sub(r.told) >= notWithin {
			w.post(w.feedback(r, flags, nil), r.Feedback)
		}
	}
}

// feedbackLoop keeps routers that got no FEEDBACK for a period informed: it is
// how they learn of this worker, and that it lives.
func (w *worker) feedbackLoop() {
	for {
		period := w.server.timing().FeedbackPeriod
		w.mu.Lock()
		w.tellAll(period)
		w.mu.Unlock()
		w.out.flush()
		select {
		case <-w.server.ctx.Done():
			return
		case <-time.After(period / 2):
		}
	}
}

// RouterStatus is a router as a worker sees it.
type RouterStatus struct {
	Router
	Configured       bool
	Received, Served uint64
	Heard            time.Time // zero: never
}

// Routers returns what worker i knows of its routers.
func (s *Server) Routers(i int) []RouterStatus {
	w := s.workers[i]
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []RouterStatus
	for _, r := range w.routers {
		out = append(out, RouterStatus{r.Router, r.configured, r.received, r.served, r.heard})
	}
	return out
}
