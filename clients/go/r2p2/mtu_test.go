// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

func TestR13MTUBounds(t *testing.T) {
	for _, c := range []struct {
		mtu int
		ok  bool
	}{{0, true}, {576, true}, {1400, true}, {1500, true}, {575, false}, {1501, false}, {9000, false}, {-1, false}} {
		_, client := ClientConfig{MTU: c.mtu}.withDefaults()
		_, server := ServerConfig{MTU: c.mtu, Address: loopback, Handler: upper}.withDefaults()
		if (client == nil) != c.ok || (server == nil) != c.ok {
			t.Errorf("%d: client %v, server %v, want ok %v", c.mtu, client, server, c.ok)
		}
	}
}

func TestR13MTUIsClamped(t *testing.T) {
	for _, c := range []struct{ read, want int }{{0, 1500}, {68, 576}, {576, 576}, {1376, 1376}, {1500, 1500}, {65536, 1500}} {
		if got := clampMTU(c.read); got != c.want {
			t.Errorf("clampMTU(%d) = %d, want %d", c.read, got, c.want)
		}
	}
	for _, c := range []struct{ a, b, want int }{{0, 0, 0}, {0, 1400, 1400}, {1400, 0, 1400}, {1400, 1450, 1400}, {1450, 1400, 1400}} {
		if got := smaller(c.a, c.b); got != c.want {
			t.Errorf("smaller(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// Every address of this machine leads to its own interface.
func TestR13MTUOfOwnAddresses(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			p := netip.MustParsePrefix(a.String())
			if got := interfaceMTU(p.Addr()); got != i.MTU {
				t.Errorf("%s of %s: %d, want %d", p, i.Name, got, i.MTU)
			}
		}
	}
	for _, ip := range []string{"192.0.2.77", "2001:db8::77"} {
		if got := interfaceMTU(netip.MustParseAddr(ip)); got != 0 {
			t.Errorf("%s, which is no address of ours: %d, want 0", ip, got)
		}
	}
	if interfaceMTU(netip.MustParseAddr("127.44.55.66")) != interfaceMTU(loopback) {
		t.Error("loopback has all of 127.0.0.0/8")
	}
}

// Loopback takes 65536 bytes; the protocol does not.
func TestR13MTUOnLoopback(t *testing.T) {
	s := newServer(t, ServerConfig{})
	c := dial(t, ClientConfig{}, s.Addrs()...)
	if s.MTU() != 1500 || c.MTU() != 1500 {
		t.Errorf("server %d, client %d, want 1500", s.MTU(), c.MTU())
	}
	c = dial(t, ClientConfig{MTU: 1376}, s.Addrs()...)
	if c.MTU() != 1376 {
		t.Errorf("configured 1376, got %d", c.MTU())
	}
}

// M-14: a packet beyond the own MTU is refused and counted, and the request
// ends in its timeout. One that is smaller is taken (its parts must only be of
// one size), and single packets do not care.
func TestM14EndsWithDifferentMTUs(t *testing.T) {
	s := newServer(t, ServerConfig{MTU: 1400})
	over := dial(t, ClientConfig{MTU: 1500, Timeout: 300 * time.Millisecond}, s.Addrs()...)
	if _, err := over.Call(t.Context(), make([]byte, 64<<10)); !errors.Is(err, ErrTimeout) {
		t.Errorf("packets of 1500 bytes to a server of 1400: %v, want %v", err, ErrTimeout)
	}
	for end := time.Now().Add(time.Minute); total(s.Counters(), "server_rejected_total", "M-14") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no M-14 among %v", s.Counters())
		}
	}
	under := dial(t, ClientConfig{MTU: 1300}, s.Addrs()...)
	for _, c := range []*Client{over, under} {
		if _, err := c.Do(t.Context(), &Request{Payload: make([]byte, 1000), Timeout: time.Minute}); err != nil {
			t.Errorf("MTU %d, one packet: %v", c.MTU(), err)
		}
	}
}

// A packet the path does not take is counted, and does not look like a router
// that is gone. 70000 bytes is more than any UDP datagram.
func TestR13TooLongPacketsAreCounted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("error classes are Linux's")
	}
	s := newServer(t, ServerConfig{})
	c := dial(t, ClientConfig{}, s.Addrs()...)
	for range 100 {
		c.ports[0].out.postPacket(make([]byte, 70000), s.Addrs()[0])
		c.ports[0].out.flush()
	}
	if n := total(c.Counters(), "io_tx_dropped_total", "too_long"); n != 100 {
		t.Errorf("%d counted, want 100", n)
	}
	if n := total(c.Counters(), "client_unreachable_total", ""); n != 0 {
		t.Errorf("%d unreachable routers", n)
	}
	if _, err := c.Call(t.Context(), []byte("x")); err != nil {
		t.Error(err)
	}
}
