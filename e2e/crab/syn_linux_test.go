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
func TestKindsOfSYN(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	b.StartAll(port, nil)
	client, server, lb := b.Host("client"), b.Host("s1"), b.Host("lb")
	server.Run("sysctl", "-qw", "net.ipv4.tcp_fastopen=3", "net.ipv4.tcp_ecn=1")
	server.Echo(port)
	for _, c := range kindsOfSYN() {
		client.Run("sysctl", "-qw", c.sysctl)
		before := lb.Show().Counters
		if err := client.talk(c.prepare, c.multipath); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, b.told())
		}
		after := lb.Show().Counters
		redirected, hashed := after["lb_syn_redirected"]-before["lb_syn_redirected"], after["lb_fallback_syn"]-before["lb_fallback_syn"]
		if redirected != 1 || hashed != 0 {
			t.Errorf("%s: %d SYNs were redirected and %d hashed, want one redirected\n%s", c.name, redirected, hashed, b.told())
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
