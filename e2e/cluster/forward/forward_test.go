// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"io"
	"net"
	"testing"
	"time"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func through(t *testing.T, target string) *net.TCPConn {
	t.Helper()
	l := listen(t)
	go func() { _ = Serve(l, target) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

// A server that answers only when the request ended: the end of one direction
// must travel while the other stays open.
func TestHalfCloseTravels(t *testing.T) {
	server := listen(t)
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(c)
		_, _ = c.Write(append([]byte("got "), b...))
		_ = c.Close()
	}()
	c := through(t, server.Addr().String())
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if string(b) != "got hello" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}

// The API server may be down: clients must see an end, not wait.
func TestRefusedTargetEndsTheConnection(t *testing.T) {
	gone := listen(t)
	target := gone.Addr().String()
	_ = gone.Close()
	c := through(t, target)
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, error %v", n, err)
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the connection hung instead of ending")
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	l := listen(t)
	done := make(chan error, 1)
	go func() { done <- Serve(l, "127.0.0.1:1") }()
	_ = l.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Serve still runs")
	}
}
