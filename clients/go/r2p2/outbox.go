// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"net/netip"
	"sync"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

const (
	// batchSize is how many packets one system call takes or gives at most.
	batchSize = 32
	// outboxFull is how many packets may wait; who posts more waits until they left.
	outboxFull = 8 * batchSize
	// outboxKeep is how many bytes an outbox keeps for the next packets.
	outboxKeep = 1 << 18
)

// outgoing is a packet that waits: bytes from..to of its batch.
type outgoing struct {
	from, to int
	addr     netip.AddrPort
}

// batch is packets in the order they leave in, and their bytes.
type batch struct {
	bytes   []byte
	packets []outgoing
}

func (b *batch) packet(i int) []byte { return b.bytes[b.packets[i].from:b.packets[i].to] }

// empty forgets the packets and keeps the memory, unless that is much.
func (b *batch) empty() {
	if cap(b.bytes) > outboxKeep {
		b.bytes = nil
	}
	b.bytes, b.packets = b.bytes[:0], b.packets[:0]
}

// outbox sends the packets of a socket, in the order they were posted in. Post
// copies, so nobody's bytes are held; flush sends all that was posted until
// then, with one system call where the kernel has one. Whoever flushes while
// another does leaves the packets to that one.
type outbox struct {
	sock    *socket
	refused func(error) // for each packet that the kernel did not take

	mu      sync.Mutex
	waiting batch

	sending sync.Mutex // guards what follows
	leaving batch
	calls   sender
}

func newOutbox(s *socket, refused func(error)) *outbox {
	o := &outbox{sock: s, refused: refused}
	o.calls.init(s)
	return o
}

// post puts a packet of a header and a payload behind those that wait.
func (o *outbox) post(h *wire.Header, payload []byte, to netip.AddrPort) {
	o.mu.Lock()
	b := &o.waiting
	from := len(b.bytes)
	b.bytes, _ = h.Append(b.bytes)
	b.bytes = append(b.bytes, payload...)
	full := o.admit(from, to)
	o.mu.Unlock()
	if full {
		o.drain()
	}
}

// postPacket puts a whole packet behind those that wait.
func (o *outbox) postPacket(packet []byte, to netip.AddrPort) {
	o.mu.Lock()
	from := len(o.waiting.bytes)
	o.waiting.bytes = append(o.waiting.bytes, packet...)
	full := o.admit(from, to)
	o.mu.Unlock()
	if full {
		o.drain()
	}
}

// admit makes a packet of the bytes behind from; true: enough of them wait.
func (o *outbox) admit(from int, to netip.AddrPort) bool {
	b := &o.waiting
	if lose := o.sock.lose.Load(); lose != nil && (*lose)(b.bytes[from:], to) {
		b.bytes = b.bytes[:from]
		return false
	}
	b.packets = append(b.packets, outgoing{from, len(b.bytes), to})
	return len(b.packets) >= outboxFull
}

func (o *outbox) waits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting.packets) > 0
}

// flush sends what waits. It returns at once when somebody else is sending, who
// looks again before leaving.
func (o *outbox) flush() {
	for o.waits() && o.sending.TryLock() {
		o.sendAll()
		o.sending.Unlock()
	}
}

// drain sends what waits, behind what is being sent.
func (o *outbox) drain() {
	o.sending.Lock()
	o.sendAll()
	o.sending.Unlock()
	o.flush()
}

// sendAll sends what waits now; callers hold sending.
func (o *outbox) sendAll() {
	o.mu.Lock()
	o.waiting, o.leaving = o.leaving, o.waiting
	o.mu.Unlock()
	for at := 0; at < len(o.leaving.packets); {
		at += o.calls.send(&o.leaving, at, o.refused)
	}
	o.leaving.empty()
}
