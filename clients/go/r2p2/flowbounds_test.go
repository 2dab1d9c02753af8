// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// F-40, F-42: a silence ends at its time and is then worth one token more than what is unanswered; without a token one waits
// for an answer, or, where none is due, until the signal must have been lost.
func TestOneSendersTokens(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name string
		s    flowSender
		ok   bool
		wait time.Duration
		left int // tokens afterwards
	}{
		{"a token", flowSender{tokens: 2, unanswered: 1}, true, 0, 0},
		{"none, and one is unanswered", flowSender{tokens: 1, unanswered: 1, sent: now}, false, wire.FlowPeriod, 0},
		{"none, and nothing is under way", flowSender{sent: now.Add(-100 * time.Microsecond)}, false, wire.FlowPeriod - 100*time.Microsecond, 0},
		{"none for a whole period", flowSender{sent: now.Add(-wire.FlowPeriod)}, true, 0, 0},
		{"silence", flowSender{silent: true, until: now.Add(1)}, false, 1, 0},
		{"silence that is over now", flowSender{silent: true, until: now}, true, 0, 0},
		{"silence that is over while three are unanswered", flowSender{silent: true, until: now, unanswered: 3, tokens: 9}, true, 0, 0},
	} {
		s := c.s
		ok, wait := s.take(now)
		if ok != c.ok || wait != c.wait || ok && (s.tokens-s.unanswered != c.left || !s.sent.Equal(now) || s.unanswered != c.s.unanswered+1) {
			t.Errorf("%s: %v after %v, %+v", c.name, ok, wait, s)
		}
	}
}

// Servers behind a router are charged in turn, and who waits learns of the one that has room soonest.
func TestServersInTurn(t *testing.T) {
	now := time.Unix(1000, 0)
	router := netip.MustParseAddrPort("10.0.0.1:8000")
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 8000)
	}
	target := newFlowTarget(router)
	for i := 2; i <= 4; i++ {
		target.signalled(now, at(i), 2)
	}
	order := ""
	for range 6 {
		s, _ := target.take(now)
		for i := 2; i <= 4; i++ {
			if target.voices[at(i)] == s {
				order += fmt.Sprint(i)
			}
		}
	}
	if order != "234234" {
		t.Errorf("charged in the order %s", order)
	}
	for i, milliseconds := range map[int]time.Duration{2: 9, 3: 4, 4: 7} {
		s := target.voices[at(i)]
		s.silent, s.until = true, now.Add(milliseconds*time.Millisecond)
	}
	if s, wait := target.take(now); s != nil || wait != 4*time.Millisecond {
		t.Errorf("all are silent: wait %v", wait)
	}
	for _, c := range []struct {
		held time.Duration
		ok   bool
	}{{1, false}, {0, true}} {
		target.held, target.voices[at(3)].until = now.Add(c.held), now
		if s, _ := target.take(now); (s != nil) != c.ok {
			t.Errorf("held for %v: %v", c.held, s)
		}
	}
}

// Whoever answers first has the token of the first request, and nobody else; a router that is a server itself speaks for all
// once there are others.
func TestWhoseSignalItIs(t *testing.T) {
	now := time.Unix(1000, 0)
	router, a, b := netip.MustParseAddrPort("10.0.0.1:8000"), netip.MustParseAddrPort("10.0.0.2:8000"), netip.MustParseAddrPort("10.0.0.3:8000")
	target := newFlowTarget(router)
	first := target.voices[router]
	if target.signalled(now, a, 5); target.voices[a] != first || len(target.order) != 1 || target.voices[router] != nil {
		t.Errorf("%v", target.order)
	}
	if target.signalled(now, b, 5); target.voices[b] == first || len(target.order) != 2 {
		t.Errorf("%v", target.order)
	}
	alone := newFlowTarget(a) // a server without a router
	if alone.signalled(now, a, silence); !alone.held.IsZero() || !alone.voices[a].silent {
		t.Errorf("%+v", alone.voices[a])
	}
	if alone.signalled(now, b, 5); len(alone.order) != 2 {
		t.Errorf("who was heard gave its place away: %v", alone.order)
	}
	if alone.signalled(now, a, silence); !alone.held.Equal(now.Add(32767 * time.Microsecond)) {
		t.Errorf("held until %v", alone.held)
	}
	for silent, want := range map[time.Duration]int{flowForgotten: 3, flowForgotten + 1: 1} {
		target := newFlowTarget(router)
		target.signalled(now, a, 5)
		target.signalled(now, b, 5)
		target.voice(now.Add(silent), router)
		if len(target.order) != want || len(target.voices) != want {
			t.Errorf("after %v: %d are remembered", silent, len(target.order))
		}
	}
}

// As many addresses as there may be are remembered; with one more all are heard anew.
func TestFlowAddressesAreBounded(t *testing.T) {
	p := &clientPort{}
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), uint16(8000+i))
	}
	for i := range flowVoices {
		p.flow(at(i))
	}
	if first := p.flow(at(0)); len(p.flows) != flowVoices || p.flow(at(0)) != first {
		t.Errorf("%d are remembered", len(p.flows))
	}
	if p.flow(at(flowVoices)); len(p.flows) != 1 {
		t.Errorf("%d are remembered", len(p.flows))
	}
	s := &flowSender{unanswered: 3}
	pair := &clientPair{sender: s}
	pair.endFlow()
	if pair.endFlow(); s.unanswered != 2 || pair.sender != nil {
		t.Errorf("%d are unanswered: a token is given back once", s.unanswered)
	}
}

// A client with several sockets tells of the one that may send soonest.
func TestSoonestOfSeveralSockets(t *testing.T) {
	to := netip.MustParseAddrPort("127.0.0.1:9")
	for _, waits := range [][2]time.Duration{{time.Hour, 2 * time.Hour}, {2 * time.Hour, time.Hour}} {
		for turn := range uint32(2) {
			c := dial(t, ClientConfig{Sockets: 2}, to)
			c.turn.Store(turn)
			for i, p := range c.ports {
				p.mu.Lock()
				p.flow(to).held = time.Now().Add(waits[i])
				p.mu.Unlock()
			}
			var again *AgainError
			if _, err := c.TryGo(context.Background(), &Request{}); !errors.As(err, &again) || again.After > time.Hour || again.After < 50*time.Minute {
				t.Errorf("%v: %v", waits, err)
			}
		}
	}
}

// Errors are what they wrap, and no others; what a DROP says behind its word is kept.
func TestErrorsAreThemselves(t *testing.T) {
	again, drop := error(&AgainError{time.Second}), dropped([]byte("DROPx"))
	if !errors.Is(again, ErrAgain) || errors.Is(again, ErrDropped) || !errors.Is(drop, ErrDropped) || errors.Is(drop, ErrAgain) {
		t.Errorf("%v, %v", again, drop)
	}
	for text, want := range map[string]string{"": "", "DROP": "", "DROPx": "x", "DROPwhy": "why"} {
		var d *DroppedError
		if errors.As(dropped([]byte(text)), &d); d == nil && want != "" || d != nil && string(d.Why) != want {
			t.Errorf("%q: %+v", text, d)
		}
	}
	for _, word := range []string{"", "DROP"} {
		if dropped([]byte(word)) != ErrDropped {
			t.Errorf("%q says something", word)
		}
	}
}
