// SPDX-License-Identifier: Apache-2.0

// Package forward carries TCP connections from a listener to one address. It
// makes the API server, which lives in the control plane's network namespace,
// reachable on the machine's loopback: the listener is created outside and
// inherited, the dialling happens inside.
package forward

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// dialTimeout is short: the target is a bridge away, or not there at all.
const dialTimeout = 3 * time.Second

// Serve accepts until the listener is closed. A connection whose target
// refuses is closed at once, which a client sees as "connection reset".
func Serve(l net.Listener, target string) error {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		open.Add(1)
		go func() {
			defer open.Done()
			join(c, target)
		}()
	}
}

func join(client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	server, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var both sync.WaitGroup
	both.Add(2)
	go func() { defer both.Done(); pipe(server, client) }()
	go func() { defer both.Done(); pipe(client, server) }()
	both.Wait()
}

// pipe copies one direction and then passes the end of stream on, because
// watches and exec streams close their halves at different times.
func pipe(dst, src net.Conn) {
	_, err := io.Copy(dst, src)
	if t, ok := dst.(*net.TCPConn); ok && err == nil {
		_ = t.CloseWrite()
		return
	}
	_ = dst.Close()
	_ = src.Close()
}
