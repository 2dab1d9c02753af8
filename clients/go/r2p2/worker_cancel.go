// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// ErrTakenBack is the cause (context.Cause) of a handler's context when the
// router took its request back, because another server answered it or a newer
// request is to have this worker: nobody waits for the reply. A handler may
// return it, or any other error, at once; one that goes on does no harm.
var ErrTakenBack = errors.New("r2p2: the router took the request back")

// onCancel ends the copy of a request that its router does not need any more
// one that waits at once, one whose handler runs when that
// returns an error.
func (w *worker) onCancel(h *wire.Header, packet []byte, from netip.AddrPort) wire.Case {
	const names = wire.HasForwarded | wire.HasCopy
	o := &h.Options
	if o.Present&names != names || o.Copy == 0 {
		return wire.M27
	}
	if len(h.Payload) != 0 {
		return wire.M25
	}
	router, m := w.canceller(h, packet, from)
	if m != wire.OK {
		return m
	}
	p := w.pairs[pairKey{o.Forwarded, h.ReqID}]
	if p == nil || p.state != executing || p.copy != o.Copy || p.router != router || p.takenBack {
		w.server.stats.cancelsUnmatched.Add(1)
		return wire.OK
	}
	p.takenBack = true
	if p.stop != nil {
		p.stop(ErrTakenBack)
		return wire.OK
	}
	w.server.stats.cancelsRemoved.Add(1)
	w.letGo(p) // executeLoop leaves it out when it comes to it
	return wire.OK
}

// canceller is the router that may take requests back: one that is
// configured; where there is a key, one with a valid tag that requests came
// through.
func (w *worker) canceller(h *wire.Header, packet []byte, from netip.AddrPort) (*routerState, wire.Case) {
	if len(w.keys) > 0 && h.Verify(packet, w.keys, from, w.sock.local) != wire.TagValid {
		return nil, wire.BadTag
	}
	r := w.routerAt(from)
	if r == nil || (len(w.keys) == 0 && !r.configured) {
		return nil, wire.Forwarder
	}
	return r, wire.OK
}

// letGo ends a pair that was taken back: no reply, and its router learns it.
// Its name stays known, for this copy alone. Callers hold mu.
func (w *worker) letGo(p *serverPair) {
	w.forget(p)
	if d, ok := w.done[p.key]; ok {
		d.copy = p.copy
		w.done[p.key] = d
	}
	w.served(p, wire.FeedbackDropped|wire.FeedbackCancelled)
}

// begin takes a pair from the queue: the context of its handler, and false when
// it was taken back while it waited.
func (w *worker) begin(p *serverPair) (ctx context.Context, stop func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.takenBack {
		return nil, nil, false
	}
	if p.copy == 0 {
		return w.server.ctx, func() {}, true
	}
	ctx, cancel := context.WithCancelCause(w.server.ctx)
	p.stop = cancel
	return ctx, func() { cancel(nil) }, true
}

// gaveUp ends a pair whose handler returned an error after its request had
// been taken back; false: it was not.
func (w *worker) gaveUp(p *serverPair) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.takenBack {
		w.server.stats.cancelsStopped.Add(1)
		w.letGo(p)
	}
	return p.takenBack
}

// wentOn counts a handler that answered a request that had been taken back.
func (w *worker) wentOn(p *serverPair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.takenBack {
		w.server.stats.cancelsKept.Add(1)
	}
}

// doneKnown is a finished pair that must not run again.
type doneKnown struct {
	until time.Time
	copy  uint32 // that was taken back; 0: it was not
	// of its request; 0: that of a client with X
	content uint64
}

// comesAgain says whether a request that is known to be done is a later copy of
// one that was taken back, which is to run.
func (w *worker) comesAgain(key pairKey, o *wire.Options) bool {
	d, ok := w.done[key]
	again := ok && d.copy != 0 && o.Present&wire.HasCopy != 0 && int32(o.Copy-d.copy) > 0
	if again {
		delete(w.done, key)
	}
	return again
}
