// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// settled waits until a pair has its reply, and says how many packets of it are
// kept.
func settled(t *testing.T, w *worker, client netip.AddrPort, id uint16) int {
	t.Helper()
	key := pairKey{client, id}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		w.mu.Lock()
		_, done := w.done[key]
		p := w.pairs[key]
		keeps := 0
		if p != nil && p.state == kept {
			keeps = len(p.replies)
		}
		w.mu.Unlock()
		if done || keeps > 0 {
			return keeps
		}
	}
	t.Fatalf("pair %d is not answered", id)
	return 0
}

// the packets of a train are kept, since they can be asked for again; a
// reply of one packet is not, nor one to a peer that cannot ask.
func TestR24OnlyTrainsAreKept(t *testing.T) {
	s := newServer(t, ServerConfig{Handler: HandlerFunc(func(_ context.Context, q *ServerRequest) ([]byte, error) {
		return body(4000 * (int(q.ID) - 1)), nil
	})})
	s.mu.Lock()
	s.timers.GC = time.Hour // nothing is collected meanwhile
	s.mu.Unlock()
	c := client(t)
	for _, one := range []struct {
		name string
		id   uint16
		ext  bool
		want int
	}{
		{"one packet", 1, true, 0},
		{"a train", 2, true, 3},
		{"a train to a peer without extensions", 3, false, 0},
	} {
		h := wire.Header{Type: wire.Request, First: true, Last: true, Ext: one.ext, ReqID: one.id, Count: 1}
		b, _ := h.Append(nil)
		if _, err := c.WriteToUDPAddrPort(b, s.Addrs()[0]); err != nil {
			t.Fatal(err)
		}
		if got := settled(t, s.workers[0], at(c), one.id); got != one.want {
			t.Errorf("%s: %d packets kept, want %d", one.name, got, one.want)
		}
	}
	if s.Backlog() != 0 {
		t.Errorf("backlog %d: what is kept keeps nobody busy", s.Backlog())
	}
}
