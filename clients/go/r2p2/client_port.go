// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// clientPort is one UDP port of a client: its own request ids, its own router.
type clientPort struct {
	client *Client
	sock   *socket
	out    *outbox

	mu       sync.Mutex
	pairs    map[uint16]*clientPair
	ids      *ids
	router   netip.AddrPort
	timeouts int // in a row, of requests sent to router
	closed   bool
	flows    map[netip.AddrPort]*flowTarget // of requests under flow control
	ends     deadlines
	ended    int // requests, ever
}

// clientPair is one request on its way. All fields are guarded by the port's mu.
type clientPair struct {
	id      uint16
	future  Future
	request *Request       // nil once it ended: its payload is the caller's again
	router  netip.AddrPort // where REQ0 went
	split   wire.Split
	ready   bool           // REQRDY seen, or not needed
	server  netip.AddrPort // that sent REQRDY
	rounds  int            // SACKs answered
	reply   *assembly      // whole, once a packet of it is here
	whole   assembly
	from    netip.AddrPort // sender of the reply
	meta    wire.Options   // of the reply
	ext     bool           // the server understands SACK
	asked   int            // SACKs sent
	rto     *time.Timer
	unwatch func() bool    // stops watching the context; nil: nobody does
	flow    *flowTarget    // nil: not under flow control
	sender  *flowSender    // that the request is charged to, until it ends

	deadline time.Time
	place    int       // among the port's deadlines
}

func newClientPort(c *Client, router netip.AddrPort) (*clientPort, error) {
	local := c.cfg.Local
	if !local.IsValid() {
		local = netip.IPv6Unspecified()
		if router.Addr().Is4() {
			local = netip.IPv4Unspecified()
		}
	}
	s, err := listen(netip.AddrPortFrom(local, 0))
	if err != nil {
		return nil, err
	}
	s.tune(true)
	p := &clientPort{
		client: c, sock: s, router: router, pairs: map[uint16]*clientPair{}, ids: newIDs(c.timers.Quarantine),
	}
	p.out = newOutbox(s, p.refused)
	p.ends.timer = time.AfterFunc(time.Hour, p.expireDue)
	p.ends.timer.Stop()
	return p, nil
}

// start registers and sends a request.
func (p *clientPort) start(r *Request, timeout time.Duration, try bool) (*clientPair, error) {
	router, ok := p.client.targets.stay(p.current())
	if !ok && !r.To.IsValid() {
		return nil, ErrNoTarget
	}
	to := router
	if r.To.IsValid() {
		to = r.To
	}
	pair := &clientPair{request: r, router: to, future: Future{done: make(chan struct{})}}
	pair.split = p.cut(r, try)
	if pair.split.Count == 0 {
		return nil, ErrTooLarge
	}
	pair.ready = pair.split.Count == 1
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if !r.To.IsValid() && router != p.router {
		p.move(router)
	}
	now := time.Now()
	if try {
		var wait time.Duration
		pair.flow = p.flow(to)
		if pair.sender, wait = pair.flow.take(now); pair.sender == nil {
			p.mu.Unlock()
			return nil, &AgainError{wait}
		}
	}
	id, ok := p.ids.take(now)
	if !ok {
		pair.endFlow()
		p.mu.Unlock()
		return nil, ErrNoID
	}
	pair.id = id
	p.register(pair, now.Add(timeout), now)
	p.post(pair, 0, to)
	p.mu.Unlock()
	p.depart()
	return pair, nil
}

// register makes a request one of those on their way; callers hold mu. Its time
// begins before the packet leaves, so that it covers the send.
func (p *clientPort) register(pair *clientPair, deadline, now time.Time) {
	p.pairs[pair.id] = pair
	p.client.stats.started.Add(1)
	pair.deadline = deadline
	p.ends.add(pair, now)
}

// watch ends a request with its context.
func (p *clientPort) watch(ctx context.Context, pair *clientPair) {
	if ctx.Done() == nil {
		return
	}
	unwatch := context.AfterFunc(ctx, func() { p.cancel(pair, ctx.Err()) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pairs[pair.id] != pair {
		unwatch()
		return
	}
	pair.unwatch = unwatch
}

func (p *clientPort) current() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.router
}

// move changes the router; callers hold mu.
func (p *clientPort) move(to netip.AddrPort) {
	if to != p.router {
		p.client.stats.moved.Add(1)
	}
	p.router, p.timeouts = to, 0
}

// options of the first packet of a request.
func (r *Request) options(try bool) (o wire.Options) {
	if r.WithClass {
		o.Present |= wire.HasClass
		o.Class, o.ClassFlags = r.Class, r.ClassFlags
	}
	if r.Trace != 0 {
		o.Present |= wire.HasTrace
		o.Trace = r.Trace
	}
	if r.Session != 0 {
		o.Present |= wire.HasSession
		o.Session, o.Sequence = r.Session, r.Sequence
	}
	if try {
		o.Present |= wire.HasFlow
		o.Flow = wire.FlowAsk
	}
	return o
}

// cut splits a request, leaving room for what a router adds to REQ0.
func (p *clientPort) cut(r *Request, try bool) wire.Split {
	room := wire.DatagramMax(p.client.cfg.MTU, p.sock.v4) - wire.HeaderSize
	single := room
	if !p.client.cfg.NoExtensions {
		o := r.options(try)
		single = room - wire.OptionReserve - o.Size()
	}
	return wire.SplitRequest(len(r.Payload), single, room)
}

// post makes packet i of a request; callers hold mu, and depart behind it.
func (p *clientPort) post(pair *clientPair, i int, to netip.AddrPort) {
	h := wire.Header{
		Type: wire.Request, Policy: pair.request.Policy, First: i == 0, Last: i == pair.split.Count-1,
		Ext: !p.client.cfg.NoExtensions, ReqID: pair.id, Count: uint16(i),
	}
	if i == 0 {
		h.Count = uint16(pair.split.Count)
		if h.Ext {
			h.Options = pair.request.options(pair.flow != nil)
		}
	}
	p.client.stats.packets.Add(1)
	p.out.post(&h, pair.split.Piece(pair.request.Payload, i), to)
}

// refused counts a packet that the kernel did not take.
func (p *clientPort) refused(err error) {
	p.client.stats.unsent.add(err)
	// The kernel keeps a note of it, which takes room from what is received.
	if gone := p.sock.unreachable(); len(gone) > 0 {
		go p.lost(gone) // callers may hold mu
	}
}

// finish ends a pair, once; callers hold mu. R-43: whoever takes the pair out
// of the table is the one who ends it.
func (p *clientPort) finish(pair *clientPair, reply *ReplyMsg, err error) bool {
	if p.pairs[pair.id] != pair {
		return false
	}
	delete(p.pairs, pair.id)
	pair.endFlow()
	p.ids.release(pair.id, time.Now())
	p.ends.remove(pair)
	if pair.unwatch != nil {
		pair.unwatch()
	}
	if pair.rto != nil {
		pair.rto.Stop()
	}
	p.ended++
	pair.request = nil
	pair.future.reply, pair.future.err = reply, err
	close(pair.future.done)
	return true
}

// expireDue ends the requests whose time is over.
func (p *clientPort) expireDue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for pair := p.ends.expired(now); pair != nil; pair = p.ends.expired(now) {
		p.timedOut(pair)
	}
}

// timedOut ends a pair without a reply in time; callers hold mu.
func (p *clientPort) timedOut(pair *clientPair) {
	if !p.finish(pair, nil, ErrTimeout) {
		return
	}
	p.client.stats.timedOut.Add(1)
	if pair.router != p.router {
		return // sent before this port moved on
	}
	if p.timeouts++; p.timeouts >= p.client.cfg.FailAfter {
		p.move(p.client.targets.another(p.router))
	}
}

func (p *clientPort) cancel(pair *clientPair, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(cause, context.DeadlineExceeded) {
		p.timedOut(pair)
		return
	}
	if p.finish(pair, nil, cause) {
		p.client.stats.cancelled.Add(1)
	}
}

func (p *clientPort) close() {
	p.mu.Lock()
	p.closed = true
	for _, pair := range p.pairs {
		if p.finish(pair, nil, ErrClosed) {
			p.client.stats.cancelled.Add(1)
		}
	}
	p.ends.timer.Stop()
	p.mu.Unlock()
	p.sock.udp.Close()
}

func (p *clientPort) readLoop() {
	p.sock.readAll(p.take, func() { p.lost(p.sock.unreachable()) })
}

// take takes the packets that came together.
func (p *clientPort) take(packets []datagram) {
	if len(packets) == 1 {
		p.receive(packets[0].packet, packets[0].from)
		return
	}
	p.client.together(func() int {
		before := p.endedSoFar()
		for _, d := range packets {
			p.receive(d.packet, d.from)
		}
		return p.endedSoFar() - before
	})
}

func (p *clientPort) endedSoFar() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// lost handles ICMP errors: the port leaves a router nobody listens at.
func (p *clientPort) lost(gone []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range gone {
		p.client.stats.unreachable.Add(1)
		if a == p.router {
			p.move(p.client.targets.another(a))
		}
	}
}
