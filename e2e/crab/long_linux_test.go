// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

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
