// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// eachFamily plays a test on a bed of IPv4 and on one of IPv6.
func eachFamily(t *testing.T, servers int, test func(t *testing.T, b *Bed)) {
	t.Parallel()
	t.Run("IPv4", func(t *testing.T) {
		t.Parallel()
		test(t, New(t, servers))
	})
	t.Run("IPv6", func(t *testing.T) {
		t.Parallel()
		test(t, New6(t, servers))
	})
}

// inTurn is eachFamily for tests that want the machine to themselves.
func inTurn(t *testing.T, servers int, test func(t *testing.T, b *Bed)) {
	t.Run("IPv4", func(t *testing.T) { test(t, New(t, servers)) })
	t.Run("IPv6", func(t *testing.T) { test(t, New6(t, servers)) })
}

func isSix(addr string) bool { return strings.Contains(addr, ":") }

// six says whether the bed's hosts speak IPv6.
func (b *Bed) six() bool { return isSix(b.vip) }

// either is what a test writes in the bed's family.
func (b *Bed) either(four, six string) string {
	if b.six() {
		return six
	}
	return four
}

// podAddr is the nth address of pods, podNet the network of so many bits of IPv4 that begins there.
func (b *Bed) podAddr(n int) string {
	return b.either(pods+itoa(n), fmt.Sprintf("fd97:1::%x", n))
}

func (b *Bed) podNet(n, bits int) string {
	return b.podAddr(n) + "/" + b.either(itoa(bits), itoa(96+bits))
}

// only is the network of one address.
func only(addr string) string {
	return addr + "/" + itoa(netip.MustParseAddr(addr).BitLen())
}

// join adds a host without part in CRAB.
func (b *Bed) join(name, last string) *Host {
	h := b.add(name, network+last)
	if b.six() {
		h.speakSix()
	}
	return h
}

func (h *Host) forwards() {
	h.bed.t.Helper()
	h.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
}

// dropInvalid is kube-proxy's rule against packets that conntrack does not know.
func (h *Host) dropInvalid() {
	h.bed.t.Helper()
	family := h.bed.either("ip", "ip6")
	h.Run("nft", "add table "+family+" kp; add counter "+family+" kp invalid; add chain "+family+" kp cfwd { type filter hook forward priority 0; }; "+
		"add rule "+family+" kp cfwd ct state invalid counter name invalid drop")
}

// noInvalid fails if that rule has met one.
func (h *Host) noInvalid(t *testing.T) {
	t.Helper()
	if out := h.Run("nft", "list", "counter", h.bed.either("ip", "ip6"), "kp", "invalid"); !strings.Contains(out, "packets 0 ") {
		t.Errorf("%s: conntrack met packets it calls invalid: %s", h.Name, out)
	}
}
