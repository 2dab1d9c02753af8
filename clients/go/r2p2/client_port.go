// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// clientPort is one UDP port of a client: its own request ids, its own router.
type clientPort struct {
	client *Client
	sock   *socket

	mu       sync.Mutex
	pairs    map[uint16]*clientPair
	ids      *ids
	router   netip.AddrPort
	timeouts int // in a row, of requests sent to router
	closed   bool
	flows    map[netip.AddrPort]*flowTarget // of requests under flow control
}

// clientPair is one request on its way. All fields are guarded by the port's mu.
type clientPair struct {
	id      uint16
	future  *Future
	request *Request
	router  netip.AddrPort // where REQ0 went
	split   wire.Split
	ready   bool           // REQRDY seen, or not needed
	server  netip.AddrPort // that sent REQRDY
	rounds  int            // SACKs answered
	reply   *assembly
	from    netip.AddrPort // sender of the reply
	meta    wire.Options   // of the reply
	ext     bool           // the server understands SACK
	asked   int            // SACKs sent
	timer   *time.Timer
	rto     *time.Timer
	unwatch func() bool    // stops watching the context
	flow    *flowTarget    // nil: not under flow control
	sender  *flowSender    // that the request is charged to, until it ends
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
	return &clientPort{
		client: c, sock: s, router: router, pairs: map[uint16]*clientPair{}, ids: newIDs(c.timers.Quarantine),
	}, nil
}

// start registers and sends a request.
func (p *clientPort) start(ctx context.Context, r *Request, timeout time.Duration, try bool) (*Future, error) {
	router, ok := p.client.targets.stay(p.current())
	if !ok && !r.To.IsValid() {
		return nil, ErrNoTarget
	}
	to := router
	if r.To.IsValid() {
		to = r.To
	}
	pair := &clientPair{request: r, router: to, future: &Future{done: make(chan struct{})}}
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
	if try {
		var wait time.Duration
		pair.flow = p.flow(to)
		if pair.sender, wait = pair.flow.take(time.Now()); pair.sender == nil {
			p.mu.Unlock()
			return nil, &AgainError{wait}
		}
	}
	id, ok := p.ids.take(time.Now())
	if !ok {
		pair.endFlow()
		p.mu.Unlock()
		return nil, ErrNoID
	}
	pair.id = id
	p.pairs[id] = pair
	p.client.stats.started.Add(1)
	// The timer starts before the packet leaves, so that it covers the send.
	pair.timer = time.AfterFunc(timeout, func() { p.expire(pair) })
	pair.unwatch = context.AfterFunc(ctx, func() { p.cancel(pair, ctx.Err()) })
	packet := p.packet(pair, 0)
	p.mu.Unlock()
	p.send(packet, to)
	return pair.future, nil
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
		h := wire.Header{Options: o}
		b, _ := h.Append(nil)
		single = room - wire.OptionReserve - (len(b) - wire.HeaderSize)
	}
	return wire.SplitRequest(len(r.Payload), single, room)
}

// packet builds packet i of a request.
func (p *clientPort) packet(pair *clientPair, i int) []byte {
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
	piece := pair.split.Piece(pair.request.Payload, i)
	b, _ := h.Append(make([]byte, 0, wire.HeaderSize+wire.OptionReserve+len(piece)))
	return append(b, piece...)
}

func (p *clientPort) send(packet []byte, to netip.AddrPort) {
	p.client.stats.packets.Add(1)
	if err := p.sock.write(packet, to); err != nil {
		p.client.stats.unsent.add(err)
		// The kernel keeps a note of it, which takes room from what is received.
		if gone := p.sock.unreachable(); len(gone) > 0 {
			go p.lost(gone) // callers may hold mu
		}
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
	pair.timer.Stop()
	pair.unwatch()
	if pair.rto != nil {
		pair.rto.Stop()
	}
	pair.future.reply, pair.future.err = reply, err
	close(pair.future.done)
	return true
}

func (p *clientPort) expire(pair *clientPair) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	if errors.Is(cause, context.DeadlineExceeded) {
		p.expire(pair)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
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
	p.mu.Unlock()
	p.sock.udp.Close()
}

func (p *clientPort) readLoop() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := p.sock.udp.ReadFromUDPAddrPort(buf)
		switch {
		case err == nil:
			p.receive(buf[:n], plain(from))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			p.lost(p.sock.unreachable())
		}
	}
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
