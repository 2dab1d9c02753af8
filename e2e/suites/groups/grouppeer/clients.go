// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
	"github.com/bobtail-dev/bobtail/e2e/replica/tongue"
)

const (
	// unanswered is how long a client repeats a write before it counts as failed.
	unanswered = 10 * time.Second
	attempt    = 300 * time.Millisecond
	// pace is the longest pause of a client, in ms: the load leaves processors to the cluster.
	pace      = 40
	mostLoads = 64
	// lastReads: the group has to answer them some time.
	lastReads = 60 * time.Second
	// judging one history takes at most so long; without a verdict it counts as bad.
	judging = 20 * time.Second
)

// peer has the clients of a group, each with a socket of its own.
type peer struct {
	clients []*replica.Client
	speaks  tongue.Tongue
	mu      sync.Mutex
	now     *load
}

// load is what clients do until they are told to stop.
type load struct {
	name    string
	clients int
	h       *history.History
	stop    chan struct{}
	ended   sync.WaitGroup

	ops, writes, reads, failedWrites, failedReads atomic.Int64
	slowest                                       atomic.Int64 // ms of the write that took longest
	mu                                            sync.Mutex
	says                                          []string
	acked, pause                                  int64 // ns of the last acknowledged write; and of the longest time without one
}

// Counts is what clients have got so far.
type Counts struct {
	Writes, Reads, FailedWrites, FailedReads, SlowestWriteMilliseconds int64
	// PauseMilliseconds is the longest time in which no write of any client was acknowledged, since "forget".
	PauseMilliseconds int64
	Says              []string
}

// dial waits until the name resolves: the group's Service may be made after this pod.
func dial(target string, speaks tongue.Tongue) (*peer, error) {
	p := &peer{speaks: speaks}
	for len(p.clients) < mostLoads {
		one, err := replica.Dial(context.Background(), replica.Config{Members: []string{target}, Timeout: unanswered, Attempt: attempt})
		if err != nil {
			if len(p.clients) > 0 {
				return nil, err
			}
			time.Sleep(200 * time.Millisecond)
			continue
		}
		p.clients = append(p.clients, one)
	}
	return p, nil
}

func (p *peer) begin(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("begin NAME CLIENTS")
	}
	n, err := strconv.Atoi(args[1])
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || n < 1 || n > len(p.clients) || p.now != nil {
		return nil, fmt.Errorf("%s clients, of 1 to %d, and one load at a time", args[1], len(p.clients))
	}
	p.now = &load{name: args[0], clients: n, h: history.New(), stop: make(chan struct{})}
	for i := range n {
		p.now.ended.Go(func() { p.run(p.now, i) })
	}
	return "begun", nil
}

func (p *peer) run(l *load, client int) {
	r := rand.New(rand.NewPCG(uint64(client), rand.Uint64()))
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		set := l.ops.Add(1) / history.OpsPerSet
		if o := history.Draw(r, history.Keys(l.name, set), fmt.Sprintf("<%d.%d>", client, n)); p.do(l, client, o) != nil && o.Kind != 'G' {
			continue
		}
		time.Sleep(time.Duration(r.IntN(pace)) * time.Millisecond)
	}
}

// do performs one operation and puts it into the history.
func (p *peer) do(l *load, client int, o history.Op) error {
	o.Client, o.Call = client, l.h.Now()
	err := p.ask(client, &o)
	o.End = l.h.Now()
	l.count(o, err)
	switch {
	case err == nil:
		l.h.Add(o)
	case errors.Is(err, replica.ErrNotExecuted) && o.Kind != 'G':
		l.h.Refused(o)
	case o.Kind != 'G':
		o.Unknown = true
		l.h.Add(o)
	}
	return err
}

// ask puts one operation to the group, and its answer into it.
func (p *peer) ask(client int, o *history.Op) error {
	send, body := p.clients[client].Write, p.speaks.Ask(o)
	if o.Kind == 'G' {
		send = p.clients[client].Read
	}
	reply, err := send(context.Background(), body)
	if err != nil {
		return err
	}
	return p.speaks.Answer(o, reply)
}

func (l *load) count(o history.Op, err error) {
	took := (o.End - o.Call) / 1e6
	if o.Kind == 'G' {
		l.reads.Add(1)
		if err != nil {
			l.failedReads.Add(1)
		}
		return
	}
	l.writes.Add(1)
	for old := l.slowest.Load(); took > old && !l.slowest.CompareAndSwap(old, took); old = l.slowest.Load() {
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.pause, l.acked = max(l.pause, o.End-l.acked), max(l.acked, o.End)
		return
	}
	l.failedWrites.Add(1)
	if len(l.says) < 5 {
		l.says = append(l.says, fmt.Sprintf("%c of %s after %d ms: %v", o.Kind, o.Key, took, err))
	}
}

func (l *load) counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Counts{l.writes.Load(), l.reads.Load(), l.failedWrites.Load(), l.failedReads.Load(), l.slowest.Load(), l.pause / 1e6, l.says}
}

func (p *peer) state([]string) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return nil, errors.New("nothing was begun")
	}
	return p.now.counts(), nil
}

// forget begins the measurement of a pause again.
func (p *peer) forget([]string) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return nil, errors.New("nothing was begun")
	}
	p.now.mu.Lock()
	defer p.now.mu.Unlock()
	p.now.pause = 0
	return "forgotten", nil
}

// end stops the clients, reads every key once more, and judges.
func (p *peer) end([]string) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.now
	if l == nil {
		return nil, errors.New("nothing was begun")
	}
	p.now = nil
	close(l.stop)
	l.ended.Wait()
	counts := l.counts()
	until := time.Now().Add(lastReads)
	for set := range l.ops.Load()/history.OpsPerSet + 1 {
		for _, k := range history.Keys(l.name, set) {
			err := p.do(l, 0, history.Op{Kind: 'G', Key: k})
			for err != nil && time.Now().Before(until) {
				err = p.do(l, 0, history.Op{Kind: 'G', Key: k})
			}
			if err != nil {
				return nil, fmt.Errorf("the last read of %s: %w", k, err)
			}
		}
	}
	v := l.h.Judge(judging)
	return struct {
		Counts
		Checked, Bad, Lost, Executed int
		Verdict                      []string
	}{counts, v.Checked, v.Bad, v.Lost, v.Executed, v.Says}, nil
}

func (p *peer) put(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("put KEY VALUE")
	}
	return "done", p.ask(0, &history.Op{Kind: 'P', Key: args[0], Value: args[1]})
}

func (p *peer) get(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("get KEY")
	}
	o := history.Op{Kind: 'G', Key: args[0]}
	err := p.ask(0, &o)
	return o.Result, err
}
