// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

var (
	vip  = netip.MustParseAddrPort("192.0.2.1:80")
	port = netip.MustParseAddrPort("10.1.0.3:30080") // of node c
	mine = netip.MustParseAddrPort("10.0.0.1:80")
	his  = netip.MustParseAddrPort("10.0.0.2:80")
)

// bench is a reporter of node a with a clock and records of what it does.
type bench struct {
	*Reporter
	now     time.Duration
	owner   string
	open    map[netip.AddrPort]uint32
	trouble error
	told    map[string][]loads.Load
	written map[netip.Addr]uint32
}

func newBench() *bench {
	b := &bench{told: map[string][]loads.Load{}, written: map[netip.Addr]uint32{}, open: map[netip.AddrPort]uint32{mine: 7}}
	b.Reporter = New(Options{
		Node:        "a",
		Connections: func() (map[netip.AddrPort]uint32, error) { return b.open, b.trouble },
		Write: func(key redirect.VIPKey, server netip.Addr, r redirect.Report) error {
			if key.Addr != vip.Addr() {
				return errors.New("no such VIP")
			}
			b.written[server] = r.OpenConnections
			return nil
		},
		Tell:  func(node string, all []loads.Load) { b.told[node] = all },
		Owner: func(netip.Addr) string { return b.owner },
		Now:   func() time.Duration { return b.now },
	})
	return b
}

func pool(v netip.AddrPort) loads.Pool {
	return loads.Pool{VIP: v, Servers: []loads.Server{{Addr: mine, Node: "a", Weight: 1}, {Addr: his, Node: "b", Weight: 1}}}
}

// C-62: the owner is told, whoever it is now; the balancer of a node port always.
func TestTellsWhoBalances(t *testing.T) {
	b := newBench()
	b.Set([]loads.Served{{Pool: pool(vip)}, {Pool: pool(port), Balancers: []string{"c"}}}, nil)
	load := []loads.Load{{Server: mine, Open: 7}}
	b.round()
	if want := map[string][]loads.Load{"c": load}; !reflect.DeepEqual(b.told, want) {
		t.Errorf("without an owner: %v, want %v", b.told, want)
	}
	b.owner = "b"
	b.round()
	if want := map[string][]loads.Load{"b": load, "c": load}; !reflect.DeepEqual(b.told, want) {
		t.Errorf("%v, want %v", b.told, want)
	}
	b.owner = "d"
	for _, c := range []struct {
		at   time.Duration
		want []string
	}{{loads.Linger, []string{"b", "c", "d"}}, {loads.Linger + 1, []string{"c", "d"}}} {
		b.now = c.at
		clear(b.told)
		b.round()
		if got := slices.Sorted(maps.Keys(b.told)); !slices.Equal(got, c.want) {
			t.Errorf("%v after b gave it away %v are told, want %v", c.at, got, c.want)
		}
	}
	b.Set(nil, nil)
	if len(b.owners) != 0 {
		t.Errorf("owners of VIPs without servers here: %v", b.owners)
	}
}

// C-62: who balances itself writes what it counts and what it hears.
func TestWritesWhatItHears(t *testing.T) {
	b := newBench()
	b.owner = "a"
	b.Set([]loads.Served{{Pool: pool(vip)}}, []loads.Pool{pool(vip)})
	b.round()
	b.Hear("b", []loads.Load{{Server: his, Open: 3}})
	if want := map[netip.Addr]uint32{mine.Addr(): 7, his.Addr(): 3}; !reflect.DeepEqual(b.written, want) || len(b.told) > 0 {
		t.Errorf("%v, want %v, and nobody told: %v", b.written, want, b.told)
	}
	b.Set(nil, []loads.Pool{pool(port)}) // which the maps do not know yet
	b.Hear("b", []loads.Load{{Server: his, Open: 3}})
	if c := b.Counters(); c.WriteFailed != 1 || c.Taken != 3 {
		t.Errorf("%+v", c)
	}
}

// A silence is news once, when it begins and when it ends.
func TestSilenceIsNews(t *testing.T) {
	b := newBench()
	b.owner = "a"
	b.Set([]loads.Served{{Pool: pool(vip)}}, []loads.Pool{pool(vip)})
	news := func() bool {
		b.round()
		select {
		case <-b.Changed():
			return true
		default:
			return false
		}
	}
	for ; b.now <= loads.Patience; b.now += loads.Interval {
		if news() {
			t.Fatalf("told at %v", b.now)
		}
	}
	if !news() || news() {
		t.Error("the silence is not news once")
	}
	if s := b.Silence()[vip]; s.Servers != 1 || s.Of != 2 || s.Nodes[0] != "b" || b.Stale() != 1 {
		t.Errorf("%+v, %d stale", s, b.Stale())
	}
	b.Hear("b", []loads.Load{{Server: his, Open: 3}})
	if !news() || news() || len(b.Silence()) > 0 {
		t.Error("the end of the silence is not news once")
	}
	b.trouble = errors.New("no map")
	for range 7 {
		b.now += loads.Interval
		b.Hear("b", []loads.Load{{Server: his, Open: 3}})
		b.round()
	}
	if s := b.Silence()[vip]; len(s.Nodes) != 1 || s.Nodes[0] != "a" || b.Counters().CountFailed != 7 {
		t.Errorf("this node cannot count: %+v, %+v", s, b.Counters())
	}
}

// Loads come in on one goroutine while plans change on another.
func TestConcurrently(t *testing.T) {
	b := newBench()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				b.Set([]loads.Served{{Pool: pool(vip), Balancers: []string{"a"}}}, []loads.Pool{pool(vip)})
				b.round()
				b.Hear("b", []loads.Load{{Server: his, Open: 3}})
				_, _ = b.Stale(), b.Counters()
				clear(b.Silence())
			}
		})
	}
	all.Wait()
	if c := b.Counters(); c.Foreign+c.WriteFailed != 0 || c.Taken != 800 {
		t.Errorf("%+v", c)
	}
}

// Where no servers are, nothing is counted.
func TestNothingIsCountedForNobody(t *testing.T) {
	b, counted := newBench(), 0
	b.options.Connections = func() (map[netip.AddrPort]uint32, error) { counted++; return b.open, nil }
	for _, c := range []struct {
		served []loads.Served
		want   int
	}{{nil, 0}, {[]loads.Served{{Pool: pool(vip)}}, 1}, {nil, 1}} {
		b.Set(c.served, nil)
		if b.round(); counted != c.want {
			t.Errorf("%d served: counted %d times, want %d", len(c.served), counted, c.want)
		}
	}
}
