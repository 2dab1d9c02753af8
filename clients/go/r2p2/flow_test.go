// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// told answers every request with what answer makes of it.
type told struct {
	sock  *net.UDPConn
	at    netip.AddrPort
	asked chan bool // whether each request asked for flow control
}

// tell starts a server of one packet a request. answer names the type of the
// packet and the signal in it, nil for none.
func tell(t *testing.T, answer func(n int) (wire.Type, *wire.FlowSignal)) *told {
	t.Helper()
	sock, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	s := &told{sock: sock, at: plain(sock.LocalAddr().(*net.UDPAddr).AddrPort()), asked: make(chan bool, 4096)}
	t.Cleanup(func() { sock.Close() })
	go func() {
		buf := make([]byte, 2048)
		for n := 0; ; n++ {
			size, from, err := sock.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			var h wire.Header
			if h.Decode(buf[:size], wire.RoleServer) != wire.OK || h.Type != wire.Request {
				continue
			}
			s.asked <- h.Options.Present&wire.HasFlow != 0 && h.Options.Flow == wire.FlowAsk
			kind, signal := answer(n)
			out := wire.Header{Type: kind, First: true, Last: true, Ext: true, ReqID: h.ReqID, Count: 1}
			if kind == wire.Drop {
				out.Policy = wire.Sticky
			}
			if signal != nil {
				out.Options.Present, out.Options.Flow = wire.HasFlow, *signal
			}
			b, _ := out.Append(nil)
			_, _ = sock.WriteToUDPAddrPort(append(b, "DROP"...), from)
		}
	}()
	return s
}

func always(kind wire.Type, signal wire.FlowSignal) func(int) (wire.Type, *wire.FlowSignal) {
	return func(int) (wire.Type, *wire.FlowSignal) { return kind, &signal }
}

func flowClient(t *testing.T, target netip.AddrPort) *Client {
	t.Helper()
	c, err := Dial(t.Context(), ClientConfig{Targets: []string{target.String()}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const silence = wire.FlowSignal(0xffff) // 32.767 ms, the longest

// F-40, F-42, F-43: after a silence nothing leaves until it is over, and the caller learns when that is.
func TestSilenceIsKept(t *testing.T) {
	s := tell(t, always(wire.Reply, silence))
	c := flowClient(t, s.at)
	if _, err := c.TryDo(t.Context(), &Request{}); err != nil {
		t.Fatal(err)
	}
	p := c.ports[0]
	until := func(at time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := p.flows[s.at].voices[s.at]
		if !s.silent || s.until.Before(time.Now().Add(-time.Hour)) {
			t.Fatalf("no silence: %+v", s)
		}
		s.until = at
	}
	until(time.Now().Add(time.Hour)) // however long the machine sleeps
	_, err := c.TryDo(t.Context(), &Request{})
	var again *AgainError
	if !errors.As(err, &again) || again.After <= 0 || again.After > time.Hour {
		t.Fatalf("second request: %v", err)
	}
	until(time.Now().Add(20 * time.Millisecond))
	if _, err := c.DoInTurn(t.Context(), &Request{}); err != nil {
		t.Fatalf("in turn: %v", err)
	}
	if !<-s.asked {
		t.Error("the request did not ask (F-49)")
	}
}

// A context ends the wait for a turn.
func TestTurnEndsWithItsContext(t *testing.T) {
	s := tell(t, always(wire.Drop, silence))
	c := flowClient(t, s.at)
	if _, err := c.TryDo(t.Context(), &Request{}); !errors.Is(err, ErrDropped) {
		t.Fatal(err)
	}
	p := c.ports[0]
	p.mu.Lock()
	p.flows[s.at].voices[s.at].until = time.Now().Add(time.Hour)
	p.mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := c.DoInTurn(ctx, &Request{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	ctx, stop = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	_, err = c.DoInTurn(ctx, &Request{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended while waiting: %v", err)
	}
}

// F-49: a server that says nothing of flow control holds nobody back, and plain requests do not ask.
func TestOldServerIsNotThrottled(t *testing.T) {
	s := tell(t, func(int) (wire.Type, *wire.FlowSignal) { return wire.Reply, nil })
	c := flowClient(t, s.at)
	if _, err := c.TryDo(t.Context(), &Request{}); err != nil {
		t.Fatal(err)
	}
	var all []*Future
	for range 200 {
		f, err := c.TryGo(t.Context(), &Request{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	for _, f := range all {
		<-f.Done()
	}
	for range 201 {
		<-s.asked
	}
	if _, err := c.Call(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if <-s.asked {
		t.Error("a plain request asked for flow control")
	}
}

// F-48: who is silent is passed over for another replica.
func TestAnotherReplica(t *testing.T) {
	quiet, ready := tell(t, always(wire.Reply, silence)), tell(t, always(wire.Reply, 1000))
	c := flowClient(t, ready.at)
	if _, err := c.TryDo(t.Context(), &Request{To: quiet.at}); err != nil {
		t.Fatal(err)
	}
	p := c.ports[0]
	p.mu.Lock()
	p.flows[quiet.at].voices[quiet.at].until = time.Now().Add(time.Hour)
	p.mu.Unlock()
	for range 50 {
		f, err := c.TryAny(t.Context(), &Request{}, []netip.AddrPort{quiet.at, ready.at})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := f.Wait(); err != nil || r.From != ready.at {
			t.Fatalf("answered by %v, %v", r, err)
		}
	}
}

// Behind a router each server has its own count, and the router's silence is everybody's.
func TestServersBehindARouter(t *testing.T) {
	now := time.Now()
	router := netip.MustParseAddrPort("10.0.0.1:8000")
	a, b := netip.MustParseAddrPort("10.0.0.2:8000"), netip.MustParseAddrPort("10.0.0.3:8000")
	target := newFlowTarget(router)
	first, _ := target.take(now)
	if first == nil {
		t.Fatal("no token to begin with")
	}
	if s, _ := target.take(now); s != nil {
		t.Fatal("two tokens to begin with")
	}
	first.unanswered--
	target.signalled(now, a, 3)
	target.signalled(now, b, 2)
	for i := range 5 {
		if s, wait := target.take(now); s == nil {
			t.Fatalf("token %d of 5: wait %v", i, wait)
		}
	}
	if s, wait := target.take(now); s != nil || wait <= 0 {
		t.Fatalf("a sixth one: %v", wait)
	}
	target.signalled(now, a, 10)
	target.signalled(now, router, silence)
	if s, wait := target.take(now); s != nil || wait != 32767*time.Microsecond {
		t.Fatalf("the router's silence: wait %v", wait)
	}
	if s, _ := target.take(now.Add(33 * time.Millisecond)); s == nil {
		t.Fatal("after it")
	}
	// M-25, F-31: window 0 is a silence of 500 µs.
	target.signalled(now, router, 0)
	if _, wait := target.take(now); wait != wire.FlowPeriod {
		t.Fatalf("window 0: %v", wait)
	}
}

// Servers come and go behind a router; what is kept of them is bounded.
func TestVoicesAreBounded(t *testing.T) {
	now := time.Now()
	target := newFlowTarget(netip.MustParseAddrPort("10.0.0.1:8000"))
	for i := range 1000 {
		target.signalled(now, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 8000), 1)
		now = now.Add(time.Millisecond)
	}
	if len(target.order) != flowVoices || len(target.voices) != flowVoices {
		t.Fatalf("%d, %d", len(target.order), len(target.voices))
	}
	target.signalled(now.Add(time.Minute), netip.MustParseAddrPort("10.0.0.2:8000"), 1)
	if len(target.order) != 1 {
		t.Fatalf("%d are remembered after a minute", len(target.order))
	}
}
