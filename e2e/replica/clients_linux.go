// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
	"github.com/bobtail-dev/bobtail/e2e/replica/tongue"
)

// Clients of a group, all in one namespace, each with a socket of its own.
type Clients struct {
	g    *Group
	list []*replica.Client
	tongue.Tongue
	acks atomic.Int64 // writes acknowledged so far

	mu    sync.Mutex
	acked []time.Time // of every acknowledged write: when it was asked for, and when it was acknowledged
	asked []time.Time
}

// Dial makes clients.
func (g *Group) Dial(n int, attempt time.Duration) (*Clients, error) {
	c := &Clients{g: g, Tongue: tongue.BuiltIn}
	if g.Redis {
		c.Tongue = tongue.Redis
	}
	var members []string
	for _, m := range g.Members {
		members = append(members, m.Address())
	}
	if g.Box != nil && n > 1 { // one client alone is to find the box through the members
		members = []string{g.Box.Address()}
	}
	err := g.inside(func() error {
		for range n {
			one, err := replica.Dial(context.Background(), replica.Config{Members: members, Timeout: max(8*time.Second, 3*attempt), Attempt: attempt})
			if err != nil {
				return err
			}
			c.list = append(c.list, one)
		}
		return nil
	})
	return c, err
}

// Close ends them.
func (c *Clients) Close() {
	for _, one := range c.list {
		_ = one.Close()
	}
}

// do performs one operation and puts it into the history.
func (c *Clients) do(h *history.History, client int, o history.Op) error {
	o.Client, o.Call = client, h.Now()
	asked := time.Now()
	var reply []byte
	var err error
	body := c.Ask(&o)
	if o.Kind == 'G' {
		reply, err = c.list[client].Read(context.Background(), body)
	} else {
		reply, err = c.list[client].Write(context.Background(), body)
	}
	o.End = h.Now()
	switch {
	case err == nil && len(reply) > 0:
		if err = c.Answer(&o, reply); err != nil {
			return err
		}
		h.Add(o)
		if o.Kind != 'G' {
			c.noteAck(asked)
		}
	case errors.Is(err, replica.ErrNotExecuted) && o.Kind != 'G':
		h.Refused(o)
	case o.Kind != 'G':
		o.Unknown = true
		h.Add(o)
	}
	return err
}

func (c *Clients) noteAck(asked time.Time) {
	c.acks.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.acked = append(c.asked, asked), append(c.acked, time.Now())
}

// firstAckAsked is how long after t the first write was acknowledged that was asked for after t.
func (c *Clients) firstAckAsked(t time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.acked {
		if c.asked[i].After(t) {
			return a.Sub(t), true
		}
	}
	return 0, false
}

func (c *Clients) forgetAcks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.acked = nil, nil
}

// A load of all clients on a few keys, until stop is closed.
type load struct {
	name   string
	h      *history.History
	stop   chan struct{}
	ended  sync.WaitGroup
	ops    atomic.Int64
	unsure atomic.Int64
}

// Load begins one on keys of its own.
func (c *Clients) Load(name string) *load {
	l := &load{name: name, h: history.New(), stop: make(chan struct{})}
	for i := range c.list {
		l.ended.Go(func() { c.run(l, i) })
	}
	return l
}

func (c *Clients) run(l *load, client int) {
	r := rand.New(rand.NewPCG(uint64(client), rand.Uint64()))
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		o := history.Draw(r, history.Keys(l.name, l.ops.Add(1)/history.OpsPerSet), fmt.Sprintf("<%d.%d>", client, n))
		if err := c.do(l.h, client, o); err != nil {
			l.unsure.Add(1)
		}
		time.Sleep(time.Duration(r.IntN(12)) * time.Millisecond)
	}
}

// finish ends the load, reads every key once more, and judges.
func (c *Clients) finish(l *load) (history.Verdict, error) {
	close(l.stop)
	l.ended.Wait()
	var keys []string
	for set := range l.ops.Load()/history.OpsPerSet + 1 {
		keys = append(keys, history.Keys(l.name, set)...)
	}
	for _, k := range keys {
		var err error
		for end := time.Now().Add(patience); ; {
			if err = c.do(l.h, 0, history.Op{Kind: 'G', Key: k}); err == nil || time.Now().After(end) {
				break
			}
		}
		if err != nil {
			return history.Verdict{}, fmt.Errorf("the last read of %s: %w", k, err)
		}
	}
	return l.h.Judge(20 * time.Second), nil
}

// state of a member as it is in its memory: every key and its value, in order; of
// Redis a sum over them.
func (c *Clients) state(m *Member) (string, error) {
	if c.g.Redis {
		return c.g.AskRedis(m, "DEBUG", "DIGEST")
	}
	addr := netip.MustParseAddrPort(m.Address())
	var all []byte
	after := ""
	for {
		o := append([]byte{'L', byte(len(after))}, after...)
		reply, err := c.list[0].ReadAt(context.Background(), addr, o)
		if err != nil {
			return "", err
		}
		if len(reply) <= 5 {
			return string(all), nil
		}
		for rest := reply[5:]; len(rest) > 0; {
			after = string(rest[1 : 1+rest[0]])
			rest = rest[1+rest[0]:]
			get := history.Op{Kind: 'G', Key: after}
			value, err := c.list[0].ReadAt(context.Background(), addr, get.Body())
			if err != nil {
				return "", err
			}
			all = fmt.Appendf(all, "%s=%s\n", after, value)
		}
	}
}
