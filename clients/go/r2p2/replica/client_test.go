// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// asked is a request as a member saw it.
type asked struct {
	session, seq uint64
	policy       wire.Policy
	body         string
}

// member answers requests as it is told: with a REPLY, a DROP, or not at all.
type member struct {
	conn *net.UDPConn
	addr netip.AddrPort

	mu   sync.Mutex
	seen []asked // without the openings of sessions
	say  func(asked) (wire.Type, []byte)
	open func(asked) (wire.Type, []byte) // nil: it is opened
}

// opened is the number that the writes of a session follow.
const opened = 1000

const silent = wire.Type(255)

func newMember(t *testing.T, say func(asked) (wire.Type, []byte)) *member {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	m := &member{conn: c, addr: c.LocalAddr().(*net.UDPAddr).AddrPort(), say: say}
	done := make(chan struct{})
	go func() { defer close(done); m.serve() }()
	t.Cleanup(func() { c.Close(); <-done })
	return m
}

func (m *member) serve() {
	buf := make([]byte, 2048)
	for {
		n, from, err := m.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		var h wire.Header
		if h.Decode(buf[:n], wire.RoleServer) != wire.OK {
			continue
		}
		a := asked{h.Options.Session, h.Options.Sequence, h.Policy, string(h.Payload)}
		m.mu.Lock()
		kind, payload := wire.Reply, binary.BigEndian.AppendUint64([]byte{0}, opened)
		if a.session == 0 || a.seq != 0 {
			m.seen = append(m.seen, a)
			kind, payload = m.say(a)
		} else if m.open != nil {
			kind, payload = m.open(a)
		}
		m.mu.Unlock()
		if kind == silent {
			continue
		}
		answer := wire.Header{Type: kind, First: true, Last: true, Ext: true, ReqID: h.ReqID, Count: 1}
		if kind == wire.Drop {
			answer.Policy = wire.Sticky
		}
		p, _ := answer.Append(nil)
		_, _ = m.conn.WriteToUDPAddrPort(append(p, payload...), from)
	}
}

func (m *member) requests() []asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]asked(nil), m.seen...)
}

// drop is what a member says behind DROP.
func drop(r Reason, leader netip.AddrPort) []byte {
	b := append([]byte("DROP"), 1, byte(r))
	id := uint16(0)
	if leader.IsValid() {
		id = 3
	} else {
		leader = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	b = binary.BigEndian.AppendUint16(b, id)
	ip := leader.Addr().As16()
	b = append(b, ip[:]...)
	b = binary.BigEndian.AppendUint16(b, leader.Port())
	return append(b, 0, 0)
}

// silence is how long a member that says nothing is waited for.
const silence = 40 * time.Millisecond

func dial(t *testing.T, timeout, attempt time.Duration, members ...*member) *Client {
	t.Helper()
	var names []string
	for _, m := range members {
		names = append(names, m.addr.String())
	}
	c, err := Dial(context.Background(), Config{Members: names, Timeout: timeout, Attempt: attempt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func always(kind wire.Type, payload []byte) func(asked) (wire.Type, []byte) {
	return func(asked) (wire.Type, []byte) { return kind, payload }
}

// a member names the leader, and the client goes there and stays there.
func TestGoesWhereTheLeaderIs(t *testing.T) {
	leader := newMember(t, always(wire.Reply, []byte("\x00done")))
	follower := newMember(t, always(wire.Drop, drop(NotLeader, leader.addr)))
	c := dial(t, time.Minute, time.Minute, follower)
	for range 3 {
		if r, err := c.Write(t.Context(), []byte("w")); err != nil || string(r) != "done" {
			t.Fatalf("%q %v", r, err)
		}
	}
	if n := len(follower.requests()); n != 1 {
		t.Errorf("the follower was asked %d times, want 1", n)
	}
	for i, a := range leader.requests() {
		if a.policy != wire.ReplicatedWrite || a.seq != uint64(opened+i+1) || a.session == 0 || a.session != leader.requests()[0].session {
			t.Errorf("write %d: %+v", i, a)
		}
	}
}

// an attempt without an answer is made again under the same number.
func TestAsksAgainUnderTheSameNumber(t *testing.T) {
	n := 0
	m := newMember(t, func(asked) (wire.Type, []byte) {
		if n++; n < 4 {
			return silent, nil
		}
		return wire.Reply, []byte("\x00late")
	})
	c := dial(t, time.Minute, silence, m)
	if r, err := c.Write(t.Context(), []byte("w")); err != nil || string(r) != "late" {
		t.Fatalf("%q %v", r, err)
	}
	seen := m.requests()
	for _, a := range seen {
		if a != seen[0] {
			t.Errorf("asked again as %+v, first as %+v", a, seen[0])
		}
	}
}

// A member whose requests wait longer for their turn than an attempt lasts would do nothing but what nobody waits for any more.
func TestWaitsLongerForAGroupThatIsSlow(t *testing.T) {
	m := newMember(t, func(asked) (wire.Type, []byte) {
		time.Sleep(4 * silence) // one after the other
		return wire.Reply, []byte{0, 'y'}
	})
	c := dial(t, time.Minute, silence, m)
	if reply, err := c.Write(t.Context(), []byte("w")); err != nil || string(reply) != "y" {
		t.Fatalf("%q, %v", reply, err)
	}
	if n := len(m.requests()); n < 2 || n > 20 {
		t.Errorf("it was asked %d times", n)
	}
}

// what is known at the end of the time.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		say    func(asked) (wire.Type, []byte)
		silent bool
		want   error
	}{
		{"no answer", always(silent, nil), true, ErrUnknownOutcome},
		{"too long", always(wire.Drop, drop(TooLong, netip.AddrPort{})), false, ErrTooLong},
		{"reply not kept", always(wire.Reply, []byte{1}), false, ErrReplyLost},
		{"a later one was executed", always(wire.Reply, []byte{3}), false, ErrUnknownOutcome},
		{"an answer without a status", always(wire.Reply, nil), false, ErrUnknownOutcome},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempt := time.Minute
			if c.silent {
				attempt = silence
			}
			client := dial(t, 5*attempt, attempt, newMember(t, c.say))
			if _, err := client.Write(t.Context(), []byte("w")); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// A refusal after an attempt that nobody answered does not make it known.
func TestRefusalAfterSilenceIsUnknown(t *testing.T) {
	n := 0
	m := newMember(t, func(asked) (wire.Type, []byte) {
		if n++; n == 1 {
			return silent, nil
		}
		return wire.Drop, drop(TooLong, netip.AddrPort{})
	})
	if _, err := dial(t, 300*time.Millisecond, silence, m).Write(t.Context(), []byte("w")); !errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrNotExecuted) {
		t.Errorf("%v", err)
	}
}

// A session that the group has forgotten is replaced where nothing was under way.
func TestForgottenSession(t *testing.T) {
	m := newMember(t, func(a asked) (wire.Type, []byte) {
		if a.seq > opened+1 {
			return wire.Reply, []byte{2}
		}
		return wire.Reply, []byte("\x00ok")
	})
	c := dial(t, time.Minute, time.Minute, m)
	for range 3 {
		if r, err := c.Write(t.Context(), []byte("w")); err != nil || string(r) != "ok" {
			t.Fatalf("%q %v", r, err)
		}
	}
	sessions := map[uint64]bool{}
	for _, a := range m.requests() {
		sessions[a.session] = true
	}
	if len(sessions) != 3 {
		t.Errorf("%d sessions, want 3", len(sessions))
	}
}

// A write whose session could not be opened was not sent, however that ended.
func TestUnopenedSession(t *testing.T) {
	for name, open := range map[string]func(asked) (wire.Type, []byte){
		"no answer":       always(silent, nil),
		"not known there": always(wire.Reply, []byte{2}), // a group of before there was number 0
		"another answer":  always(wire.Reply, []byte("\x00short")),
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, always(wire.Reply, []byte("\x00ok")))
			m.mu.Lock()
			m.open = open
			m.mu.Unlock()
			_, err := dial(t, 3*silence, silence, m).Write(t.Context(), []byte("w"))
			if !errors.Is(err, ErrNotExecuted) || errors.Is(err, ErrUnknownOutcome) || len(m.requests()) != 0 {
				t.Errorf("%v, %d writes sent", err, len(m.requests()))
			}
		})
	}
}

// What is known at the end of the time depends on whether an attempt was left
// without an answer, not on the last one.
func TestWhatIsKnownAtTheEnd(t *testing.T) {
	a := asking{last: &r2p2.DroppedError{}}
	if err := a.failed(nil); !errors.Is(err, ErrNotExecuted) || !errors.Is(err, r2p2.ErrDropped) {
		t.Errorf("only refused: %v", err)
	}
	a.maybe = true
	if err := a.failed(nil); !errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrNotExecuted) {
		t.Errorf("once without an answer: %v", err)
	}
}

// The number of a write that was only refused is used for the next one.
func TestRefusedWriteUsesNoNumber(t *testing.T) {
	m := newMember(t, func(a asked) (wire.Type, []byte) {
		if a.body == "long" {
			return wire.Drop, drop(TooLong, netip.AddrPort{})
		}
		return wire.Reply, []byte("\x00ok")
	})
	c := dial(t, time.Minute, time.Minute, m)
	if _, err := c.Write(t.Context(), []byte("long")); !errors.Is(err, ErrNotExecuted) {
		t.Fatal(err)
	}
	if _, err := c.Write(t.Context(), []byte("w")); err != nil {
		t.Fatal(err)
	}
	if last := m.requests()[len(m.requests())-1]; last.seq != opened+1 {
		t.Errorf("number %d, want %d", last.seq, opened+1)
	}
}

// Reads have no session, and their answer no status.
func TestRead(t *testing.T) {
	m := newMember(t, func(a asked) (wire.Type, []byte) {
		if a.policy != wire.ReplicatedRead || a.session != 0 {
			return silent, nil
		}
		return wire.Reply, []byte("\x01value")
	})
	if r, err := dial(t, time.Minute, time.Minute, m).Read(t.Context(), []byte("r")); err != nil || string(r) != "\x01value" {
		t.Errorf("%q %v", r, err)
	}
}
