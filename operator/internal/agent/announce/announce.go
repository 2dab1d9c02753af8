// SPDX-License-Identifier: Apache-2.0

// Package announce makes a VIP lead to this node: it answers ARP requests and
// neighbour solicitations for the VIPs owned here, and tells the network when a
// VIP has moved. The VIP is on no device: the kernel must not take the packets
// before the programs see them.
package announce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/packet"
)

// An announcement is repeated: frames are lost, and a host may refuse to change
// a neighbour entry that is younger than a second.
var repeats = []time.Duration{0, 100 * time.Millisecond, 600 * time.Millisecond, 1600 * time.Millisecond}

// defendEvery bounds how often another host's claim is answered (RFC 5227).
const defendEvery = 10 * time.Second

// Protocol by which a family of addresses is announced.
type Protocol string

const (
	ARP Protocol = "arp" // IPv4
	NDP Protocol = "ndp" // IPv6
)

func protocolOf(a netip.Addr) Protocol {
	if a.Is4() {
		return ARP
	}
	return NDP
}

// Announcer speaks ARP and NDP on one device. Methods may be called from several goroutines.
type Announcer struct {
	device *net.Interface
	conns  map[Protocol]*packet.Conn
	closed atomic.Bool
	// group joins the one in which an IPv6 address is asked for; rejoin is how long to
	// wait when it could not.
	group  func(device int, group netip.Addr) (leave func(), err error)
	rejoin time.Duration

	mu       sync.Mutex
	owned    map[netip.Addr]*announced
	counters map[Protocol]map[string]uint64
	hosts    []Host // that spoke lately
}

type announced struct {
	stop     func() // ends its repeats
	leave    func() // the group in which it is asked for; nil: not in it
	defended time.Time
}

// rejoinEvery is how often a group is joined anew that could not be: what there was
// too little of (memory, groups of a socket) may be there again.
const rejoinEvery = 5 * time.Second

// counterNames are there from the start.
var counterNames = []string{"answered", "announced", "asked", "conflict", "not_ours", "malformed", "send_failed", "receive_failed", "join_failed"}

// Open takes a device. Needs CAP_NET_RAW.
func Open(index int) (*Announcer, error) {
	device, err := net.InterfaceByIndex(index)
	if err != nil {
		return nil, err
	}
	if len(device.HardwareAddr) != macSize {
		return nil, fmt.Errorf("device %s: VIPs are announced by ARP and NDP, which needs an Ethernet device", device.Name)
	}
	a := &Announcer{device: device, conns: map[Protocol]*packet.Conn{}, group: joinGroup, rejoin: rejoinEvery,
		owned: map[netip.Addr]*announced{}, counters: map[Protocol]map[string]uint64{}}
	for _, p := range []Protocol{ARP, NDP} {
		conn, err := listen(device, p)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s on %s: %w", p, device.Name, err), a.Close())
		}
		a.conns[p], a.counters[p] = conn, map[string]uint64{}
		for _, n := range counterNames {
			a.counters[p][n] = 0
		}
	}
	return a, nil
}

// Announce answers for a VIP from now on, and tells the network so.
func (a *Announcer) Announce(vip netip.Addr) {
	ctx, stop := context.WithCancel(context.Background())
	a.mu.Lock()
	next := &announced{stop: stop}
	if old := a.owned[vip]; old != nil {
		old.stop()
		next.leave = old.leave
	}
	a.owned[vip] = next
	joined := a.join(vip, next)
	a.mu.Unlock()
	a.tell(vip) // at once: who comes back from here may rely on it
	go func() {
		start := time.Now()
		for _, after := range repeats[1:] {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(start.Add(after))):
				a.tell(vip)
			}
		}
		a.joinLater(ctx, vip, next, joined)
	}()
}

// join makes the device take frames of the group in which a VIP of IPv6 is asked for;
// true when it does. The lock is held.
func (a *Announcer) join(vip netip.Addr, v *announced) bool {
	if v.leave != nil || protocolOf(vip) != NDP {
		return true
	}
	leave, err := a.group(a.device.Index, solicitedNode(vip))
	if err != nil {
		a.counters[NDP]["join_failed"]++
		return false
	}
	v.leave = leave
	return true
}

// joinLater goes on trying until the group is joined or the VIP is not announced any
// more. Then the network is told again: who asked in the meantime was not heard.
func (a *Announcer) joinLater(ctx context.Context, vip netip.Addr, v *announced, joined bool) {
	for !joined {
		select {
		case <-ctx.Done():
			return
		case <-time.After(a.rejoin):
		}
		a.mu.Lock()
		if a.owned[vip] != v {
			a.mu.Unlock()
			return
		}
		joined = a.join(vip, v)
		a.mu.Unlock()
		if joined {
			a.tell(vip)
		}
	}
}

// Withdraw stops answering for a VIP.
func (a *Announcer) Withdraw(vip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.owned[vip]; old != nil {
		old.end()
		delete(a.owned, vip)
	}
}

// end stops the repeats and leaves the group.
func (v *announced) end() {
	v.stop()
	if v.leave != nil {
		v.leave()
	}
}

func (a *Announcer) tell(vip netip.Addr) {
	if protocolOf(vip) == NDP {
		a.send(NDP, unsolicited(vip, a.device.HardwareAddr).bytes(), groupMAC(allNodes), "announced")
		return
	}
	for _, f := range gratuitous(vip, a.device.HardwareAddr) {
		a.send(ARP, f.bytes(), broadcast, "announced")
	}
}

// Ask looks whether anybody is on the wire: who is there answers. From and targets
// are of one family.
func (a *Announcer) Ask(from netip.Addr, targets []netip.Addr) {
	for _, target := range targets {
		if protocolOf(target) == NDP {
			m := solicit(from, target, a.device.HardwareAddr)
			a.send(NDP, m.bytes(), groupMAC(m.dst), "asked")
			continue
		}
		f := frame{op: opRequest, senderMAC: a.device.HardwareAddr, sender: from, targetMAC: noMAC, target: target}
		a.send(ARP, f.bytes(), broadcast, "asked")
	}
}

func (a *Announcer) send(p Protocol, b []byte, to net.HardwareAddr, counter string) {
	if _, err := a.conns[p].WriteTo(b, &packet.Addr{HardwareAddr: to}); err != nil {
		counter = "send_failed"
	}
	a.count(p, counter)
}

func (a *Announcer) count(p Protocol, counter string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counters[p][counter]++
}

// Run answers until the announcer is closed.
func (a *Announcer) Run() {
	var running sync.WaitGroup
	running.Go(func() { a.receive(ARP, a.takeARP) })
	running.Go(func() { a.receive(NDP, a.takeNDP) })
	running.Wait()
}

func (a *Announcer) receive(p Protocol, take func(b []byte, from net.HardwareAddr, now time.Time)) {
	buf := make([]byte, 2048)
	for {
		n, from, err := a.conns[p].ReadFrom(buf)
		if err != nil && a.closed.Load() {
			return
		}
		if err != nil { // the device is down: it may come back
			a.count(p, "receive_failed")
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if sender, ok := from.(*packet.Addr); ok {
			take(buf[:n], sender.HardwareAddr, time.Now())
		}
	}
}

func (a *Announcer) takeARP(b []byte, _ net.HardwareAddr, now time.Time) {
	f, ok := parseARP(b)
	if !ok {
		a.count(ARP, "malformed")
		return
	}
	if bytes.Equal(f.senderMAC, a.device.HardwareAddr) {
		return // our own, come back
	}
	a.hear(f.sender, f.senderMAC)
	if a.conflict(f.sender, now) {
		a.tell(f.sender)
		return
	}
	if f.op != opRequest {
		return
	}
	if !a.owns(f.target) {
		a.count(ARP, "not_ours")
		return
	}
	a.send(ARP, answer(f, a.device.HardwareAddr).bytes(), f.senderMAC, "answered")
}

func (a *Announcer) takeNDP(b []byte, from net.HardwareAddr, now time.Time) {
	m, ok := parseNDP(b)
	if !ok {
		a.count(NDP, "malformed")
		return
	}
	if bytes.Equal(from, a.device.HardwareAddr) {
		return
	}
	a.hear(m.claims(), from)
	if claimed := m.claims(); !bytes.Equal(m.mac, a.device.HardwareAddr) && a.conflict(claimed, now) {
		a.tell(claimed)
		return
	}
	switch {
	case m.kind == advert:
	case !a.owns(m.target):
		a.count(NDP, "not_ours")
	case m.src == nobody: // it wants the address for itself, and must hear each time that it cannot have it
		a.conflict(m.target, now)
		a.send(NDP, answerNDP(m, a.device.HardwareAddr).bytes(), groupMAC(allNodes), "answered")
	default:
		a.send(NDP, answerNDP(m, a.device.HardwareAddr).bytes(), from, "answered")
	}
}

func (a *Announcer) owns(vip netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owned[vip] != nil
}

// conflict counts another host that speaks for a VIP of ours; true when it is
// time to say that it is ours.
func (a *Announcer) conflict(vip netip.Addr, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.owned[vip]
	if v == nil {
		return false
	}
	a.counters[protocolOf(vip)]["conflict"]++
	if now.Sub(v.defended) < defendEvery {
		return false
	}
	v.defended = now
	return true
}

// Counters of what was done by one protocol and why not.
func (a *Announcer) Counters(p Protocol) map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counters[p])
}

// Close stops answering and ends Run.
func (a *Announcer) Close() error {
	a.mu.Lock()
	for _, v := range a.owned {
		v.end()
	}
	clear(a.owned)
	a.mu.Unlock()
	a.closed.Store(true)
	var errs []error
	for _, c := range a.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
