// SPDX-License-Identifier: Apache-2.0

// Package keeper looks after switches: for each one it stays connected, becomes primary,
// has the pipeline run that is wanted, and compares what the switch holds with what it
// should, now and then and whenever something changes. Each switch has a goroutine of
// its own, so that a broken one holds up no other.
package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// Term is the right to act: that of the leader, for as long as its lease lasts (W-20).
type Term struct {
	// Number grows with every leader.
	Number int64
	// Until is when it is over unless it is renewed; zero: it never is.
	Until time.Time
}

// Over says that nothing may be written any more.
func (t Term) Over(now time.Time) bool { return !t.Until.IsZero() && !now.Before(t.Until) }

// Pipeline is what a switch is to run.
type Pipeline struct {
	Info *switches.Info
	// Device is what the compiler made for this target; it is needed where it is pushed.
	Device []byte
	// Cookie tells this pipeline from others.
	Cookie uint64
	// Push: put it there when the switch runs another; without, only compare.
	Push bool
}

// Desired is all that is asked of a switch.
type Desired struct {
	// Generation is of the object this was made from.
	Generation int64
	Target     link.Target
	// Identity changes whenever Target does: credentials cannot be compared.
	Identity string
	Pipeline Pipeline
	// Wanted is what the switch holds whatever it serves; Services come on top of it, at
	// places that are found by what it holds already.
	Wanted   []switches.Entry
	Services []switches.Service
	// VIPs are the same of a balancer of connections.
	VIPs []switches.VIP
	// Runs are the same of a load generator, which makes the first of them.
	Runs []switches.Run
	// Groups are the same of an aggregator.
	Groups []switches.Group
	// Boxes are the same of a flow-control box.
	Boxes []switches.Box
	// Revision changes whenever anything of what is wanted does.
	Revision string
	Ranks    map[string]int
	Tag      []byte
	// Clear: take away what is ours, and write nothing else.
	Clear bool
}

// State is what is known of a switch.
type State struct {
	// Generation is of the Desired that the last round worked on.
	Generation int64
	Connected  bool
	Role       link.Role
	// Cookie is what the switch reports, nil when it reports none.
	Cookie *uint64
	// Settled: the last read-back found exactly what is wanted (W-23).
	Settled bool
	// Cleared: nothing of ours is left, as read back.
	Cleared bool
	// Used is how many entries stand in each table.
	Used map[string]int64
	// Strange entries are not ours; Strangers names some. Contested stand where ours should.
	Strange   int
	Strangers []string
	Contested []string
	// Repaired counts entries that had to be put right after the switch held what was
	// wanted; Pushes counts pipelines.
	Repaired, Pushes int64
	// Services is what became of each, by name.
	Services map[string]ServiceState
	// Fault is what stands in the way, nil when nothing does.
	Fault *link.Fault
}

// ServiceState is what became of a service.
type ServiceState struct {
	// Version is the last one that was read back whole; empty: none was yet.
	Version string
	// Refused says why the version that is asked for is not tried; what was there stays.
	Refused string
}

// Keeper looks after any number of switches. Its methods never wait for one.
type Keeper struct {
	// Term says whether this process may act; it may read the lease anew.
	Term func(context.Context) (Term, error)
	// Notify is told the name of a switch of which something is new.
	Notify func(name string)
	// Now is the clock.
	Now func() time.Time
	// Patience bounds calls; Period is the time between two read-backs, and First the
	// first back-off, which doubles up to Longest.
	Patience               link.Patience
	Period, First, Longest time.Duration

	mu     sync.Mutex
	ctx    context.Context // that of Start
	all    map[string]*charge
	rounds sync.WaitGroup
}

// Defaults of a Keeper.
const (
	Period  = 5 * time.Second
	First   = 250 * time.Millisecond
	Longest = 30 * time.Second
)

// charge is one switch.
type charge struct {
	cancel context.CancelFunc
	news   chan struct{} // holds one when Desired changed

	mu      sync.Mutex
	desired Desired
	state   State
	counts  map[string]Counted
	// measured is what it measured of its services, by name.
	measured map[string]Measured
}

// Start runs until ctx ends, then leaves all switches as they are.
func (k *Keeper) Start(ctx context.Context) error {
	k.mu.Lock()
	k.ctx = ctx
	for name, c := range k.all {
		k.begin(name, c)
	}
	k.mu.Unlock()
	<-ctx.Done()
	k.rounds.Wait()
	return nil
}

// begin needs k.mu.
func (k *Keeper) begin(name string, c *charge) {
	if k.ctx == nil || k.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(k.ctx)
	c.cancel = cancel
	k.rounds.Add(1)
	go func() {
		defer k.rounds.Done()
		(&round{keeper: k, name: name, charge: c, written: map[string]bool{}}).run(ctx)
	}()
}

// Set says what a switch is to hold from now on.
func (k *Keeper) Set(name string, d Desired) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]*charge{}
	}
	c := k.all[name]
	if c == nil {
		c = &charge{news: make(chan struct{}, 1), cancel: func() {}}
		k.all[name] = c
		c.desired = d
		k.begin(name, c)
		return
	}
	c.mu.Lock()
	told := c.desired.Generation == d.Generation && c.desired.Identity == d.Identity && c.desired.Clear == d.Clear && c.desired.Revision == d.Revision
	c.desired = d
	c.mu.Unlock()
	if told {
		return
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Clear has what is ours taken off a switch, if anybody looks after it.
func (k *Keeper) Clear(name string) {
	k.mu.Lock()
	c := k.all[name]
	k.mu.Unlock()
	if c == nil {
		return
	}
	d := c.wanted()
	d.Clear = true
	k.Set(name, d)
}

// Forget leaves a switch alone from now on.
func (k *Keeper) Forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.all[name]; c != nil {
		c.cancel()
		delete(k.all, name)
	}
}

// State is what is known of a switch; false: nobody looks after it.
func (k *Keeper) State(name string) (State, bool) {
	k.mu.Lock()
	c := k.all[name]
	k.mu.Unlock()
	if c == nil {
		return State{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, true
}

func (c *charge) wanted() Desired {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.desired
}

// publish keeps a state and says whether it is another one.
func (c *charge) publish(s State) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := !same(c.state, s)
	c.state = s
	return changed
}
