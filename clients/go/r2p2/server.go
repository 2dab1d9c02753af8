// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// ServerRequest is a whole request.
type ServerRequest struct {
	Payload           []byte         // the handler's to keep and change
	Client            netip.AddrPort // who asked, whatever router it came through
	ID                uint16
	Policy            Policy
	Class, ClassFlags uint8
	Trace             uint64
	Router            netip.AddrPort // request address of the router, zero when there was none
	Worker            int            // 0 to Workers-1
}

// Handler executes requests. A worker calls it for one request at a time;
// several workers call it concurrently.
//
// A non-nil error sends no reply. ErrDrop sends DROP, which promises the client
// that nothing was executed; after any other error the client runs into its
// timeout, so put errors of the application into the reply.
//
// The context ends when the server closes, and when the request's router takes
// it back (ErrTakenBack): a hedged request that another server has answered.
type Handler interface {
	ServeR2P2(ctx context.Context, r *ServerRequest) (reply []byte, err error)
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, r *ServerRequest) ([]byte, error)

// ServeR2P2 calls f.
func (f HandlerFunc) ServeR2P2(ctx context.Context, r *ServerRequest) ([]byte, error) {
	return f(ctx, r)
}

// Router is a router a server takes requests from and gives FEEDBACK to.
type Router struct {
	Request  netip.AddrPort // where it takes requests; its packets carry this address
	Feedback netip.AddrPort
}

// Key and Keyring are the shared keys of a service.
type (
	Key     = wire.Key
	Keyring = wire.Keyring
)

// ReadKeyring reads keys by id from a directory of files with 32 hex digits.
func ReadKeyring(dir string, ids []int) (Keyring, error) { return wire.ReadKeyring(dir, ids) }

// ServerConfig configures a Server. Address, FirstPort and Handler are required.
type ServerConfig struct {
	// Address of this server, in Kubernetes the pod IP. Together with a port it
	// is a worker's identity, so it must be a real address.
	Address netip.Addr
	// FirstPort is worker 0's UDP port; worker i listens on FirstPort+i. 0 lets
	// the kernel choose each port.
	FirstPort int
	// Workers is how many requests execute at a time; default 1.
	Workers int
	// QueueDepth is n: how many requests, the executing one included, each
	// worker takes from all routers together; 1 to 64, default 1.
	QueueDepth int
	Handler    Handler
	// Admit, when set, is asked before a request is queued; false means DROP.
	Admit func() bool
	// Routers known at start; SetRouters replaces them.
	Routers []Router
	// Keys sign FEEDBACK and let routers in that are not configured.
	Keys Keyring
	// FeedbackPort of a router known by its tag alone; default 9000.
	FeedbackPort uint16
	// MaxMessage bounds requests and replies in bytes; default 1 MiB.
	MaxMessage int
	// MaxPending bounds the pairs of one worker that are being received, queued
	// or kept for repair; default 4096. Requests beyond it get DROP (M-24).
	MaxPending int
	// MTU of the network, 576 to 1500 and equal on all nodes. 0, the default,
	// reads it from the interface that has Address, and from the default route.
	MTU int
	// Profile of the device decides the timers; default Kernel.
	Profile Profile
	// Log gets the panics of handlers; default slog.Default.
	Log *slog.Logger
}

func (c ServerConfig) withDefaults() (ServerConfig, error) {
	setDefault(&c.Workers, 1)
	setDefault(&c.QueueDepth, 1)
	setDefault(&c.FeedbackPort, 9000)
	setDefault(&c.MaxMessage, 1<<20)
	setDefault(&c.MaxPending, 4096)
	setDefault(&c.Profile, Kernel)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Address = c.Address.Unmap()
	switch {
	case !c.Address.IsValid() || c.Address.IsUnspecified() || c.Address.IsMulticast():
		return c, errors.New("r2p2: Address must be this host's own address, such as the pod IP")
	case c.Workers < 1 || c.Workers > 64:
		return c, errors.New("r2p2: Workers must be 1..64")
	case c.FirstPort < 0 || c.FirstPort+c.Workers-1 > 65535:
		return c, fmt.Errorf("r2p2: FirstPort must leave room for %d ports below 65536; got %d", c.Workers, c.FirstPort)
	case c.QueueDepth < 1 || c.QueueDepth > 64:
		return c, errors.New("r2p2: QueueDepth must be 1..64")
	case c.Handler == nil:
		return c, errors.New("r2p2: Handler is required")
	case checkMTU(c.MTU) != nil:
		return c, checkMTU(c.MTU)
	case c.MaxMessage < 1 || c.MaxPending < 1:
		return c, errors.New("r2p2: MaxMessage and MaxPending must be positive")
	}
	return c, nil
}

// Server answers requests on one UDP port per worker.
type Server struct {
	cfg         ServerConfig
	incarnation uint32
	started     time.Time
	workers     []*worker
	stats       serverStats
	latency     *ll7.Window // first packet in → last packet out
	service     *ll7.Window // hand-off → reply
	traces      traceRing

	ctx     context.Context // of the handlers
	stop    context.CancelFunc
	running sync.WaitGroup
	leaving atomic.Bool
	lastRx  atomic.Int64 // ns since started of the newest request

	mu     sync.Mutex // guards what SetRouters and the like replace
	timers Timers
	closed bool
}

// newIncarnation grows with every start, 15 a second, in step with the servers
// in C: routers tell a new life from a late packet by serial arithmetic
// so a random number would lock half of all restarted servers out.
func newIncarnation(now time.Time) uint32 { return uint32(now.UnixNano() >> incarnationShift) }

// incarnationShift: 2^26 ns are a tick.
const incarnationShift = 26

// incarnationOfNow is what a router hears that is joined now: later than what workers said
// that began before. A switch knows places, and gives that of one of those to another (W-7).
func (s *Server) incarnationOfNow() uint32 {
	return s.incarnation + uint32(time.Since(s.started)>>incarnationShift)
}

// NewServer binds the workers' ports and starts serving. It tells every
// router at once that its workers joined.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.MTU == 0 {
		cfg.MTU = mtuOf(cfg.Address)
	}
	s := &Server{
		cfg: cfg, incarnation: newIncarnation(time.Now()), started: time.Now(), timers: TimersFor(cfg.Profile),
		latency: ll7.NewWindow(), service: ll7.NewWindow(),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for i := range cfg.Workers {
		port := 0
		if cfg.FirstPort != 0 {
			port = cfg.FirstPort + i
		}
		w, err := newWorker(s, i, netip.AddrPortFrom(cfg.Address, uint16(port)))
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		s.workers = append(s.workers, w)
	}
	for _, w := range s.workers {
		s.running.Go(w.readLoop)
		s.running.Go(w.executeLoop)
		s.running.Go(w.feedbackLoop)
	}
	return s, nil
}

// Addrs returns the workers' addresses.
func (s *Server) Addrs() []netip.AddrPort {
	var out []netip.AddrPort
	for _, w := range s.workers {
		out = append(out, w.sock.local)
	}
	return out
}

// MTU is the one in use, as configured or as read when the server was made.
func (s *Server) MTU() int { return s.cfg.MTU }

// Incarnation is the number that distinguishes this life of the server from
// its previous ones.
func (s *Server) Incarnation() uint32 { return s.incarnation }

// Uptime is the age of the server.
func (s *Server) Uptime() time.Duration { return time.Since(s.started) }

// Latency is the window of first packet in → last packet out.
func (s *Server) Latency() *ll7.Window { return s.latency }

// Service is the window of hand-off → reply.
func (s *Server) Service() *ll7.Window { return s.service }

// Settings are what may change while the server runs.
type Settings struct {
	Routers    []Router // at most 16
	Keys       Keyring
	QueueDepth int // 1..64
	Profile    Profile
}

// Apply replaces the settings, whole or not at all. Routers that stay keep
// their counters, new ones are joined.
func (s *Server) Apply(set Settings) error {
	if len(set.Routers) > maxRouters {
		return fmt.Errorf("r2p2: at most %d routers; got %d", maxRouters, len(set.Routers))
	}
	if set.QueueDepth < 1 || set.QueueDepth > 64 {
		return fmt.Errorf("r2p2: QueueDepth must be 1..64; got %d", set.QueueDepth)
	}
	s.mu.Lock()
	s.timers = TimersFor(set.Profile)
	s.mu.Unlock()
	for _, w := range s.workers {
		w.apply(set)
	}
	return nil
}

func (s *Server) timing() Timers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timers
}

// Leave tells every router to send nothing more, with every FEEDBACK from now
// on. Requests that still come are served.
func (s *Server) Leave() {
	s.leaving.Store(true)
	for _, w := range s.workers {
		w.mu.Lock()
		w.tellAll(0)
		w.mu.Unlock()
		w.out.flush()
	}
}

// Leaving says whether Leave was called.
func (s *Server) Leaving() bool { return s.leaving.Load() }

// Backlog is the number of requests being received, queued or executed.
func (s *Server) Backlog() int {
	n := 0
	for _, w := range s.workers {
		n += w.backlog()
	}
	return n
}

// WorkerBacklog is the backlog of worker i.
func (s *Server) WorkerBacklog(i int) int { return s.workers[i].backlog() }

// quiet is how long no request may have come before a server that left stops:
// what was under way to it when the routers heard of it.
const quiet = 500 * time.Millisecond

// Shutdown leaves, serves until the backlog is empty and nothing came for
// 500 ms, or until ctx ends, then closes the server.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Leave()
	left := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		last := s.started.Add(time.Duration(s.lastRx.Load()))
		if s.Backlog() == 0 && time.Since(last) > quiet && time.Since(left) > quiet {
			return s.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.Close())
		case <-tick.C:
		}
	}
}

// Close stops: requests in progress get no reply, their context is cancelled,
// and Close waits for their handlers to return.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stop()
	for _, w := range s.workers {
		w.close()
	}
	s.running.Wait()
	return nil
}
