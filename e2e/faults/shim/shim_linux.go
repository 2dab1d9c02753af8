// SPDX-License-Identifier: Apache-2.0

// Package shim is a network that misbehaves on purpose. It stands where a
// bridge would: every host has a veth link whose other end the shim reads and
// writes by packet sockets, and each packet from host to host may be lost,
// corrupted, mangled, doubled, delayed, overtaken or cut off, by its R2P2 class
// and its way. What happens to the n-th packet of a stream is a function of the
// seed alone. (The kernels this runs on have no netem.)
package shim

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// reorderMost bounds how long a reordered packet waits for others to pass.
const reorderMost = 50 * time.Millisecond

type stream struct {
	from, to int
	class    Class
}

type way struct{ from, to int }

// held is a reordered packet.
type held struct {
	p     *packet
	pass  int // packets that still go first
	timer *time.Timer
}

// Shim switches packets between hosts. Its methods may be called by any
// goroutine.
type Shim struct {
	ports   []*port
	stop    chan struct{}
	readers sync.WaitGroup
	gate    sync.RWMutex // held for writing while the network stands still

	mu     sync.Mutex
	seed   uint64
	rules  []Rule
	cut    map[way]bool
	number map[stream]uint64
	held   map[way][]*held
	counts Counts
}

// Open starts switching between the hosts at the other ends of links; host i
// has MAC address MAC(i). It must run in the links' network namespace.
func Open(links []string) (*Shim, error) {
	s := &Shim{stop: make(chan struct{})}
	for _, link := range links {
		p, err := openPort(link)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.ports = append(s.ports, p)
	}
	s.Reset(0)
	for i := range s.ports {
		s.readers.Add(1)
		go s.serve(i)
	}
	return s, nil
}

// MAC is the hardware address host i must have: the shim learns nothing.
func MAC(i int) string { return fmt.Sprintf("02:b7:00:00:00:%02x", i) }

func hostOf(mac []byte) int {
	if mac[0] != 0x02 || mac[1] != 0xb7 || mac[2]|mac[3]|mac[4] != 0 {
		return Any
	}
	return int(mac[5])
}

// Close ends switching. Packets that wait are gone.
func (s *Shim) Close() {
	close(s.stop)
	s.readers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.held {
		for _, h := range list {
			h.timer.Stop()
		}
	}
	for _, p := range s.ports {
		p.close()
	}
	s.ports = nil
}

// Reset begins anew with a seed: no rules, no cuts, counts and numbers at 0.
func (s *Shim) Reset(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.counts.Waiting
	s.seed, s.rules, s.cut, s.number = seed, nil, map[way]bool{}, map[stream]uint64{}
	if s.held == nil {
		s.held = map[way][]*held{}
	}
	s.counts = Counts{Waiting: waiting}
	s.counts.ToHost, s.counts.Of, s.counts.Passed = map[int][classes]uint64{}, map[int][classes]uint64{}, map[int][classes]uint64{}
	for _, p := range s.ports {
		p.lost()
		p.overrun.Store(0)
	}
}

// SetRules replaces the rules; none heals all but cuts.
func (s *Shim) SetRules(rules ...Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append([]Rule(nil), rules...)
}

// Cut stops, or with on false restores, all packets on the way from one host to
// another; the way back is another one.
func (s *Shim) Cut(from, to int, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.cut[way{from, to}] = true
	} else {
		delete(s.cut, way{from, to})
	}
}

// Heal removes all rules and cuts.
func (s *Shim) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.cut = nil, map[way]bool{}
}

// Freeze makes the network stand still until the function it returns is called:
// packets that hosts send meanwhile wait in their links and none is lost.
func (s *Shim) Freeze() (thaw func()) {
	s.gate.Lock()
	return s.gate.Unlock
}

// Counts is a copy of what happened since Reset.
func (s *Shim) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.ToHost, c.Of, c.Passed = maps.Clone(c.ToHost), maps.Clone(c.Of), maps.Clone(c.Passed)
	for _, p := range s.ports {
		c.Overrun += p.lost()
	}
	return c
}

func (s *Shim) serve(from int) {
	defer s.readers.Done()
	buf := make([]byte, 65536)
	for {
		select {
		case <-s.stop:
			return
		default:
		}
		n, err := s.ports[from].read(buf)
		if err != nil {
			return // the link is gone
		}
		if n >= etherHeader {
			s.take(from, append([]byte(nil), buf[:n]...))
		}
	}
}

func (s *Shim) take(from int, frame []byte) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if toMany(frame) {
		for to := range s.ports {
			if to != from {
				s.takeOne(&packet{frame: append([]byte(nil), frame...), from: from, to: to})
			}
		}
		return
	}
	s.takeOne(&packet{frame: frame, from: from, to: hostOf(frame)})
}

// toMany: a UDP packet to an IPv4 multicast group, which a switch that does not
// look into it sends to everybody.
func toMany(frame []byte) bool {
	group := frame[0] == 0x01 && frame[1] == 0x00 && frame[2] == 0x5e
	return group && len(frame) > etherHeader+20 && frame[12] == 0x08 && frame[13] == 0x00 && frame[etherHeader+9] == protoUDP
}

// takeOne: callers hold mu.
func (s *Shim) takeOne(p *packet) {
	from := p.from
	if p.to < 0 || p.to >= len(s.ports) || p.to == from {
		s.counts.NoHost++
		return
	}
	classify(p)
	s.counts.In[p.class]++
	of := s.counts.Of[from]
	of[p.class]++
	s.counts.Of[from] = of
	if p.hops > 0 && p.hops < firstHops {
		passed := s.counts.Passed[from]
		passed[p.class]++
		s.counts.Passed[from] = passed
	}
	s.treat(p)
}

// treat does with a packet what seed, rules and cuts say. Callers hold mu.
func (s *Shim) treat(p *packet) {
	key := stream{p.from, p.to, p.class}
	number := s.number[key]
	s.number[key]++
	if s.cut[way{p.from, p.to}] {
		s.counts.Faults[Partitioned][p.class]++
		return
	}
	for i := range s.rules {
		if s.rules[i].matches(p) {
			s.afflict(p, decide(s.seed, &s.rules[i], p, number))
			return
		}
	}
	s.pass(p)
}

func (s *Shim) afflict(p *packet, f fate) {
	hit := func(k Kind, possible bool) bool {
		if f.hit[k] && possible {
			s.counts.Faults[k][p.class]++
		}
		return f.hit[k] && possible
	}
	if hit(Lost, true) {
		return
	}
	if hit(Duplicated, true) {
		twin := *p
		twin.frame = append([]byte(nil), p.frame...)
		s.later(&twin, f.after)
	}
	switch body := p.payload(); {
	case hit(Corrupted, len(body) > 0):
		flip(p, f.bit, false)
	case hit(Mangled, len(body) > 1):
		flip(p, f.bit, true)
	}
	switch {
	case hit(Reordered, true):
		s.hold(p, f.pass)
	case hit(Delayed, f.delay > 0):
		s.later(p, f.delay)
	default:
		s.pass(p)
	}
}

// pass delivers a packet now, and those that waited for it to go first.
func (s *Shim) pass(p *packet) {
	s.deliver(p)
	w := way{p.from, p.to}
	var free []*held
	keep := s.held[w][:0]
	for _, h := range s.held[w] {
		if h.pass--; h.pass > 0 {
			keep = append(keep, h)
		} else {
			free = append(free, h)
		}
	}
	s.held[w] = keep
	for _, h := range free {
		h.timer.Stop()
		s.counts.Waiting--
		s.deliver(h.p)
	}
}

func (s *Shim) hold(p *packet, pass int) {
	h := &held{p: p, pass: pass}
	w := way{p.from, p.to}
	s.counts.Waiting++
	s.held[w] = append(s.held[w], h)
	h.timer = time.AfterFunc(reorderMost, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, x := range s.held[w] {
			if x == h {
				s.held[w] = append(s.held[w][:i], s.held[w][i+1:]...)
				s.counts.Waiting--
				s.deliver(p)
				return
			}
		}
	})
}

func (s *Shim) later(p *packet, wait time.Duration) {
	s.counts.Waiting++
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts.Waiting--
		s.deliver(p)
	})
}

func (s *Shim) deliver(p *packet) {
	if p.to >= len(s.ports) {
		return // closed
	}
	s.counts.Out[p.class]++
	to := s.counts.ToHost[p.to]
	to[p.class]++
	s.counts.ToHost[p.to] = to
	s.ports[p.to].write(p.frame)
}
