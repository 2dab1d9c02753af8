// SPDX-License-Identifier: Apache-2.0

// Package ownership decides which node announces a VIP. Agents tell each other
// what they can do and what they hold; each one then decides for itself, by the
// same rule, so that no API server is asked when a node dies. The package is
// pure: time comes in with every call.
//
// One agent owns a VIP, except while agents do not hear each other: two halves
// of a network that is cut have an owner each, which is what clients in both
// halves need. An agent that nobody on the wire can reach owns nothing.
package ownership

import (
	"net/netip"
	"slices"
	"time"
)

// Message is what one agent tells all others.
type Message struct {
	From string
	// Able: the sender can announce now. A sender that starts, leaves, or has no
	// link says it is not, and is nobody's candidate.
	Able bool
	// VIPs are those the sender knows, and whether it owns them; ascending.
	VIPs []Claim
}

// Claim is one VIP in a message.
type Claim struct {
	VIP   netip.Addr
	Owned bool
}

// Config of a Machine; a zero duration takes the default in brackets.
type Config struct {
	Self string
	// DeadAfter is how long a silent agent counts as alive [1 s]. It is several
	// times the interval of messages, which may be lost.
	DeadAfter time.Duration
	// Hold is how long a better owner must have been there before a VIP moves
	// to it from an owner that works [10 s].
	Hold time.Duration
}

// Defaults of Config, and the intervals of messages that go with them: a change
// is told at once and twice more soon, because a message may be lost.
const (
	DefaultInterval  = 250 * time.Millisecond
	RepeatInterval   = 50 * time.Millisecond
	Repeats          = 2
	DefaultDeadAfter = time.Second
	DefaultHold      = 10 * time.Second
)

// Change is what a Step asks its caller to do.
type Change struct {
	VIP    netip.Addr
	Action Action
	Why    string
}

// Action on one VIP.
type Action uint8

const (
	Take  Action = iota // balance and announce it
	Yield               // stop answering for it
	Renew               // owned before and now, but others may have been told otherwise: announce again
)

type peer struct {
	heard     time.Duration // when last
	able      bool
	ableSince time.Duration
	vips      map[netip.Addr]bool // known → owned
}

// Machine is one agent's view. Times are since any fixed moment.
type Machine struct {
	config  Config
	vips    map[netip.Addr]*vip
	peers   map[string]*peer
	expect  bool // others are configured
	company bool // hosts that are no agents are known on the wire
	link    bool
	left    bool
	wire    time.Duration // when something on the wire was last heard
	able    bool
	stepped time.Duration // when Step ran last
	free    time.Duration // may take from then on: the others know by then that it is able
	since   time.Duration // listening since: not able before since + DeadAfter
}

type vip struct {
	owned     bool
	contested bool          // a live peer owns it too
	better    string        // the better owner that is waited for
	waiting   time.Duration // since when
}

// New starts an agent that listens first: an owner it has not heard yet may be there.
func New(c Config, now time.Duration) *Machine {
	if c.DeadAfter == 0 {
		c.DeadAfter = DefaultDeadAfter
	}
	if c.Hold == 0 {
		c.Hold = DefaultHold
	}
	return &Machine{config: c, vips: map[netip.Addr]*vip{}, peers: map[string]*peer{}, link: true, since: now, wire: now}
}

// SetVIPs replaces the VIPs that may be owned here. The caller stops announcing
// those that are gone.
func (m *Machine) SetVIPs(all []netip.Addr) {
	next := make(map[netip.Addr]*vip, len(all))
	for _, a := range all {
		if next[a] = m.vips[a]; next[a] == nil {
			next[a] = &vip{}
		}
	}
	m.vips = next
}

// Expect says whether there are other agents that should be heard.
func (m *Machine) Expect(others bool) { m.expect = others }

// Company says whether hosts that are no agents are known on the wire, and answer when they are asked. Without any,
// silence is no sign of being cut off: it is what the death of the other agents sounds like.
func (m *Machine) Company(known bool) { m.company = known }

// SetLink tells of the uplink's carrier.
func (m *Machine) SetLink(now time.Duration, up bool) {
	if up && !m.link {
		m.since, m.wire = now, now // listen again: others have owners by now
	}
	m.link = up
}

// Wire tells that another host was heard on the uplink: this node is not cut off,
// although no agent may be heard.
func (m *Machine) Wire(now time.Duration) {
	if m.alone(now) {
		m.since = now // as after a link that was down
	}
	m.wire = now
}

// alone tells that nobody has been on the wire for so long that the others must
// have chosen new owners.
func (m *Machine) alone(now time.Duration) bool {
	return m.expect && m.company && now-m.wire >= m.config.DeadAfter+m.config.DeadAfter/2
}

// Leave makes the next message say that this agent goes; it owns nothing then.
func (m *Machine) Leave() { m.left = true }

// Hear takes a message of another agent.
func (m *Machine) Hear(now time.Duration, msg Message) {
	if msg.From == m.config.Self {
		return
	}
	p := m.peers[msg.From]
	if p == nil || !m.alive(p, now) {
		p = &peer{}
		m.peers[msg.From] = p
	}
	if msg.Able && !p.able {
		p.ableSince = now
	}
	p.heard, p.able = now, msg.Able
	p.vips = make(map[netip.Addr]bool, len(msg.VIPs))
	for _, c := range msg.VIPs {
		p.vips[c.VIP] = c.Owned
	}
	m.Wire(now)
}

func (m *Machine) alive(p *peer, now time.Duration) bool { return now-p.heard < m.config.DeadAfter }

// Ask tells that nobody has been heard for so long that the caller should ask
// the wire (ARP, NDP) whether somebody is there, and report answers by Wire.
func (m *Machine) Ask(now time.Duration) bool {
	return m.expect && m.company && now-m.wire >= m.config.DeadAfter/2
}

// cut says why this agent must not own anything; empty when it may.
func (m *Machine) cut(now time.Duration) string {
	switch {
	case m.left:
		return "this agent is leaving"
	case !m.link:
		return "the uplink has no carrier"
	case m.alone(now):
		return "nobody is heard on the uplink"
	case now-m.since < m.config.DeadAfter:
		return "listening for owners that are there already"
	}
	return ""
}

// Step forgets the dead and decides. Call it a few times per interval and after
// every message. Changes are in the order of addresses.
func (m *Machine) Step(now time.Duration) []Change {
	m.pause(now)
	for name, p := range m.peers {
		if !m.alive(p, now) {
			delete(m.peers, name)
		}
	}
	why := m.cut(now)
	if why == "" && !m.able {
		m.free = now + m.config.DeadAfter/4
	}
	m.able = why == ""
	var changes []Change
	for _, addr := range m.addrs() {
		if c, changed := m.decide(now, addr, m.vips[addr], why); changed {
			changes = append(changes, c)
		}
	}
	return changes
}

// pause forgives the others that they were not heard while this agent itself did
// not run: their messages wait in the socket.
func (m *Machine) pause(now time.Duration) {
	if gap := now - m.stepped; m.stepped != 0 && gap > m.config.DeadAfter/2 {
		for _, p := range m.peers {
			p.heard += gap
		}
		m.wire += gap
	}
	m.stepped = now
}

func (m *Machine) addrs() []netip.Addr {
	all := make([]netip.Addr, 0, len(m.vips))
	for a := range m.vips {
		all = append(all, a)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

func (m *Machine) decide(now time.Duration, addr netip.Addr, v *vip, cut string) (Change, bool) {
	if cut != "" {
		return m.yield(v, addr, cut)
	}
	best, owner := m.rank(addr)
	if !v.owned {
		if owner != "" || best != m.config.Self || now < m.free {
			return Change{}, false
		}
		*v = vip{owned: true}
		return Change{addr, Take, "no live agent owns it and this one comes first"}, true
	}
	if owner != "" {
		if before(addr, owner, m.config.Self) {
			return m.yield(v, addr, owner+" owns it too and comes first")
		}
		v.contested = true
		return Change{}, false
	}
	if v.contested {
		v.contested = false
		return Change{addr, Renew, "another agent owned it too"}, true
	}
	return m.handOver(now, addr, v, best)
}

// handOver moves a VIP to a better owner that has been there for a while.
func (m *Machine) handOver(now time.Duration, addr netip.Addr, v *vip, best string) (Change, bool) {
	if best == m.config.Self {
		v.better = ""
		return Change{}, false
	}
	if v.better != best {
		v.better, v.waiting = best, now
	}
	v.waiting = max(v.waiting, m.peers[best].ableSince)
	if now-v.waiting < m.config.Hold {
		return Change{}, false
	}
	return m.yield(v, addr, best+" comes first")
}

func (m *Machine) yield(v *vip, addr netip.Addr, why string) (Change, bool) {
	was := v.owned
	*v = vip{}
	return Change{addr, Yield, why}, was
}

// rank finds who should own a VIP, this agent included, and which other live
// agent owns it; of several, the one that comes first.
func (m *Machine) rank(addr netip.Addr) (best, owner string) {
	best = m.config.Self
	for name, p := range m.peers {
		owned, known := p.vips[addr]
		if known && p.able && before(addr, name, best) {
			best = name
		}
		if owned && (owner == "" || before(addr, name, owner)) {
			owner = name
		}
	}
	return best, owner
}

// Owned are the VIPs of this agent.
func (m *Machine) Owned() []netip.Addr {
	all := m.addrs()
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return !m.vips[a].owned })
}

// Alive are the other agents that are heard.
func (m *Machine) Alive() []string {
	all := make([]string, 0, len(m.peers))
	for name := range m.peers {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Owner of a VIP as far as is known here; empty when there is none.
func (m *Machine) Owner(addr netip.Addr) string {
	if v := m.vips[addr]; v != nil && v.owned {
		return m.config.Self
	}
	_, owner := m.rank(addr)
	return owner
}

// Say is what to tell the others, as of the last Step.
func (m *Machine) Say() Message {
	msg := Message{From: m.config.Self, Able: m.able && !m.left}
	for _, a := range m.addrs() {
		msg.VIPs = append(msg.VIPs, Claim{a, m.vips[a].owned && !m.left})
	}
	return msg
}
