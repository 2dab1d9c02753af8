// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/shim"
)

// eventKind is something that happens to programs or ways while load runs.
type eventKind string

const (
	killServer   eventKind = "kill-server"  // SIGKILL, later a new life
	killRouter   eventKind = "kill-router"  // SIGKILL, later a new one that knows nothing
	pauseServer  eventKind = "pause-server" // SIGSTOP for longer than T_dead
	pauseRouter  eventKind = "pause-router" // SIGSTOP
	drainServer  eventKind = "drain-server" // SIGTERM, later a new life
	drainServers eventKind = "drain-all"    // the same to one server after the other
	cutFeedback  eventKind = "cut-feedback" // server to routers, one way
	cutRequests  eventKind = "cut-requests" // routers to server, one way
	cutServer    eventKind = "cut-server"   // routers and server, both ways
	cutReplies   eventKind = "cut-replies"  // server to client, one way
	cutRouter    eventKind = "cut-router"   // client and router, both ways
	overload     eventKind = "overload"     // three times what the workers can do
	reconfigure  eventKind = "reconfigure"  // policy, depth and queue limit change over the control socket
	idlePeers    eventKind = "idle-peers"   // peers that fill the control sockets and say nothing
	socketFlood  eventKind = "socket-flood" // garbage faster than a paused router can take it
	stranger     eventKind = "stranger"     // FEEDBACK from a host that is no worker
	halfOpen     eventKind = "half-open"    // a socket begins requests of several packets and never sends the rest
	stopFailover eventKind = "failover"     // a router is stopped while each socket has one request at a time
)

// event is one of them.
type event struct {
	kind       eventKind
	victim     int
	at, length time.Duration
}

func (e event) String() string {
	return fmt.Sprintf("%s %d at %v for %v", e.kind, e.victim, e.at.Round(time.Millisecond), e.length.Round(time.Millisecond))
}

// allowance is what the faults of a round explain. What is not explained is a
// failure.
type allowance struct {
	timeouts  bool  // requests that end by timeout, and replies that stay incomplete
	doubled   bool  // a REQ0 may reach two workers
	queue     bool  // DROP because a request waited maxQueue
	full      bool  // DROP because the central queue is full
	rejected  bool  // packets that are malformed, or belong to no pair any more
	strangers int64 // FEEDBACK of strangers that each router discards
	halfOpen  bool  // requests of which the rest never comes
	overflow  bool  // the kernel drops: socket buffers run over, checksums are wrong
}

// plan is what is injected in one round.
type plan struct {
	theme  string
	rules  []shim.Rule
	events []event
	allow  allowance
}

// copyMax is much longer than a request takes, so that most copies come after
// their pair has ended. A copy may be copied again behind the router; both waits
// together stay below the quarantine of eight RTOs for which servers remember a
// pair, since a later one may rightly run again.
const copyMax = 300 * time.Millisecond

// Themes are the kinds of rounds, each run in turn.
var Themes = []string{
	"loss", string(killServer), "reorder", string(killRouter), string(pauseServer), "cut", string(overload), string(drainServer),
	string(pauseRouter), string(reconfigure), "storm", string(stopFailover), string(socketFlood), string(halfOpen),
}

// faultSeconds is how long load runs under faults.
const faultSeconds = 4.0

// drainSeconds is how long it takes to drain all servers, one of them twice.
const drainSeconds = 5.0

// draw makes the plan of a round. It depends on variant, theme and seed alone.
func draw(v Variant, theme string, seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0xb0b7a11))
	p := plan{theme: theme}
	switch theme {
	case "loss":
		p.lose(v, rng, 0.03)
	case "reorder":
		p.disorder(rng)
	case "cut":
		p.add(v, rng, []eventKind{cutFeedback, cutRequests, cutServer, cutReplies, cutRouter}[rng.IntN(5)])
	case "storm":
		p.lose(v, rng, 0.02)
		kinds := []eventKind{killServer, killRouter, pauseServer, pauseRouter, drainServer, cutServer, cutFeedback, overload, reconfigure}
		rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		p.add(v, rng, kinds[0])
		p.add(v, rng, kinds[1])
		p.apart(v)
	case string(drainServer):
		p.add(v, rng, drainServers)
	case string(reconfigure):
		p.add(v, rng, reconfigure)
		p.events = append(p.events, event{kind: idlePeers, length: faultSeconds * time.Second},
			event{kind: stranger, at: between(rng, 300*time.Millisecond, 1200*time.Millisecond), length: time.Second})
		p.allow.strangers = strangerPackets
	default:
		p.add(v, rng, eventKind(theme))
	}
	return p
}

// apart gives two events two victims: what is promised of a server that is
// killed is not promised of one that is paused before that.
func (p *plan) apart(v Variant) {
	a, b := &p.events[0], &p.events[1]
	if a.victim == b.victim {
		b.victim = (b.victim + 1) % servers
		if isRouterEvent(b.kind) {
			b.victim = (a.victim + 1) % v.routers()
		}
	}
}

func isRouterEvent(k eventKind) bool {
	return slices.Contains([]eventKind{killRouter, pauseRouter, cutRouter, stopFailover, socketFlood, halfOpen}, k)
}

// between draws a time.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

func (p *plan) add(v Variant, rng *rand.Rand, k eventKind) {
	e := event{kind: k, at: between(rng, 300*time.Millisecond, 1200*time.Millisecond), length: between(rng, 300*time.Millisecond, 1500*time.Millisecond)}
	if isRouterEvent(k) {
		e.victim = rng.IntN(v.routers())
	} else {
		e.victim = rng.IntN(servers)
	}
	switch k {
	case pauseServer, pauseRouter:
		e.length = between(rng, 1800*time.Millisecond, 2600*time.Millisecond)
	case cutFeedback:
		e.length = between(rng, 1500*time.Millisecond, 2500*time.Millisecond)
	case halfOpen:
		e.at, e.length = 0, faultSeconds*time.Second
	case stopFailover:
		e.at, e.length = time.Second, 20*time.Second // until the load ends
	}
	p.events = append(p.events, e)
	p.explain(k)
}

// explain widens the allowance by what an event can cause.
func (p *plan) explain(k eventKind) {
	a := &p.allow
	switch k {
	case killServer, killRouter, pauseServer, pauseRouter, cutRequests, cutServer, cutReplies, cutRouter:
		a.timeouts, a.queue, a.rejected = true, true, true
	case stopFailover:
		a.timeouts, a.rejected = true, true
	case overload:
		a.timeouts, a.queue, a.full, a.overflow, a.rejected = true, true, true, true, true
	case socketFlood:
		a.timeouts, a.queue, a.overflow, a.rejected = true, true, true, true
	case cutFeedback, reconfigure:
		a.queue = true
	case halfOpen:
		a.queue, a.halfOpen = true, true
	}
}

// lose draws chances of everything for every class, each up to most.
func (p *plan) lose(v Variant, rng *rand.Rand, most float64) {
	chance := func(share float64) float64 { return rng.Float64() * share * most }
	for _, c := range []shim.Class{shim.Req0, shim.ReqN, shim.Reply, shim.Feedback, shim.ReqRdy, shim.Drop, shim.Sack} {
		r := shim.Rule{From: shim.Any, To: shim.Any, Classes: []shim.Class{c}, CopyMax: copyMax, DelayMax: between(rng, time.Millisecond, 60*time.Millisecond)}
		r = r.With(shim.Lost, chance(1)).With(shim.Corrupted, chance(0.5)).With(shim.Duplicated, chance(1)).
			With(shim.Delayed, chance(2)).With(shim.Reordered, chance(2))
		if c == shim.Feedback && v.Keys {
			r = r.With(shim.Mangled, chance(2)) // only a tag tells that it is not what was sent
		}
		p.rules = append(p.rules, r)
	}
	p.allow.timeouts, p.allow.doubled, p.allow.rejected, p.allow.queue, p.allow.overflow = true, true, true, true, true
}

// disorder draws chances of what loses nothing.
func (p *plan) disorder(rng *rand.Rand) {
	chance := func() float64 { return 0.02 + 0.1*rng.Float64() }
	p.rules = []shim.Rule{shim.Rule{From: shim.Any, To: shim.Any, CopyMax: copyMax, DelayMax: between(rng, 5*time.Millisecond, 60*time.Millisecond)}.
		With(shim.Duplicated, chance()).With(shim.Delayed, chance()).With(shim.Reordered, chance())}
	p.allow.doubled, p.allow.rejected = true, true
}

func (p *plan) has(kinds ...eventKind) bool {
	return slices.ContainsFunc(p.events, func(e event) bool { return slices.Contains(kinds, e.kind) })
}

func (p *plan) String() string {
	text := p.theme
	for _, e := range p.events {
		if e.kind != eventKind(p.theme) || len(p.events) > 1 {
			text += ", " + e.String()
		} else {
			text = e.String()
		}
	}
	return text
}
