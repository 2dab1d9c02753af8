// SPDX-License-Identifier: Apache-2.0

package balancers

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// deaf is a balancer's port that answers nothing.
func deaf(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A round is told to every balancer that is reached, or counted under what it lacks; the last key goes on while its file is
// away.
func TestRoundsAreCounted(t *testing.T) {
	dir := t.TempDir()
	addresses := []netip.AddrPort{netip.MustParseAddrPort("[fe80::1%nosuchdevice]:9")}
	for range 2 {
		addresses = append(addresses, deaf(t).LocalAddr().(*net.UDPAddr).AddrPort())
	}
	var fails error
	teller := New(Options{Addresses: addresses, KeyDir: dir, Connections: func() (map[netip.AddrPort]uint32, error) {
		return map[netip.AddrPort]uint32{mine: 3}, fails
	}})
	var readers sync.WaitGroup
	for range 2 { // those that are reached are not reached for again
		teller.connect(&readers)
	}
	t.Cleanup(func() { teller.close(); readers.Wait() })
	if teller.peers[0].conn != nil || teller.peers[1].conn == nil || teller.peers[2].conn == nil {
		t.Fatal("who is reached does not go by who can be")
	}
	keyFile := filepath.Join(dir, "key")
	for _, c := range []struct {
		name    string
		prepare func()
		want    Counters
	}{
		{"no server", func() {}, Counters{}},
		{"no key", func() { teller.Set([]netip.AddrPort{mine6, mine}) }, Counters{NoKey: 1}},
		{"no count", func() { fails = errors.New("no"); _ = os.WriteFile(keyFile, key, 0o600) }, Counters{NoKey: 1, NotCounted: 1}},
		{"both", func() { fails = nil }, Counters{NoKey: 1, NotCounted: 1, Sent: 2, NotSent: 1}},
		{"the key is away", func() { _ = os.Remove(keyFile) }, Counters{NoKey: 2, NotCounted: 1, Sent: 4, NotSent: 2}},
	} {
		c.prepare()
		if teller.round(); teller.Counters() != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, teller.Counters(), c.want)
		}
		if c.want.Sent > 0 && (len(teller.told) != 1 || teller.told[0].Server != mine || teller.told[0].Open != 3) {
			t.Errorf("%s: %+v was told", c.name, teller.told)
		}
	}
	for what, failing := range map[string]bool{"connections": false, "key": true, addresses[0].String(): true, addresses[1].String(): false} {
		if teller.failing[what] != failing {
			t.Errorf("%s fails: %v", what, !failing)
		}
	}
}

// The key before is there or not; an empty file is none of it, and any other has to hold a key.
func TestKeyFiles(t *testing.T) {
	short := strings.Repeat("k", minKey-1)
	for name, c := range map[string]struct {
		key, previous string
		keys          int // 0: an error
	}{
		"one": {string(key), "-", 1}, "two": {string(key), string(key) + "\r\n", 2}, "an empty one before": {string(key), "", 1}, "a short one before": {string(key), short, 0},
		"the longest": {strings.Repeat("k", maxKey), "-", 1}, "a byte longer": {strings.Repeat("k", maxKey+1), "-", 0}, "a short one": {short, "-", 0}, "an empty one": {"", "-", 0}, "none": {"-", string(key), 0},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"key": c.key, "previous": c.previous} {
			if text != "-" {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if keys, err := readKeys(dir); len(keys) != c.keys || (err != nil) != (c.keys == 0) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
}
