// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of the port that anybody may reach. A kubelet's probes, a scrape every
// few seconds and a person's `kubectl bobtail` stay far below them; whoever asks
// in a loop is told to wait, and neither the dataplane's control socket nor the
// operator's own reads are held up.
const (
	connectionsEach = 8   // from one address
	connectionsAll  = 256 // a probe needs one; more than 30 addresses must conspire
	requestsEach    = 20  // a second, from one address
	burstEach       = 60
	addressesMost   = 1024
	// figuresAtOnce answers are made at a time: each asks the dataplane or
	// formats a histogram.
	figuresAtOnce = 2
	figuresWait   = time.Second
)

// callers remembers what each address did lately.
type callers struct {
	now func() time.Time

	mu    sync.Mutex
	by    map[string]*caller
	conns int
}

type caller struct {
	conns  int
	tokens float64
	filled time.Time
}

func newCallers() *callers { return &callers{now: time.Now, by: map[string]*caller{}} }

// of finds an address; the caller holds the lock. Addresses without a
// connection that have long been quiet are forgotten.
func (c *callers) of(address string) *caller {
	if one := c.by[address]; one != nil {
		return one
	}
	if len(c.by) >= addressesMost {
		for a, one := range c.by {
			if one.conns == 0 && c.now().Sub(one.filled) > burstEach/requestsEach*time.Second {
				delete(c.by, a)
			}
		}
	}
	one := &caller{tokens: burstEach, filled: c.now()}
	if len(c.by) < addressesMost {
		c.by[address] = one
	}
	return one
}

// connect says whether one more connection may stay.
func (c *callers) connect(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.of(address)
	if c.conns >= connectionsAll || one.conns >= connectionsEach {
		return false
	}
	c.conns++
	one.conns++
	return true
}

func (c *callers) disconnect(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns--
	if one := c.by[address]; one != nil {
		one.conns--
	}
}

// admit takes one request out of the address's allowance.
func (c *callers) admit(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, now := c.of(address), c.now()
	one.tokens = min(burstEach, one.tokens+requestsEach*now.Sub(one.filled).Seconds())
	one.filled = now
	if one.tokens < 1 {
		return false
	}
	one.tokens--
	return true
}

// limited is a listener that closes what is too many.
type limited struct {
	net.Listener
	callers *callers
}

func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := host(conn.RemoteAddr().String())
		if l.callers.connect(address) {
			return &counted{Conn: conn, close: sync.OnceFunc(func() { l.callers.disconnect(address) })}, nil
		}
		_ = conn.Close()
	}
}

type counted struct {
	net.Conn
	close func()
}

func (c *counted) Close() error {
	c.close()
	return c.Conn.Close()
}

func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// paced answers 429 to an address that asks too often.
func paced(c *callers, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.admit(host(r.RemoteAddr)) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests from your address: at most 20 a second", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fewAtOnce lets a few requests through at a time; the others wait a second.
func fewAtOnce(next http.Handler) http.Handler {
	slots := make(chan struct{}, figuresAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		patience := time.NewTimer(figuresWait)
		defer patience.Stop()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		case <-patience.C:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy answering others", http.StatusServiceUnavailable)
		case <-r.Context().Done():
		}
	})
}
