// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const reportPort = 8470

// C-62 with bobtail-crab-lb: the node programs of the servers report to it, and what others say moves nothing (C-64).
func TestUserspaceLeast(t *testing.T) {
	t.Parallel()
	t.Run("IPv4", func(t *testing.T) { startReporting(t, New(t, 2)).least(t) })
	t.Run("IPv6", func(t *testing.T) { startReporting(t, New6(t, 2)).least(t) })
}

// startReporting has a balancer with a key, and servers that tell it their loads by that key.
func startReporting(t *testing.T, b *Bed) *userspace {
	t.Helper()
	u := newUserspace(t, b, port)
	for _, h := range append(b.Servers(), b.Host("lb")) {
		must(t, os.Mkdir(u.keyDir(h), 0o700))
		u.writeKey(t, h, "key", "first")
	}
	for _, s := range b.Servers() {
		s.become(Config{Devices: uplink("server", "watch"), AllowEcho: []string{b.vip}, Watch: []string{net.JoinHostPort(s.Addr, itoa(port))},
			Balancers: map[string]any{"addresses": []string{net.JoinHostPort(b.Host("lb").Addr, itoa(reportPort))}, "keyDir": u.keyDir(s)}})
		s.Echo(port)
	}
	u.policy, u.options = "LeastConnections", []string{"--key-dir=" + u.keyDir(b.Host("lb"))}
	// Reports are good for three intervals: this machine may stall for as long as one.
	u.probe = map[string]int{"intervalMilliseconds": 3000, "timeoutMilliseconds": 2000, "successes": 1}
	u.startBalancer(t, b.Servers())
	return u
}

func (u *userspace) keyDir(h *Host) string { return filepath.Join(u.dir, "keys-"+h.Name) }

// writeKey puts it in place as the kubelet does: at once.
func (u *userspace) writeKey(t *testing.T, h *Host, name, key string) {
	t.Helper()
	path := filepath.Join(u.keyDir(h), name)
	must(t, os.WriteFile(path+".new", []byte(key+strings.Repeat("k", 32)+"\n"), 0o600))
	must(t, os.Rename(path+".new", path))
}

// heard waits until each server has reported at least twice from now on.
func (u *userspace) heard(t *testing.T) {
	t.Helper()
	before := max(0, u.counter("crab_reports_total", ""))
	eventually(t, "servers report their loads to the balancer", func() bool { return u.counter("crab_reports_total", "") >= before+3*len(u.Servers()) })
}

// passesOver opens n connections, none of which may go to s1.
func (u *userspace) passesOver(t *testing.T, n int, when string) {
	t.Helper()
	_, by := u.Host("client").open(t, u.target(), n)
	t.Logf("%s: of %d connections the servers got %v", when, n, by)
	if by["s2"] != n {
		t.Errorf("%s: %d connections went to %v, want all to s2: s1 has 30 and s2 fewer\n%s", when, n, by, u.Host("lb").Log())
	}
}

func (u *userspace) least(t *testing.T) {
	t.Helper()
	client, s1, s2 := u.Host("client"), u.Host("s1"), u.Host("s2")
	client.open(t, net.JoinHostPort(s1.Addr, itoa(port)), 30)
	u.heard(t)
	u.passesOver(t, 20, "s1 has 30 connections of its own")
	u.forge(t)
	u.exchangesKeys(t)

	// C-65: a balancer that was started again knows no session, and opens new ones.
	must(t, u.process.Kill())
	u.startBalancer(t, u.Servers())
	u.heard(t)
	u.passesOver(t, 2, "the balancer was started again")
	// So does a node program.
	opened := u.counter("crab_reports_dropped_total", "session")
	s2.Kill()
	s2.Start()
	eventually(t, "the restarted node program has opened a session", func() bool { return u.counter("crab_reports_dropped_total", "session") > opened })
	u.heard(t)
	u.passesOver(t, 2, "the node program of s2 was started again")
}

// forge reports in the name of s2, as somebody who has no key can: as many as real ones at least.
func (u *userspace) forge(t *testing.T) {
	t.Helper()
	stranger := u.join("stranger", "9")
	stranger.completeChecksums()
	stranger.finds(t, u.Host("lb"))
	s2 := netip.MustParseAddr(u.Host("s2").Addr)
	unsigned := binary.BigEndian.AppendUint32([]byte{'C', 'R', 1, 0, port >> 8, port & 255, 0, 0}, 1000)
	for range 3 {
		for _, d := range [][]byte{unsigned, wrongly(s2, 1000), []byte("CR")} {
			stranger.say(t, s2, net.JoinHostPort(u.Host("lb").Addr, itoa(reportPort)), d)
		}
		u.passesOver(t, 1, "a stranger says that s2 has 1000")
	}
	for _, reason := range []string{"unsigned", "tag", "malformed"} {
		eventually(t, "three forged reports are counted as "+reason, func() bool { return u.counter("crab_reports_dropped_total", reason) == 3 })
	}
}

// finds a neighbour's MAC, so that of datagrams that are sent once none is lost for want of it.
func (h *Host) finds(t *testing.T, neighbour *Host) {
	t.Helper()
	eventually(t, h.Name+" finds "+neighbour.Name, func() bool {
		h.say(t, netip.MustParseAddr(h.Addr), net.JoinHostPort(neighbour.Addr, "9"), nil)
		return strings.Contains(h.Run("ip", "neigh", "show", neighbour.Addr), "lladdr")
	})
}

// wrongly signed, by another key.
func wrongly(server netip.Addr, open uint32) []byte {
	b := append([]byte{'C', 'R', 2, 1, 0, 1, 0, 0}, make([]byte, 32)...)
	addr := server.As16()
	b = append(append(b, addr[:]...), port>>8, port&255, 0, 0)
	b = binary.BigEndian.AppendUint32(b, open)
	h := hmac.New(sha256.New, []byte("a key of nobody's"))
	h.Write(b)
	return append(b, h.Sum(nil)[:16]...)
}

// say something in the name of another host.
func (h *Host) say(t *testing.T, as netip.Addr, to string, datagram []byte) {
	t.Helper()
	level, option := unix.SOL_IP, unix.IP_TRANSPARENT
	if as.Is6() {
		level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	must(t, h.Inside(func() error {
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(as, 0)), Control: func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) })
			if err == nil {
				err = failed
			}
			return err
		}}
		c, err := d.Dial("udp", to)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(datagram)
		return err
	}))
}

// C-64: another key takes the place of the first one, balancers first, and no report is refused meanwhile.
func (u *userspace) exchangesKeys(t *testing.T) {
	t.Helper()
	lb, refused := u.Host("lb"), u.counter("crab_reports_dropped_total", "tag")
	u.writeKey(t, lb, "previous", "first")
	u.writeKey(t, lb, "key", "second")
	eventually(t, "the balancer has both keys", func() bool { return strings.Contains(lb.Log(), "read anew, 2 of them") })
	for _, s := range u.Servers() {
		u.writeKey(t, s, "key", "second")
	}
	u.heard(t)
	must(t, os.Remove(filepath.Join(u.keyDir(lb), "previous")))
	eventually(t, "the balancer has forgotten the first key", func() bool { return strings.Contains(lb.Log(), "read anew, 1 of them") })
	u.heard(t)
	if now := u.counter("crab_reports_dropped_total", "tag"); now != refused {
		t.Errorf("%d reports were refused while keys were exchanged", now-refused)
	}
}
