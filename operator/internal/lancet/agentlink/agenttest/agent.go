// SPDX-License-Identifier: Apache-2.0

// Package agenttest is an agent for tests: it speaks the contract of
// docs/reference/lancet-agent.md and answers with requests drawn from an M/M/1 queue far
// from saturation, in virtual time, so that a window of minutes takes none.
package agenttest

import (
	"bufio"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Agent is one listening agent. Its fields are set before it is dialled.
type Agent struct {
	Token     string  // "" on Unix sockets
	Mean      float64 // ns, of exponential service times
	Lose      float64 // share of requests that are never answered
	Slower    float64 // share of the load that is not sent
	Unstamped int
	Announce  int // samples announced beyond those sent; for broken agents
	Proof     string
	Contract  int
	Open      bool   // asks for no token, whatever Token says
	Hang      bool   // never answers "configure"
	Lease     int    // seconds; 0 is 30
	Stamps    string // kernel when empty
	BusyPoll  string // off when empty
	Real      bool   // a window takes the time it says, and its load may change meanwhile

	listener net.Listener
	mutex    sync.Mutex
	requests []map[string]any
	state    state
}

type state struct {
	rate, now float64 // per second, ns
	random    *rand.Rand
	raw       []byte
	loadOnly  bool
	window    map[string]any
	sent      int

	// of a window in real time
	open    bool
	opened  time.Time
	from    float64
	samples int
	share   float64
	seconds float64
	taken   int
	inside  int // sent in the window
	lost    int
}

// Start listens on a Unix socket, or on TCP when there is a token, and returns
// the address for agentlink.Dial.
func (a *Agent) Start(t testing.TB) string {
	t.Helper()
	network, where := "unix", t.TempDir()+"/agent.sock"
	if a.Token != "" {
		network, where = "tcp", "127.0.0.1:0"
	}
	listener, err := net.Listen(network, where)
	if err != nil {
		t.Fatal(err)
	}
	a.listener = listener
	t.Cleanup(func() { _ = listener.Close() })
	go a.accept()
	if a.Token != "" {
		return listener.Addr().String()
	}
	return "unix:" + where
}

// Requests are what the agent was asked, in order.
func (a *Agent) Requests() []map[string]any {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return append([]map[string]any(nil), a.requests...)
}

func (a *Agent) accept() {
	for {
		c, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.serve(c)
		_ = c.Close()
	}
}

func (a *Agent) serve(c net.Conn) {
	const nonce = "000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f"
	a.state = state{random: rand.New(rand.NewPCG(1, 2))}
	authentication, lease := "none", a.Lease
	if lease == 0 {
		lease = 30
	}
	if a.Token != "" && !a.Open {
		authentication = "token"
	}
	say(c, map[string]any{"ok": true, "agent": "test", "version": "0", "contract": max(a.Contract, 2), "leaseSeconds": lease, "nonce": nonce, "authentication": authentication})
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var q map[string]any
		if json.Unmarshal(line, &q) != nil {
			return
		}
		a.mutex.Lock()
		a.requests = append(a.requests, q)
		a.mutex.Unlock()
		if !a.answer(c, q, nonce) {
			return
		}
	}
}

func (a *Agent) answer(c net.Conn, q map[string]any, nonce string) bool {
	s := &a.state
	if s.open {
		a.catchUp()
	}
	switch q["op"] {
	case "hello":
		mine := fmt.Sprint(q["nonce"])
		if q["proof"] != a.proof("lancet-coordinator-1", nonce, mine) {
			refuse(c, "Unauthorized", "proof", "not the secret of this agent")
			return false
		}
		say(c, map[string]any{"ok": true, "proof": a.Proof + a.proof("lancet-agent-1", mine, nonce)})
	case "configure":
		if a.Hang {
			return true
		}
		if targets, _ := q["targets"].([]any); len(targets) > 0 && strings.HasSuffix(fmt.Sprint(targets[0]), ":1") {
			refuse(c, "TargetFailed", "targets", "connection refused")
			return true
		}
		if seed, ok := q["seed"].(float64); ok { // agents with one seed would send in step
			s.random = rand.New(rand.NewPCG(uint64(seed), 2))
		}
		s.loadOnly = q["role"] == "throughput"
		say(c, map[string]any{"ok": true, "timestamps": cmp.Or(a.Stamps, "kernel"), "busyPoll": cmp.Or(a.BusyPoll, "off"), "streams": 2, "connections": 16, "seed": 1})
	case "alive":
		say(c, map[string]any{"ok": true, "state": "Ready"})
	case "load":
		s.rate = q["rate"].(float64)
		say(c, map[string]any{"ok": true, "state": "Loading"})
	case "measure":
		a.measure(q["samples"].(float64), q["samplingRate"].(float64), q["seconds"].(float64))
		say(c, map[string]any{"ok": true})
	case "poll":
		say(c, map[string]any{"ok": true, "window": s.window, "nowNanoseconds": int64(s.now), "since": map[string]int{"sent": s.sent}})
	case "samples":
		count := len(s.raw)/56 + a.Announce
		say(c, map[string]any{"ok": true, "count": count, "recordBytes": 56, "bytes": count * 56})
		_, _ = c.Write(s.raw)
	case "stop":
		say(c, map[string]any{"ok": true, "state": "Ready"})
	default:
		refuse(c, "UnknownOperation", "op", "no such operation")
	}
	return true
}

// measure fills the window with independent samples: 20 µs from due to sent, then
// the service time. Gaps are those of one of two streams.
func (a *Agent) measure(samples, share, seconds float64) {
	s := &a.state
	s.raw, s.samples, s.share, s.seconds = nil, int(samples), share, seconds
	s.from, s.inside, s.lost, s.taken = s.now, 0, 0, 0
	s.opened, s.open = time.Now(), a.Real
	if !a.Real {
		a.fill(seconds)
	}
	a.tell(!a.Real)
}

// catchUp sends what was due since the last look.
func (a *Agent) catchUp() {
	s := &a.state
	s.open = time.Since(s.opened).Seconds() < s.seconds
	a.fill(min(time.Since(s.opened).Seconds(), s.seconds))
	s.now = s.from + 1e9*time.Since(s.opened).Seconds()
	a.tell(!s.open)
}

// fill sends requests until so many seconds of the window are over.
func (a *Agent) fill(seconds float64) {
	s := &a.state
	for (s.taken < s.samples || s.loadOnly) && s.now-s.from < seconds*1e9 {
		s.now += s.random.ExpFloat64() / (s.rate * (1 - a.Slower)) * 1e9
		s.sent, s.inside = s.sent+1, s.inside+1
		gone := s.random.Float64() < a.Lose
		if gone {
			s.lost++
		}
		if s.taken < s.samples && s.random.Float64() < s.share {
			s.taken++
			s.raw = append(s.raw, a.record(gone)...)
		}
	}
}

func (a *Agent) tell(complete bool) {
	s := &a.state
	s.window = map[string]any{
		"complete": complete, "elapsedNanoseconds": max(int64(s.now-s.from), 1), "sent": s.inside, "failed": map[string]int{"timeout": s.lost},
		"sampled": s.taken, "unstamped": a.Unstamped,
	}
}

func (a *Agent) record(lost bool) []byte {
	s := &a.state
	service := uint64(s.random.ExpFloat64() * a.Mean)
	due := uint64(s.now)
	b := make([]byte, 0, 56)
	received, stamped := due+20_000+service+5_000, service
	if lost || s.loadOnly {
		received, stamped = math.MaxUint64, math.MaxUint64
	}
	for _, v := range []uint64{due, due + 20_000, received, stamped, uint64(s.random.ExpFloat64() / s.rate * 2e9)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint16(b, 3)
	if lost {
		return append(b, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return append(b, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

func (a *Agent) proof(role, first, second string) string {
	mac := hmac.New(sha256.New, []byte(a.Token))
	mac.Write([]byte(role + ":" + first + ":" + second))
	return hex.EncodeToString(mac.Sum(nil))
}

func refuse(c net.Conn, code, field, message string) {
	say(c, map[string]any{"ok": false, "error": map[string]any{"code": code, "field": field, "message": message}})
}

func say(c net.Conn, v map[string]any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = c.Write(append(raw, '\n')) // the test's end is gone: the next read says so
}
