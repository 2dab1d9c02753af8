// SPDX-License-Identifier: Apache-2.0

package balancers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

const (
	// Most balancers that are told.
	Most = 64
	// A key is as long as both ends take it.
	minKey, maxKey = 16, 64
)

// Options of a Teller.
type Options struct {
	Addresses []netip.AddrPort // of the balancers' report ports
	// KeyDir holds the key in the file "key"; a file "previous" is the one before,
	// by which answers may still be signed. Both are read anew every round.
	KeyDir string
	// Connections counts what servers of this node have open (redirect.Plane).
	Connections func() (map[netip.AddrPort]uint32, error)
}

// Counters say what became of reports.
type Counters struct {
	Sent    uint64 // datagrams
	NotSent uint64 // datagrams the network did not take
	// NoKey and NotCounted are rounds without a key and without a count.
	NoKey, NotCounted uint64
	Sessions          uint64 // opened
	Refused           uint64 // answers that none of our keys made, or not to what was just asked
}

// Teller tells. Methods may be called from several goroutines.
type Teller struct {
	options Options

	mu       sync.Mutex
	servers  []netip.AddrPort
	told     []loads.Load // in this round
	keys     [][]byte
	peers    []*peer
	counters Counters
	failing  map[string]bool // what is in the log
}

type peer struct {
	addr netip.AddrPort
	session
	conn *net.UDPConn // nil: not yet
}

// Parse reads a list "10.0.0.20:8470,[fd00::20]:8470".
func Parse(list string) (all []netip.AddrPort, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not ADDRESS:PORT, as 10.0.0.20:8470 or [fd00::20]:8470", text)
		}
		all = append(all, a)
	}
	return all, Check(all)
}

// Check tells what is wrong with a list of balancers.
func Check(all []netip.AddrPort) error {
	if len(all) > Most {
		return fmt.Errorf("%d balancers, at most %d can be told", len(all), Most)
	}
	for i, a := range all {
		if !usable(a) {
			return fmt.Errorf("%s is not the address and port of a host", a)
		}
		if slices.Contains(all[:i], a) {
			return fmt.Errorf("%s stands in the list twice", a)
		}
	}
	return nil
}

// New makes one that has nothing to tell yet.
func New(o Options) *Teller {
	t := &Teller{options: o, failing: map[string]bool{}}
	for _, a := range o.Addresses {
		var id [8]byte
		_, _ = rand.Read(id[:]) // never fails
		t.peers = append(t.peers, &peer{addr: a, session: session{head: head{sender: binary.BigEndian.Uint64(id[:])}}})
	}
	return t
}

// Set says which servers of this node are counted.
func (t *Teller) Set(servers []netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.servers = slices.DeleteFunc(slices.Clone(servers), func(a netip.AddrPort) bool { return !usable(a) })
}

// Run tells every interval until ctx ends.
func (t *Teller) Run(ctx context.Context) {
	var readers sync.WaitGroup
	tick := time.NewTicker(loads.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.close()
			readers.Wait()
			return
		case <-tick.C:
			t.connect(&readers)
			t.round()
		}
	}
}

// connect to those that could not be reached before.
func (t *Teller) connect(readers *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peers {
		if p.conn != nil {
			continue
		}
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(p.addr))
		if err != nil {
			t.log(p.addr.String(), err)
			continue
		}
		p.conn = conn
		readers.Go(func() { t.listen(p, conn) })
	}
}

func (t *Teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peers {
		if p.conn != nil {
			_ = p.conn.Close()
		}
	}
}

// round tells everybody once.
func (t *Teller) round() {
	t.mu.Lock()
	idle := len(t.servers) == 0
	t.mu.Unlock()
	if idle {
		return
	}
	counted, countErr := t.options.Connections()
	keys, keyErr := readKeys(t.options.KeyDir)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log("connections", countErr)
	t.log("key", keyErr)
	if keyErr == nil {
		t.keys = keys
	} else {
		t.counters.NoKey++
	}
	if countErr != nil {
		t.counters.NotCounted++
	}
	if countErr != nil || len(t.keys) == 0 {
		return // the last key goes on while the file is being exchanged
	}
	t.told = t.told[:0]
	for _, s := range t.servers {
		if n, known := counted[s]; known {
			t.told = append(t.told, loads.Load{Server: s, Open: n})
		}
	}
	for _, p := range t.peers {
		t.send(p, p.round(t.keys[0], t.told))
	}
}

func (t *Teller) send(p *peer, datagrams [][]byte) {
	for _, d := range datagrams {
		err := net.ErrClosed
		if p.conn != nil {
			_, err = p.conn.Write(d)
		}
		if err != nil {
			t.log(p.addr.String(), err) // once, until it answers: every other one may fail
			t.counters.NotSent++
		} else {
			t.counters.Sent++
		}
	}
}

// listen for a balancer's answers.
func (t *Teller) listen(p *peer, conn *net.UDPConn) {
	b := make([]byte, answerSize+1)
	for {
		n, err := conn.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			t.hear(p, b[:n])
		} // else an ICMP error to what was sent: nobody listens there, for now
	}
}

func (t *Teller) hear(p *peer, b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !p.hear(t.keys, b) {
		t.counters.Refused++
		return
	}
	t.counters.Sessions++
	t.log(p.addr.String(), nil)
	t.send(p, p.again(t.keys[0], t.told))
}

// log what begins to fail, and what works again.
func (t *Teller) log(what string, err error) {
	if (err != nil) == t.failing[what] {
		return
	}
	t.failing[what] = err != nil
	if err != nil {
		slog.Error("balancers are not told the loads of this node's servers; they choose at random among them", "of", what, "error", err)
	} else {
		slog.Info("balancers are told the loads of this node's servers again", "of", what)
	}
}

// Counters so far.
func (t *Teller) Counters() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counters
}

// readKeys gives the key that signs, and the one before if there is one.
func readKeys(dir string) (keys [][]byte, err error) {
	for _, name := range []string{"key", "previous"} {
		path := filepath.Join(dir, name)
		raw, err := os.ReadFile(path)
		if name != "key" && (errors.Is(err, fs.ErrNotExist) || err == nil && len(raw) == 0) {
			continue
		}
		if err != nil {
			return nil, err
		}
		key := bytes.TrimRight(raw, "\r\n") // as bobtail-crab-lb does
		if len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("%s must hold a key of %d to %d bytes; it has %d", path, minKey, maxKey, len(key))
		}
		keys = append(keys, key)
	}
	return keys, nil
}
