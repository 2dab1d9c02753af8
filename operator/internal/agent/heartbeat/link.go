// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

// Options of a Link.
type Options struct {
	// Name of this node.
	Name string
	// Keys: the first one signs, all are accepted, so that a key can be exchanged.
	Keys [][]byte
	// Listen is the address other agents send to.
	Listen netip.AddrPort
	// Life is how long a silent session lasts: the time after which an agent counts as dead.
	Life time.Duration
}

// Peer is another agent.
type Peer struct {
	Name string
	Addr netip.AddrPort
}

// Link sends and receives heartbeats. Methods may be called from several goroutines.
type Link struct {
	options Options
	conn    *net.UDPConn
	start   time.Time

	mu       sync.Mutex
	sessions *sessions
	peers    []Peer
	sequence uint64
	last     ownership.Message
	counters map[string]uint64
}

// Listen opens the socket.
func Listen(o Options) (*Link, error) {
	if len(o.Keys) == 0 {
		return nil, errors.New("heartbeat key: none is given")
	}
	for i, k := range o.Keys {
		if len(k) < MinKey {
			return nil, fmt.Errorf("heartbeat key %d has %d bytes, at least %d are needed", i+1, len(k), MinKey)
		}
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(o.Listen))
	if err != nil {
		return nil, fmt.Errorf("heartbeats: %w", err)
	}
	l := &Link{options: o, conn: conn, start: time.Now(), sessions: newSessions(o.Name, o.Life, randomNonce), counters: map[string]uint64{}}
	for _, r := range reasons {
		l.counters[string(r)] = 0
	}
	for _, name := range []string{"accepted", "sent", "send_failed"} {
		l.counters[name] = 0
	}
	return l, nil
}

func randomNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(binary.BigEndian.Uint64(b[:]), 1)
}

// Now is the link's clock: time since it was opened.
func (l *Link) Now() time.Duration { return time.Since(l.start) }

// Addr is where the link listens.
func (l *Link) Addr() netip.AddrPort { return l.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// SetPeers replaces the agents that are sent to.
func (l *Link) SetPeers(peers []Peer) {
	names := map[string]bool{}
	for _, p := range peers {
		names[p.Name] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers = peers
	l.sessions.keep(names)
}

// Say sends a message to every peer.
func (l *Link) Say(m ownership.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = m
	for _, p := range l.peers {
		l.send(p)
	}
}

// send writes the last message to one peer; the lock is held. A datagram that
// cannot be sent is counted and lost, as on the wire.
func (l *Link) send(to Peer) {
	nonce, echo := l.sessions.address(l.Now(), to.Name)
	l.sequence++
	b, err := seal(l.options.Keys[0], Packet{Nonce: nonce, Echo: echo, Sequence: l.sequence, Message: l.last})
	if err == nil {
		_, err = l.conn.WriteToUDPAddrPort(b, to.Addr)
	}
	if err != nil {
		l.counters["send_failed"]++
		return
	}
	l.counters["sent"]++
}

// Receive gives every sign of life to hear until the link is closed.
func (l *Link) Receive(hear func(ownership.Message)) error {
	buf := make([]byte, maxSize+1)
	for {
		n, _, err := l.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			continue // an ICMP error of something sent before
		}
		if m, ok := l.take(buf[:n]); ok {
			hear(m)
		}
	}
}

func (l *Link) take(b []byte) (ownership.Message, bool) {
	p, reason := unseal(l.options.Keys, b)
	l.mu.Lock()
	defer l.mu.Unlock()
	if reason == "" {
		reason = l.sessions.accept(l.Now(), p)
	}
	if reason == "" {
		l.counters["accepted"]++
		return p.Message, true
	}
	l.counters[string(reason)]++
	if reason == Hello { // it should not wait for our next heartbeat
		for _, to := range l.peers {
			if to.Name == p.Message.From && l.last.From != "" {
				l.send(to)
			}
		}
	}
	return ownership.Message{}, false
}

// Counters by reason.
func (l *Link) Counters() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]uint64, len(l.counters))
	for k, v := range l.counters {
		all[k] = v
	}
	return all
}

// Close ends Receive.
func (l *Link) Close() error { return l.conn.Close() }
