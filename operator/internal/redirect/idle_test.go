// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

const (
	keepaliveTime     = 7200 * time.Second // net.ipv4.tcp_keepalive_time
	keepaliveInterval = 75 * time.Second
	keepaliveProbes   = 9
)

// granule is how much later than asked for a timer of Linux may fire: its wheel has levels of 64 places, each 8 times as
// coarse as the one below (kernel/time/timer.c), and a timer goes into the next place of the first level that reaches it.
func granule(life time.Duration, hz int64) time.Duration {
	ticks, level := int64(life/time.Second)*hz, uint(0)
	for ticks >= 63<<(3*level) {
		level++
	}
	return time.Duration(1<<(3*level)) * time.Second / time.Duration(hz)
}

// K-2, C-72: whatever holds a connection outlives a silence that keepalives end at the kernel's defaults, the last of them
// too, where the timer is as late as it may be, and RFC 5382's 2 h 4 min (REQ-5); in a map that fills up as well.
func TestIdleOutlivesKeepalives(t *testing.T) {
	for hz, slack := range map[int64]time.Duration{100: 327680 * time.Millisecond, 250: 131072 * time.Millisecond, 300: 1 << 18 * time.Second / 300, 1000: 262144 * time.Millisecond} {
		if got := granule(keepaliveTime, hz); got != slack {
			t.Errorf("HZ=%d: a timer may be %v late, want %v", hz, got, slack)
		}
		silence := uint64(keepaliveTime + slack + keepaliveProbes*keepaliveInterval)
		lives := Lives{}.complete()
		for name, l := range map[string]Lives{"": lives, ", in a full map": lives.crowded()} {
			gone, _ := over(programs.Flow{}, silence, l)
			if gone || hashedOver(programs.Echo{}, silence, l) || relayOver(programs.Relay{Opened: 1}, silence, l) {
				t.Errorf("HZ=%d%s: a connection that was silent for %v is forgotten", hz, name, time.Duration(silence))
			}
		}
	}
	if DefaultIdle < 2*time.Hour+4*time.Minute {
		t.Errorf("%v is less than RFC 5382 asks for", DefaultIdle)
	}
}

// aged makes the one translation of a node look as if it had been silent for so long.
func aged(t *testing.T, n *Node, silence time.Duration) {
	t.Helper()
	key := programs.Tuple{Client: netip.AddrPortFrom(testClient, 5000), Server: netip.AddrPortFrom(testVIP, 80)}
	flows := n.m(testFamily, "crab_flows_out")
	var flow programs.Flow
	must(t, flows.Lookup(key, &flow))
	flow.LastNs = monotonic() - uint64(silence)
	must(t, flows.Put(key, flow))
}

// K-2, C-72: a translation that has just ended by its silence is brought back by a packet of its client, unless its map
// needs the room; it is not kept for ever.
func TestIdleConnectionComesBack(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		const idle = 8 * time.Second // the machine has been up for more than twice that
		n := established(t)
		aged(t, n, idle+2*time.Second)
		if e, err := n.Expire(Lives{Idle: idle}); err != nil || e.Flows != 1 {
			t.Fatalf("just ended: %+v, %v", e, err)
		}
		worksAt(t, n, testDIP)
		aged(t, n, 0)
		if e, err := n.Expire(Lives{Idle: idle}); err != nil || e.Flows != 1 {
			t.Errorf("brought back: %+v, %v", e, err)
		}
		aged(t, n, 2*idle)
		if e, err := n.Expire(Lives{Idle: idle}); err != nil || e.Flows != 0 || e.Idle != 1 {
			t.Errorf("long ended: %+v, %v", e, err)
		}
		counted(t, n, map[string]uint64{"client_flow_expired": 1, "client_flow_early": 0})
	})
}

// K-2: the same in a map that is three quarters full: what is silent for longer than its life makes room, what is not stays.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		const idle = 8 * time.Second
		n := clientNode(t)
		flows := n.m(testFamily, "crab_flows_out")
		many := int(flows.MaxEntries())*7/8 - 1
		for i := range many {
			silence := idle / 2
			if i%2 == 0 {
				silence = idle + 2*time.Second
			}
			key := programs.Tuple{Client: netip.AddrPortFrom(testClient, uint16(2000+i)), Server: netip.AddrPortFrom(testVIP, 80)}
			must(t, flows.Put(key, programs.Flow{LastNs: monotonic() - uint64(silence), DIP: testDIP}))
		}
		there, err := n.entries("crab_flows_out")
		must(t, err)
		if there*4 <= int(flows.MaxEntries())*3 {
			t.Skipf("the map keeps %d of %d", there, many)
		}
		e, err := n.Expire(Lives{Idle: idle})
		if err != nil || e.Idle == 0 || e.Idle+e.Flows != there || e.Flows < many/2-(many-there) {
			t.Errorf("of %d translations: %+v, %v", there, e, err)
		}
		counted(t, n, map[string]uint64{"client_flow_expired": uint64(e.Idle), "client_flow_early": 0})
	})
}

// K-2, C-62: connections that are counted for policies by load live as long as others, by the same setting.
func TestCountedConnectionsLiveAsLong(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := watchNode(t)
		put := func(port uint16, silence time.Duration) {
			must(t, n.m(testFamily, "crab_conns").Put(conn(testClient, port), programs.Conn{SeenNs: monotonic() - uint64(silence), Open: 1}))
		}
		put(1, time.Second)
		put(2, 9*time.Second)
		open(t, n, 2, "by default")
		_, err := n.Expire(Lives{Idle: 5 * time.Second})
		must(t, err)
		open(t, n, 1, "with a life of 5 s")
	})
}
