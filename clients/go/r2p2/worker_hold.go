// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"container/list"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// hold is what a request that is not whole has to do with its router's credit:
// it holds it for a short time, in which honest ones become whole, and is kept
// without it. When its rest comes it runs all the same.
type hold struct {
	timer *time.Timer   // while it holds the credit
	paid  bool          // the credit went back before the request's end
	begun bool          // more than the first packet is here
	place *list.Element // among those that hold no credit
}

// holds is the same of all of a worker's requests. Fields are guarded by its mu.
type holds struct {
	patience patience
	loose    [2]list.List // those that hold no credit, oldest first: without, and with a part of the rest
	holding  int
	beyond   int // requests that run without a credit
}

func part(begun bool) int {
	if begun {
		return 1
	}
	return 0
}

// patienceFor is how long a request may hold its credit: behind a burst of its
// packets comes a gap.
func (w *worker) patienceFor(p *serverPair) time.Duration {
	t := w.server.timing()
	return t.Patience * time.Duration(1+p.message.count/t.Burst)
}

// beginHold lets a new request hold its credit, or gives it back at once. All
// but one of the credits may be held so, the only one where there is one.
func (w *worker) beginHold(p *serverPair) {
	if p.router == nil || w.holds.holding >= max(1, w.depth-1) || !w.holds.patience.allows(p.key.client.Addr(), time.Now()) {
		w.giveBack(p)
		return
	}
	w.holds.holding++
	p.hold.timer = time.AfterFunc(w.patienceFor(p), func() {
		defer w.out.flush()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pairs[p.key] == p && p.state == receiving && p.hold.timer != nil {
			w.inVain(p)
			w.giveBack(p)
		}
	})
}

func (w *worker) inVain(p *serverPair) {
	w.endHold(p)
	w.holds.patience.heldInVain(p.key.client.Addr(), time.Now(), w.patienceFor(p))
}

func (w *worker) endHold(p *serverPair) {
	p.hold.timer.Stop()
	p.hold.timer = nil
	w.holds.holding--
}

func (w *worker) giveBack(p *serverPair) {
	p.hold.begun = p.message.have > 1
	p.hold.place = w.holds.loose[part(p.hold.begun)].PushBack(p)
	if p.router == nil {
		return // it came without one
	}
	p.hold.paid = true
	w.server.stats.early.Add(1)
	p.router.served++
	w.post(w.feedback(p.router, 0, nil), p.router.Feedback)
}

// onProgress notes that more than the first packet is here.
func (w *worker) onProgress(p *serverPair) {
	if p.hold.place != nil && !p.hold.begun {
		w.holds.loose[0].Remove(p.hold.place)
		p.hold.begun = true
		p.hold.place = w.holds.loose[1].PushBack(p)
	}
}

// release takes a request out that is whole, or given up.
func (w *worker) releaseHold(p *serverPair, whole bool) {
	switch {
	case p.hold.place != nil:
		w.holds.loose[part(p.hold.begun)].Remove(p.hold.place)
		p.hold.place = nil
		if whole && p.hold.paid {
			w.holds.beyond++
		}
	case p.hold.timer == nil:
		return // it was whole from the beginning
	case whole:
		w.endHold(p)
	default:
		w.inVain(p)
	}
	if whole {
		w.holds.patience.becameWhole(p.key.client.Addr(), time.Now())
	}
}

// displace makes room for another request at the cost of the one that has been
// without a credit for longest, first of those of which nothing came but the
// beginning. It has not run, and its client is told. False: there is none.
func (w *worker) displace(router *routerState) bool {
	place := w.holds.loose[0].Front()
	if place == nil {
		place = w.holds.loose[1].Front()
	}
	if place == nil {
		return false
	}
	if router != nil {
		router.heard = time.Now() // what is told of this counts it
	}
	p := place.Value.(*serverPair)
	w.server.stats.displaced.Add(1)
	w.server.latency.Rejected()
	w.releaseHold(p, false)
	w.sendDrop(p.key, p.ext)
	w.forget(p)
	w.served(p, wire.FeedbackDropped)
	return true
}

// unwanted pays for a request that makes no pair here: its router knows only
// that it sent it, and would wait for T_loss.
func (w *worker) unwanted(r *routerState) {
	if r == nil {
		return
	}
	w.server.stats.unwanted.Add(1)
	w.received(r)
	r.served++
	w.post(w.feedback(r, 0, nil), r.Feedback)
}
