// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/balancers"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/reports"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/waits"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/probe"
)

const (
	expireEvery = 2 * time.Second
	rescanEvery = 10 * time.Second // of devices, besides their events
	// settle is how long changes of the cluster are gathered; a change of
	// ownership is not made to wait.
	settle = 50 * time.Millisecond
)

// agent is one node's.
type agent struct {
	options Options
	cluster *cluster
	plane   redirect.Plane
	applier *desired.Applier
	keeper  *keeper.Keeper
	prober  *prober
	uplink  devices.Device
	report  *reporter
	loads   *reports.Reporter
	teller  *balancers.Teller
	keys    *keyring
	waits   *waits.Waits
	lately  share.Lately
	known   atomic.Pointer[[]netip.Addr] // the addresses somebody must announce
	named   atomic.Pointer[waits.Services]
	flows   atomic.Int64                      // translations of the last sweep
	evicted atomic.Pointer[map[string]uint64] // what full maps have pushed out, by the kind of state
	applied atomic.Bool                       // once: from then on this node can own VIPs
}

// loop applies what changes until ctx ends.
func (a *agent) loop(ctx context.Context) error {
	links, err := devices.Watch(ctx.Done())
	if err != nil {
		return err
	}
	expire, rescan := time.NewTicker(expireEvery), time.NewTicker(rescanEvery)
	defer expire.Stop()
	defer rescan.Stop()
	later := time.NewTimer(0)
	defer later.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-expire.C:
			e, err := a.plane.Expire(redirect.Lives{Idle: a.options.Idle})
			if err != nil {
				return err
			}
			a.flows.Store(int64(e.Flows))
			a.evicted.Store(&e.EvictedOf)
		case <-a.cluster.changed:
			later.Reset(settle)
		case <-links:
			later.Reset(settle)
		case <-a.prober.changed:
			later.Reset(settle)
		case <-a.loads.Changed():
			later.Reset(settle)
		case <-a.keeper.Changed():
			if err := a.apply(ctx); err != nil {
				return err
			}
		case <-rescan.C:
			later.Reset(0)
		case <-later.C:
			if err := a.apply(ctx); err != nil {
				return err
			}
		}
	}
}

// apply makes the node hold its share. An error ends the agent; whatever only
// concerns one entry or one device goes into the report.
func (a *agent) apply(ctx context.Context) error {
	if now, err := devices.Uplink(a.options.Uplink); err == nil {
		if now.Index != a.uplink.Index {
			return fmt.Errorf("the uplink is %s now and was %s: starting again", now.Name, a.uplink.Name)
		}
		a.uplink.Address = now.Address
	}
	seen, err := a.cluster.look(ctx, a.options.Node)
	if err != nil {
		return err
	}
	known := announceable(seen.plan)
	a.known.Store(&known)
	services := named(seen.plan)
	a.named.Store(&services)
	a.keeper.SetPeers(a.peers(seen))
	balanced := a.keeper.Balanced()
	mine, err := a.share(seen, balanced)
	if err != nil {
		return err
	}
	served := servedHere(seen.plan, a.options.Node)
	a.loads.Set(served, balancedHere(seen.plan, mine, a.keeper.Owned()))
	a.lately.Believe(time.Now(), mine.VIPs)
	var told []netip.AddrPort
	if len(a.options.Balancers) > 0 {
		told = serversHere(seen.plan, a.options.Node)
	}
	watch := watched(loads.Local(a.options.Node, served), told)
	state, err := a.state(mine, watch)
	if err != nil {
		return err
	}
	result := a.applier.Apply(state)
	a.teller.Set(told)
	a.prober.set(mine.Probe, mine.Over)
	result.Other = errors.Join(result.Other, a.announce(seen, balanced, result))
	a.waits.Set(services) // reads all counts when VIPs have changed: nobody who takes over waits for that
	if err := result.Err(); err != nil {
		slog.Error("not everything is in place", "error", err)
	}
	a.report.tell(a.observe(seen, mine, state, result))
	a.applied.Store(true)
	return nil
}

func (a *agent) share(seen snapshot, balanced map[netip.Addr]bool) (share.Share, error) {
	alive := map[string]bool{a.options.Node: true}
	for _, name := range a.keeper.Alive() {
		alive[name] = true
	}
	return share.Make(share.Input{
		Plan: seen.plan, Node: a.options.Node,
		Balances: func(vip netip.Addr) bool { return balanced[vip] },
		Probers:  []netip.Addr{probe.Mark, probe.MarkSix},
		HasAgent: func(node string) bool { return alive[node] },
		Health:   a.prober.health,
		Tunnel:   a.options.Tunnel, Nodes: seen.addresses,
	})
}

// state adds the devices: every node may have to balance, and has pods that are
// clients and servers.
func (a *agent) state(mine share.Share, watch []netip.AddrPort) (desired.State, error) {
	pods, err := devices.Pods(a.uplink.Index)
	return stateOf(mine, watch, a.uplink, a.options.XDP, pods), err
}

// stateOf is what the maps and devices of a node should hold. Connections are counted
// where somebody needs to know.
func stateOf(mine share.Share, watch []netip.AddrPort, uplink devices.Device, xdp redirect.XDPMode, pods []devices.Device) desired.State {
	s := desired.State{VIPs: mine.VIPs, AllowEcho: mine.AllowEcho, Tunnels: mine.Tunnels, Watch: watch}
	s.IPv6 = slices.ContainsFunc(mine.VIPs, func(v redirect.VIP) bool { return v.Addr.Is6() })
	both := []redirect.Duty{redirect.DutyClient, redirect.DutyServer}
	if len(watch) > 0 {
		both = append(both, redirect.DutyWatch)
	}
	duties := append([]redirect.Duty{redirect.DutyBalancer}, both...)
	if len(mine.Tunnels.Own) > 0 {
		duties = append(duties, redirect.DutyTunnel)
	}
	s.Devices = append(s.Devices, desired.Device{Name: uplink.Name, Index: uplink.Index, Address: uplink.Address, Placement: redirect.Uplink,
		Duties: duties, XDP: xdp})
	for _, p := range pods {
		s.Devices = append(s.Devices, desired.Device{Name: p.Name, Index: p.Index, Placement: redirect.Pod, Duties: both})
	}
	return s
}

// announce takes part in owning VIPs, if this node can balance at all.
func (a *agent) announce(seen snapshot, balanced map[netip.Addr]bool, result desired.Result) error {
	var vips []netip.Addr
	reachable := a.reachable(seen.plan)
	if result.Works(a.uplink.Name) {
		vips = reachable
	}
	err := a.keeper.SetVIPs(vips)
	err = errors.Join(err, devices.Reach(a.uplink.Index, reachable, a.keeper.Owned()))
	var ready []netip.Addr
	for vip := range balanced {
		if !refused(vip, result) {
			ready = append(ready, vip)
		}
	}
	a.keeper.Announce(ready)
	return err
}

// peers are the agents of other nodes. They are known before this one listens.
func (a *agent) peers(seen snapshot) []heartbeat.Peer {
	var peers []heartbeat.Peer
	for name, addr := range seen.nodes {
		if name != a.options.Node {
			peers = append(peers, heartbeat.Peer{Name: name, Addr: netip.AddrPortFrom(addr, a.options.Heartbeat)})
		}
	}
	slices.SortFunc(peers, func(x, y heartbeat.Peer) int { return x.Addr.Compare(y.Addr) })
	return peers
}

// reachable are the announceable addresses that the uplink leads to: without an IPv6
// address of more than its link it leads to none of IPv6, and can announce none.
func (a *agent) reachable(p crabplan.Plan) []netip.Addr {
	all := announceable(p)
	if !devices.Has(a.uplink.Index, true) {
		all = slices.DeleteFunc(all, func(vip netip.Addr) bool { return vip.Is6() })
	}
	return all
}

// announceable are the addresses of the plan that belong to no node, and to no switch.
func announceable(p crabplan.Plan) []netip.Addr {
	var all []netip.Addr
	for _, v := range p.VIPs {
		if v.Kind == crabplan.LoadBalancer && v.Switch == "" {
			all = append(all, v.Addr)
		}
	}
	return slices.Compact(all) // the plan is in order of addresses
}

// refused tells whether an entry of an address could not be written.
func refused(vip netip.Addr, r desired.Result) bool {
	for key := range r.VIPs {
		if key.Addr == vip {
			return true
		}
	}
	return false
}
