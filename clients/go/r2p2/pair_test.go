// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/internal/starved"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

var loopback = netip.MustParseAddr("127.0.0.1")

var upper = HandlerFunc(func(_ context.Context, r *ServerRequest) ([]byte, error) {
	return bytes.ToUpper(r.Payload), nil
})

func newServer(t *testing.T, c ServerConfig) *Server {
	t.Helper()
	c.Address = loopback
	if c.Handler == nil {
		c.Handler = upper
	}
	s, err := NewServer(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func dial(t *testing.T, c ClientConfig, to ...netip.AddrPort) *Client {
	t.Helper()
	for _, a := range to {
		c.Targets = append(c.Targets, a.String())
	}
	client, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func total(cs []Counter, name, value string) (n uint64) {
	for _, c := range cs {
		if c.Name == name && (value == "" || c.Value == value) {
			n += c.Count
		}
	}
	return n
}

func body(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

// and §4: every size on either side of a packet boundary, both ways.
func TestSizesBothWays(t *testing.T) {
	s := newServer(t, ServerConfig{})
	disturbed := false
	for _, legacy := range []bool{false, true} {
		c := dial(t, ClientConfig{Timeout: 20 * time.Second, NoExtensions: legacy}, s.Addrs()[0])
		for _, n := range []int{0, 1, 14, 1432, 1433, 1464, 1465, 1478, 1479, 4096, 16384, 1 << 20} {
			disturbed = starved.Answered(t, func() error {
				got, err := c.Call(t.Context(), body(n))
				if err == nil && !bytes.Equal(got, bytes.ToUpper(body(n))) {
					t.Errorf("legacy %v, %d bytes: %d other bytes back", legacy, n, len(got))
				}
				return err
			}) || disturbed
		}
		if bad := total(c.Counters(), "client_rejected_total", ""); bad != 0 && !disturbed {
			t.Errorf("client rejected %d packets: %v", bad, c.Counters())
		}
	}
	if bad := total(s.Counters(), "server_rejected_total", ""); bad != 0 && !disturbed {
		t.Errorf("server rejected %d packets: %v", bad, s.Counters())
	}
}

// exactly one outcome each, with many requests outstanding at once.
func TestManyOutstanding(t *testing.T) {
	s := newServer(t, ServerConfig{Workers: 4, MaxPending: 4096})
	c := dial(t, ClientConfig{Timeout: 20 * time.Second, Sockets: 3}, s.Addrs()...)
	futures := make([]*Future, 2000)
	for i := range futures {
		futures[i] = c.Go(t.Context(), &Request{Payload: fmt.Appendf(nil, "request %d", i)})
	}
	for i, f := range futures {
		r, err := f.Wait()
		if err != nil || string(r.Payload) != strings.ToUpper(fmt.Sprintf("request %d", i)) {
			t.Fatalf("request %d: %v %v", i, r, err)
		}
	}
	// A request is counted a moment after its caller has the reply.
	ended := func() uint64 { return uint64(total(c.Counters(), "client_requests_ended_total", "success")) }
	for end := time.Now().Add(time.Minute); ended() < 2000 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := ended(); n != 2000 {
		t.Errorf("%d successes counted, want 2000", n)
	}
}

// what each failure is called, and that it comes once.
func TestFailures(t *testing.T) {
	release := make(chan struct{})
	var log lockedBuffer
	s := newServer(t, ServerConfig{Workers: 1, Log: slog.New(slog.NewTextHandler(&log, nil)), Handler: HandlerFunc(func(ctx context.Context, r *ServerRequest) ([]byte, error) {
		switch string(r.Payload) {
		case "drop":
			return nil, ErrDrop
		case "error":
			return nil, errors.New("lost half way")
		case "panic":
			panic("handler")
		case "wait":
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return []byte("ok"), nil
	})})
	c := dial(t, ClientConfig{Timeout: time.Minute}, s.Addrs()[0])
	for _, step := range []struct {
		payload string
		timeout time.Duration
		want    error
	}{{"drop", 0, ErrDropped}, {"error", 400 * time.Millisecond, ErrTimeout}, {"panic", 400 * time.Millisecond, ErrTimeout}, {"fine", 0, nil}} {
		if _, err := c.Do(t.Context(), &Request{Payload: []byte(step.payload), Timeout: step.timeout}); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.payload, err, step.want)
		}
	}
	if !strings.Contains(log.String(), "handler panicked") || !strings.Contains(log.String(), "pair_test.go") {
		t.Errorf("a panic must be told with its stack: %s", log.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := c.Go(ctx, &Request{Payload: []byte("wait"), Timeout: time.Minute})
	cancel()
	if _, err := f.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Do(short, &Request{Payload: []byte("x"), Timeout: time.Minute}); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	close(release)
	if _, err := c.Do(t.Context(), &Request{Payload: body(1<<20 + 1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, err := c.Do(t.Context(), &Request{Policy: wire.ReplicatedWrite}); !errors.Is(err, ErrDropped) {
		t.Errorf("R-12: a policy that is not implemented: %v", err)
	}
	f = c.Go(t.Context(), &Request{Payload: []byte("late"), Timeout: time.Minute})
	c.Close()
	if _, err := f.Wait(); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := c.Call(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("call after close: %v", err)
	}
}

// class and trace reach the handler and come back.
func TestOptionsAreEchoed(t *testing.T) {
	s := newServer(t, ServerConfig{Handler: HandlerFunc(func(_ context.Context, r *ServerRequest) ([]byte, error) {
		return fmt.Appendf(nil, "%d %d %d", r.Class, r.ClassFlags, r.Trace), nil
	})})
	c := dial(t, ClientConfig{}, s.Addrs()[0])
	r, err := c.Do(t.Context(), &Request{WithClass: true, Class: 7, ClassFlags: wire.ClassNonDroppable, Trace: 99})
	if err != nil || string(r.Payload) != "7 1 99" || r.Class != 7 || r.ClassFlags != 1 || r.Trace != 99 {
		t.Errorf("%+v %v", r, err)
	}
}

// lossy makes a socket lose each wanted packet once, the first time it is sent.
func lossy(on *socket, want func(p []byte) bool) *atomic.Int64 {
	var mu sync.Mutex
	seen := map[string]bool{}
	lost := &atomic.Int64{}
	lose := func(p []byte, _ netip.AddrPort) bool {
		mu.Lock()
		defer mu.Unlock()
		if !want(p) || seen[string(p)] {
			return false
		}
		seen[string(p)] = true
		lost.Add(1)
		return true
	}
	on.lose.Store(&lose)
	return lost
}

func kind(p []byte) wire.Type { return wire.Type(p[2] >> 4) }

func first(p []byte) bool { return p[3]&0x80 != 0 }

// SACK repairs lost REQn, REPLY packets (the first one too) and a
// lost REQRDY.
func TestSackRepairs(t *testing.T) {
	for _, c := range []struct {
		name           string
		client, server func(p []byte) bool
	}{
		{"REQn", func(p []byte) bool { return kind(p) == wire.Request && !first(p) && p[7]%3 == 1 }, nil},
		{"all REQn", func(p []byte) bool { return kind(p) == wire.Request && !first(p) }, nil},
		{"REPLY packets", nil, func(p []byte) bool { return kind(p) == wire.Reply && !first(p) && p[7]%2 == 0 }},
		{"first REPLY packet", nil, func(p []byte) bool { return kind(p) == wire.Reply && first(p) }},
		{"REQRDY", nil, func(p []byte) bool { return kind(p) == wire.ReqRdy }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, ServerConfig{Profile: SRIOV})
			client := dial(t, ClientConfig{Timeout: time.Minute, Profile: Kernel}, s.Addrs()[0])
			client.timers.RTO, client.timers.GC = 100*time.Millisecond, 20*time.Second
			s.mu.Lock()
			s.timers.RTO, s.timers.GC = 100*time.Millisecond, 20*time.Second
			s.mu.Unlock()
			var lost *atomic.Int64
			if c.client != nil {
				lost = lossy(client.ports[0].sock, c.client)
			} else {
				lost = lossy(s.workers[0].sock, c.server)
			}
			got, err := client.Call(t.Context(), body(20000))
			if err != nil || !bytes.Equal(got, bytes.ToUpper(body(20000))) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if lost.Load() == 0 {
				t.Error("nothing was lost: the test tests nothing")
			}
		})
	}
}

// after three rounds the pair fails, and says that the request ran.
func TestRepairGivesUp(t *testing.T) {
	s := newServer(t, ServerConfig{})
	client := dial(t, ClientConfig{Timeout: 10 * time.Second}, s.Addrs()[0])
	client.timers.RTO = 5 * time.Millisecond
	lose := func(p []byte, _ netip.AddrPort) bool { return kind(p) == wire.Reply && !first(p) && p[7] == 3 }
	s.workers[0].sock.lose.Store(&lose)
	if _, err := client.Call(t.Context(), body(20000)); !errors.Is(err, ErrIncomplete) {
		t.Errorf("%v, want ErrIncomplete", err)
	}
	if n := total(client.Counters(), "client_sacks_sent_total", ""); n != 3 {
		t.Errorf("%d SACKs, want 3", n)
	}
}

// no id twice within the quarantine, whatever is pending.
func TestIDsRespectTheQuarantine(t *testing.T) {
	a := newIDs(time.Second)
	now := time.Now()
	seen := map[uint16]bool{}
	for range 1 << 16 {
		id, ok := a.take(now)
		if !ok || seen[id] {
			t.Fatalf("id %d after %d: %v", id, len(seen), ok)
		}
		seen[id] = true
		a.release(id, now)
	}
	if _, ok := a.take(now.Add(999 * time.Millisecond)); ok {
		t.Error("an id came back within its quarantine")
	}
	if _, ok := a.take(now.Add(time.Second)); !ok {
		t.Error("no id after the quarantine")
	}
}

// DESIGN §4: clients stay on one router and move on after three timeouts in a
// row, or at once after an ICMP error.
func TestFailOver(t *testing.T) {
	alive := newServer(t, ServerConfig{})
	deaf, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	silent := deaf.LocalAddr().(*net.UDPAddr).AddrPort()
	c := dial(t, ClientConfig{Timeout: 50 * time.Millisecond}, alive.Addrs()[0], silent)
	c.ports[0].mu.Lock()
	c.ports[0].router = silent
	c.ports[0].mu.Unlock()
	for i := range 3 {
		if _, err := c.Call(t.Context(), nil); !errors.Is(err, ErrTimeout) {
			t.Fatalf("call %d to a deaf router: %v; nothing is re-issued (R-5)", i, err)
		}
	}
	for range 5 {
		if _, err := c.Do(t.Context(), &Request{Timeout: time.Minute}); err != nil {
			t.Fatalf("after three timeouts: %v", err)
		}
	}
	deaf.Close()
	c.ports[0].mu.Lock()
	c.ports[0].router = silent
	c.ports[0].mu.Unlock()
	_, _ = c.Call(t.Context(), nil)
	for end := time.Now().Add(time.Minute); total(c.Counters(), "client_unreachable_total", "") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no ICMP error was seen")
		}
	}
	if _, err := c.Do(t.Context(), &Request{Timeout: time.Minute}); err != nil {
		t.Errorf("after an ICMP error: %v", err)
	}
}

// names is a resolver whose answers change.
type names struct {
	mu  sync.Mutex
	ips map[string][]netip.Addr
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.ips[host]) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return n.ips[host], nil
}

// A router that left DNS is left within a resolve interval; DNS being away
// changes nothing.
func TestNamesAreResolvedAgain(t *testing.T) {
	one := netip.MustParseAddr("127.0.0.1")
	two := netip.MustParseAddr("127.0.0.2")
	n := &names{ips: map[string][]netip.Addr{"echo": {one}}}
	c := dial(t, ClientConfig{Targets: []string{"echo:9"}, Resolver: n, ResolveInterval: 10 * time.Millisecond})
	n.mu.Lock()
	n.ips["echo"] = []netip.Addr{two}
	n.mu.Unlock()
	deadline := time.Now().Add(time.Minute)
	for len(c.Routers()) != 1 || c.Routers()[0].Addr() != two {
		if time.Now().After(deadline) {
			t.Fatalf("still %v", c.Routers())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if got, ok := c.targets.stay(netip.AddrPortFrom(one, 9)); !ok || got.Addr() != two {
		t.Errorf("a socket stays on %v, which is no longer listed", got)
	}
	n.mu.Lock()
	n.ips["echo"] = nil
	n.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	if len(c.Routers()) != 1 {
		t.Errorf("DNS is away and so are the routers: %v", c.Routers())
	}
	if _, err := Dial(t.Context(), ClientConfig{Targets: []string{"nowhere:9"}, Resolver: n}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestTargets(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.1:8000", "10.0.0.1:81": "10.0.0.1:81", "fd00::1": "[fd00::1]:8000", "[fd00::1]:9": "[fd00::1]:9",
		"echo.demo.svc": "echo.demo.svc:8000", "echo:9": "echo:9", ":9": "", "echo:0": "", "echo:x": "", "": "",
	} {
		got, err := parseTarget(text)
		shown := ""
		if err == nil {
			shown = net.JoinHostPort(got.host, fmt.Sprint(got.port))
			if got.ip.IsValid() {
				shown = netip.AddrPortFrom(got.ip, got.port).String()
			}
		}
		if shown != want {
			t.Errorf("%q gives %q (%v), want %q", text, shown, err, want)
		}
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	client := func(change func(c *ClientConfig)) error {
		c := ClientConfig{Targets: []string{"127.0.0.1"}}
		change(&c)
		return second(c.withDefaults())
	}
	server := func(change func(c *ServerConfig)) error {
		c := ServerConfig{Handler: upper, Address: loopback}
		change(&c)
		return second(c.withDefaults())
	}
	for _, c := range []struct {
		field string // empty: it is right
		err   error
	}{
		{"Targets", second(Dial(t.Context(), ClientConfig{}))},
		{"Targets[0]", second(Dial(t.Context(), ClientConfig{Targets: []string{":"}}))},
		{"Timeout", client(func(c *ClientConfig) { c.Timeout = -1 })},
		{"Sockets", client(func(c *ClientConfig) { c.Sockets = -1 })},
		{"Sockets", client(func(c *ClientConfig) { c.Sockets = 1025 })},
		{"", client(func(c *ClientConfig) { c.Sockets = 1024 })},
		{"MTU", client(func(c *ClientConfig) { c.MTU = 1 })},
		{"MaxMessage", client(func(c *ClientConfig) { c.MaxMessage = -1 })},
		{"MaxMessage", client(func(c *ClientConfig) { c.MaxMessage = 64<<20 + 1 })},
		{"", client(func(c *ClientConfig) { c.MaxMessage = 64 << 20 })},
		{"", client(func(c *ClientConfig) { c.MaxMessage = 1 })},
		{"ResolveInterval", client(func(c *ClientConfig) { c.ResolveInterval = -1 })},
		{"FailAfter", client(func(c *ClientConfig) { c.FailAfter = -1 })},
		{"Address", second(NewServer(ServerConfig{Handler: upper}))},
		{"Workers", server(func(c *ServerConfig) { c.Workers = 65 })},
		{"", server(func(c *ServerConfig) { c.Workers = 64 })},
		{"QueueDepth", server(func(c *ServerConfig) { c.QueueDepth = 65 })},
		{"", server(func(c *ServerConfig) { c.QueueDepth = 64 })},
		{"FirstPort", server(func(c *ServerConfig) { c.FirstPort, c.Workers = 65535, 2 })},
		{"", server(func(c *ServerConfig) { c.FirstPort, c.Workers = 65534, 2 })},
		{"MTU", server(func(c *ServerConfig) { c.MTU = 1 })},
		{"MaxMessage", server(func(c *ServerConfig) { c.MaxMessage = -1 })},
		{"MaxPending", server(func(c *ServerConfig) { c.MaxPending = -1 })},
		{"", server(func(c *ServerConfig) { c.MaxMessage, c.MaxPending = 1, 1 })},
		{"Handler", second(NewServer(ServerConfig{Address: loopback}))},
	} {
		if (c.err == nil) != (c.field == "") || c.err != nil && !strings.Contains(c.err.Error(), c.field) {
			t.Errorf("%v, want %q named", c.err, c.field)
		}
	}
}

// What can never be sent fails at once.
func TestRequestsThatFailAtOnce(t *testing.T) {
	s := newServer(t, ServerConfig{})
	c := dial(t, ClientConfig{MaxMessage: 100, Timeout: time.Minute}, s.Addrs()[0])
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, one := range []struct {
		name string
		ctx  context.Context
		r    Request
		ok   bool
	}{
		{"the longest", t.Context(), Request{Payload: body(100)}, true},
		{"too long", t.Context(), Request{Payload: body(101)}, false},
		{"the last policy", t.Context(), Request{Policy: wire.ReplicatedRead + 1}, false},
		{"nobody waits", over, Request{}, false},
	} {
		done := make(chan error, 1)
		go func() { done <- second(c.Go(one.ctx, &one.r).Wait()) }()
		if err := <-done; (err == nil) != one.ok || errors.Is(err, ErrTimeout) {
			t.Errorf("%s: %v", one.name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
