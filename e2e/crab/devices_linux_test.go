// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"testing"
	"time"
)

// device has a host's agent say so often that its device is gone, and is there again.
func (h *Host) device(t *testing.T, gone, again int) {
	t.Helper()
	h.await("device eth0 is gone", gone)
	h.await("device eth0 is there again: attached", again)
	if h.Counter("device_gone") != uint64(gone) || h.Counter("device_attached_again") != uint64(again) {
		t.Errorf("%s counts %d devices gone and %d attached again, want %d and %d", h.Name, h.Counter("device_gone"), h.Counter("device_attached_again"), gone, again)
	}
}

// replug deletes a host's device and makes one of the same name.
func (h *Host) replug() {
	h.bed.t.Helper()
	h.Run("ip", "link", "del", "eth0")
	h.plug(h.Addr)
	h.bed.askAnew()
}

// askAnew has all hosts forget the Ethernet addresses of each other, which a new device changes.
func (b *Bed) askAnew() {
	for _, h := range b.all {
		h.Run("ip", "neigh", "flush", "all")
	}
}

// K-6: the device of an agent's file is deleted and made anew, renamed and called as before, and replaced by one of the
// same name: the programs are on it again, at the client's host, the balancer's and the server's.
func TestDevicesMadeAnew(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	b.StartAll(port, nil)
	client, lb, s1 := b.Host("client"), b.Host("lb"), b.Host("s1")
	s1.Echo(port)
	redirected := uint64(0)
	talk := func(when string) {
		t.Helper()
		before := client.Counter("client_synack_accepted")
		if seen := client.mustTalk(t, 3); seen["s1"] != 3 {
			t.Errorf("%s: the client met %v", when, seen)
		}
		if redirected = client.Counter("client_synack_accepted") - before; redirected != 3 {
			t.Errorf("%s: %d of 3 connections were redirected\n%s", when, redirected, b.told())
		}
	}
	talk("before")
	for _, h := range []*Host{client, lb, s1} {
		h.replug()
		h.device(t, 1, 1)
		talk(h.Name + "'s device was made anew")
	}
	routes := func() { client.Run("ip", "route", "replace", "10.97.100.0/24", "via", lbAddr) }
	client.Run("ip", "link", "set", "eth0", "down")
	client.Run("ip", "link", "set", "eth0", "name", "old0")
	client.await("device eth0 is gone", 2)
	client.Run("ip", "link", "set", "old0", "name", "eth0")
	client.Run("ip", "link", "set", "eth0", "up")
	routes()
	client.device(t, 2, 2)
	talk("renamed and called as before")
	client.Run("ip", "link", "set", "eth0", "down")
	client.Run("ip", "link", "set", "eth0", "name", "old0")
	client.Run("ip", "addr", "flush", "dev", "old0")
	b.run("ip", "-n", b.ns("hub"), "link", "set", "v"+client.Name, "name", "vold")
	client.plug(client.Addr)
	b.askAnew()
	client.device(t, 3, 3)
	talk("replaced by one of the same name")
	if n := client.Run("ip", "link", "show", "old0"); n == "" {
		t.Error("the former device is not there: this proves nothing")
	}
}

// K-6: the device by which a balancer announces the VIP is made anew: it takes part again, and owns the VIP when the other
// one's link is cut.
func TestAnnouncingDeviceMadeAnew(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	both := balancers(t, b)
	client, s1 := b.Host("client"), b.Host("s1")
	client.config = Config{Devices: uplink("client"), VIPs: []map[string]any{b.dialled(b.vip, port)}}
	s1.config = Config{Devices: uplink("server"), AllowEcho: []string{b.vip}}
	s1.Echo(port)
	for _, h := range b.all {
		h.Start()
	}
	owner, other := settled(t, both)
	candidate()
	client.untilServed(t)
	owner.replug()
	owner.device(t, 1, 1)
	client.untilServed(t)
	candidate()
	b.inHub("ip link set v" + other.Name + " down")
	for end := time.Now().Add(patience / 6); !owner.owns() && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	if !owner.owns() {
		t.Errorf("%s does not own the VIP:\n%s", owner.Name, owner.Log())
	}
	client.untilServed(t)
}
