// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"bufio"
	"errors"
	"fmt"
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
// wait for its end.
func TestOnePortTwoConnections(t *testing.T) {
	t.Parallel()
	const second = "10.97.100.2" // a VIP of the same server
	b := New(t, 1)
	b.StartAll(port, nil)
	for name, h := range map[string]*Host{"client": b.Host("client"), "lb": b.Host("lb"), "s1": b.Host("s1")} {
		h.Apply(func(c *Config) {
			if name == "s1" {
				c.AllowEcho = append(c.AllowEcho, second)
				return
			}
			other := map[string]any{}
			for k, v := range c.VIPs[0] {
				other[k] = v
			}
			other["addr"] = second
			c.VIPs = append(c.VIPs, other)
		})
	}
	client, server := b.Host("client"), b.Host("s1")
	server.Echo(port)
	first, err := client.dialFrom(40405, VIP+":"+itoa(port), patience)
	must(t, err)
	for _, to := range []string{server.Addr, second} { // 5 s: the second VIP's third SYN is hashed
		done := make(chan error, 1)
		go func() {
			c, err := client.dialFrom(40405, to+":"+itoa(port), 5*time.Second)
			if err == nil {
				c.Close()
			}
			done <- err
		}()
		for waiting := true; waiting; {
			select {
			case err := <-done:
				if err == nil {
					t.Errorf("%s: a second connection with the addresses and ports of a live one came about", to)
				}
				waiting = false
			case <-time.After(100 * time.Millisecond):
				if err := first.ask("keystroke"); err != nil {
					t.Fatalf("while %s is dialled the first connection breaks: %v\n%s", to, err, b.told())
				}
			}
		}
	}
	if n := client.Counter("client_syn_port_in_use"); n == 0 {
		t.Error("no SYN was counted as one from the port of a live connection")
	}
	_ = first.Conn.(*net.TCPConn).SetLinger(0)
	first.Close()
	for _, to := range []string{server.Addr, second, VIP} { // one after the other the port is theirs
		c, err := client.dialFrom(40405, to+":"+itoa(port), patience)
		must(t, err)
		must(t, c.ask("free"))
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

// holds starts a server that greets and never closes, whatever its clients do.
func (h *Host) holds(t *testing.T) {
	t.Helper()
	var l net.Listener
	must(t, h.Inside(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(h.Addr, itoa(port)))
		return err
	}))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close() // when the test is over
			fmt.Fprintf(c, "%s\n", h.Name)
		}
	}()
}

// C-72: a client has closed and forgotten its connection, the server has not. The server challenges the SYN of the next one
// from that port, the client's TCP resets what it does not know, and its next SYN connects, as without CRAB.
func TestPortAfterAHalfClose(t *testing.T) { eachFamily(t, 1, testPortAfterAHalfClose) }

func testPortAfterAHalfClose(t *testing.T, b *Bed) {
	b.StartAll(port, nil)
	client := b.Host("client")
	client.Run("sysctl", "-qw", "net.ipv4.tcp_fin_timeout=1")
	b.Host("s1").holds(t)
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
