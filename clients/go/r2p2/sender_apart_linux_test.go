// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package r2p2

import (
	"net/netip"
	"syscall"
	"testing"
)

// Trains are given up where the kernel refuses one for what it is, and takes all of its packets alone; a packet that is
// refused alone, or a path that is gone, says nothing of trains.
func TestWhenTrainsAreGivenUp(t *testing.T) {
	to := bound(t, "127.0.0.1:0")
	for name, c := range map[string]struct {
		errno    syscall.Errno
		packets  int
		closed   bool
		before   bool
		apart    bool
		refusals int
	}{
		"the kernel cuts none":   {syscall.EINVAL, 3, false, false, true, 0},
		"a device has no sums":   {syscall.EIO, 3, false, false, true, 0},
		"nobody listens":         {syscall.ECONNREFUSED, 3, false, false, false, 0},
		"it was so before":       {syscall.ECONNREFUSED, 3, false, true, true, 0},
		"the packets fail, too":  {syscall.EINVAL, 3, true, false, false, 3},
		"a packet alone":         {syscall.EINVAL, 1, false, false, false, 1},
		"the packets fail alone": {syscall.EIO, 2, true, true, true, 2},
	} {
		sock := bound(t, "127.0.0.1:0")
		if c.closed {
			sock.udp.Close()
		}
		b := &batch{bytes: make([]byte, 8*c.packets)}
		for i := range c.packets {
			b.packets = append(b.packets, outgoing{8 * i, 8 * (i + 1), to.local})
		}
		s, refusals := &sender{sock: sock, errno: c.errno, apart: c.before}, 0
		s.refuse(b, train{0, c.packets}, func(error) { refusals++ })
		if s.apart != c.apart || refusals != c.refusals {
			t.Errorf("%s: apart %v, %d refused", name, s.apart, refusals)
		}
	}
}

// An address of the other family, or of a zone, is left to package net.
func TestAddressesThatArePlaced(t *testing.T) {
	for at, of := range map[string]map[string]bool{
		"127.0.0.1:0": {"127.0.0.1:1": true, "[::ffff:127.0.0.1]:1": true, "[::1]:1": false},
		"[::1]:0":     {"[::1]:1": true, "[fe80::1%lo]:1": false, "127.0.0.1:1": false, "[::ffff:127.0.0.1]:1": false},
	} {
		t.Run(at, func(t *testing.T) {
			s := &sender{}
			s.init(bound(t, at))
			for to, placed := range of {
				if s.place(0, netip.MustParseAddrPort(to)) != placed {
					t.Errorf("%s: %v", to, !placed)
				}
			}
		})
	}
}
