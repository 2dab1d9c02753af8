// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// receive takes one packet. Whatever it holds, it ends in an effect the rules
// name or in a counter.
func (p *clientPort) receive(packet []byte, from netip.AddrPort) {
	if !p.sock.honest(from) {
		p.client.stats.malformed.add(wire.M23)
		return
	}
	if len(packet) >= slotBytes {
		p.client.stats.malformed.add(wire.M14) // cut off
		return
	}
	var h wire.Header
	m := h.Decode(packet, wire.RoleClient)
	if m == wire.OK {
		switch h.Type {
		case wire.Reply:
			m = p.onReply(&h, from)
		case wire.ReqRdy:
			m = p.onReady(&h, from)
		case wire.Drop:
			m = p.onDrop(&h, from)
		default:
			m = p.onSack(&h, from)
		}
	}
	if m != wire.OK {
		p.client.stats.malformed.add(m)
	}
}

func (p *clientPort) onReply(h *wire.Header, from netip.AddrPort) wire.Case {
	p.mu.Lock()
	defer p.mu.Unlock()
	pair := p.pairs[h.ReqID]
	switch {
	case pair == nil:
		p.client.stats.late.Add(1)
		return wire.M17
	case !pair.ready:
		return wire.M17
	case pair.server.IsValid() && pair.server != from, pair.reply != nil && pair.from != from:
		p.client.stats.foreign.Add(1)
		return wire.M17
	}
	if pair.reply == nil {
		pair.whole.limit = p.client.cfg.MaxMessage
		pair.reply = &pair.whole
		pair.from = from
	}
	m, fresh := pair.reply.add(h)
	if m != wire.OK {
		return m
	}
	if !fresh {
		p.client.stats.duplicate.Add(1)
		return wire.OK
	}
	pair.ext = pair.ext || h.Ext
	if h.First {
		pair.meta = h.Options
	}
	if pair.reply.complete() {
		p.succeed(pair)
		return wire.OK
	}
	p.arm(pair)
	return wire.OK
}

func (p *clientPort) succeed(pair *clientPair) {
	reply := &ReplyMsg{Payload: pair.reply.message(), From: pair.from}
	if pair.meta.Present&wire.HasClass != 0 {
		reply.Class, reply.ClassFlags = pair.meta.Class, pair.meta.ClassFlags
	}
	if pair.meta.Present&wire.HasTrace != 0 {
		reply.Trace = pair.meta.Trace
	}
	p.heardFlow(pair, pair.from, &pair.meta, true)
	if p.finish(pair, reply, nil) {
		p.client.stats.succeeded.Add(1)
		p.alive(pair)
	}
}

// alive notes that the router a pair went through works.
func (p *clientPort) alive(pair *clientPair) {
	if pair.router == p.router {
		p.timeouts = 0
	}
}

// arm starts the RTO of an incomplete reply, doubled with every round.
// Without X the server keeps nothing to repair from.
func (p *clientPort) arm(pair *clientPair) {
	if !pair.ext {
		return
	}
	wait := p.client.timers.RTO << pair.asked
	if pair.rto == nil {
		pair.rto = time.AfterFunc(wait, func() { p.repair(pair) })
		return
	}
	pair.rto.Reset(wait)
}

// repair asks for the missing packets of a reply, at most SackRounds times
// then fails the pair.
func (p *clientPort) repair(pair *clientPair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pairs[pair.id] != pair {
		return
	}
	if pair.asked >= p.client.timers.SackRounds {
		if p.finish(pair, nil, ErrIncomplete) {
			p.client.stats.incomplete.Add(1)
		}
		return
	}
	h := wire.Header{Type: wire.Sack, First: true, Last: true, Ext: true, ReqID: pair.id, Count: 1}
	pair.asked++
	p.client.stats.sackSent.Add(1)
	p.client.stats.packets.Add(1)
	p.out.post(&h, wire.AppendSack(nil, wire.SackReply, pair.reply.missing()), pair.from)
	p.out.flush()
	p.arm(pair)
}

func (p *clientPort) onReady(h *wire.Header, from netip.AddrPort) wire.Case {
	p.mu.Lock()
	defer p.mu.Unlock()
	pair := p.pairs[h.ReqID]
	if pair == nil || pair.ready {
		return wire.M18
	}
	p.confirm(pair, from)
	return wire.OK
}

// confirm sends the rest of a request to the server that was chosen.
func (p *clientPort) confirm(pair *clientPair, server netip.AddrPort) {
	pair.ready, pair.server = true, server
	rest := make([]int, 0, pair.split.Count-1)
	for i := 1; i < pair.split.Count; i++ {
		rest = append(rest, i)
	}
	go p.train(pair, rest)
}

// train sends packets of a request in bursts, as long as the pair lives
// and no reply has started.
func (p *clientPort) train(pair *clientPair, indices []int) {
	for burst := range slices.Chunk(indices, p.client.timers.Burst) {
		if &burst[0] != &indices[0] {
			time.Sleep(p.client.timers.BurstGap)
		}
		if !p.postAll(pair, burst) {
			return
		}
		p.out.flush()
	}
}

// postAll posts packets of a request; false: none is wanted any more.
func (p *clientPort) postAll(pair *clientPair, indices []int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pairs[pair.id] != pair || pair.reply != nil {
		return false
	}
	for _, i := range indices {
		p.post(pair, i, pair.server)
	}
	return true
}

func (p *clientPort) onDrop(h *wire.Header, from netip.AddrPort) wire.Case {
	p.mu.Lock()
	defer p.mu.Unlock()
	pair := p.pairs[h.ReqID]
	if pair == nil || pair.reply != nil {
		return wire.M19
	}
	p.heardFlow(pair, from, &h.Options, false)
	if p.finish(pair, nil, dropped(h.Payload)) {
		p.client.stats.dropped.Add(1)
		p.alive(pair)
	}
	return wire.OK
}

// onSack resends what a server misses of a request. To a client still waiting
// for REQRDY it is the REQRDY that was lost.
func (p *clientPort) onSack(h *wire.Header, from netip.AddrPort) wire.Case {
	var s wire.SackMsg
	if m := s.Decode(h.Payload); m != wire.OK {
		return m
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pair := p.pairs[h.ReqID]
	switch {
	case s.What != wire.SackRequest, pair == nil, pair.split.Count == 1, pair.reply != nil:
		return wire.M20
	case int(s.Base)+s.NBits > pair.split.Count, pair.rounds >= p.client.timers.SackRounds:
		return wire.M20
	case pair.ready && pair.server != from:
		return wire.M20
	}
	p.client.stats.sackReceived.Add(1)
	pair.rounds++
	if !pair.ready {
		p.confirm(pair, from)
		return wire.OK
	}
	missing := s.Missing()
	p.client.stats.resent.Add(uint64(len(missing)))
	go p.train(pair, missing)
	return wire.OK
}
