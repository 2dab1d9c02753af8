// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ctl

// The listening side of the socket: framing, file descriptors and dispatch.
// What the answers say is the Dataplane's business.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Dataplane answers the control protocol. Its methods are called from several
// goroutines.
type Dataplane interface {
	Hello() Hello
	// Apply puts a validated document in force, whole or not at all. An error
	// of type *Error or *config.FieldError reaches the sidecar as it is.
	Apply(doc *config.Document, text []byte, hash string) (unchanged bool, err error)
	State() State
	Counters() Counters
	// Histogram of the window that ends with endSecond, or now when it is 0.
	Histogram(name string, windowSeconds int, endSecond uint64) (Histogram, error)
	// Leave starts draining; it must return at once.
	Leave()
}

// acceptPause is how long to wait after a failure to accept.
const acceptPause = 100 * time.Millisecond

// TraceKeeper is a Dataplane that keeps traces.
type TraceKeeper interface {
	Traces(after uint64) Traces
}

// Listener serves a Dataplane on a socket.
type Listener struct {
	dataplane Dataplane
	listener  *net.UnixListener
	path      string

	mu    sync.Mutex
	conns map[*net.UnixConn]struct{}
	done  sync.WaitGroup
}

// Listen creates the socket with mode 0660 and starts serving. A socket file
// left by a dead process is replaced; one that still answers is an error.
func Listen(path string, d Dataplane) (*Listener, error) {
	if c, err := net.Dial("unixpacket", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("control socket %s: another process listens there; stop it or choose another path", path)
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("control socket %s: remove the stale socket: %w", path, err)
		}
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Listener{dataplane: d, listener: l, path: path, conns: map[*net.UnixConn]struct{}{}}
	s.done.Add(1)
	go s.accept()
	return s, nil
}

// Close stops listening, ends all connections and removes the socket.
func (s *Listener) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
	return err
}

func (s *Listener) accept() {
	defer s.done.Done()
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// No descriptor left, most likely: the peer waits in the backlog.
			time.Sleep(acceptPause)
			continue
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.done.Add(1)
		go s.serve(c)
	}
}

func (s *Listener) serve(c *net.UnixConn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.Close()
		s.done.Done()
	}()
	buf := make([]byte, MaxInline+4096)
	oob := make([]byte, syscall.CmsgSpace(4*maxFiles))
	for {
		n, oobn, flags, _, err := c.ReadMsgUnix(buf, oob)
		if err != nil {
			return
		}
		files := receivedFiles(oob[:oobn])
		var answer any
		if flags&syscall.MSG_CTRUNC != 0 { // the kernel keeps the others and does not count them
			answer = failure(&Error{CodeInvalidRequest, "memfd", fmt.Sprintf("needs exactly one file descriptor; got more than %d", maxFiles)})
		} else if flags&syscall.MSG_TRUNC != 0 {
			answer = failure(&Error{CodeInvalidRequest, "", fmt.Sprintf("a message must have at most %d bytes; send a longer configuration by memfd", MaxInline)})
		} else {
			answer = s.answer(buf[:n], files)
		}
		for _, f := range files {
			f.Close()
		}
		text, err := json.Marshal(answer)
		if err != nil {
			text, _ = json.Marshal(failure(&Error{CodeInternal, "", err.Error()}))
		}
		if _, err := c.Write(text); err != nil {
			return
		}
	}
}

// maxFiles is how many descriptors are received with one request.
const maxFiles = 4

func receivedFiles(oob []byte) []*os.File {
	var files []*os.File
	messages, _ := syscall.ParseSocketControlMessage(oob)
	for _, m := range messages {
		fds, _ := syscall.ParseUnixRights(&m)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "ctl memfd"))
		}
	}
	return files
}

func failure(e *Error) Reply { return Reply{V: Version, Error: e} }

func success() Reply { return Reply{V: Version, OK: true} }

func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var f *config.FieldError
	if errors.As(err, &f) {
		return &Error{f.Code, f.Field, f.Message}
	}
	return &Error{CodeInternal, "", err.Error()}
}

func (s *Listener) answer(text []byte, files []*os.File) any {
	var q Request
	if err := json.Unmarshal(text, &q); err != nil {
		return failure(&Error{CodeInvalidRequest, "", "is not a JSON request: " + err.Error()})
	}
	if q.V != Version {
		return failure(&Error{CodeUnsupportedVersion, "v", fmt.Sprintf("must be %d; got %d", Version, q.V)})
	}
	switch q.Op {
	case OpHello:
		h := s.dataplane.Hello()
		h.Reply = success()
		return h
	case OpApply:
		return s.apply(&q, files)
	case OpState:
		st := s.dataplane.State()
		st.Reply = success()
		return st
	case OpCounters:
		c := s.dataplane.Counters()
		c.Reply = success()
		return c
	case OpHistogram:
		return s.histogram(&q)
	case OpTraces:
		if keeper, ok := s.dataplane.(TraceKeeper); ok {
			t := keeper.Traces(q.After)
			t.Reply = success()
			return t
		}
	case OpLeave:
		s.dataplane.Leave()
		return Draining{success(), true}
	}
	return failure(&Error{CodeUnknownOperation, "op", fmt.Sprintf("must be one of hello, apply, state, counters, histogram, leave, traces; got %q", q.Op)})
}

func (s *Listener) apply(q *Request, files []*os.File) any {
	text := []byte(q.Config)
	if q.Memfd {
		var err error
		if text, err = readMemfd(files, q.Size); err != nil {
			return failure(asError(err))
		}
	}
	if len(text) == 0 {
		return failure(&Error{CodeInvalidRequest, "config", "is required; send it inline or by memfd"})
	}
	if got := config.Hash(text); got != q.Hash {
		return failure(&Error{CodeHashMismatch, "hash", fmt.Sprintf("must be the SHA-256 of the configuration, %s; got %q", got, q.Hash)})
	}
	doc, err := config.Parse(text)
	if err != nil {
		return failure(asError(err))
	}
	unchanged, err := s.dataplane.Apply(doc, text, q.Hash)
	if err != nil {
		return failure(asError(err))
	}
	return Applied{success(), q.Hash, unchanged}
}

const (
	fGetSeals   = 1034 // F_GET_SEALS
	sealShrink  = 0x2
	sealGrow    = 0x4
	sealWrite   = 0x8
	sealsNeeded = sealShrink | sealGrow | sealWrite
)

// readMemfd takes a configuration from a sealed memfd. Without the seals the
// sender could change the text after it was checked.
func readMemfd(files []*os.File, size int) ([]byte, error) {
	if len(files) != 1 {
		return nil, &Error{CodeInvalidRequest, "memfd", fmt.Sprintf("needs exactly one file descriptor; got %d", len(files))}
	}
	if size < 1 || size > MaxConfig {
		return nil, &Error{CodeInvalidRequest, "size", fmt.Sprintf("must be 1..%d; got %d", MaxConfig, size)}
	}
	seals, _, errno := syscall.Syscall(syscall.SYS_FCNTL, files[0].Fd(), fGetSeals, 0)
	if errno != 0 || seals&sealsNeeded != sealsNeeded {
		return nil, &Error{CodeInvalidRequest, "memfd", "must be a memfd sealed against write, shrink and grow"}
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(files[0], 0, int64(size)), text); err != nil {
		return nil, &Error{CodeInvalidRequest, "size", fmt.Sprintf("the memfd holds fewer than %d bytes: %v", size, err)}
	}
	return text, nil
}

// inParts reads the window again, in equal stretches, the newest first, as far back as
// the dataplane lived, and makes it their sum.
func (s *Listener) inParts(q *Request, whole Histogram) (Histogram, error) {
	end := whole.Second
	if q.EndSecond > 0 {
		end = min(end, q.EndSecond)
	}
	sum := whole
	sum.Histogram, sum.Requests, sum.Rejected, sum.CoveredSeconds, sum.Parts = &ll7.Histogram{}, 0, 0, 0, nil
	parts := min(q.Parts, q.WindowSeconds)
	for i := range parts {
		from, to := q.WindowSeconds*i/parts, q.WindowSeconds*(i+1)/parts
		if end <= uint64(from) {
			break
		}
		one, err := s.dataplane.Histogram(q.Name, to-from, end-uint64(from))
		if err != nil {
			return Histogram{}, err
		}
		if one.CoveredSeconds == 0 {
			break
		}
		sum.Parts = append(sum.Parts, one.Histogram)
		sum.Histogram.Merge(one.Histogram)
		sum.Requests += one.Requests
		sum.Rejected += one.Rejected
		sum.CoveredSeconds += one.CoveredSeconds
	}
	return sum, nil
}

func (s *Listener) histogram(q *Request) any {
	if q.WindowSeconds < 1 || q.WindowSeconds > MaxWindowSeconds {
		return failure(&Error{CodeInvalidRequest, "windowSeconds", fmt.Sprintf("must be 1..%d; got %d", MaxWindowSeconds, q.WindowSeconds)})
	}
	if q.Parts < 0 || q.Parts > MaxParts {
		return failure(&Error{CodeInvalidRequest, "parts", fmt.Sprintf("must be 1..%d; got %d", MaxParts, q.Parts)})
	}
	h, err := s.dataplane.Histogram(q.Name, q.WindowSeconds, q.EndSecond)
	if err == nil && q.Parts > 0 && h.Second > 0 {
		h, err = s.inParts(q, h)
	}
	if err != nil {
		return failure(asError(err))
	}
	h.Reply = success()
	return h
}
