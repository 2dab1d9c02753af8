// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// Policy tells a router which workers may get a request.
type Policy = wire.Policy

// Policies (§3.1). Bobtail's routers implement the first two and answer DROP
// to the others, which are for the members of replication groups (package
// replica).
const (
	Unrestricted = wire.Unrestricted
	Sticky       = wire.Sticky
)

// ClientConfig configures a Client. Only Targets is required.
type ClientConfig struct {
	// Targets are the routers: names or addresses, "echo.demo.svc:8000";
	// the port defaults to 8000. With no router, name the servers themselves.
	Targets []string
	// Timeout of a request whose context ends later or never; default 1 s.
	Timeout time.Duration
	// Sockets is how many UDP ports to use; default 1. Each carries up to
	// 65,536 requests per quarantine (0.8 s on Kernel devices) and stays on one
	// router, so several also spread load over routers.
	Sockets int
	// Local binds the sockets to this address; default any.
	Local netip.Addr
	// MaxMessage bounds requests and replies in bytes; default 1 MiB.
	MaxMessage int
	// MTU of the network, 576 to 1500 and equal on all nodes. 0, the default,
	// reads it: the smallest of the routes to the targets and of the interfaces
	// they leave by. A client outside the pod network whose own network takes
	// more than that one sets it to the servers' MTU.
	MTU int
	// Profile of the device decides the timers; default Kernel.
	Profile Profile
	// NoExtensions talks to peers that predate SACK and options.
	NoExtensions bool
	// ResolveInterval is how often names are looked up again; default 2 s.
	ResolveInterval time.Duration
	// FailAfter is how many timeouts in a row make a socket leave its router;
	// default 3. An ICMP error does so at once.
	FailAfter int
	// Resolver looks names up; default net.DefaultResolver.
	Resolver Resolver
}

func (c ClientConfig) withDefaults() (ClientConfig, error) {
	setDefault(&c.Timeout, time.Second)
	setDefault(&c.Sockets, 1)
	setDefault(&c.MaxMessage, 1<<20)
	setDefault(&c.Profile, Kernel)
	setDefault(&c.ResolveInterval, 2*time.Second)
	setDefault(&c.FailAfter, 3)
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	switch {
	case c.Timeout < 0:
		return c, errors.New("r2p2: Timeout must be positive")
	case c.Sockets < 1 || c.Sockets > 1024:
		return c, errors.New("r2p2: Sockets must be 1..1024")
	case checkMTU(c.MTU) != nil:
		return c, checkMTU(c.MTU)
	case c.MaxMessage < 1 || c.MaxMessage > 64<<20:
		return c, errors.New("r2p2: MaxMessage must be 1..67108864")
	case c.ResolveInterval < 0, c.FailAfter < 0:
		return c, errors.New("r2p2: ResolveInterval and FailAfter must be positive")
	}
	return c, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Request is one call. The zero values of all but Payload are ordinary.
type Request struct {
	Payload []byte // must not change until the call ends
	Policy  Policy
	// Timeout from now to the whole reply; 0 means the client's.
	Timeout time.Duration
	// Class and ClassFlags travel when WithClass is set.
	WithClass         bool
	Class, ClassFlags uint8
	// Trace travels when it is not 0, and is echoed by server and router.
	Trace uint64
	// To, when valid, is where this request goes, whatever router its socket is on.
	To netip.AddrPort
	// Session and Sequence travel when Session is not 0: a replicated write that may be
	// asked for again (R-387; package replica).
	Session, Sequence uint64
}

// ReplyMsg is the answer to a Request.
type ReplyMsg struct {
	Payload           []byte
	From              netip.AddrPort // the worker that answered
	Class, ClassFlags uint8
	Trace             uint64
}

// Client sends requests. It is safe for concurrent use and holds any number of
// outstanding requests.
type Client struct {
	cfg     ClientConfig
	timers  Timers
	targets *targets
	ports   []*clientPort
	turn    atomic.Uint32
	stats   clientStats
	gather  gather
	stop    context.CancelFunc
	running sync.WaitGroup
	closed  atomic.Bool
}

// Dial resolves the targets and binds the sockets. R2P2 has no connection:
// that a router lives shows with the first reply.
func Dial(ctx context.Context, cfg ClientConfig) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := newTargets(cfg.Targets, cfg.Resolver)
	if err != nil {
		return nil, err
	}
	if err := t.refresh(ctx); err != nil {
		return nil, err
	}
	if cfg.MTU == 0 {
		cfg.MTU = mtuToward(cfg.Local, t.all())
	}
	background, stop := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, timers: TimersFor(cfg.Profile), targets: t, stop: stop}
	offset := rand.IntN(1 << 16)
	for i := range cfg.Sockets {
		p, err := newClientPort(c, t.spread(offset, i))
		if err != nil {
			c.Close()
			return nil, err
		}
		c.ports = append(c.ports, p)
	}
	for _, p := range c.ports {
		c.running.Go(p.readLoop)
	}
	if !t.literal() {
		c.running.Go(func() { t.resolveLoop(background, cfg.ResolveInterval) })
	}
	return c, nil
}

// Close ends every outstanding request with ErrClosed and releases the sockets.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.stop()
	for _, p := range c.ports {
		p.close()
	}
	c.running.Wait()
	return nil
}

// Call sends payload and waits for the reply.
func (c *Client) Call(ctx context.Context, payload []byte) ([]byte, error) {
	r, err := c.Do(ctx, &Request{Payload: payload})
	if err != nil {
		return nil, err
	}
	return r.Payload, nil
}

// Do sends a request and waits for the reply. When ctx is cancelled it returns
// ctx.Err(); the request may still be executed.
func (c *Client) Do(ctx context.Context, r *Request) (*ReplyMsg, error) {
	p, pair, err := c.begin(ctx, r, false)
	if err != nil {
		return nil, err
	}
	return p.wait(ctx, pair)
}

// Future is a request on its way.
type Future struct {
	done  chan struct{}
	reply *ReplyMsg
	err   error
}

// Done is closed when the request ended.
func (f *Future) Done() <-chan struct{} { return f.done }

// Wait returns the outcome, exactly one of reply and error.
func (f *Future) Wait() (*ReplyMsg, error) {
	<-f.done
	return f.reply, f.err
}

// wait is Future.Wait for a request that nobody watches: it ends with ctx.
func (p *clientPort) wait(ctx context.Context, pair *clientPair) (*ReplyMsg, error) {
	select {
	case <-pair.future.done:
	case <-ctx.Done():
		p.cancel(pair, ctx.Err())
	}
	return pair.future.Wait()
}

func failed(err error) *Future {
	f := &Future{done: make(chan struct{}), err: err}
	close(f.done)
	return f
}

// Go sends a request and returns at once.
func (c *Client) Go(ctx context.Context, r *Request) *Future {
	p, pair, err := c.begin(ctx, r, false)
	if err != nil {
		return failed(err)
	}
	p.watch(ctx, pair)
	return &pair.future
}

// begin sends a request, under flow control or not.
func (c *Client) begin(ctx context.Context, r *Request, try bool) (*clientPort, *clientPair, error) {
	switch {
	case c.closed.Load():
		return nil, nil, ErrClosed
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case len(r.Payload) > c.cfg.MaxMessage:
		return nil, nil, ErrTooLarge
	case r.Policy > wire.ReplicatedRead:
		return nil, nil, errors.New("r2p2: Policy must be 0..3")
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = c.cfg.Timeout
	}
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end))
	}
	first := c.firstPort()
	var again *AgainError // the shortest of all sockets
	for i := range c.ports {
		p := c.ports[(first+i)%len(c.ports)]
		pair, err := p.start(r, timeout, try)
		if err == nil {
			return p, pair, nil
		}
		var held *AgainError
		if errors.As(err, &held) {
			if again == nil || held.After < again.After {
				again = held
			}
		} else if !errors.Is(err, ErrNoID) {
			return nil, nil, err
		}
	}
	if again != nil {
		return nil, nil, again
	}
	c.stats.noID.Add(1)
	return nil, nil, ErrNoID
}

// firstPort is where to begin looking for a port: the next one for every call. Calls
// that leave together leave by one.
func (c *Client) firstPort() int {
	if c.gather.holding.Load() > 0 {
		return int(c.turn.Load())
	}
	return int(c.turn.Add(1))
}

// Routers returns the addresses requests may go to now.
func (c *Client) Routers() []netip.AddrPort {
	return c.targets.all()
}

// MTU is the one in use, as configured or as read when the client was made.
func (c *Client) MTU() int { return c.cfg.MTU }

type clientStats struct {
	started, succeeded, timedOut, dropped, incomplete, cancelled atomic.Uint64
	noID, late, foreign, duplicate, sackSent, sackReceived       atomic.Uint64
	resent, packets, moved, unreachable, held                    atomic.Uint64
	unsent                                                       unsent
	malformed                                                    cases
}

// Counters returns every counter of the client, under the names the C client
// uses.
func (c *Client) Counters() []Counter {
	s := &c.stats
	out := []Counter{
		{"client_requests_started_total", "", "", s.started.Load()},
		{"client_requests_ended_total", "result", "success", s.succeeded.Load()},
		{"client_requests_ended_total", "result", "timeout", s.timedOut.Load()},
		{"client_requests_ended_total", "result", "dropped", s.dropped.Load()},
		{"client_requests_ended_total", "result", "reply_incomplete", s.incomplete.Load()},
		{"client_requests_ended_total", "result", "cancelled", s.cancelled.Load()},
		{"client_refused_total", "reason", "no_request_id", s.noID.Load()},
		{"client_refused_total", "reason", "flow_control", s.held.Load()},
		{"client_late_total", "kind", "late_reply", s.late.Load()},
		{"client_late_total", "kind", "foreign_reply", s.foreign.Load()},
		{"client_duplicate_packets_total", "", "", s.duplicate.Load()},
		{"client_sacks_sent_total", "", "", s.sackSent.Load()},
		{"client_sacks_received_total", "", "", s.sackReceived.Load()},
		{"client_packets_resent_total", "", "", s.resent.Load()},
		{"client_packets_sent_total", "", "", s.packets.Load()},
		{"client_router_changes_total", "", "", s.moved.Load()},
		{"client_unreachable_total", "", "", s.unreachable.Load()},
	}
	out = s.unsent.append(out)
	return s.malformed.append(out, "client_rejected_total")
}
