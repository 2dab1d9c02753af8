// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import "testing"

// scene is what both kinds of balancers must pass: tests that follow each other on one bed, as a bed costs seconds.
type scene struct {
	servers int
	twoVIPs bool                    // the servers have a second one
	serve   func(*testing.T, *Host) // starts what a server runs; nil: an echo server
	plays   plays
}

func TestClientsAndForgeries(t *testing.T) {
	scene{servers: 2, plays: plays{testClientWithoutAgent, testForgedRedirects, testForgedOptions, testServerDeath}}.each(t)
}

func TestSYNsAndMiddleboxes(t *testing.T) {
	serve := func(_ *testing.T, h *Host) {
		h.Run("sysctl", "-qw", "net.ipv4.tcp_fastopen=3", "net.ipv4.tcp_ecn=1")
		h.Echo(port)
	}
	scene{servers: 1, twoVIPs: true, serve: serve, plays: plays{testMiddlebox, testOnePortTwoConnections, testKindsOfSYN}}.each(t)
}

func TestLostPackets(t *testing.T) {
	scene{servers: 3, plays: plays{testConntrackInThePath, testLostSYNACK, testLostSYN}}.each(t)
}

func TestLongAndReused(t *testing.T) {
	serve := func(t *testing.T, h *Host) { h.last(t) }
	scene{servers: 1, serve: serve, plays: plays{testPortReuse, testPortAfterAHalfClose, testLongConnection}}.each(t)
}

type plays []func(*testing.T, *Bed)

// each plays all with the node's programs and with bobtail-crab-lb, with IPv4 and with IPv6.
func (s scene) each(t *testing.T) {
	t.Parallel()
	if s.serve == nil {
		s.serve = func(_ *testing.T, h *Host) { h.Echo(port) }
	}
	for _, kind := range []struct {
		name  string
		bed   func(testing.TB, int) *Bed
		begin func(scene, *testing.T, *Bed)
	}{
		{"IPv4", New, scene.onNode}, {"IPv6", New6, scene.onNode},
		{"Userspace/IPv4", New, scene.inUserspace}, {"Userspace/IPv6", New6, scene.inUserspace},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			b := kind.bed(t, s.servers)
			if s.twoVIPs {
				b.second = b.either("10.97.100.2", "fd97:100::2")
			}
			kind.begin(s, t, b)
			b.join("plain", "9")
			b.join("evil", "66")
			for _, play := range s.plays {
				play(t, b)
			}
		})
	}
}

func (s scene) onNode(t *testing.T, b *Bed) {
	b.StartAll(port, nil)
	for _, h := range b.Servers() {
		s.serve(t, h)
	}
	b.balancer = onNode{b.Host("lb")}
}

// inUserspace has servers that answer hashed connections from the VIP themselves: this balancer renames no packet.
func (s scene) inUserspace(t *testing.T, b *Bed) {
	b.direct = true
	b.balancer = startUserspace(t, b, func(t *testing.T, h *Host) {
		h.returnsDirectly()
		s.serve(t, h)
	}, port)
}
