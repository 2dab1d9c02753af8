// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
)

// Host is one that spoke on the wire.
type Host struct {
	Addr netip.Addr
	MAC  net.HardwareAddr
}

// hostsKept bounds those that are remembered.
const hostsKept = 16

// hear remembers who speaks, the latest first: it will answer when somebody must be there who does.
func (a *Announcer) hear(addr netip.Addr, mac net.HardwareAddr) {
	if !addr.IsValid() || addr.IsUnspecified() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owned[addr] != nil {
		return
	}
	at := slices.IndexFunc(a.hosts, func(h Host) bool { return h.Addr == addr })
	if at == 0 && bytes.Equal(a.hosts[0].MAC, mac) {
		return
	}
	if at >= 0 {
		a.hosts = slices.Delete(a.hosts, at, at+1)
	}
	a.hosts = slices.Insert(a.hosts, 0, Host{addr, bytes.Clone(mac)})
	a.hosts = a.hosts[:min(len(a.hosts), hostsKept)]
}

// Hosts that spoke ARP or NDP lately, the latest first.
func (a *Announcer) Hosts() []Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.hosts)
}
