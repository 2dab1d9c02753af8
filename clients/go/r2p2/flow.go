// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// ErrAgain: under flow control the request would probably wait for too long, and
// was not sent (F-40). An *AgainError says when asking again makes sense.
var ErrAgain = errors.New("r2p2: flow control: it would wait for too long")

// AgainError is ErrAgain with the time after which asking again makes sense.
type AgainError struct{ After time.Duration }

func (e *AgainError) Error() string { return fmt.Sprintf("%v; again in %v", ErrAgain, e.After) }

// Is makes it ErrAgain.
func (e *AgainError) Is(target error) bool { return target == ErrAgain }

var errNoExtensions = errors.New("r2p2: flow control needs header extensions, and NoExtensions is set")

// TryGo sends a request under flow control: only if it would probably be served
// in time, as far as the servers have said (F-40 to F-43). Otherwise it returns an
// *AgainError at once, and dropping it, waiting or another replica is up to the
// caller. Servers that know no flow control never hold anything back.
func (c *Client) TryGo(ctx context.Context, r *Request) (*Future, error) {
	p, pair, err := c.try(ctx, r)
	if err != nil {
		return nil, err
	}
	p.watch(ctx, pair)
	return &pair.future, nil
}

// TryDo is TryGo, and waits for the reply.
func (c *Client) TryDo(ctx context.Context, r *Request) (*ReplyMsg, error) {
	p, pair, err := c.try(ctx, r)
	if err != nil {
		return nil, err
	}
	return p.wait(ctx, pair)
}

// TryAny is TryGo to one of several replicas: the first that has room, from a
// random one on (F-48). Request.To is not looked at.
func (c *Client) TryAny(ctx context.Context, r *Request, replicas []netip.AddrPort) (*Future, error) {
	if len(replicas) == 0 {
		return nil, ErrNoTarget
	}
	shortest := time.Duration(math.MaxInt64)
	first := rand.IntN(len(replicas))
	for i := range replicas {
		one := *r
		one.To = replicas[(first+i)%len(replicas)]
		f, err := c.TryGo(ctx, &one)
		var again *AgainError
		if !errors.As(err, &again) {
			return f, err
		}
		shortest = min(shortest, again.After)
	}
	return nil, &AgainError{shortest}
}

// DoInTurn waits until the request may be sent, then for the reply. The context
// bounds both; when it ends before the request was sent, the error is an
// *AgainError as well as the context's.
func (c *Client) DoInTurn(ctx context.Context, r *Request) (*ReplyMsg, error) {
	for {
		reply, err := c.TryDo(ctx, r)
		var again *AgainError
		if !errors.As(err, &again) {
			return reply, err
		}
		// A token that is due now may be another caller's by then.
		timer := time.NewTimer(max(again.After, wire.FlowPeriod/10))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(ctx.Err(), again)
		}
	}
}

// try sends through the first socket that has a token.
func (c *Client) try(ctx context.Context, r *Request) (*clientPort, *clientPair, error) {
	if c.cfg.NoExtensions {
		return nil, nil, errNoExtensions
	}
	p, pair, err := c.begin(ctx, r, true)
	if errors.Is(err, ErrAgain) {
		c.stats.held.Add(1)
	}
	return p, pair, err
}

// flowSender is what one server lets one socket send.
type flowSender struct {
	tokens, unanswered int
	silent             bool
	until, sent        time.Time // of silence; the last request
	heard              time.Time // zero: never
}

// take is true when a request may go; else when asking again makes sense.
func (s *flowSender) take(now time.Time) (bool, time.Duration) {
	if s.silent {
		if wait := s.until.Sub(now); wait > 0 {
			return false, wait
		}
		s.speak()
	}
	if s.tokens <= s.unanswered {
		lost := s.sent.Add(wire.FlowPeriod)
		if s.unanswered > 0 {
			return false, wire.FlowPeriod
		}
		if wait := lost.Sub(now); wait > 0 {
			return false, wait
		}
		s.speak() // the signal was lost with an answer
	}
	s.unanswered++
	s.sent = now
	return true, 0
}

// speak: silence that is over is worth one token (F-42).
func (s *flowSender) speak() { s.silent, s.tokens = false, s.unanswered+1 }

const (
	flowVoices    = 64 // servers behind one address; of more, those heard last
	flowForgotten = time.Second
	flowUnlimited = math.MaxInt
)

// flowTarget is an address under flow control, of a server or of a router with
// servers behind it. A request is charged to one of them that has room, whichever
// server it then gets. Guarded by the port's mu.
type flowTarget struct {
	to     netip.AddrPort
	held   time.Time // the router asked for silence until then
	voices map[netip.AddrPort]*flowSender
	order  []netip.AddrPort // of voices
	turn   int
}

func newFlowTarget(to netip.AddrPort) *flowTarget {
	return &flowTarget{
		to: to, order: []netip.AddrPort{to}, voices: map[netip.AddrPort]*flowSender{to: {tokens: 1}},
	}
}

func (t *flowTarget) take(now time.Time) (*flowSender, time.Duration) {
	if wait := t.held.Sub(now); wait > 0 {
		return nil, wait
	}
	shortest := wire.FlowPeriod
	for i := range t.order {
		at := (t.turn + i) % len(t.order)
		s := t.voices[t.order[at]]
		ok, wait := s.take(now)
		if ok {
			t.turn = at + 1
			return s, 0
		}
		if i == 0 || wait < shortest {
			shortest = wait
		}
	}
	return nil, shortest
}

// voice of a server that was heard now.
func (t *flowTarget) voice(now time.Time, from netip.AddrPort) *flowSender {
	s := t.voices[from]
	if s == nil {
		if first := t.voices[t.to]; first != nil && len(t.order) == 1 && first.heard.IsZero() {
			s = first // whoever answers first is whom the first request was charged to
			t.forget(t.to)
		} else {
			s = &flowSender{tokens: 1}
			t.sweep(now)
		}
		t.voices[from] = s
		t.order = append(t.order, from)
	}
	s.heard = now
	return s
}

func (t *flowTarget) forget(from netip.AddrPort) {
	delete(t.voices, from)
	t.order = slices.DeleteFunc(t.order, func(a netip.AddrPort) bool { return a == from })
}

// sweep forgets servers that were not heard for long, and makes room for one more.
func (t *flowTarget) sweep(now time.Time) {
	for _, from := range slices.Clone(t.order) {
		if now.Sub(t.voices[from].heard) > flowForgotten {
			t.forget(from)
		}
	}
	if len(t.order) >= flowVoices {
		t.forget(slices.MinFunc(t.order, func(a, b netip.AddrPort) int { return t.voices[a].heard.Compare(t.voices[b].heard) }))
	}
}

// signalled takes what a packet said. A router's own silence is everybody's.
func (t *flowTarget) signalled(now time.Time, from netip.AddrPort, signal wire.FlowSignal) {
	silence, silent := signal.Silence()
	if _, direct := t.voices[from]; from == t.to && (!direct || len(t.order) > 1) {
		t.held = now.Add(silence)
		return
	}
	s := t.voice(now, from)
	s.silent = silent
	if silent {
		s.until = now.Add(silence) // F-43: on our clock
		return
	}
	s.tokens = signal.Tokens()
}

// unsignalled: a server that answers without a signal does not take part.
func (t *flowTarget) unsignalled(now time.Time, from netip.AddrPort) {
	s := t.voice(now, from)
	s.silent, s.tokens = false, flowUnlimited
}

// flow is the state of an address; callers hold mu.
func (p *clientPort) flow(to netip.AddrPort) *flowTarget {
	t := p.flows[to]
	if t == nil {
		if p.flows == nil || len(p.flows) >= flowVoices {
			p.flows = map[netip.AddrPort]*flowTarget{} // addresses come and go; what was known is heard again
		}
		t = newFlowTarget(to)
		p.flows[to] = t
	}
	return t
}

// endFlow gives the token of a pair back; callers hold mu.
func (pair *clientPair) endFlow() {
	if pair.sender != nil {
		pair.sender.unanswered = max(0, pair.sender.unanswered-1)
		pair.sender = nil
	}
}

// heardFlow takes what came with the end of a pair, nil for a DROP that says nothing; callers hold mu.
func (p *clientPort) heardFlow(pair *clientPair, from netip.AddrPort, o *wire.Options, replied bool) {
	if pair.sender == nil {
		return
	}
	pair.endFlow()
	switch {
	case o.Present&wire.HasFlow != 0:
		pair.flow.signalled(time.Now(), from, o.Flow)
	case replied:
		pair.flow.unsignalled(time.Now(), from)
	}
}
