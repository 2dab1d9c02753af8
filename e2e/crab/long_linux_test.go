// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

const (
	// The agents forget ended connections, unanswered SYNs and handshakes after a second here, instead of one to two
	// minutes, and look for them every two seconds.
	soon = time.Second
	// idle is long enough for two looks at what was over before.
	idle = soon + 4*time.Second
)

// forgetSoon shortens all lives but that of an open connection, which is two hours (C-72, C-73).
func (b *Bed) forgetSoon() {
	b.t.Helper()
	for _, h := range b.all {
		if h.agent != nil {
			h.Apply(func(c *Config) {
				c.Lives = map[string]int64{"ended": int64(soon), "pending": int64(soon), "echo": int64(soon)}
			})
		}
	}
}

// takes serves connections in this process, and closes them when the test is over.
func (h *Host) takes(t *testing.T, serve func(net.Conn)) {
	t.Helper()
	var l net.Listener
	must(t, h.Inside(func() (err error) {
		l, err = net.Listen("tcp", h.listens(port))
		return err
	}))
	var taken []net.Conn
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
		for _, c := range taken {
			c.Close()
		}
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken = append(taken, c)
			go serve(c)
		}
	}()
}

// last starts a server that echoes, and has something to say when its client has said its last word: as soon as the test
// has it speak, and never closes before.
func (h *Host) last(t *testing.T) {
	t.Helper()
	speak := make(chan struct{})
	h.bed.speak = sync.OnceFunc(func() { close(speak) })
	t.Cleanup(h.bed.speak)
	h.takes(t, func(c net.Conn) {
		defer c.Close()
		fmt.Fprintln(c, h.Name)
		_, _ = io.Copy(c, c)
		<-speak
		fmt.Fprintln(c, "the rest")
	})
}

// C-72, C-73: connections as of SSH: idle for longer than whatever is forgotten of others, then a keystroke. They are
// redirected, hashed and past the VIP; and so is one of which one end is closed.
func testLongConnection(t *testing.T, b *Bed) {
	b.forgetSoon()
	client, plain := b.Host("client"), b.Host("plain")
	direct := net.JoinHostPort(b.Host("s1").Addr, itoa(port))
	var all, halves []*session
	for _, end := range []struct {
		from *Host
		to   string
	}{{client, b.target()}, {plain, b.target()}, {client, direct}} {
		for _, list := range []*[]*session{&all, &halves} {
			c, err := end.from.dial(end.to)
			must(t, err)
			t.Cleanup(func() { c.Close() })
			must(t, c.ask("keystroke"))
			*list = append(*list, c)
		}
	}
	for _, c := range halves {
		must(t, c.Conn.(*net.TCPConn).CloseWrite())
	}
	over, err := client.dial(b.target())
	must(t, err)
	over.ends()
	time.Sleep(idle)
	b.speak()
	if bad, first := broken(all, "after a pause"); bad > 0 {
		t.Errorf("%d of %d idle connections broke: %v\n%s", bad, len(all), first, b.told())
	}
	for _, c := range halves {
		_ = c.SetDeadline(time.Now().Add(patience))
		if rest, err := c.r.ReadString('\n'); err != nil || rest != "the rest\n" {
			t.Errorf("%s, which its client has closed one way, said %q: %v\n%s", c.RemoteAddr(), rest, err, b.told())
		}
	}
	if n := client.Counter("client_flow_expired"); n == 0 {
		t.Error("what was over was not forgotten meanwhile: this proves nothing")
	}
}

// Ports are reused at once, beside a connection that lives.
func testPortReuse(t *testing.T, b *Bed) {
	client := b.Host("client")
	long, err := client.dial(b.target())
	must(t, err)
	for round := range 6 { // to the VIP, and directly to each server, all from one port
		for _, to := range []string{b.vip, b.Host("s1").Addr} {
			c, err := client.dialFrom(40404, net.JoinHostPort(to, itoa(port)), patience)
			if err != nil {
				t.Fatalf("round %d to %s: %v\n%s", round, to, err, b.told())
			}
			c.ends()
		}
		must(t, long.ask("keystroke"))
	}
	if n := client.Counter("client_stale_removed"); n == 0 {
		t.Error("no port was reused: this proves nothing")
	}
}
