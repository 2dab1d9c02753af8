// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// receive takes one packet. Whatever it holds, it ends in an effect the rules
// name or in a counter.
func (w *worker) receive(packet []byte, from netip.AddrPort) {
	m := w.dispatch(packet, from)
	if m != wire.OK {
		w.server.stats.rejected.add(m)
	}
}

func (w *worker) dispatch(packet []byte, from netip.AddrPort) wire.Case {
	if !w.sock.honest(from) {
		return wire.M23
	}
	if len(packet) > wire.DatagramMax(w.server.cfg.MTU, w.sock.v4) {
		return wire.M14
	}
	var h wire.Header
	m := h.Decode(packet, wire.RoleServer)
	if h.Type == wire.Request && (m == wire.M6 || m == wire.OptionCritical) {
		// A request of an unknown kind is told so (M-6, R-55); its router is
		// known only by where it came from.
	} else if m != wire.OK {
		return m
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case h.Type == wire.Sack:
		return w.onSack(&h, from)
	case h.Type == wire.Cancel:
		return w.onCancel(&h, packet, from)
	case !h.First && m != wire.OK:
		return m
	case !h.First:
		return w.onPart(&h, from)
	}
	return w.onFirst(&h, packet, from, m)
}

// onFirst takes the first packet of a request; flaw is why it must be refused.
func (w *worker) onFirst(h *wire.Header, packet []byte, from netip.AddrPort, flaw wire.Case) wire.Case {
	router, client, m := w.throughRouter(h, packet, from)
	if m != wire.OK {
		return m
	}
	key := pairKey{client, h.ReqID}
	if w.known(key) && !w.comesAgain(key, &h.Options) && !w.ofNextLife(key, h) {
		w.unwanted(router)
		if flaw != wire.OK {
			return flaw
		}
		return w.repeated(key, h)
	}
	p := w.newPair(key, router, h)
	s := w.server
	s.latency.Arrived()
	w.received(router)
	switch {
	case flaw != wire.OK:
		return w.reject(p, &s.stats.dropMalformed, flaw)
	case int(h.Count) > s.cfg.MaxMessage/minPart+2, len(h.Payload) > s.cfg.MaxMessage:
		return w.reject(p, &s.stats.dropMalformed, wire.M14)
	case h.Policy >= wire.ReplicatedWrite:
		return w.reject(p, &s.stats.dropPolicy, wire.OK)
	case s.cfg.Admit != nil && !s.cfg.Admit():
		return w.reject(p, &s.stats.dropAdmit, wire.OK)
	case len(w.pairs) >= s.cfg.MaxPending && !w.displace(router):
		return w.reject(p, &s.stats.dropTable, wire.M24)
	}
	w.pairs[key] = p
	w.busy++
	_, _ = p.message.add(h)
	s.stats.requests.Add(1)
	if p.message.complete() {
		w.enqueue(p)
		return wire.OK
	}
	s.stats.reqrdy.Add(1)
	w.control(wire.ReqRdy, key, p.ext, []byte("ACK"))
	w.watch(p)
	w.beginHold(p)
	return wire.OK
}

func (w *worker) newPair(key pairKey, router *routerState, h *wire.Header) *serverPair {
	now := time.Now()
	p := &serverPair{
		key: key, router: router, policy: h.Policy, ext: h.Ext, begun: now, moved: now,
		whole: assembly{limit: w.server.cfg.MaxMessage}, echo: h.Options,
	}
	p.message = &p.whole
	p.echo.Present &= wire.HasClass | wire.HasTrace
	if !h.Ext {
		p.content = contentOf(h)
	}
	if h.Options.Present&wire.HasCopy != 0 {
		p.copy = h.Options.Copy
	}
	if p.echo.Present&wire.HasTrace != 0 {
		p.trace = h.Options.Trace
	}
	return p
}

// reject answers DROP to a request that will not run, pays its router, and
// remembers the pair, lest a duplicate of it runs after all.
func (w *worker) reject(p *serverPair, why *atomic.Uint64, m wire.Case) wire.Case {
	why.Add(1)
	w.server.latency.Rejected()
	w.sendDrop(p.key, p.ext)
	w.remember(p)
	w.served(p, wire.FeedbackDropped)
	return m
}

// repeated judges a second first packet of a known pair: the same again
// is ignored, another one under the same name is M-11.
func (w *worker) repeated(key pairKey, h *wire.Header) wire.Case {
	p := w.pairs[key]
	if p != nil && p.message != nil {
		if p.policy != h.Policy {
			return wire.M11
		}
		if m, _ := p.message.add(h); m != wire.OK {
			return m
		}
	}
	w.server.stats.duplicate.Add(1)
	return wire.OK
}

// onPart takes a later packet. It must come from the client itself: REQn never
// passes a router.
func (w *worker) onPart(h *wire.Header, from netip.AddrPort) wire.Case {
	p := w.pairs[pairKey{from, h.ReqID}]
	if p == nil || p.state == kept {
		return wire.M15
	}
	if p.state != receiving {
		w.server.stats.duplicate.Add(1)
		return wire.OK
	}
	m, fresh := p.message.add(h)
	if m != wire.OK {
		return m
	}
	if !fresh {
		w.server.stats.duplicate.Add(1)
		return wire.OK
	}
	p.moved = time.Now()
	if p.message.complete() {
		w.enqueue(p)
	} else {
		w.onProgress(p)
	}
	return wire.OK
}

// enqueue hands a whole request to the worker's goroutine. The queue has room
// for every pair of the table.
func (w *worker) enqueue(p *serverPair) {
	if p.timer != nil {
		p.timer.Stop()
	}
	w.releaseHold(p, true)
	p.state = executing
	w.queue <- p
}

// watch starts the timers of an incomplete request.
func (w *worker) watch(p *serverPair) {
	t := w.server.timing()
	p.timer = time.AfterFunc(t.RTO, func() { w.overdue(p) })
}

// overdue asks for what is missing (peers with X only, R-23), and gives up when
// nothing came for a while.
func (w *worker) overdue(p *serverPair) {
	defer w.out.flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pairs[p.key] != p || p.state != receiving {
		return
	}
	t := w.server.timing()
	idle := time.Since(p.moved)
	if idle >= t.GC {
		w.server.stats.collected.Add(1)
		w.server.latency.Rejected()
		w.releaseHold(p, false)
		w.forget(p)
		w.served(p, wire.FeedbackDropped)
		return
	}
	if p.ext && idle >= t.RTO<<p.rounds && p.rounds < t.SackRounds {
		p.rounds++
		w.server.stats.sackSent.Add(1)
		w.control(wire.Sack, p.key, true, wire.AppendSack(nil, wire.SackRequest, p.message.missing()))
	}
	p.timer.Reset(t.RTO)
}

// onSack sends the packets of a kept reply again, a bounded number of times.
func (w *worker) onSack(h *wire.Header, from netip.AddrPort) wire.Case {
	var m wire.SackMsg
	if c := m.Decode(h.Payload); c != wire.OK {
		return c
	}
	p := w.pairs[pairKey{from, h.ReqID}]
	switch {
	case m.What != wire.SackReply, p == nil, p.state != kept:
		return wire.M20
	case int(m.Base)+m.NBits > len(p.replies), p.rounds >= w.server.timing().SackRounds:
		return wire.M20
	}
	p.rounds++
	w.server.stats.sackReceived.Add(1)
	for _, i := range m.Missing() {
		w.server.stats.resent.Add(1)
		w.post(p.replies[i], from)
	}
	return wire.OK
}

type serverStats struct {
	requests, replies, failed, collected                                 atomic.Uint64
	dropMalformed, dropPolicy, dropAdmit, dropTable, dropApp             atomic.Uint64
	duplicate, feedback, reqrdy, sackSent, sackReceived, resent, packets atomic.Uint64
	early, unwanted, displaced                                           atomic.Uint64
	cancelsRemoved, cancelsStopped, cancelsKept, cancelsUnmatched        atomic.Uint64
	unsent                                                               unsent
	rejected                                                             cases
}

// Counters returns every counter of the server, all workers together, under
// the names the C server uses.
func (s *Server) Counters() []Counter {
	t := &s.stats
	out := []Counter{
		{"server_requests_total", "", "", t.requests.Load()},
		{"server_replies_total", "", "", t.replies.Load()},
		{"server_handler_errors_total", "", "", t.failed.Load()},
		{"server_dropped_total", "reason", "flow_control", t.dropAdmit.Load()},
		{"server_dropped_total", "reason", "application", t.dropApp.Load()},
		{"server_dropped_total", "reason", "table_full", t.dropTable.Load()},
		{"server_dropped_total", "reason", "policy_not_implemented", t.dropPolicy.Load()},
		{"server_dropped_total", "reason", "malformed", t.dropMalformed.Load()},
		{"server_dropped_total", "reason", "incomplete", t.collected.Load()},
		{"server_dropped_total", "reason", "displaced", t.displaced.Load()},
		{"server_credits_returned_total", "reason", "incomplete", t.early.Load()},
		{"server_credits_returned_total", "reason", "unwanted", t.unwanted.Load()},
		{"server_cancels_total", "outcome", "removed", t.cancelsRemoved.Load()},
		{"server_cancels_total", "outcome", "stopped", t.cancelsStopped.Load()},
		{"server_cancels_total", "outcome", "kept", t.cancelsKept.Load()},
		{"server_cancels_total", "outcome", "unmatched", t.cancelsUnmatched.Load()},
		{"server_duplicate_packets_total", "", "", t.duplicate.Load()},
		{"server_feedback_sent_total", "", "", t.feedback.Load()},
		{"server_reqrdy_sent_total", "", "", t.reqrdy.Load()},
		{"server_sacks_sent_total", "", "", t.sackSent.Load()},
		{"server_sacks_received_total", "", "", t.sackReceived.Load()},
		{"server_packets_resent_total", "", "", t.resent.Load()},
		{"server_packets_sent_total", "", "", t.packets.Load()},
	}
	out = t.unsent.append(out)
	return t.rejected.append(out, "server_rejected_total")
}
