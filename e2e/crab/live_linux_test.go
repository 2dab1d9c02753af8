// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// live is how many connections are open while agents are killed and exchanged; shortly a tenth of it.
func live() int {
	if testing.Short() {
		return 1_000
	}
	return 10_000
}

// dialMany opens n connections from one thread of the host's network.
func (h *Host) dialMany(to string, n int) ([]*session, error) {
	all := make([]*session, 0, n)
	err := h.Inside(func() error {
		for i := range n {
			c, err := net.DialTimeout("tcp", to, patience)
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			s := &session{Conn: c}
			all = append(all, s)
			if err := s.greeted(bufio.NewReaderSize(c, 64)); err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
		}
		return nil
	})
	return all, err
}

// broken asks every connection once and counts those that do not answer.
func broken(all []*session, word string) (n int, first error) {
	var wg sync.WaitGroup
	var bad atomic.Int64
	var mu sync.Mutex
	next := make(chan *session)
	for range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for s := range next {
				if err := s.ask(word); err != nil {
					bad.Add(1)
					mu.Lock()
					if first == nil {
						first = fmt.Errorf("%s on %s: %w", s.LocalAddr(), s.server, err)
					}
					mu.Unlock()
				}
			}
		}()
	}
	for _, s := range all {
		next <- s
	}
	close(next)
	wg.Wait()
	return int(bad.Load()), first
}

// C-26, C-72: every agent dies and one of another version takes over, with other programs; no connection notices. One
// that lays its maps out in another way says so and changes nothing.
func TestAgentKillAndUpgradeUnderConnections(t *testing.T) {
	inTurn(t, 3, testAgentKillAndUpgrade)
}

func testAgentKillAndUpgrade(t *testing.T, b *Bed) {
	programs, layout := b.otherPrograms(), b.otherLayout()
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	all, err := b.Host("client").dialMany(b.target(), live())
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	count := func(step string) {
		n, first := broken(all, step)
		failed += n
		if n > 0 {
			t.Errorf("%s: %d of %d connections broken; the first: %v", step, n, len(all), first)
		}
	}
	count("before")
	for _, h := range b.all {
		h.Kill()
	}
	count("agents killed")
	if flows := b.Host("client").Show().Flows; flows != live() {
		t.Errorf("the client's host holds %d translations, want %d", flows, live())
	}
	for _, h := range b.all {
		h.isRefused(t, layout)
	}
	count("agents of another layout refused")
	b.tool = programs
	upgraded := make(chan struct{})
	go func() { // while the connections work
		defer close(upgraded)
		for _, h := range b.all {
			h.Restart()
		}
	}()
	count("agents being replaced")
	<-upgraded
	before := b.counters()
	count("agents replaced")
	b.countedByOthers(t, before)
	if c, err := b.Host("client").dial(b.target()); err != nil {
		t.Errorf("a new connection: %v", err)
	} else {
		c.Close()
	}
	Measure(t, "crab_connections_broken_agent_kill"+b.either("", "_ipv6"), float64(failed))
	Measure(t, "crab_connections_live"+b.either("", "_ipv6"), float64(len(all)))
	for _, s := range all {
		s.Close()
	}
}

// isRefused starts an agent that cannot use what is pinned: it ends, and says what to do.
func (h *Host) isRefused(t *testing.T, tool string) {
	t.Helper()
	out, err := h.Command("timeout", "60", tool, "run", "--root", h.root(), "--config", h.configFile()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "layout 1; this program knows 2: drain the node") {
		t.Errorf("%s: an agent of another layout: %v: %s", h.Name, err, out)
	}
}

func (b *Bed) counters() map[string]map[string]uint64 {
	all := map[string]map[string]uint64{}
	for name, h := range b.all {
		all[name] = h.Show().Counters
	}
	return all
}

// countedByOthers fails when a program of the first version is still at work anywhere.
func (b *Bed) countedByOthers(t *testing.T, before map[string]map[string]uint64) {
	t.Helper()
	worked := map[string]bool{}
	for name, now := range b.counters() {
		for reason, n := range now {
			n -= before[name][reason]
			worked[name] = worked[name] || n > 0
			if n%otherStep != 0 {
				t.Errorf("%s counted %s %d times, not in steps of %d: a program of the former version is at work", name, reason, n, otherStep)
			}
		}
	}
	if !worked["client"] {
		t.Error("the client's programs counted nothing: this proves nothing")
	}
}

// load makes new connections until it is stopped.
type load struct {
	made, failed atomic.Int64
	stop         func()
}

func (h *Host) load(t *testing.T) *load {
	l := &load{}
	end := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-end:
					return
				default:
				}
				c, err := h.dial(h.bed.target())
				if err == nil {
					err = c.ask("new")
					c.Close()
				}
				l.made.Add(1)
				if err != nil {
					l.failed.Add(1)
					t.Error(err)
				}
			}
		}()
	}
	l.stop = func() { close(end); wg.Wait() }
	return l
}

// C-26, C-63: servers come and go while connections are made; those of others and all live ones hold.
func TestPoolChangeUnderLoad(t *testing.T) { inTurn(t, 4, testPoolChangeUnderLoad) }

func testPoolChangeUnderLoad(t *testing.T, b *Bed) {
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	all, err := b.Host("client").dialMany(b.target(), 400)
	if err != nil {
		t.Fatal(err)
	}
	load := b.Host("client").load(t)
	whole := b.Backends("UpCRAB")
	for round := range 12 {
		b.Host("lb").Apply(func(c *Config) {
			drop := round % (len(whole) + 1)
			var pool []map[string]any
			for i, s := range whole {
				if i != drop {
					pool = append(pool, s)
				}
			}
			c.VIPs[0]["backends"] = pool
		})
		n, first := broken(all, "round "+itoa(round))
		load.failed.Add(int64(n))
		if n > 0 {
			t.Errorf("change %d: %d live connections broken: %v", round, n, first)
		}
	}
	load.stop()
	b.lostNone(t)
	t.Logf("12 changes, %d new connections meanwhile, %d live ones", load.made.Load(), len(all))
	if load.made.Load() < 20 {
		t.Errorf("only %d connections were made: this proves nothing", load.made.Load())
	}
	Measure(t, "crab_connections_broken_pool_change"+b.either("", "_ipv6"), float64(load.failed.Load()))
}

// lostNone compares what left the client with what the balancer sent on and what reached the servers: a SYN that is lost
// comes again after a second, and the connection hides it. One whose answer is late comes again as well, straight to its
// server, which answers again: of those the servers may see more.
func (b *Bed) lostNone(t *testing.T) {
	t.Helper()
	client, lb, seen := b.Host("client").Show().Counters, b.Host("lb").Show().Counters, uint64(0)
	sent, again := client["client_syn_marked"], client["client_synack_repeated"]
	for _, s := range b.Servers() {
		seen += s.Counter("server_syn_seen")
	}
	if on := lb["lb_syn_redirected"] + lb["lb_syn_repeated"]; sent == 0 || on != sent || seen < sent || seen > sent+again {
		t.Errorf("C-63: %d SYNs left the client, %d the balancer, %d reached a server, of which up to %d may be there again\n%s", sent, on, seen, again, b.told())
	}
}

// C-20, C-24: the balancer's link carries one SYN in and one out for each connection.
func TestBalancerSeesOnlySYNs(t *testing.T) {
	b := New(t, 2)
	b.StartAll(port, nil)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	lb, client := b.Watch("lb"), b.Watch("client")
	const n = 50
	for range n {
		c, err := b.Host("client").dial(VIP + ":" + itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ask(strings.Repeat("y", 20000)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	in := lb.Frames(func(f Frame) bool { return f.ToHost })
	for _, f := range in {
		if f.Flags&(synFlag|ackFlag) != synFlag {
			t.Errorf("the balancer saw %v", f)
		}
	}
	Measure(t, "crab_lb_packets_per_connection", float64(len(in))/n)
	excerpt := "the balancer's link:\n"
	for _, f := range lb.Frames(nil)[:2] {
		excerpt += f.String() + "\n"
	}
	excerpt += "the client's link, same connection:\n"
	for i, f := range client.Frames(nil) {
		if i < 7 {
			excerpt += f.String() + "\n"
		}
	}
	t.Log("\n" + excerpt)
	documented(t, excerpt)
	_ = os.MkdirAll("../../build", 0o755)
	if err := os.WriteFile("../../build/crab-capture.txt", []byte(excerpt), 0o644); err != nil {
		t.Fatal(err)
	}
}
