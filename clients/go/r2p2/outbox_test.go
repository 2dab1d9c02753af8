// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

func bound(t *testing.T, at string) *socket {
	t.Helper()
	s, err := listen(netip.MustParseAddrPort(at))
	if err != nil {
		t.Skip(err) // no IPv6 here
	}
	t.Cleanup(func() { s.udp.Close() })
	return s
}

// received gives all packets a socket gets, copied, until it is closed.
func received(t *testing.T, s *socket) <-chan datagram {
	out := make(chan datagram, 1<<16)
	var reading sync.WaitGroup
	reading.Go(func() {
		s.readAll(func(packets []datagram) {
			for _, d := range packets {
				out <- datagram{bytes.Clone(d.packet), d.from}
			}
		}, func() {})
	})
	t.Cleanup(func() { s.udp.Close(); reading.Wait() })
	return out
}

func next(t *testing.T, from <-chan datagram) datagram {
	t.Helper()
	select {
	case d := <-from:
		return d
	case <-time.After(time.Minute):
		t.Fatal("a packet is missing")
		return datagram{}
	}
}

// Packets of all lengths, to two addresses, arrive as they were posted and in
// that order: those of one length leave together, and none is joined with another.
func TestOutboxKeepsPacketsAndOrder(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			sock, one, two := bound(t, address), bound(t, address), bound(t, address)
			o := newOutbox(sock, func(err error) { t.Error(err) })
			arrive := map[*socket]<-chan datagram{one: received(t, one), two: received(t, two)}
			want := map[*socket][][]byte{}
			lengths := []int{8, 8, 8, 100, 100, 99, 1472, 1400, 1400, 1400, 9, 1000, 1000, 1000, 1001}
			for i := range 200 {
				to := one
				if i%50 >= 40 {
					to = two
				}
				packet := bytes.Repeat([]byte{byte(i)}, lengths[i%len(lengths)])
				want[to] = append(want[to], packet)
				o.postPacket(packet, to.local)
			}
			o.flush()
			for to, packets := range want {
				for i, w := range packets {
					if got := next(t, arrive[to]); !bytes.Equal(got.packet, w) || got.from != sock.local {
						t.Fatalf("packet %d: %d bytes from %v, want %d from %v", i, len(got.packet), got.from, len(w), sock.local)
					}
				}
			}
		})
	}
}

// Many send through one outbox at once, and change their bytes as soon as post
// returns. Each packet arrives whole, once, and those of one sender in order.
func TestOutboxStress(t *testing.T) {
	const senders, each = 8, 400
	sock, to := bound(t, "127.0.0.1:0"), bound(t, "127.0.0.1:0")
	o := newOutbox(sock, func(err error) { t.Error(err) })
	arrive := received(t, to)
	var room = make(chan struct{}, 500) // of the receiver's buffer: nothing is lost
	var running sync.WaitGroup
	for s := range senders {
		running.Go(func() {
			b := make([]byte, 1200)
			for i := range each {
				room <- struct{}{}
				b = b[:8+(s*131+i*17)%1000]
				for j := range b {
					b[j] = byte(s + i)
				}
				binary.BigEndian.PutUint16(b, uint16(s))
				binary.BigEndian.PutUint16(b[2:], uint16(i))
				h := wire.Header{Type: wire.Request, First: true, Last: true, ReqID: uint16(s), Count: 1}
				o.post(&h, b, to.local)
				o.flush()
			}
		})
	}
	var seen [senders]int
	for range senders * each {
		p := next(t, arrive).packet[wire.HeaderSize:]
		<-room
		s, i := int(binary.BigEndian.Uint16(p)), int(binary.BigEndian.Uint16(p[2:]))
		if i != seen[s] || len(p) != 8+(s*131+i*17)%1000 {
			t.Fatalf("sender %d: packet %d of %d bytes, want number %d", s, i, len(p), seen[s])
		}
		if !bytes.Equal(p[4:], bytes.Repeat([]byte{byte(s + i)}, len(p)-4)) {
			t.Fatalf("sender %d, packet %d: bytes of another", s, i)
		}
		seen[s]++
	}
	running.Wait()
}

// A packet the kernel refuses is counted, and those behind it leave: one that is
// too long, and an address of the other family.
func TestOutboxGoesOnBehindRefusedPackets(t *testing.T) {
	sock, to := bound(t, "127.0.0.1:0"), bound(t, "127.0.0.1:0")
	var refused atomic.Int32
	o := newOutbox(sock, func(error) { refused.Add(1) })
	arrive := received(t, to)
	o.postPacket([]byte("first"), to.local)
	o.postPacket(make([]byte, 70000), to.local)
	o.postPacket([]byte("behind"), to.local)
	o.postPacket([]byte("other"), netip.MustParseAddrPort("[2001:db8::1]:9"))
	o.postPacket([]byte("after"), to.local)
	o.flush()
	for _, want := range []string{"first", "behind", "after"} {
		if got := next(t, arrive); string(got.packet) != want {
			t.Errorf("%q, want %q", got.packet, want)
		}
	}
	if refused.Load() != 2 {
		t.Errorf("%d refused, want 2", refused.Load())
	}
	sock.udp.Close()
	o.postPacket([]byte("x"), to.local)
	o.postPacket([]byte("y"), to.local)
	o.flush()
	if refused.Load() != 4 {
		t.Errorf("%d refused after Close, want 4", refused.Load())
	}
}

// The reader misses nothing: a packet that comes while it looks at others, and
// one that comes alone, wake it; Close ends it.
func TestReadAllMissesNothing(t *testing.T) {
	sock, to := bound(t, "127.0.0.1:0"), bound(t, "127.0.0.1:0")
	arrive := received(t, to)
	for i := range 3000 {
		n := 1 + i%3*batchSize/2
		for j := range n {
			if err := sock.write([]byte{byte(i), byte(j)}, to.local); err != nil {
				t.Fatal(err)
			}
		}
		for j := range n {
			if got := next(t, arrive).packet; len(got) != 2 || got[0] != byte(i) || got[1] != byte(j) {
				t.Fatalf("round %d, packet %d: % x", i, j, got)
			}
		}
	}
}

// What is longer than any packet is cut off when it is read, and rejected.
func TestTooLongDatagramsAreRejected(t *testing.T) {
	s := newServer(t, ServerConfig{})
	c := dial(t, ClientConfig{}, s.Addrs()[0])
	raw, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	h := wire.Header{Type: wire.Reply, First: true, Last: true, Ext: true, Count: 1}
	long, _ := h.Append(nil)
	at := netip.AddrPortFrom(loopback, c.ports[0].sock.local.Port())
	if _, err := raw.WriteToUDPAddrPort(append(long, make([]byte, 3000)...), at); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); total(c.Counters(), "client_rejected_total", "M-14") != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", c.Counters())
		}
	}
}

// Requests end in the order of their time, whenever they were made, and those
// that were answered do not.
func TestDeadlinesOfOnePort(t *testing.T) {
	p := &clientPort{}
	p.ends.timer = time.AfterFunc(time.Hour, func() {})
	defer p.ends.timer.Stop()
	now := time.Now()
	var pairs []*clientPair
	for i := range 500 {
		pair := &clientPair{id: uint16(i), deadline: now.Add(time.Duration(i*7919%500) * time.Second)}
		pairs = append(pairs, pair)
		p.ends.add(pair, now)
	}
	for i := 0; i < len(pairs); i += 3 {
		p.ends.remove(pairs[i])
	}
	var last time.Time
	for left := len(pairs) - (len(pairs)+2)/3; left > 0; left-- {
		pair := p.ends.expired(now.Add(time.Hour))
		if pair == nil || pair.deadline.Before(last) || pair.id%3 == 0 {
			t.Fatalf("%d left: %+v behind %v", left, pair, last)
		}
		last = pair.deadline
		p.ends.remove(pair)
	}
	if p.ends.expired(now.Add(time.Hour)) != nil {
		t.Error("one too many")
	}
}

// Many callers of one client, in bursts, with contexts that end at any moment:
// every call has its own answer or its own error. On a starved machine the kernel
// drops datagrams, which nobody sends again: few calls may end by that.
func TestCallersTogether(t *testing.T) {
	s := newServer(t, ServerConfig{Workers: 2})
	c := dial(t, ClientConfig{Sockets: 2, Timeout: 5 * time.Second}, s.Addrs()...)
	var running sync.WaitGroup
	var lost atomic.Int32
	for caller := range 16 {
		running.Go(func() {
			for i := range 200 {
				want := bytes.Repeat([]byte{byte('A' + caller)}, 1+(caller*200+i)%3000)
				ctx, cancel := t.Context(), func() {}
				if i%10 == 9 {
					ctx, cancel = withEnd(t, i)
				}
				payload := bytes.ToLower(want)
				got, err := c.Call(ctx, payload)
				clear(payload) // it is the caller's again
				dropped := errors.Is(err, ErrTimeout) && lost.Add(1) <= 160
				if !dropped && (err != nil && (i%10 != 9 || !errors.Is(err, ctx.Err())) || err == nil && !bytes.Equal(got, want)) {
					t.Errorf("caller %d, call %d: %d bytes, %v", caller, i, len(got), err)
				}
				cancel()
				if i%7 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	running.Wait()
}

// withEnd is a context that somebody else ends.
func withEnd(t *testing.T, i int) (context.Context, func()) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range i % 4 {
			runtime.Gosched()
		}
		cancel()
	}()
	return ctx, cancel
}
