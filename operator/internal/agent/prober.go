// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/probe"
)

// atOnce bounds the probes under way: each has a socket of its own.
const atOnce = 128

// prober asks servers once a second (C-52), from this node's address of their family.
type prober struct {
	ask     func(context.Context, netip.AddrPort) (redirect.State, error)
	changed chan struct{}

	mu      sync.Mutex
	targets map[netip.AddrPort]*target
	before  map[netip.AddrPort]redirect.State // what a former process knew
	failed  uint64                            // the prober's own troubles
}

type target struct {
	health probe.Health
	asked  int
	over   bool // asked no more: its server terminates, and what was known of it last holds
}

func newProber(from netip.Addr, wire redirect.Wire) *prober {
	return &prober{
		changed: make(chan struct{}, 1), targets: map[netip.AddrPort]*target{},
		ask: func(ctx context.Context, to netip.AddrPort) (redirect.State, error) {
			local, mark := from, probe.Mark
			if to.Addr().Is6() {
				mark = probe.MarkSix
			}
			if to.Addr().Is6() != from.Is6() {
				local = netip.Addr{} // the one the route gives
			}
			return probe.Probe(ctx, local, mark, to, wire)
		},
	}
}

// inherit takes over what the pools of a former process say.
func (p *prober) inherit(vips []redirect.VIP) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = map[netip.AddrPort]redirect.State{}
	for _, v := range vips {
		for _, b := range v.Backends {
			switch server := netip.AddrPortFrom(b.Addr, v.Port); b.State {
			case redirect.UpCRAB, redirect.UpPlain:
				p.before[server] = b.State
			case redirect.Draining: // only those that echo are
				p.before[server] = redirect.UpCRAB
			}
		}
	}
}

// set replaces the servers to ask, and those that are asked no more; one that stays keeps what is known of it.
func (p *prober) set(servers, over []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := make(map[netip.AddrPort]*target, len(servers)+len(over))
	for _, s := range over {
		next[s] = p.target(s)
		next[s].over = true
	}
	for _, s := range servers {
		next[s] = p.target(s)
		next[s].over = false
	}
	p.targets = next
}

// target is what is known of a server.
func (p *prober) target(server netip.AddrPort) *target {
	if t := p.targets[server]; t != nil {
		return t
	}
	state, known := p.before[server]
	if !known {
		return &target{}
	}
	delete(p.before, server)
	return &target{health: probe.Presume(state), asked: 1}
}

// health is what the probes of a server say, or of those of a former process; false
// until there were enough of them to say that it is down.
func (p *prober) health(server netip.AddrPort) (redirect.State, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[server]
	if t == nil { // pools are written before servers are asked
		state, known := p.before[server]
		return state, known
	}
	if t.asked == 0 {
		return redirect.Down, false
	}
	state := t.health.State()
	return state, state != redirect.Down || t.asked >= probe.FailuresToDown
}

// run asks until ctx ends.
func (p *prober) run(ctx context.Context) {
	tick := time.NewTicker(probe.DefaultInterval)
	defer tick.Stop()
	for {
		p.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// round asks every server once.
func (p *prober) round(ctx context.Context) {
	p.mu.Lock()
	servers := make([]netip.AddrPort, 0, len(p.targets))
	for s, t := range p.targets {
		if !t.over {
			servers = append(servers, s)
		}
	}
	p.mu.Unlock()
	var asking sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, s := range servers {
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, probe.DefaultTimeout)
			defer cancel()
			state, err := p.ask(ctx, s)
			p.observe(s, state, err)
		})
	}
	asking.Wait()
}

// observe takes one answer. An error says nothing of the server.
func (p *prober) observe(server netip.AddrPort, state redirect.State, err error) {
	before, known := p.health(server)
	p.mu.Lock()
	if err != nil {
		p.failed++
	} else if t := p.targets[server]; t != nil {
		t.health.Observe(state)
		t.asked++
	}
	p.mu.Unlock()
	if after, now := p.health(server); after != before || known != now {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
}

// failures are the probes that could not be sent.
func (p *prober) failures() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}
