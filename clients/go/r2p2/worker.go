// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// pairKey is the identity of a pair.
type pairKey struct {
	client netip.AddrPort
	id     uint16
}

type pairState int

const (
	receiving pairState = iota
	executing           // queued, at the handler, or with packets still to be sent
	kept                // replied; the packets are kept for repair
)

// serverPair is one request at a worker. Fields are guarded by the worker's mu.
type serverPair struct {
	key     pairKey
	router  *routerState // nil: none
	state   pairState
	policy  wire.Policy
	ext     bool
	content uint64       // of a client without X (contentOf), else 0
	echo    wire.Options // class and trace, echoed in the reply
	trace   uint64
	message *assembly // whole, nil once the handler has it
	whole   assembly
	begun   time.Time
	rounds  int // SACKs sent while receiving, answered while kept
	timer   *time.Timer
	hold    hold
	moved   time.Time // newest progress of a message being received
	replies [][]byte  // packets kept for repair

	copy      uint32                  // which of its router's copies it is; 0: it has no number
	takenBack bool                    // by its router
	stop      context.CancelCauseFunc // of its handler, while that runs and copy is not 0
}

// worker is one UDP port: what it receives, executes and owes its routers.
type worker struct {
	server *Server
	index  int
	sock   *socket
	out    *outbox
	queue  chan *serverPair
	runs   runs

	mu      sync.Mutex
	pairs   map[pairKey]*serverPair
	busy    int // pairs receiving or executing
	done    map[pairKey]doneKnown
	expiry  []doneKey // in order of time
	routers []*routerState
	keys    Keyring
	depth   int
	holds   holds
	replied []time.Time // when the requests began whose replies wait in the outbox
}

type doneKey struct {
	key   pairKey
	until time.Time
}

// maxDone bounds how many finished pairs are remembered against duplicates.
const maxDone = 1 << 16

func newWorker(s *Server, index int, at netip.AddrPort) (*worker, error) {
	sock, err := listen(at)
	if err != nil {
		return nil, err
	}
	sock.tune(false)
	w := &worker{
		server: s, index: index, sock: sock, queue: make(chan *serverPair, s.cfg.MaxPending),
		pairs: map[pairKey]*serverPair{}, done: map[pairKey]doneKnown{}, keys: s.cfg.Keys, depth: s.cfg.QueueDepth,
	}
	w.out = newOutbox(sock, s.stats.unsent.add)
	w.runs.guard = time.AfterFunc(time.Hour, w.depart)
	w.runs.guard.Stop()
	for _, r := range s.cfg.Routers {
		w.addRouter(r, true)
	}
	return w, nil
}

func (w *worker) close() {
	w.runs.guard.Stop()
	w.out.drain()
	w.sock.udp.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pairs {
		for _, t := range []*time.Timer{p.timer, p.hold.timer} {
			if t != nil {
				t.Stop()
			}
		}
	}
}

// post sends a packet with the next flush of the outbox. Whoever begins
// something flushes at its end: readLoop, executeLoop, timers and calls from outside.
func (w *worker) post(packet []byte, to netip.AddrPort) {
	w.server.stats.packets.Add(1)
	w.out.postPacket(packet, to)
}

func (w *worker) backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}

// remember keeps a finished pair from being executed again when its request
// comes twice.
func (w *worker) remember(p *serverPair) {
	now := time.Now()
	for len(w.expiry) > 0 && (len(w.expiry) >= maxDone || !w.expiry[0].until.After(now)) {
		if oldest := w.expiry[0]; w.done[oldest.key].until.Equal(oldest.until) {
			delete(w.done, oldest.key) // else it came again since
		}
		w.expiry = w.expiry[1:]
	}
	until := now.Add(w.server.timing().GC)
	w.done[p.key] = doneKnown{until: until, content: p.content}
	w.expiry = append(w.expiry, doneKey{p.key, until})
}

func (w *worker) known(key pairKey) bool {
	_, done := w.done[key]
	return done || w.pairs[key] != nil
}

// received counts a REQ0 of a router; served and the FEEDBACK are owed for it
// whatever becomes of it.
func (w *worker) received(r *routerState) {
	w.server.lastRx.Store(int64(time.Since(w.server.started)))
	if r != nil {
		r.received++
		r.heard = time.Now()
	}
}

// served pays what received owes. The message is posted by the caller's
// goroutine, behind the reply. Callers hold mu.
func (w *worker) served(p *serverPair, flags uint8) {
	if p.hold.paid && p.state != receiving {
		w.holds.beyond--
	}
	if p.router == nil {
		return
	}
	if !p.hold.paid {
		p.router.served++
	}
	w.post(w.feedback(p.router, flags, p), p.router.Feedback)
}

func (w *worker) readLoop() {
	w.sock.readAll(w.take, func() {})
}

// take takes the packets that came together, and sends what they give rise to.
func (w *worker) take(packets []datagram) {
	for _, d := range packets {
		w.receive(d.packet, d.from)
	}
	w.out.flush()
}

func (w *worker) execute(p *serverPair) {
	s := w.server
	ctx, stop, ok := w.begin(p)
	if !ok {
		return
	}
	defer stop()
	payload := w.handOver(p)
	r := &ServerRequest{
		Payload: payload, Client: p.key.client, ID: p.key.id, Policy: p.policy,
		Class: p.echo.Class, ClassFlags: p.echo.ClassFlags, Trace: p.trace, Worker: w.index,
	}
	if p.router != nil {
		r.Router = p.router.Request
	}
	handed := time.Now()
	reply, err := s.call(ctx, r)
	if s.ctx.Err() != nil {
		return // closed: nobody is owed anything any more
	}
	w.runs.took = time.Since(handed)
	s.service.Record(w.runs.took)
	switch {
	case err != nil && w.gaveUp(p):
	case errors.Is(err, ErrDrop):
		s.stats.dropApp.Add(1)
		s.noteTrace(p, w.sock.local, handed, true) // before the answer: who has it may ask for the trace
		w.refuse(p, true)
	case err != nil:
		s.stats.failed.Add(1)
		s.noteTrace(p, w.sock.local, handed, true)
		w.refuse(p, false)
	default:
		w.wentOn(p)
		w.reply(p, reply, handed)
	}
}

// handOver gives the handler the bytes of its request.
func (w *worker) handOver(p *serverPair) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	payload := p.message.message()
	p.message, p.whole = nil, assembly{}
	return payload
}

var errPanic = errors.New("r2p2: handler panicked")

// call runs the handler. A panic costs its own request only: the client times
// out, because whether the request had an effect is unknown.
func (s *Server) call(ctx context.Context, r *ServerRequest) (reply []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Log.Error("r2p2: handler panicked", "panic", v, "client", r.Client, "stack", string(debug.Stack()))
			reply, err = nil, errPanic
		}
	}()
	return s.cfg.Handler.ServeR2P2(ctx, r)
}

// refuse ends a pair without a reply. tell: with a DROP, which promises that
// nothing was executed.
func (w *worker) refuse(p *serverPair, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if tell {
		w.sendDrop(p.key, p.ext)
	}
	w.server.latency.Rejected()
	w.forget(p)
	w.served(p, wire.FeedbackDropped)
}

// forget takes a pair out of the table; callers hold mu.
func (w *worker) forget(p *serverPair) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.state != kept {
		w.busy--
	}
	delete(w.pairs, p.key)
	w.remember(p)
}

// reply sends a reply, keeps its packets when they can be asked for again, and
// sends FEEDBACK behind the last of them.
func (w *worker) reply(p *serverPair, message []byte, handed time.Time) {
	s := w.server
	if len(message) > s.cfg.MaxMessage {
		s.stats.failed.Add(1)
		w.refuse(p, false)
		return
	}
	packets := w.cut(p, message)
	t := s.timing()
	for i, b := range packets {
		if i > 0 && i%t.Burst == 0 {
			w.out.flush()
			time.Sleep(t.BurstGap)
		}
		if i == len(packets)-1 {
			s.noteTrace(p, w.sock.local, handed, false)
		}
		w.post(b, p.key.client)
	}
	s.stats.replies.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replied = append(w.replied, p.begun)
	if len(packets) > 1 && p.ext {
		p.state, p.replies, p.rounds = kept, packets, 0
		w.busy--
		p.timer = time.AfterFunc(t.GC, func() { w.release(p) })
	} else {
		w.forget(p)
	}
	w.served(p, 0)
}

func (w *worker) release(p *serverPair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pairs[p.key] == p && p.state == kept {
		w.forget(p)
	}
}

// cut builds the packets of a reply, full from the first one (§4). A single one
// is valid until the next reply: nobody asks for it again.
func (w *worker) cut(p *serverPair, message []byte) [][]byte {
	room := wire.DatagramMax(w.server.cfg.MTU, w.sock.v4)
	h := wire.Header{Type: wire.Reply, Policy: p.policy, First: true, Ext: p.ext, ReqID: p.key.id, Options: p.echo}
	head := wire.HeaderSize + h.Options.Size()
	split := wire.SplitReply(len(message), room-head, room-wire.HeaderSize)
	if split.Count == 1 {
		h.Last, h.Count = true, 1
		w.runs.reply, _ = h.Append(w.runs.reply[:0])
		w.runs.reply = append(w.runs.reply, message...)
		w.runs.single[0] = w.runs.reply
		return w.runs.single[:]
	}
	packets := make([][]byte, 0, split.Count)
	for i := range split.Count {
		h.First, h.Last, h.Count = i == 0, i == split.Count-1, uint16(i)
		if i == 0 {
			h.Count = uint16(split.Count)
		} else {
			h.Options = wire.Options{}
		}
		piece := split.Piece(message, i)
		b, _ := h.Append(make([]byte, 0, head+len(piece)))
		packets = append(packets, append(b, piece...))
	}
	return packets
}

func (w *worker) sendDrop(key pairKey, ext bool) {
	w.control(wire.Drop, key, ext, []byte("DROP"))
}

// control sends a message of one packet about a pair; REQRDY and DROP use
// policy 1 as the published implementation does.
func (w *worker) control(t wire.Type, key pairKey, ext bool, payload []byte) {
	h := wire.Header{Type: t, Policy: wire.Sticky, First: true, Last: true, Ext: ext, ReqID: key.id, Count: 1}
	w.server.stats.packets.Add(1)
	w.out.post(&h, payload, key.client)
}
