// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// Socket is one connection to a dataplane's control socket. Calls take turns.
// An error of type *CtlError is the dataplane's refusal and leaves the
// connection usable; any other error means the connection is gone: Close and
// dial again.
type Socket struct {
	mu   sync.Mutex
	conn *net.UnixConn
	buf  []byte
}

// maxReply holds the state of 1,024 workers.
const maxReply = 1 << 20

// DialSocket connects to the control socket at path.
func DialSocket(ctx context.Context, path string) (*Socket, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &Socket{conn: c.(*net.UnixConn), buf: make([]byte, maxReply)}, nil
}

// Close ends the connection.
func (s *Socket) Close() error { return s.conn.Close() }

// Hello asks who listens.
func (s *Socket) Hello(ctx context.Context) (*Hello, error) {
	return call[Hello](ctx, s, ctl.Request{V: ctl.Version, Op: ctl.OpHello})
}

// State asks what the dataplane does now.
func (s *Socket) State(ctx context.Context) (*State, error) {
	return call[State](ctx, s, ctl.Request{V: ctl.Version, Op: ctl.OpState})
}

// Counters asks for every counter and gauge.
func (s *Socket) Counters(ctx context.Context) (*Counters, error) {
	return call[Counters](ctx, s, ctl.Request{V: ctl.Version, Op: ctl.OpCounters})
}

// Histogram asks for the named histogram over the last windowSeconds.
func (s *Socket) Histogram(ctx context.Context, name string, windowSeconds int) (*HistogramReply, error) {
	return call[HistogramReply](ctx, s, ctl.Request{V: ctl.Version, Op: ctl.OpHistogram, Name: name, WindowSeconds: windowSeconds})
}

// HistogramUntil asks for the window that ends with a given second of the
// dataplane's clock (see HistogramReply.Second).
func (s *Socket) HistogramUntil(ctx context.Context, name string, windowSeconds int, endSecond uint64) (*HistogramReply, error) {
	return call[HistogramReply](ctx, s, ctl.Request{
		V: ctl.Version, Op: ctl.OpHistogram, Name: name, WindowSeconds: windowSeconds, EndSecond: endSecond,
	})
}

// HistogramInParts asks for a window and its equal stretches in one exchange. A
// dataplane that is older than that refuses the field "parts".
func (s *Socket) HistogramInParts(ctx context.Context, name string, windowSeconds, parts int) (*HistogramReply, error) {
	return call[HistogramReply](ctx, s, ctl.Request{V: ctl.Version, Op: ctl.OpHistogram, Name: name, WindowSeconds: windowSeconds, Parts: parts})
}

// Traces asks for the traced requests behind the first `after`.
func (s *Socket) Traces(ctx context.Context, after uint64) (*ctl.Traces, error) {
	return call[ctl.Traces](ctx, s, ctl.Request{V: ctl.Version, Op: ctl.OpTraces, After: after})
}

// Leave starts draining.
func (s *Socket) Leave(ctx context.Context) error {
	_, err := call[ctl.Draining](ctx, s, ctl.Request{V: ctl.Version, Op: ctl.OpLeave})
	return err
}

// Apply hands over a configuration text and its hash, by sealed memfd when it
// is too long for one packet. The text goes out byte for byte, because the
// hash is over exactly these bytes.
func (s *Socket) Apply(ctx context.Context, text []byte, hash string) (unchanged bool, err error) {
	if !json.Valid(text) {
		return false, &CtlError{Code: ctl.CodeInvalidConfig, Message: "the configuration is not valid JSON"}
	}
	quoted, err := json.Marshal(hash)
	if err != nil {
		return false, err
	}
	head := fmt.Sprintf(`{"v":%d,"op":%q,"hash":%s,`, ctl.Version, ctl.OpApply, quoted)
	inline := head + `"config":` + string(text) + `}`
	var out *ctl.Applied
	if len(inline) <= ctl.MaxInline {
		out, err = exchange[ctl.Applied](ctx, s, []byte(inline), nil)
	} else {
		out, err = s.applyMemfd(ctx, head, text)
	}
	if err != nil {
		return false, err
	}
	if out.Hash != hash {
		return false, fmt.Errorf("control socket: acknowledged configuration %q instead of %q", out.Hash, hash)
	}
	return out.Unchanged, nil
}

func (s *Socket) applyMemfd(ctx context.Context, head string, text []byte) (*ctl.Applied, error) {
	f, err := sealedMemfd(text)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	msg := head + fmt.Sprintf(`"memfd":true,"size":%d}`, len(text))
	return exchange[ctl.Applied](ctx, s, []byte(msg), unix.UnixRights(int(f.Fd())))
}

// sealedMemfd returns an anonymous file that nobody, not even this process,
// can change any more.
func sealedMemfd(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("bobtail-config", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create a memfd for the configuration: %w", err)
	}
	f := os.NewFile(uintptr(fd), "bobtail-config")
	if _, err := f.Write(text); err != nil {
		f.Close()
		return nil, fmt.Errorf("write the configuration to its memfd: %w", err)
	}
	seals := unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal the configuration's memfd: %w", err)
	}
	return f, nil
}

// reply is any answer of the dataplane.
type reply[T any] interface {
	*T
	Outcome() ctl.Reply
}

func call[T any, R reply[T]](ctx context.Context, s *Socket, q ctl.Request) (*T, error) {
	msg, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return exchange[T, R](ctx, s, msg, nil)
}

// defaultDeadline ends a call whose context has no deadline: a hung dataplane
// must not hang its sidecar.
const defaultDeadline = 5 * time.Second

func exchange[T any, R reply[T]](ctx context.Context, s *Socket, msg, oob []byte) (*T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(defaultDeadline)
	}
	if err := s.conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, _, err := s.conn.WriteMsgUnix(msg, oob, nil); err != nil {
		return nil, fmt.Errorf("control socket: send: %w", err)
	}
	n, _, flags, _, err := s.conn.ReadMsgUnix(s.buf, nil)
	if err != nil {
		return nil, fmt.Errorf("control socket: receive: %w", err)
	}
	if flags&unix.MSG_TRUNC != 0 {
		return nil, fmt.Errorf("control socket: the answer is longer than %d bytes", maxReply)
	}
	return decodeReply[T, R](s.buf[:n])
}

// decodeReply reads an answer once: how it came out is part of it.
func decodeReply[T any, R reply[T]](text []byte) (*T, error) {
	out := new(T)
	unread := json.Unmarshal(text, out)
	head := R(out).Outcome()
	switch {
	case unread != nil && head.V == 0:
		return nil, fmt.Errorf("control socket: decode the answer: %w", unread)
	case head.V != ctl.Version:
		return nil, fmt.Errorf("control socket: the dataplane answers in version %d, this program speaks %d; use images of one release", head.V, ctl.Version)
	case !head.OK && head.Error == nil:
		return nil, errors.New("control socket: refused without an error")
	case !head.OK:
		return nil, head.Error
	case unread != nil:
		return nil, fmt.Errorf("control socket: decode the answer: %w", unread)
	}
	return out, nil
}
