// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// Both are divided by the same number: the time after which Linux sends its first keepalive, by default, and that after
// which the agents end an idle connection, by default.
const (
	scaled        = 1440
	keepaliveTime = 7200 * time.Second / scaled
	idleLife      = 9000 * time.Second / scaled
	silent        = 6 * keepaliveTime
)

// keeps has an end of a connection ask whether the other one lives, or not.
func keeps(t *testing.T, c net.Conn, alive bool) {
	t.Helper()
	must(t, c.(*net.TCPConn).SetKeepAliveConfig(net.KeepAliveConfig{Enable: alive, Idle: keepaliveTime, Interval: time.Second, Count: 9}))
}

// asksItsClients is an echo server that sends keepalives.
func (h *Host) asksItsClients(t *testing.T) {
	t.Helper()
	h.takes(t, func(c net.Conn) {
		keeps(t, c, true)
		fmt.Fprintln(c, h.Name)
		_, _ = io.Copy(c, c)
	})
}

// K-2, C-72: connections that nothing but keepalives pass, of the client's and of the server's kernel: redirected, hashed
// and relayed ones outlive their silence.
func TestIdleConnectionsWithKeepalive(t *testing.T) {
	eachFamily(t, 3, testIdleConnectionsWithKeepalive)
}

func testIdleConnectionsWithKeepalive(t *testing.T, b *Bed) {
	const each = 25
	b.second = b.either("10.97.100.2", "fd97:100::2")
	vip := func(addr, roles, state string, servers ...*Host) map[string]any {
		return map[string]any{"addr": addr, "port": port, "roles": roles, "policy": "RoundRobin", "prefixes": []string{b.nets}, "backends": inState(state, servers)}
	}
	client, lb, s1, mute, asks := b.Host("client"), b.Host("lb"), b.Host("s1"), b.Host("s2"), b.Host("s3")
	plain, third := b.join("plain", "9"), b.either("10.97.100.3", "fd97:100::3")
	lives := map[string]int64{"idle": int64(idleLife)}
	client.config = Config{Devices: uplink("client"), Lives: lives, VIPs: []map[string]any{vip(b.vip, "Client", "UpCRAB"), vip(third, "Client", "UpCRAB")}}
	lb.config = Config{Devices: uplink("balancer"), Lives: lives, VIPs: []map[string]any{
		vip(b.vip, "Balance", "UpCRAB", s1), vip(b.second, "Balance", "UpPlain", mute), vip(third, "Balance", "UpCRAB", asks)}}
	s1.config = Config{Devices: uplink("server"), Lives: lives, AllowEcho: []string{b.vip}}
	asks.config = Config{Devices: uplink("server"), Lives: lives, AllowEcho: []string{third}}
	for _, h := range []*Host{client, lb, s1, asks} {
		h.Start()
	}
	s1.Echo(port)
	mute.Echo(port)
	asks.asksItsClients(t)
	var all []*session
	for _, way := range []struct {
		from  *Host
		to    string
		alive bool // the client asks
	}{{client, b.vip, true}, {client, third, false}, {plain, b.vip, true}, {plain, b.second, true}} {
		for range each {
			c, err := way.from.dial(net.JoinHostPort(way.to, itoa(port)))
			if err != nil {
				t.Fatalf("%s to %s: %v\n%s", way.from.Name, way.to, err, b.told())
			}
			t.Cleanup(func() { c.Close() })
			keeps(t, c.Conn, way.alive)
			all = append(all, c)
		}
	}
	if seen := client.Counter("client_synack_accepted"); seen != 2*each {
		t.Errorf("%d connections are redirected, want %d", seen, 2*each)
	}
	time.Sleep(silent)
	lost, first := broken(all, "keystroke")
	if lost > 0 {
		t.Errorf("K-2: %d of %d idle connections broke: %v\n%s", lost, len(all), first, b.told())
	}
	MeasureMore(t, "idle_connections_lost", float64(lost))
	MeasureMore(t, "idle_connections", float64(len(all)))
}
