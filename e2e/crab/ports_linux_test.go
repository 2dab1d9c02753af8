// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"bufio"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// dialFrom connects from a port that other connections may use at the same time.
func (h *Host) dialFrom(local int, to string, timeout time.Duration) (*session, error) {
	s := &session{}
	err := h.Inside(func() (err error) {
		d := net.Dialer{Timeout: timeout, LocalAddr: &net.TCPAddr{IP: net.ParseIP(h.Addr), Port: local},
			Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
			}}
		s.Conn, err = d.Dial("tcp", to)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, s.greeted(bufio.NewReader(s.Conn))
}

// C-92: connections that would be one at the server, from one port at the same time: the first lives, the others
// wait for its end. Where the server has the VIPs itself, the second one's third SYN, which is hashed, is another connection.
func testOnePortTwoConnections(t *testing.T, b *Bed) {
	client := b.Host("client")
	server, second := net.JoinHostPort(b.Host("s1").Addr, itoa(port)), net.JoinHostPort(b.second, itoa(port))
	first, err := client.dialFrom(40405, b.target(), patience)
	must(t, err)
	for _, to := range []string{server, second} {
		other, patient := b.direct && to == second, 5*time.Second
		if other {
			patient = patience
		}
		c, err := client.dialBeside(t, first, to, patient)
		switch {
		case err != nil && other:
			t.Errorf("%s: the SYN that is hashed does not connect: %v\n%s", to, err, b.told())
		case err == nil && !other:
			t.Errorf("%s: a second connection with the addresses and ports of a live one came about", to)
		}
		if err == nil {
			c.ends()
		}
	}
	if n := client.Counter("client_syn_port_in_use"); n == 0 {
		t.Error("no SYN was counted as one from the port of a live connection")
	}
	first.ends()
	for _, to := range []string{server, second, b.target()} { // one after the other the port is theirs
		c, err := client.dialFrom(40405, to, patience)
		must(t, err)
		must(t, c.ask("free"))
		c.ends()
	}
}

// dialBeside dials from the port of a live connection, which must work meanwhile. The third SYN, after 3 s, is hashed.
func (h *Host) dialBeside(t *testing.T, live *session, to string, timeout time.Duration) (c *session, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = h.dialFrom(live.LocalAddr().(*net.TCPAddr).Port, to, timeout)
	}()
	for {
		select {
		case <-done:
			return c, err
		case <-time.After(100 * time.Millisecond):
			if err := live.ask("keystroke"); err != nil {
				t.Fatalf("while %s is dialled the first connection breaks: %v\n%s", to, err, h.bed.told())
			}
		}
	}
}

// ends with a RST, so that the port is free at once.
func (s *session) ends() {
	_ = s.Conn.(*net.TCPConn).SetLinger(0)
	s.Close()
}

// C-72: a client has closed and forgotten its connection, the server has not. The server challenges the SYN of the next one
// from that port, the client's TCP resets what it does not know, and its next SYN connects, as without CRAB.
func testPortAfterAHalfClose(t *testing.T, b *Bed) {
	client := b.Host("client")
	client.Run("sysctl", "-qw", "net.ipv4.tcp_fin_timeout=1")
	for round := range 2 {
		var c *session
		eventually(t, "the client has forgotten the former connection", func() (free bool) {
			var err error
			c, err = client.dialFrom(40405, b.target(), patience)
			if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Fatalf("connection %d: %v\n%s", round, err, b.told())
			}
			return err == nil
		})
		c.Close()
	}
	if client.Counter("client_flow_removed") == 0 {
		t.Errorf("no translation was there when the port was used again: this proves nothing\n%s", b.told())
	}
}
