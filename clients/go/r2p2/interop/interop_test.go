// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/internal/starved"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

var echo = r2p2.HandlerFunc(func(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) { return r.Payload, nil })

func goServer(t *testing.T, workers int, h r2p2.Handler) (*r2p2.Server, int) {
	t.Helper()
	port := ports(t, workers)
	s, err := r2p2.NewServer(r2p2.ServerConfig{Address: loopback, FirstPort: port, Workers: workers, QueueDepth: 3, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, port
}

func goClient(t *testing.T, c r2p2.ClientConfig, to ...netip.AddrPort) *r2p2.Client {
	t.Helper()
	for _, a := range to {
		c.Targets = append(c.Targets, a.String())
	}
	client, err := r2p2.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func body(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// R-16's sizes, and those at the edges of what extensions reserve.
var sizes = []int{0, 1, 14, 1432, 1433, 1464, 1465, 1478, 1479, 4096, 16384, 300_000}

// rejected sums what a side called malformed: between our own programs nothing is.
func rejected(cs []r2p2.Counter) (n uint64) {
	for _, c := range cs {
		if c.Label == "case" {
			n += c.Count
		}
	}
	return n
}

// echoed calls with a body of n bytes and checks the answer; it tells whether a
// starved machine lost one before.
func echoed(t *testing.T, c *r2p2.Client, n int) (disturbed bool) {
	t.Helper()
	return starved.Answered(t, func() error {
		got, err := c.Call(t.Context(), body(n))
		if err == nil && !bytes.Equal(got, body(n)) {
			t.Errorf("%d bytes: %d other bytes back", n, len(got))
		}
		return err
	})
}

// Go client, C server, with and without extensions.
func TestGoClientCServer(t *testing.T) {
	_, port := cserver(t, 1, "--reply-bytes=echo")
	at := netip.AddrPortFrom(loopback, uint16(port))
	for _, legacy := range []bool{false, true} {
		cfg := r2p2.ClientConfig{Timeout: 20 * time.Second, NoExtensions: legacy}
		first := goClient(t, cfg, at) // gets late replies of a server that is slow to start
		eventually(t, "first answer", func() bool {
			_, err := first.Do(t.Context(), &r2p2.Request{Timeout: 100 * time.Millisecond})
			return err == nil
		})
		c, disturbed := goClient(t, cfg, at), false
		for _, n := range sizes {
			disturbed = echoed(t, c, n) || disturbed
		}
		if n := rejected(c.Counters()); n != 0 && !disturbed {
			t.Errorf("legacy %v: %d packets of the C server rejected: %v", legacy, n, c.Counters())
		}
	}
}

// C client, Go server, single- and multi-packet, with and without extensions.
func TestCClientGoServer(t *testing.T) {
	s, port := goServer(t, 1, echo)
	disturbed := false
	for _, c := range [][]string{
		{"--request-bytes=0"}, {"--request-bytes=64"}, {"--request-bytes=1465"}, {"--request-bytes=20000", "--rate=50"},
		{"--request-bytes=64", "--legacy"}, {"--request-bytes=5000", "--legacy", "--rate=50"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			args := append([]string{fmt.Sprintf("--target=127.0.0.1:%d", port), "--rate=300", "--duration=1s", "--timeout=20s", "--verify"}, c...)
			_, again := answeredLoad(t, args...)
			disturbed = again || disturbed
		})
	}
	if n := rejected(s.Counters()); n != 0 && !disturbed {
		t.Errorf("%d packets of the C client rejected: %v", n, s.Counters())
	}
}

// settled waits until a router's books are clear: everything sent is done.
func settled(t *testing.T, r *crouter, least uint64) {
	t.Helper()
	eventually(t, "router's books settle", func() bool {
		var sent, done uint64
		for _, m := range r.state(t).Members {
			if m.Outstanding != 0 || m.Lost != 0 {
				return false
			}
			sent, done = sent+m.Sent, done+m.Done
		}
		return sent == done && sent >= least
	})
}

func joined(t *testing.T, r *crouter, workers int) {
	t.Helper()
	eventually(t, "workers join", func() bool {
		n := 0
		for _, m := range r.state(t).Members {
			if m.Joined && m.Eligible {
				n++
			}
		}
		return n == workers
	})
}

// underCtl makes a Go server configurable and returns its control connection.
func underCtl(t *testing.T, s *r2p2.Server, keys string) net.Conn {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "server.sock")
	l, err := ctl.Serve(s, ctl.Options{Socket: socket, KeyDir: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := net.Dial("unixpacket", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// C client → C router → Go server, configured as in a cluster: one document
// for both, FEEDBACK and forwarded requests under key tags.
func TestCClientCRouterGoServer(t *testing.T) {
	keys := keyDir(t)
	r := newCRouter(t, keys)
	s, port := goServer(t, 4, r2p2.HandlerFunc(func(_ context.Context, q *r2p2.ServerRequest) ([]byte, error) {
		time.Sleep(2 * time.Millisecond)
		return q.Payload, nil
	}))
	doc := document(3, []int{1}, []*crouter{r}, config.Member{Address: "127.0.0.1", FirstPort: port, Workers: 4, Name: "go-server"})
	apply(t, underCtl(t, s, keys), doc)
	apply(t, r.conn, doc)
	joined(t, r, 4)
	target := fmt.Sprintf("--target=127.0.0.1:%d", r.request)
	small := runLoad(t, target, "--rate=500", "--duration=2s", "--timeout=20s", "--verify")
	small.lossless(t)
	legacy := runLoad(t, target, "--rate=200", "--duration=1s", "--timeout=20s", "--verify", "--legacy")
	legacy.lossless(t)
	large, disturbed := answeredLoad(t, target, "--rate=50", "--duration=1s", "--timeout=20s", "--verify", "--request-bytes=20000")
	all := small.Offered + large.Offered + legacy.Offered
	settled(t, r, all)
	for i := range 4 {
		if st := s.Routers(i); len(st) != 1 || st[0].Received == 0 || st[0].Received != st[0].Served {
			t.Errorf("worker %d: %+v (R-38)", i, st)
		}
	}
	if disturbed {
		return // what follows counts what was lost, too
	}
	if n := rejected(s.Counters()); n != 0 {
		t.Errorf("%d packets rejected by the Go server: %v", n, s.Counters())
	}
	var h ctl.Histogram
	ask(t, r.conn, `{"v":1,"op":"histogram","name":"latency","windowSeconds":30}`, &h)
	if !h.OK || h.Histogram.Total() != all || h.Histogram.Inf() != 0 || h.Requests != h.Histogram.Total() {
		t.Errorf("router's histogram: %d values of %d requests (%v)", h.Histogram.Total(), all, h.Error)
	}
	compare(t, h.Histogram, small.Histogram)
	secondBySecond(t, r, &h)
}

// secondBySecond adds a window up from its single seconds, as the sidecar does
// for Prometheus: each counts exactly once.
func secondBySecond(t *testing.T, r *crouter, whole *ctl.Histogram) {
	t.Helper()
	sum := &ll7.Histogram{}
	for at := whole.Second; at > 0 && at+30 > whole.Second; at-- {
		var one ctl.Histogram
		ask(t, r.conn, fmt.Sprintf(`{"v":1,"op":"histogram","name":"latency","windowSeconds":1,"endSecond":%d}`, at), &one)
		if !one.OK || one.Second < whole.Second {
			t.Fatalf("second %d: %+v", at, one.Error)
		}
		sum.Merge(one.Histogram)
	}
	if sum.Total() != whole.Histogram.Total() {
		t.Errorf("the seconds add up to %d, the window holds %d", sum.Total(), whole.Histogram.Total())
	}
}

// compare holds the two C programs' histograms against one another through the
// Go decoder: the client sees what the router sees and a little more.
func compare(t *testing.T, router *ll7.Histogram, client json.RawMessage) {
	t.Helper()
	var mine ll7.Histogram
	if err := json.Unmarshal(client, &mine); err != nil {
		t.Fatal(err)
	}
	a, _ := router.Percentile("50")
	b, _ := mine.Percentile("50")
	if a.Nanoseconds < 2_000_000 || b.Nanoseconds < 2_000_000 {
		t.Errorf("medians %v and %v below the service time of 2 ms", a, b)
	}
}

// A Go server without the key gets no credit: its FEEDBACK is not believed.
func TestUntaggedFeedbackIsRefused(t *testing.T) {
	keys := keyDir(t)
	r := newCRouter(t, keys)
	s, port := goServer(t, 1, echo)
	apply(t, r.conn, document(3, []int{1}, []*crouter{r}, config.Member{Address: "127.0.0.1", FirstPort: port, Workers: 1, Name: "go-server"}))
	to := r2p2.Router{Request: r.addr(), Feedback: netip.AddrPortFrom(loopback, uint16(r.feedback))}
	if err := s.Apply(r2p2.Settings{Routers: []r2p2.Router{to}, QueueDepth: 3}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "untagged FEEDBACK counted", func() bool {
		var c ctl.Counters
		ask(t, r.conn, `{"v":1,"op":"counters"}`, &c)
		for _, s := range c.Counters {
			if s.Labels["reason"] == "TAG" && s.Value > 0 {
				return true
			}
		}
		return false
	})
	if m := r.state(t).Members[0]; m.Joined {
		t.Errorf("joined without a tag: %+v", m)
	}
	wrong := r2p2.Settings{Routers: []r2p2.Router{to}, QueueDepth: 3, Keys: r2p2.Keyring{{ID: 1, Bytes: [16]byte{9}}}}
	if err := s.Apply(wrong); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if m := r.state(t).Members[0]; m.Joined {
		t.Errorf("joined with a wrong tag: %+v", m)
	}
}

// Go client → two C routers → C server and Go server side by side; one router
// is killed, the client moves on by itself and never issues a request twice.
func TestGoClientFailsOverBetweenCRouters(t *testing.T) {
	keys := keyDir(t)
	a, b := newCRouter(t, keys), newCRouter(t, keys)
	routers := []*crouter{a, b}
	var executed atomic.Int64
	s, port := goServer(t, 2, r2p2.HandlerFunc(func(_ context.Context, q *r2p2.ServerRequest) ([]byte, error) {
		executed.Add(1)
		return q.Payload, nil
	}))
	doc := document(4, []int{1}, routers, config.Member{Address: "127.0.0.1", FirstPort: port, Workers: 2, Name: "go-server"})
	apply(t, underCtl(t, s, keys), doc)
	for _, r := range routers {
		apply(t, r.conn, doc)
		joined(t, r, 2)
	}
	// Long enough for a busy machine; only the first calls to the killed router wait so long.
	c := goClient(t, r2p2.ClientConfig{Timeout: 5 * time.Second, Sockets: 2}, a.addr(), b.addr())
	for i := range 200 {
		if _, err := c.Do(t.Context(), &r2p2.Request{Payload: fmt.Appendf(nil, "%d", i), Timeout: time.Minute}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	settled(t, a, 100)
	settled(t, b, 100)
	a.signal(syscall.SIGKILL)
	<-a.done
	failures := 0
	for i := range 200 {
		if _, err := c.Call(t.Context(), fmt.Appendf(nil, "%d", i)); err != nil {
			failures++
		}
	}
	if failures > 3 {
		t.Errorf("%d calls failed after a router was killed, want at most 3", failures)
	}
	if n := executed.Load(); n != int64(400-failures) {
		t.Errorf("%d requests executed, want %d: each one once (R-5)", n, 400-failures)
	}
	settled(t, b, 300-uint64(failures))
}

// A rolling restart loses no RPC: one Go server leaves while the load goes on
// and another has joined.
func TestGoServersRollUnderLoad(t *testing.T) {
	keys := keyDir(t)
	r := newCRouter(t, keys)
	slow := r2p2.HandlerFunc(func(_ context.Context, q *r2p2.ServerRequest) ([]byte, error) {
		time.Sleep(time.Millisecond)
		return q.Payload, nil
	})
	old, oldPort := goServer(t, 2, slow)
	next, nextPort := goServer(t, 2, slow)
	doc := document(3, []int{1}, []*crouter{r},
		config.Member{Address: "127.0.0.1", FirstPort: oldPort, Workers: 2, Name: "old"},
		config.Member{Address: "127.0.0.1", FirstPort: nextPort, Workers: 2, Name: "next"})
	apply(t, r.conn, doc)
	apply(t, underCtl(t, old, keys), doc)
	joined(t, r, 2)
	var wait sync.WaitGroup
	wait.Go(func() {
		time.Sleep(500 * time.Millisecond)
		apply(t, underCtl(t, next, keys), doc)
		joined(t, r, 4)
		if err := old.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	l := runLoad(t, fmt.Sprintf("--target=127.0.0.1:%d", r.request), "--rate=400", "--duration=3s", "--timeout=20s", "--verify")
	wait.Wait()
	l.lossless(t)
	for _, m := range r.state(t).Members {
		if m.Port == oldPort && m.Sent == 0 || m.Port == nextPort && m.Sent == 0 {
			t.Errorf("worker %d got nothing: %+v", m.Port, m)
		}
	}
}
