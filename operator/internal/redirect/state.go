// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// Counters are the sums over CPUs, by reason.
func (n *Node) Counters() (map[string]uint64, error) {
	all := make(map[string]uint64, len(Reasons))
	for i, name := range Reasons {
		var cpus []uint64
		if err := n.maps["crab_counters"].Lookup(uint32(i), &cpus); err != nil {
			return nil, fmt.Errorf("crab_counters[%d]: %w", i, err)
		}
		for _, c := range cpus {
			all[name] += c
		}
	}
	return all, nil
}

// Flows calls each with every redirected connection until it returns false. The
// map changes meanwhile: a connection may be missing, or seen twice.
func (n *Node) Flows(each func(Flow) bool) error {
	for _, f := range n.known() {
		if more, err := n.flows(f, each); err != nil || !more {
			return err
		}
	}
	return nil
}

// flows is Flows of one family; false when each wants no more.
func (n *Node) flows(f family, each func(Flow) bool) (bool, error) {
	var key programs.Tuple
	var flow programs.Flow
	now := monotonic()
	it := n.m(f, "crab_flows_out").Iterate()
	for it.Next(&key, &flow) {
		f := Flow{
			Client: key.Client, VIP: key.Server, DIP: flow.DIP,
			Age: since(now, uint64(flow.CreatedS)*uint64(time.Second)), Idle: since(now, flow.LastNs), Ended: FlowEnded(flow.Ended) & flowEnds,
		}
		if !each(f) {
			return false, nil
		}
	}
	return true, aborted(it.Err())
}

// aborted forgives that the programs changed the map under an iteration.
func aborted(err error) error {
	if errors.Is(err, ebpf.ErrIterationAborted) {
		return nil
	}
	return err
}

// since is never negative: a program may have run after now was read.
func since(now, then uint64) time.Duration {
	if then > now {
		return 0
	}
	return time.Duration(now - then)
}

// complete puts the defaults into what is not said.
func (l Lives) complete() Lives {
	l = Lives{
		Idle: cmp.Or(l.Idle, DefaultIdle), Ended: cmp.Or(l.Ended, DefaultEnded),
		Pending: cmp.Or(l.Pending, DefaultPending), Echo: cmp.Or(l.Echo, DefaultEcho), Crowded: cmp.Or(l.Crowded, DefaultCrowded),
	}
	l.late = l.Idle
	return l
}

// silent says whether an open connection has outlived its silence.
func (l Lives) silent(idle time.Duration) bool { return idle > l.Idle && idle-l.Idle > l.late }

// Expire removes what has outlived its life (C-72, C-73).
func (n *Node) Expire(l Lives) (Expired, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l = l.complete()
	n.idle = l.Idle
	var e Expired
	before, err := n.Counters()
	if err != nil {
		return e, err
	}
	n.relayed = map[netip.Addr]bool{}
	for _, f := range n.known() {
		if err := n.expire(f, l, &e); err != nil {
			return e, err
		}
	}
	if err := n.sweepBalanced(n.relayed); err != nil {
		return e, err
	}
	return e, n.countEvictions(&e, before)
}

// expire is Expire of one family.
func (n *Node) expire(f family, l Lives, e *Expired) error {
	if err := n.expireFlows(f, l, e); err != nil {
		return fmt.Errorf("flows: %w", err)
	}
	never := func(t programs.Tuple) error {
		return n.neverConnected(f, VIPKey{Addr: t.Server.Addr(), Port: t.Server.Port()})
	}
	pending, err := expireOld(n.m(f, "crab_pending"), l.Pending, func(p programs.Pending) uint64 { return p.LastNs }, never)
	if err != nil {
		return fmt.Errorf("pending: %w", err)
	}
	opening, err := expireOld(n.m(f, "crab_opening"), l.Echo, func(p programs.Opening) uint64 { return p.LastNs }, nil)
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	later, err := expireOld(n.m(f, "crab_later"), l.Echo, func(p programs.Opening) uint64 { return p.LastNs }, nil)
	if err != nil {
		return fmt.Errorf("later: %w", err)
	}
	if err := n.sweepConnects(f); err != nil {
		return fmt.Errorf("connects: %w", err)
	}
	if err := n.expireHashed(f, l, e); err != nil {
		return fmt.Errorf("fall-back: %w", err)
	}
	if err := n.expireRelays(f, l, e); err != nil {
		return fmt.Errorf("relays: %w", err)
	}
	e.Pending, e.Echoes = e.Pending+pending.removed, e.Echoes+opening.removed
	e.add("pending", pending)
	e.add("opening", opening)
	e.add("later", later)
	return nil
}

// crowded are the lives in a map that fills up: what has ended, or never began, makes room for those that live.
func (l Lives) crowded() Lives {
	l.Ended, l.Pending, l.late = min(l.Ended, l.Crowded), min(l.Pending, l.Crowded), 0
	return l
}

// due are the lives that nothing is cut short in, and nothing kept beyond.
func (l Lives) due() Lives {
	l.late = 0
	return l
}

// of are the lives in a map with so many entries. A full map pushes out whatever was not asked for lately, an idle connection
// as soon as one that has ended; so beyond three quarters nothing that has ended is left to stand beside it.
func (l Lives) of(m *ebpf.Map, entries int) Lives {
	if uint64(entries)*4 <= uint64(m.MaxEntries())*3 {
		return l
	}
	return l.crowded()
}

// expireOld removes entries not touched for a life, and tells of each if asked to.
func expireOld[V any](m *ebpf.Map, life time.Duration, last func(V) uint64, tell func(programs.Tuple) error) (swept, error) {
	var key programs.Tuple
	var value V
	var old []programs.Tuple
	now := monotonic()
	s := swept{}
	it := m.Iterate()
	for it.Next(&key, &value) {
		s.left++
		if since(now, last(value)) > life {
			old = append(old, key)
		}
	}
	for _, k := range old {
		if m.Lookup(k, &value) != nil || since(now, last(value)) <= life || m.Delete(k) != nil {
			continue
		}
		s.removed, s.left = s.removed+1, s.left-1
		if tell == nil {
			continue
		}
		if err := tell(k); err != nil {
			return s, err
		}
	}
	return s, aborted(it.Err())
}

// expireEnding removes entries whose life is over, in a map that fills up those that have ended before that: early is how
// many those are. It tells of each entry there is, and of each that it is about to remove.
func expireEnding[V any](m *ebpf.Map, l Lives, over func(V, uint64, Lives) bool, seen func(programs.Tuple), goes func(programs.Tuple, V)) (s swept, early int, err error) {
	var key programs.Tuple
	var value V
	var old []programs.Tuple
	now, soonest := monotonic(), l.crowded()
	it := m.Iterate()
	for it.Next(&key, &value) {
		s.left++
		seen(key)
		if over(value, now, soonest) {
			old = append(old, key)
		}
	}
	lives := l.of(m, s.left)
	for _, k := range old {
		if m.Lookup(k, &value) != nil || !over(value, now, lives) {
			continue
		}
		goes(k, value)
		if m.Delete(k) != nil {
			continue
		}
		s.removed, s.left = s.removed+1, s.left-1
		if !over(value, now, l.due()) {
			early++
		}
	}
	return s, early, aborted(it.Err())
}

// over says whether a translation's life is over, and whether by an end of the connection.
func over(f programs.Flow, now uint64, l Lives) (gone, ended bool) {
	idle := since(now, f.LastNs)
	closed := FlowEnded(f.Ended)
	both := ClientFIN | ServerFIN
	if closed&Reset != 0 || closed&both == both {
		return idle > l.Ended, true
	}
	return l.silent(idle), false
}

func (n *Node) expireFlows(fam family, l Lives, e *Expired) error {
	var key programs.Tuple
	var flow programs.Flow
	var old []programs.Tuple
	now, there, soonest := monotonic(), 0, l.crowded()
	flows := n.m(fam, "crab_flows_out")
	it := flows.Iterate()
	for it.Next(&key, &flow) {
		there++
		if gone, _ := over(flow, now, soonest); gone {
			old = append(old, key)
		}
	}
	lives := l.of(flows, there)
	for _, k := range old {
		if flows.Lookup(k, &flow) != nil {
			continue
		}
		gone, ended := over(flow, now, lives) // a packet may have passed since
		if !gone || flows.Delete(k) != nil {
			continue
		}
		if longer, _ := over(flow, now, l.due()); !longer {
			e.add("flows_early", swept{removed: 1})
		}
		back := programs.Tuple{Client: k.Client, Server: netip.AddrPortFrom(flow.DIP, k.Server.Port())}
		if n.m(fam, "crab_flows_in").Delete(back) == nil {
			e.add("back", swept{removed: 1})
		}
		there--
		e.add("flows", swept{removed: 1})
		if ended {
			e.Ended++
		} else {
			e.Idle++
		}
	}
	e.Flows += there
	return aborted(it.Err())
}

// Count adds to a reason that no program counts.
func (n *Node) Count(reason string, by uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addCounter(reason, by)
}

// addCounter is for reasons that no program counts: nobody else writes them.
func (n *Node) addCounter(reason string, by uint64) error {
	for i, name := range Reasons {
		if name != reason || by == 0 {
			continue
		}
		var cpus []uint64
		if err := n.maps["crab_counters"].Lookup(uint32(i), &cpus); err != nil {
			return err
		}
		cpus[0] += by
		return n.maps["crab_counters"].Put(uint32(i), cpus)
	}
	return nil
}
