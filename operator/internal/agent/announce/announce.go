// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// An announcement is repeated: frames are lost, and a host may refuse to change
// a neighbour entry that is younger than a second.
var repeats = []time.Duration{0, 100 * time.Millisecond, 600 * time.Millisecond, 1600 * time.Millisecond}

// defendEvery bounds how often another host's claim is answered (RFC 5227).
const defendEvery = 10 * time.Second

// Announcer speaks ARP on one device. Methods may be called from several goroutines.
type Announcer struct {
	device *net.Interface
	conn   *packet.Conn
	closed atomic.Bool

	mu       sync.Mutex
	owned    map[netip.Addr]*announced
	counters map[string]uint64
}

type announced struct {
	stop     func() // ends its repeats
	defended time.Time
}

// counterNames are there from the start.
var counterNames = []string{"answered", "announced", "asked", "conflict", "not_ours", "malformed", "send_failed", "receive_failed"}

// Open takes a device. Needs CAP_NET_RAW.
func Open(index int) (*Announcer, error) {
	device, err := net.InterfaceByIndex(index)
	if err != nil {
		return nil, err
	}
	if len(device.HardwareAddr) != macSize {
		return nil, fmt.Errorf("device %s: VIPs are announced by ARP, which needs an Ethernet device", device.Name)
	}
	conn, err := packet.Listen(device, packet.Datagram, unix.ETH_P_ARP, nil)
	if err != nil {
		return nil, fmt.Errorf("ARP on %s: %w", device.Name, err)
	}
	a := &Announcer{device: device, conn: conn, owned: map[netip.Addr]*announced{}, counters: map[string]uint64{}}
	for _, n := range counterNames {
		a.counters[n] = 0
	}
	return a, nil
}

// Announce answers for a VIP from now on, and tells the network so.
func (a *Announcer) Announce(vip netip.Addr) {
	ctx, stop := context.WithCancel(context.Background())
	a.mu.Lock()
	if old := a.owned[vip]; old != nil {
		old.stop()
	}
	a.owned[vip] = &announced{stop: stop}
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
	}()
}

// Withdraw stops answering for a VIP.
func (a *Announcer) Withdraw(vip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.owned[vip]; old != nil {
		old.stop()
		delete(a.owned, vip)
	}
}

func (a *Announcer) tell(vip netip.Addr) {
	for _, f := range gratuitous(vip, a.device.HardwareAddr) {
		a.send(f, broadcast, "announced")
	}
}

// Ask looks whether anybody is on the wire: who is there answers.
func (a *Announcer) Ask(from netip.Addr, targets []netip.Addr) {
	for _, target := range targets {
		a.send(frame{op: opRequest, senderMAC: a.device.HardwareAddr, sender: from, targetMAC: noMAC, target: target}, broadcast, "asked")
	}
}

func (a *Announcer) send(f frame, to net.HardwareAddr, counter string) {
	if _, err := a.conn.WriteTo(f.bytes(), &packet.Addr{HardwareAddr: to}); err != nil {
		counter = "send_failed"
	}
	a.count(counter)
}

func (a *Announcer) count(counter string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counters[counter]++
}

// Run answers until the announcer is closed.
func (a *Announcer) Run() {
	buf := make([]byte, 256)
	for {
		n, _, err := a.conn.ReadFrom(buf)
		if err != nil && a.closed.Load() {
			return
		}
		if err != nil { // the device is down: it may come back
			a.count("receive_failed")
			time.Sleep(50 * time.Millisecond)
			continue
		}
		a.take(buf[:n], time.Now())
	}
}

func (a *Announcer) take(b []byte, now time.Time) {
	f, ok := parse(b)
	if !ok {
		a.count("malformed")
		return
	}
	if bytes.Equal(f.senderMAC, a.device.HardwareAddr) {
		return // our own, come back
	}
	if a.conflict(f.sender, now) {
		a.tell(f.sender)
		return
	}
	if f.op != opRequest {
		return
	}
	a.mu.Lock()
	ours := a.owned[f.target] != nil
	a.mu.Unlock()
	if !ours {
		a.count("not_ours")
		return
	}
	a.send(answer(f, a.device.HardwareAddr), f.senderMAC, "answered")
}

// conflict counts another host that speaks for a VIP of ours; true when it is
// time to say that it is ours.
func (a *Announcer) conflict(sender netip.Addr, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.owned[sender]
	if v == nil {
		return false
	}
	a.counters["conflict"]++
	if now.Sub(v.defended) < defendEvery {
		return false
	}
	v.defended = now
	return true
}

// Counters of what was done and why not.
func (a *Announcer) Counters() map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counters)
}

// Close stops answering and ends Run.
func (a *Announcer) Close() error {
	a.mu.Lock()
	for _, v := range a.owned {
		v.stop()
	}
	clear(a.owned)
	a.mu.Unlock()
	a.closed.Store(true)
	return a.conn.Close()
}
