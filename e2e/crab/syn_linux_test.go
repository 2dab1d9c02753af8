// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"bufio"
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// kind is a way in which clients write SYNs.
type kind struct {
	name      string
	sysctl    string // of the client, before
	prepare   func(int) error
	multipath bool
	large     bool // with options that leave no room for an IPv6 address (C-9)
}

func kindsOfSYN() []kind {
	option := func(level, name, value int) func(int) error {
		return func(fd int) error { return unix.SetsockoptInt(fd, level, name, value) }
	}
	none := func(int) error { return nil }
	fastOpen := option(unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
	return []kind{
		{"plain", "net.ipv4.tcp_ecn=0", none, false, false},
		{"ECN", "net.ipv4.tcp_ecn=1", none, false, false},
		{"small MSS", "net.ipv4.tcp_ecn=0", option(unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536), false, false},
		{"no timestamps", "net.ipv4.tcp_timestamps=0", none, false, false},
		{"no SACK, no timestamps", "net.ipv4.tcp_sack=0", none, false, false},
		{"TFO, asks for a cookie", "net.ipv4.tcp_timestamps=1", fastOpen, false, true},
		{"TFO, data in the SYN", "net.ipv4.tcp_fastopen=1", fastOpen, false, true},
		{"MPTCP", "net.ipv4.tcp_sack=1", none, true, true},
	}
}

// C-8, C-20, C-23, C-30: SYNs as clients and kernels really write them.
// With IPv6 those are hashed that leave no room for the option (C-9).
func testKindsOfSYN(t *testing.T, b *Bed) {
	client, server := b.Host("client"), b.Host("s1")
	for _, c := range kindsOfSYN() {
		client.Run("sysctl", "-qw", c.sysctl)
		before, want := b.balancer.counted(), syns{redirected: 1}
		if b.six() && c.large {
			want = syns{hashed: 1}
		}
		if err := client.talk(c.prepare, c.multipath); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, b.told())
		}
		if n := b.balancer.counted().since(before); n != want {
			t.Errorf("%s: the balancer counted %+v, want %+v\n%s", c.name, n, want, b.told())
		}
	}
	server.Run("sysctl", "-qw", "net.ipv4.tcp_syncookies=2")
	if err := client.talk(func(int) error { return nil }, false); err != nil {
		t.Errorf("SYN cookies: %v", err)
	}
}

// talk sends first, so that a TFO socket has data for its SYN.
func (h *Host) talk(prepare func(int) error, multipath bool) error {
	return h.Inside(func() error {
		d := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) (err error) {
			if e := c.Control(func(fd uintptr) { err = prepare(int(fd)) }); e != nil {
				return e
			}
			return err
		}}
		d.SetMultipathTCP(multipath)
		c, err := d.DialContext(context.Background(), "tcp", net.JoinHostPort(h.bed.vip, itoa(port)))
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		want := strings.Repeat("s", 5000)
		if _, err := c.Write([]byte(want + "\n")); err != nil {
			return err
		}
		r := bufio.NewReader(c)
		if _, err := r.ReadString('\n'); err != nil { // the server's name
			return err
		}
		got, err := r.ReadString('\n')
		if err == nil && strings.TrimSpace(got) != want {
			return syscall.EBADMSG
		}
		return err
	})
}
