// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

// Options of a Link.
type Options struct {
	// Name of this node.
	Name string
	// Keys, newest first; all are accepted, so that a key can be exchanged.
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

// Link sends and receives heartbeats and reports. Methods may be called from
// several goroutines.
type Link struct {
	conn  *net.UDPConn
	start time.Time

	mu       sync.Mutex
	exchange *exchange
	peers    []Peer
	last     ownership.Message
}

// Listen opens the socket.
func Listen(o Options) (*Link, error) {
	if err := CheckKeys(o.Keys); err != nil {
		return nil, err
	}
	network := "udp4"
	if o.Listen.Addr().Is6() {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(o.Listen))
	if err != nil {
		return nil, fmt.Errorf("heartbeats: %w", err)
	}
	return &Link{conn: conn, start: time.Now(), exchange: newExchange(o.Name, o.Keys, o.Life, randomNonce)}, nil
}

// CheckKeys says what is wrong with keys.
func CheckKeys(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("heartbeat key: none is given")
	}
	for i, k := range keys {
		if len(k) < MinKey {
			return fmt.Errorf("heartbeat key %d has %d bytes, at least %d are needed", i+1, len(k), MinKey)
		}
	}
	return nil
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
	l.exchange.keep(names)
}

// SetKeys exchanges the keys, newest first. No heartbeat is lost by it, whatever
// the order in which agents learn of a new key; one that is not among them any
// more is accepted for KeyLinger.
func (l *Link) SetKeys(keys [][]byte) error {
	if err := CheckKeys(keys); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exchange.ring.set(l.Now(), keys)
	return nil
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

// send writes the last message to one peer; the lock is held.
func (l *Link) send(to Peer) {
	b, err := l.exchange.heartbeat(l.Now(), to.Name, l.last)
	l.write(to, b, err, sent)
}

// write sends a datagram; the lock is held. One that cannot be sent is counted
// and lost, as on the wire.
func (l *Link) write(to Peer, b []byte, err error, counter string) {
	if err == nil {
		_, err = l.conn.WriteToUDPAddrPort(b, to.Addr)
	}
	if err != nil {
		counter = sendFailed
	}
	l.exchange.counters[counter]++
}

// Report tells a peer of loads; nothing is sent to one that is not heard.
func (l *Link) Report(to string, all []loads.Load) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		if p.Name != to {
			continue
		}
		datagrams, err := l.exchange.reports(l.Now(), to, all)
		if err != nil {
			l.write(p, nil, err, reportsSent)
		}
		for _, b := range datagrams {
			l.write(p, b, nil, reportsSent)
		}
	}
}

// Ears hear what comes in; Loads may be nil.
type Ears struct {
	Heartbeat func(ownership.Message)
	Loads     func(from string, all []loads.Load)
}

// Receive gives what comes in to the ears until the link is closed.
func (l *Link) Receive(e Ears) error {
	buf := make([]byte, maxSize+1)
	for {
		n, _, err := l.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			continue // an ICMP error of something sent before
		}
		switch got := l.take(buf[:n]); {
		case got == nil:
		case got.message != nil:
			e.Heartbeat(*got.message)
		case e.Loads != nil:
			e.Loads(got.from, got.loads)
		}
	}
}

func (l *Link) take(b []byte) *heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	got, hello := l.exchange.take(l.Now(), b)
	for _, to := range l.peers {
		if to.Name == hello && l.last.From != "" { // it should not wait for our next heartbeat
			l.send(to)
		}
	}
	return got
}

// Counters by reason.
func (l *Link) Counters() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.exchange.counters)
}

// Close ends Receive.
func (l *Link) Close() error { return l.conn.Close() }
