// SPDX-License-Identifier: Apache-2.0

// Package keeper keeps this node's share of the VIPs: it talks to the other
// agents, decides with them who announces what, and watches the uplink. Who uses
// it makes the node balance a VIP first and has it announced then.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/announce"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
)

const (
	think = 50 * time.Millisecond  // between decisions when nothing is heard
	look  = 100 * time.Millisecond // between looks at the uplink
	// Grace is how long a node balances a VIP after it gave it away: neighbour
	// entries of clients may point here for so long.
	Grace = time.Minute
)

// Options of a Keeper.
type Options struct {
	Name   string // of this node
	Uplink int    // index of the device
	Keys   [][]byte
	Listen netip.AddrPort
	Hold   time.Duration // 0: ownership.DefaultHold
	// Balanced are VIPs a former process balanced here: they are treated as given
	// away just now.
	Balanced []netip.Addr
	// Loads is told what other nodes report of their servers (C-62); it may be nil.
	Loads func(node string, all []loads.Load)
	// Event is told what changes and why; it must not block.
	Event func(ownership.Change)
}

// Keeper runs one node's part. Methods may be called from several goroutines.
type Keeper struct {
	options Options
	link    *heartbeat.Link
	wire    *announce.Announcer
	changed chan struct{}

	mu        sync.Mutex
	machine   *ownership.Machine
	peers     []heartbeat.Peer
	vips      map[netip.Addr]bool // that may be owned by whomever
	announced map[netip.Addr]bool
	given     map[netip.Addr]time.Duration // when a VIP was given away
	renew     map[netip.Addr]bool
	repeats   int           // messages that repeat a change
	next      time.Duration // when the next message is due
	received  uint64        // packets on the uplink, at the last look
	asked     time.Duration
	alive     []string
}

// New opens the sockets.
func New(o Options) (*Keeper, error) {
	wire, err := announce.Open(o.Uplink)
	if err != nil {
		return nil, err
	}
	link, err := heartbeat.Listen(heartbeat.Options{Name: o.Name, Keys: o.Keys, Listen: o.Listen, Life: ownership.DefaultDeadAfter})
	if err != nil {
		return nil, errors.Join(err, wire.Close())
	}
	given := map[netip.Addr]time.Duration{}
	for _, vip := range o.Balanced {
		given[vip] = link.Now()
	}
	return &Keeper{
		options: o, link: link, wire: wire, changed: make(chan struct{}, 1),
		machine:   ownership.New(ownership.Config{Self: o.Name, Hold: o.Hold}, link.Now()),
		announced: map[netip.Addr]bool{}, given: given, renew: map[netip.Addr]bool{},
	}, nil
}

// Run keeps until ctx ends, and tells the others then that this node leaves.
func (k *Keeper) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { k.wire.Run() })
	running.Go(func() { _ = k.link.Receive(heartbeat.Ears{Heartbeat: k.hear, Loads: k.options.Loads}) })
	thinking, looking := time.NewTicker(think), time.NewTicker(look)
	defer thinking.Stop()
	defer looking.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-thinking.C:
			k.step()
		case <-looking.C:
			k.look()
		}
	}
	k.mu.Lock()
	k.machine.Leave()
	k.mu.Unlock()
	for range 1 + ownership.Repeats {
		k.step()
		k.say()
	}
	k.link.Close()
	k.wire.Close()
	running.Wait()
}

func (k *Keeper) hear(m ownership.Message) {
	k.mu.Lock()
	k.machine.Hear(k.link.Now(), m)
	k.mu.Unlock()
	k.step()
}

// step decides, and says what is due.
func (k *Keeper) step() {
	now := k.link.Now()
	k.mu.Lock()
	changes := k.machine.Step(now)
	if alive := k.machine.Alive(); !slices.Equal(alive, k.alive) {
		k.alive = alive
		k.wake()
	}
	for _, c := range changes {
		k.change(now, c)
	}
	for vip, when := range k.given {
		if now-when >= Grace {
			delete(k.given, vip)
			k.wake()
		}
	}
	due := len(changes) > 0 || now >= k.next
	if len(changes) > 0 {
		k.repeats = ownership.Repeats
	}
	k.mu.Unlock()
	if due {
		k.say()
	}
}

// change does what cannot wait; the lock is held. What is yielded is not
// answered for from now on; what is taken must be balanced first.
func (k *Keeper) change(now time.Duration, c ownership.Change) {
	switch c.Action {
	case ownership.Yield:
		k.wire.Withdraw(c.VIP)
		delete(k.announced, c.VIP)
		k.given[c.VIP] = now
	case ownership.Take:
		delete(k.given, c.VIP)
	case ownership.Renew:
		k.renew[c.VIP] = true
	}
	k.wake()
	if k.options.Event != nil {
		k.options.Event(c)
	}
}

func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *Keeper) say() {
	k.mu.Lock()
	m := k.machine.Say()
	k.next = k.link.Now() + ownership.DefaultInterval
	if k.repeats > 0 {
		k.repeats--
		k.next = k.link.Now() + ownership.RepeatInterval
	}
	k.mu.Unlock()
	k.link.Say(m)
}

// look at the uplink: carrier, and whether anybody is heard.
func (k *Keeper) look() {
	state, err := devices.State(k.options.Uplink)
	now, heard := k.link.Now(), k.wire.Hosts()
	k.mu.Lock()
	k.machine.SetLink(now, err == nil && state.Up)
	hosts := company(heard, k.peers, k.vips)
	k.machine.Company(len(hosts) > 0)
	if state.Received != k.received {
		k.received = state.Received
		k.machine.Wire(now)
	}
	ask := k.machine.Ask(now) && now-k.asked >= ownership.DefaultInterval
	if ask {
		k.asked = now
	}
	peers := k.peers
	k.mu.Unlock()
	if ask {
		k.ask(peers, hosts)
	}
	k.step()
}

// ask the router, the other nodes, and whoever spoke before: a host without agent answers too.
func (k *Keeper) ask(peers []heartbeat.Peer, hosts []netip.Addr) {
	six := k.options.Listen.Addr().Is6() // as all the agents' addresses are
	from, err := devices.Address(k.options.Uplink, six)
	if err != nil {
		return
	}
	k.wire.Ask(from, questions(six, devices.Gateway(k.options.Uplink, six), peers, hosts))
}

// SetVIPs replaces the VIPs that may be owned here.
func (k *Keeper) SetVIPs(vips []netip.Addr) error {
	if len(vips) > heartbeat.MaxVIPs {
		return fmt.Errorf("%d VIPs to announce, at most %d", len(vips), heartbeat.MaxVIPs)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.machine.SetVIPs(vips)
	k.vips = map[netip.Addr]bool{}
	for _, vip := range vips {
		k.vips[vip] = true
	}
	for vip := range k.announced {
		if !slices.Contains(vips, vip) {
			k.wire.Withdraw(vip)
			delete(k.announced, vip)
		}
	}
	for vip := range k.given {
		if !slices.Contains(vips, vip) {
			delete(k.given, vip)
		}
	}
	return nil
}

// SetPeers replaces the other agents.
func (k *Keeper) SetPeers(peers []heartbeat.Peer) {
	k.link.SetPeers(peers)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.peers = peers
	k.machine.Expect(len(peers) > 0)
}

// Changed tells that what is owned or balanced here has changed, or who is alive.
// After it, make the node balance what Balanced says, and call Announce.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Owned are the VIPs this node announces.
func (k *Keeper) Owned() []netip.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.machine.Owned()
}

// Balanced are those it balances: the owned ones, and those given away lately.
func (k *Keeper) Balanced() map[netip.Addr]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[netip.Addr]bool{}
	for _, vip := range k.machine.Owned() {
		all[vip] = true
	}
	for vip := range k.given {
		all[vip] = true
	}
	return all
}

// Announce says that the node balances these; those that are owned still are
// announced, if they are not yet.
func (k *Keeper) Announce(vips []netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owned := k.machine.Owned()
	for _, vip := range vips {
		if slices.Contains(owned, vip) && (!k.announced[vip] || k.renew[vip]) {
			k.announced[vip] = true
			delete(k.renew, vip)
			k.wire.Announce(vip)
		}
	}
}

// Alive are the agents that are heard.
func (k *Keeper) Alive() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.machine.Alive()
}

// Owner of a VIP as far as is known here.
func (k *Keeper) Owner(vip netip.Addr) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.machine.Owner(vip)
}

// Expected is how many other agents should be heard.
func (k *Keeper) Expected() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.peers)
}

// Tell another node of this one's loads; nothing is sent to one that is not heard.
func (k *Keeper) Tell(node string, all []loads.Load) { k.link.Report(node, all) }

// SetKeys exchanges the heartbeats' keys, newest first.
func (k *Keeper) SetKeys(keys [][]byte) error { return k.link.SetKeys(keys) }

// Counters of heartbeats, of ARP and of NDP.
func (k *Keeper) Counters() (heartbeats, arp, ndp map[string]uint64) {
	return k.link.Counters(), k.wire.Counters(announce.ARP), k.wire.Counters(announce.NDP)
}
