// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// link keeps one connection to the dataplane's control socket and dials again
// when the dataplane was restarted.
type link struct {
	path string

	mu        sync.Mutex
	socket    *dataplane.Socket
	exchanges uint64 // so far
}

// callTimeout bounds one exchange with the dataplane; it answers in
// microseconds unless it hangs.
const callTimeout = 3 * time.Second

// do runs f on the connection. When a connection that was open before turns
// out dead, f runs once more on a new one; every operation is idempotent.
func (l *link) do(ctx context.Context, f func(context.Context, *dataplane.Socket) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		reused := l.socket != nil
		if !reused {
			s, err := dataplane.DialSocket(ctx, l.path)
			if err != nil {
				return err
			}
			l.socket = s
		}
		l.exchanges++
		err := f(ctx, l.socket)
		var refusal *dataplane.CtlError
		if err == nil || errors.As(err, &refusal) {
			return err
		}
		l.socket.Close()
		l.socket = nil
		if !reused || ctx.Err() != nil {
			return err
		}
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		l.socket.Close()
		l.socket = nil
	}
}

func ask[T any](ctx context.Context, l *link, f func(*dataplane.Socket, context.Context) (*T, error)) (*T, error) {
	var out *T
	err := l.do(ctx, func(ctx context.Context, s *dataplane.Socket) (err error) {
		out, err = f(s, ctx)
		return err
	})
	return out, err
}
