// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// cancel asks the worker to let go of a copy; change makes it another packet.
func (r *fakeRouter) cancel(worker, client netip.AddrPort, id uint16, number uint32, change func(h *wire.Header)) {
	r.t.Helper()
	h := wire.Header{Type: wire.Cancel, First: true, Last: true, Ext: true, ReqID: id, Count: 1}
	h.Options = wire.Options{Present: wire.HasForwarded | wire.HasCopy, Forwarded: client, Copy: number}
	r.send(worker, h, "", change)
}

func numbered(n uint32) func(h *wire.Header) {
	return func(h *wire.Header) { h.Options.Present, h.Options.Copy = h.Options.Present|wire.HasCopy, n }
}

// slowServer has one worker whose handler waits for its context, or for go.
type slowServer struct {
	*Server
	begun chan uint16
	goOn  chan struct{}
	cause chan error
}

func newSlowServer(t *testing.T, r *fakeRouter, keys Keyring) *slowServer {
	t.Helper()
	s := &slowServer{begun: make(chan uint16, 100), goOn: make(chan struct{}), cause: make(chan error, 100)}
	var err error
	s.Server, err = NewServer(ServerConfig{
		Address: loopback, QueueDepth: 4, Routers: []Router{r.router()}, Keys: keys,
		Handler: HandlerFunc(func(ctx context.Context, rq *ServerRequest) ([]byte, error) {
			s.begun <- rq.ID
			select {
			case <-ctx.Done():
				s.cause <- context.Cause(ctx)
				return nil, ctx.Err()
			case <-s.goOn:
				return rq.Payload, nil
			}
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *slowServer) count(value string) (n uint64) {
	for _, c := range s.Counters() {
		if c.Value == value && (c.Name == "server_cancels_total" || c.Name == "server_rejected_total") {
			n += c.Count
		}
	}
	return n
}

func (s *slowServer) await(t *testing.T, value string, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.count(value) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %d, want %d", value, s.count(value), n)
		}
	}
}

// what runs is told and may end, what waits ends at once; either way
// there is one FEEDBACK and no reply, and the next request runs.
func TestR272TakenBack(t *testing.T) {
	r := newFakeRouter(t)
	s := newSlowServer(t, r, nil)
	worker, c := s.Addrs()[0], client(t)
	r.forward(worker, at(c), 1, numbered(10))
	<-s.begun
	r.forward(worker, at(c), 2, numbered(11))
	r.forward(worker, at(c), 3, nil)
	r.cancel(worker, at(c), 2, 11, nil)
	f, _, _ := r.next(ofPair(2))
	if f.Flags&^wire.FeedbackJoin != wire.FeedbackPair|wire.FeedbackDropped|wire.FeedbackCancelled || f.Served != 1 {
		t.Errorf("FEEDBACK of what waited: %+v", f)
	}
	r.cancel(worker, at(c), 1, 10, nil)
	f, _, _ = r.next(ofPair(1))
	if f.Flags&wire.FeedbackCancelled == 0 || f.Served != 2 {
		t.Errorf("FEEDBACK of what ran: %+v", f)
	}
	if cause := <-s.cause; !errors.Is(cause, ErrTakenBack) {
		t.Errorf("cause %v", cause)
	}
	if id := <-s.begun; id != 3 {
		t.Errorf("request %d ran", id)
	}
	s.goOn <- struct{}{}
	if f, _, _ = r.next(ofPair(3)); f.Flags&wire.FeedbackCancelled != 0 || f.Received != 3 || f.Served != 3 {
		t.Errorf("FEEDBACK of what was served: %+v", f)
	}
	if h, _ := receive(t, c); h.ReqID != 3 {
		t.Errorf("a reply to %d", h.ReqID)
	}
	if s.count("removed") != 1 || s.count("stopped") != 1 || s.Backlog() != 0 {
		t.Errorf("counters %+v", s.Counters())
	}
}

// what names no running copy, or comes from whoever may not take
// back, changes nothing.
func TestR271WhoMayTakeBack(t *testing.T) {
	r, stranger := newFakeRouter(t), newFakeRouter(t)
	r.keys, stranger.keys = Keyring{someKey}, Keyring{someKey}
	s := newSlowServer(t, r, r.keys)
	worker, c := s.Addrs()[0], client(t)
	r.forward(worker, at(c), 1, numbered(10))
	<-s.begun
	r.cancel(worker, at(c), 1, 9, nil)
	r.cancel(worker, at(c), 2, 10, nil)
	s.await(t, "unmatched", 2)
	r.cancel(worker, at(c), 1, 10, func(h *wire.Header) { h.Options.Present &^= wire.HasTag })
	s.await(t, "TAG", 1)
	stranger.cancel(worker, at(c), 1, 10, nil)
	s.await(t, "FORWARDER", 1)
	r.cancel(worker, at(c), 1, 0, nil)
	r.cancel(worker, at(c), 1, 10, func(h *wire.Header) { h.Options.Present &^= wire.HasForwarded })
	s.await(t, "M-27", 2)
	s.goOn <- struct{}{}
	if f, _, _ := r.next(ofPair(1)); f.Flags&wire.FeedbackCancelled != 0 {
		t.Errorf("FEEDBACK %+v", f)
	}
	r.cancel(worker, at(c), 1, 10, nil) // too late
	s.await(t, "unmatched", 3)
}

// the copy that was taken back does not run again, a later one does.
func TestR273ALaterCopyRuns(t *testing.T) {
	r := newFakeRouter(t)
	s := newSlowServer(t, r, nil)
	worker, c := s.Addrs()[0], client(t)
	r.forward(worker, at(c), 1, numbered(10))
	<-s.begun
	r.cancel(worker, at(c), 1, 10, nil)
	r.next(ofPair(1))
	r.forward(worker, at(c), 1, numbered(10))
	r.forward(worker, at(c), 1, numbered(9))
	r.forward(worker, at(c), 1, numbered(11))
	<-s.begun
	s.goOn <- struct{}{}
	f, _, _ := r.next(ofPair(1))
	if f.Flags&wire.FeedbackCancelled != 0 || f.Received != 4 || f.Served != 4 { // those of the network too
		t.Errorf("FEEDBACK %+v", f)
	}
	if len(s.begun) != 0 {
		t.Error("an earlier copy ran")
	}
}
