// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

const port = 7777

// session is one connection to the VIP.
type session struct {
	net.Conn
	r      *bufio.Reader
	server string
}

func (h *Host) dial(to string) (*session, error) { return h.dialWithin(to, patience) }

func (h *Host) dialWithin(to string, timeout time.Duration) (*session, error) {
	s := &session{}
	err := h.Inside(func() (err error) {
		s.Conn, err = net.DialTimeout("tcp", to, timeout)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, s.greeted(bufio.NewReader(s.Conn))
}

// greeted reads whom the connection met.
func (s *session) greeted(r *bufio.Reader) error {
	_ = s.SetDeadline(time.Now().Add(patience))
	s.r = r
	name, err := s.r.ReadString('\n')
	s.server = strings.TrimSpace(name)
	return err
}

// ask sends a line and reads it back.
func (s *session) ask(line string) error {
	_ = s.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(s, "%s\n", line); err != nil {
		return err
	}
	got, err := s.r.ReadString('\n')
	if err == nil && strings.TrimSpace(got) != line {
		err = fmt.Errorf("sent %q, got %q", line, got)
	}
	return err
}

func TestRoundRobinOverThreeServers(t *testing.T) {
	t.Parallel()
	b := New(t, 3)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	seen := map[string]int{}
	for i := range 30 {
		c, err := b.Host("client").dial(VIP + ":" + itoa(port))
		if err != nil {
			t.Fatalf("connection %d: %v\n%s", i, err, b.told())
		}
		if err := c.ask(strings.Repeat("x", 3000)); err != nil {
			t.Fatal(err)
		}
		if got := c.RemoteAddr().String(); got != VIP+":"+itoa(port) {
			t.Errorf("C-70: the client sees %s", got)
		}
		seen[c.server]++
		c.Close()
	}
	for _, s := range b.Servers() {
		if seen[s.Name] != 10 {
			t.Errorf("round robin gave %v", seen)
		}
	}
	if n := b.Host("lb").Counter("lb_syn_redirected"); n != 30 {
		t.Errorf("the balancer redirected %d SYNs of 30", n)
	}

}
