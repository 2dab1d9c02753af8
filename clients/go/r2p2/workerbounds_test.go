// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// the timers of each device; one that nobody knows has those of the kernel's.
func TestTimersOfDevices(t *testing.T) {
	kernel := Timers{RTO: 100 * time.Millisecond, Patience: 5 * time.Millisecond, GC: 400 * time.Millisecond, Quarantine: 800 * time.Millisecond,
		FeedbackPeriod: 100 * time.Millisecond, RouterHeard: time.Second, BurstGap: 100 * time.Microsecond, Burst: 64, SackRounds: 3}
	sriov := kernel
	sriov.RTO, sriov.Patience, sriov.GC, sriov.Quarantine, sriov.FeedbackPeriod = 2*time.Millisecond, 100*time.Microsecond, 8*time.Millisecond, 16*time.Millisecond, 10*time.Millisecond
	for p, want := range map[Profile]Timers{Kernel: kernel, AFXDP: kernel, SRIOV: sriov, "": kernel, "other": kernel} {
		if got := TimersFor(p); got != want {
			t.Errorf("%q: %+v, want %+v", p, got, want)
		}
	}
}

// a copy later than the one that was taken back runs, also where the numbers begin anew; nobody else does.
func TestWhichCopyComesAgain(t *testing.T) {
	w := &worker{done: map[pairKey]doneKnown{}}
	key := pairKey{netip.MustParseAddrPort("10.0.0.1:1"), 7}
	for _, c := range []struct {
		known     bool
		had, copy uint32
		has, want bool
	}{
		{true, 5, 6, true, true}, {true, 5, 5, true, false}, {true, 5, 4, true, false}, {true, 0xffffffff, 1, true, true}, {true, 1, 0xffffffff, true, false},
		{true, 5, 6, false, false}, {true, 0, 6, true, false}, {false, 0, 6, true, false},
	} {
		delete(w.done, key)
		if c.known {
			w.done[key] = doneKnown{copy: c.had}
		}
		o := &wire.Options{Copy: c.copy}
		if c.has {
			o.Present = wire.HasCopy
		}
		_, before := w.done[key]
		got := w.comesAgain(key, o)
		if _, after := w.done[key]; got != c.want || after != (before && !got) {
			t.Errorf("%+v: %v, known %v", c, got, after)
		}
	}
}

// A reply is cut into full packets, with what is echoed in the first alone; one that fits is one packet.
func TestRepliesAreCut(t *testing.T) {
	s := newServer(t, ServerConfig{MTU: 1500})
	w, room := s.workers[0], 1472
	p := &serverPair{key: pairKey{id: 9}, ext: true, echo: wire.Options{Present: wire.HasTrace, Trace: 77}}
	head := wire.HeaderSize + 12
	for size, want := range map[int][]int{
		0: {head}, room - head: {room}, room - head + 1: {room, wire.HeaderSize + 1}, 2*room - head - wire.HeaderSize: {room, room}, 2*room - head - wire.HeaderSize + 1: {room, room, wire.HeaderSize + 1},
	} {
		message := body(size)
		packets := w.cut(p, message)
		var joined []byte
		for i, b := range packets {
			var h wire.Header
			if m := h.Decode(b, wire.RoleClient); m != wire.OK || h.ReqID != 9 || h.First != (i == 0) || h.Last != (i == len(packets)-1) || (h.Options.Present != 0) != (i == 0) {
				t.Fatalf("%d bytes, packet %d: %v, %+v", size, i, m, h)
			}
			if i >= len(want) || len(b) != want[i] || i == 0 && int(h.Count) != len(want) {
				t.Errorf("%d bytes, packet %d of %d has %d bytes, want %v", size, i, len(packets), len(b), want)
			}
			joined = append(joined, h.Payload...)
		}
		if !bytes.Equal(joined, message) || len(packets) != len(want) {
			t.Errorf("%d bytes: %d packets, %d bytes", size, len(packets), len(joined))
		}
	}
}

// a request may hold its credit for its packets, and for the gap behind each burst of them.
func TestPatienceOfLongRequests(t *testing.T) {
	s := newServer(t, ServerConfig{})
	timers := s.timing()
	for count, want := range map[int]time.Duration{1: 1, 63: 1, 64: 2, 128: 3, 200: 4} {
		if got := s.workers[0].patienceFor(&serverPair{message: &assembly{count: count}}); got != want*timers.Patience {
			t.Errorf("%d packets: %v, want %v", count, got, want*timers.Patience)
		}
	}
}

// so many finished pairs are remembered, the newest of them; one whose time is over is not, and one that came again since
// is as long as it should be.
func TestFinishedPairsAreBounded(t *testing.T) {
	s := newServer(t, ServerConfig{})
	w := s.workers[0]
	w.mu.Lock()
	defer w.mu.Unlock()
	at := func(i int) pairKey { return pairKey{netip.AddrPortFrom(loopback, uint16(1+i>>16)), uint16(i)} }
	fill := func(n int, until time.Time) {
		w.done, w.expiry = map[pairKey]doneKnown{}, nil
		for i := range n {
			w.done[at(i)] = doneKnown{until: until}
			w.expiry = append(w.expiry, doneKey{at(i), until})
		}
	}
	for name, c := range map[string]struct {
		n     int
		until time.Duration
		again bool // the oldest came again since
		kept  int
		first bool // is known
	}{
		"room for one":      {maxDone - 1, time.Hour, false, maxDone, true},
		"full":              {maxDone, time.Hour, false, maxDone, false},
		"full, it is again": {maxDone, time.Hour, true, maxDone + 1, true},
		"all are over":      {5, -time.Hour, false, 1, false},
	} {
		fill(c.n, time.Now().Add(c.until))
		if c.again {
			w.done[at(0)] = doneKnown{until: time.Now().Add(2 * time.Hour)}
		}
		w.remember(&serverPair{key: at(1 << 17)})
		if len(w.done) != c.kept || w.known(at(0)) != c.first || !w.known(at(1<<17)) || len(w.expiry) > maxDone {
			t.Errorf("%s: %d are remembered, %d in their order, the first %v", name, len(w.done), len(w.expiry), w.known(at(0)))
		}
	}
}
