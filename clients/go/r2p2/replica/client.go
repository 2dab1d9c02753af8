// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// How a request can end other than with its reply.
var (
	// ErrNotExecuted: every member asked refused it, or nothing was ever sent.
	// It was not executed and will not be: asking again is safe.
	ErrNotExecuted = errors.New("replica: not executed")
	// ErrUnknownOutcome: no answer in time. The write was executed, will be, or
	// will not; never twice.
	ErrUnknownOutcome = errors.New("replica: unknown outcome: the write may have been executed")
	// ErrReplyLost: the write was executed, once. Its reply is too long to be
	// kept for a second answer, and the first one was lost.
	ErrReplyLost = errors.New("replica: executed, but the reply was lost")
	// ErrTooLong: the request is longer than the group takes. Not executed.
	ErrTooLong = fmt.Errorf("%w: longer than the group takes", ErrNotExecuted)
)

// Config of a Client. Only Members is required.
type Config struct {
	// Members are names or addresses with the port for clients; some of them are
	// enough, the leader is found through any. The port defaults to 8000.
	Members []string
	// Timeout of a request whose context ends later or never; default 5 s.
	Timeout time.Duration
	// Attempt is how long one member is waited for; default 400 ms. Once as many said
	// nothing as are known, none is gone but the group is slow: then it is twice as long,
	// and so on, or requests that nobody waits for any more would be all it serves.
	Attempt time.Duration
	// Local binds the socket to this address; default any.
	Local netip.Addr
	// MTU as in r2p2.ClientConfig.
	MTU int
}

// Client asks a group. It is safe for concurrent use.
type Client struct {
	cfg   Config
	r2p2  *r2p2.Client
	stats stats

	mu     sync.Mutex
	leader netip.AddrPort // as it was told last, or found
	turn   int
	idle   []*session
}

// A session has one write under way at a time. Its number rises with each, from
// what the group said when it opened the session.
type session struct{ id, seq uint64 }

type stats struct{ attempts, redirects, timeouts, refused atomic.Uint64 }

// Dial resolves the members and binds a socket. That a group lives shows with
// the first reply.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Attempt <= 0 {
		cfg.Attempt = 400 * time.Millisecond
	}
	inner, err := r2p2.Dial(ctx, r2p2.ClientConfig{Targets: cfg.Members, Local: cfg.Local, MTU: cfg.MTU, Timeout: cfg.Attempt})
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, r2p2: inner, turn: rand.IntN(1 << 16)}, nil
}

// Close ends every outstanding request.
func (c *Client) Close() error { return c.r2p2.Close() }

// Counters are how often a member was asked, named another one, did not answer,
// or refused.
func (c *Client) Counters() (attempts, redirects, timeouts, refused uint64) {
	return c.stats.attempts.Load(), c.stats.redirects.Load(), c.stats.timeouts.Load(), c.stats.refused.Load()
}

// Write has the group execute a request, once, on every member. The first writes
// of a client, as many as are under way at once, open a session each: one more
// request to the group.
func (c *Client) Write(ctx context.Context, payload []byte) ([]byte, error) {
	reply, err := c.writeOnce(ctx, payload)
	if errors.Is(err, errSession) { // forgotten by the group, and nothing of this write was under way before
		reply, err = c.writeOnce(ctx, payload)
	}
	return reply, err
}

func (c *Client) writeOnce(ctx context.Context, payload []byte) ([]byte, error) {
	s, err := c.takeSession(ctx)
	if err != nil {
		return nil, err
	}
	s.seq++
	reply, err := c.ask(ctx, &r2p2.Request{Payload: payload, Policy: wire.ReplicatedWrite, Session: s.id, Sequence: s.seq})
	c.giveBack(s, err)
	return reply, err
}

// Read has the group execute a request that changes nothing, in its order among
// the writes.
func (c *Client) Read(ctx context.Context, payload []byte) ([]byte, error) {
	return c.ask(ctx, &r2p2.Request{Payload: payload, Policy: wire.ReplicatedRead})
}

// ReadAt asks one member what it knows now, which may be less than others know.
func (c *Client) ReadAt(ctx context.Context, member netip.AddrPort, payload []byte) ([]byte, error) {
	r, err := c.r2p2.Do(ctx, &r2p2.Request{Payload: payload, To: member})
	if err != nil {
		return nil, err
	}
	return r.Payload, nil
}

// errSession: the group does not know the session (any more), and said so before
// anything of the request could have been executed.
var errSession = fmt.Errorf("%w: the group forgot the session", ErrNotExecuted)

func (c *Client) takeSession(ctx context.Context) (*session, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		s := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return s, nil
	}
	c.mu.Unlock()
	return c.open(ctx)
}

// open begins a session by its number 0. Asked for twice it is opened once. The
// answer is the number that its writes follow, above any that an older session of
// that name had.
func (c *Client) open(ctx context.Context) (*session, error) {
	s := &session{id: rand.Uint64() | 1}
	reply, err := c.ask(ctx, &r2p2.Request{Policy: wire.ReplicatedWrite, Session: s.id})
	if err == nil && len(reply) != openedBytes {
		err = fmt.Errorf("%d bytes", len(reply))
	}
	if err != nil { // the write itself was not sent
		return nil, fmt.Errorf("%w: no session was opened: %v", ErrNotExecuted, err)
	}
	s.seq = binary.BigEndian.Uint64(reply)
	return s, nil
}

// giveBack keeps a session for the next write: also after an unknown outcome,
// since a later number makes a late copy of this one void.
func (c *Client) giveBack(s *session, err error) {
	if errors.Is(err, errSession) {
		return
	}
	if errors.Is(err, ErrNotExecuted) {
		s.seq-- // nobody has seen it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, s)
}

// next is whom to ask: the leader as far as known, else one after the other.
func (c *Client) next() netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader.IsValid() {
		return c.leader
	}
	all := c.r2p2.Routers()
	if len(all) == 0 {
		return netip.AddrPort{}
	}
	c.turn++
	return all[c.turn%len(all)]
}

// learn remembers who leads; an invalid address: not known.
func (c *Client) learn(asked, leader netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == asked || leader.IsValid() {
		c.leader = leader
	}
}

// attempts of one request.
type asking struct {
	c        *Client
	request  *r2p2.Request
	deadline time.Time
	maybe    bool // one of them may have been executed
	pause    time.Duration
	silent   int // attempts without an answer
	last     error
}

func (c *Client) ask(ctx context.Context, r *r2p2.Request) ([]byte, error) {
	a := asking{c: c, request: r, deadline: time.Now().Add(c.cfg.Timeout), pause: 2 * time.Millisecond}
	if end, ok := ctx.Deadline(); ok && end.Before(a.deadline) {
		a.deadline = end
	}
	for {
		left := time.Until(a.deadline)
		if left <= 0 || ctx.Err() != nil {
			return nil, a.failed(ctx.Err())
		}
		reply, done, err := a.once(ctx, min(left, a.patience()))
		if done {
			return reply, err
		}
	}
}

// patience is how long the next member is waited for.
func (a *asking) patience() time.Duration {
	rounds := a.silent / max(1, len(a.c.r2p2.Routers()))
	return a.c.cfg.Attempt << rounds // the round before lasted half as long: the request's own timeout bounds both
}

// failed says what is known at the end.
func (a *asking) failed(cause error) error {
	if cause == nil {
		cause = a.last
	}
	what := ErrNotExecuted
	if a.maybe {
		what = ErrUnknownOutcome
	}
	if cause == nil {
		return what
	}
	return fmt.Errorf("%w (last: %w)", what, cause)
}

// once asks one member. done: the request has ended.
func (a *asking) once(ctx context.Context, wait time.Duration) (reply []byte, done bool, err error) {
	a.c.stats.attempts.Add(1)
	r := *a.request
	r.To, r.Timeout = a.c.next(), wait
	answer, err := a.c.r2p2.Do(ctx, &r)
	switch {
	case err == nil:
		a.c.learn(r.To, r.To)
		return a.answered(answer.Payload)
	case errors.Is(err, r2p2.ErrDropped):
		a.last = err
		return a.dropped(ctx, r.To, err)
	case errors.Is(err, r2p2.ErrClosed), errors.Is(err, r2p2.ErrTooLarge), errors.Is(err, r2p2.ErrNoTarget):
		return nil, true, a.failed(err)
	case errors.Is(err, r2p2.ErrNoID):
		a.last = err
		a.rest(ctx)
	default: // no answer, or only parts of one
		a.c.stats.timeouts.Add(1)
		if errors.Is(err, r2p2.ErrTimeout) {
			a.silent++
		}
		a.maybe = a.maybe || a.request.Policy == wire.ReplicatedWrite
		a.last = err
		a.c.learn(r.To, netip.AddrPort{})
	}
	return nil, false, nil
}

const openedBytes = 8 // of the answer to number 0

// The first byte of an answer to a write with a session.
const (
	sessionDone    = 0
	sessionNoCopy  = 1
	sessionUnknown = 2
)

func (a *asking) answered(p []byte) ([]byte, bool, error) {
	if a.request.Session == 0 {
		return p, true, nil
	}
	switch {
	case len(p) == 0:
		return nil, true, ErrUnknownOutcome
	case p[0] == sessionDone:
		return p[1:], true, nil
	case p[0] == sessionNoCopy:
		return nil, true, ErrReplyLost
	case p[0] == sessionUnknown && !a.maybe:
		return nil, true, errSession
	}
	return nil, true, ErrUnknownOutcome
}

func (a *asking) dropped(ctx context.Context, asked netip.AddrPort, err error) ([]byte, bool, error) {
	reason, leader := why(err)
	a.c.stats.refused.Add(1)
	switch {
	case reason == TooLong && !a.maybe:
		return nil, true, ErrTooLong
	case reason == NotLeader && leader.IsValid() && leader != asked:
		a.c.stats.redirects.Add(1)
		a.c.learn(asked, leader)
		return nil, false, nil
	case reason != Busy && reason != Moving:
		a.c.learn(asked, netip.AddrPort{})
	}
	a.rest(ctx)
	return nil, false, nil
}

// rest waits a little, and longer each time.
func (a *asking) rest(ctx context.Context) {
	t := time.NewTimer(min(a.pause, time.Until(a.deadline)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	a.pause = min(2*a.pause, 50*time.Millisecond)
}
