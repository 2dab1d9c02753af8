// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reporting starts a balancer by a policy and servers that tell it their loads, all
// with the rights the chart gives to agents.
func reporting(t *testing.T, b *Bed, policy string) {
	t.Helper()
	key := filepath.Join(b.dir, "key")
	must(t, os.WriteFile(key, []byte(strings.Repeat("k", 32)+"\n"), 0o600))
	announce := func(h *Host, peers []map[string]any) map[string]any {
		return map[string]any{"name": h.Name, "device": "eth0", "listen": net.JoinHostPort(h.Addr, "9440"), "keyFile": key, "peers": peers}
	}
	lb := b.Host("lb")
	var peers []map[string]any
	for _, s := range b.Servers() {
		s.config = Config{Devices: uplink("server", "watch"), AllowEcho: []string{b.vip}, Watch: []string{net.JoinHostPort(s.Addr, itoa(port))},
			Announce: announce(s, []map[string]any{{"name": "lb", "addr": net.JoinHostPort(lb.Addr, "9440")}})}
		peers = append(peers, map[string]any{"name": s.Name, "addr": net.JoinHostPort(s.Addr, "9440"), "servers": []string{s.Addr}})
		s.Echo(port)
	}
	lb.config = Config{Devices: uplink("balancer"), Announce: announce(lb, peers),
		VIPs: []map[string]any{{"addr": b.vip, "port": port, "roles": "Balance", "policy": policy, "backends": b.Backends("UpCRAB")}}}
	b.Host("client").config = Config{Devices: uplink("client"), VIPs: []map[string]any{b.dialled(b.vip, port)}}
	for _, h := range b.all {
		h.under = limited(rights)
		h.Start()
	}
}

// open makes connections and keeps them; how many each server got.
func (h *Host) open(t *testing.T, to string, n int) (all []*session, by map[string]int) {
	t.Helper()
	by = map[string]int{}
	for i := range n {
		c, err := h.dial(to)
		if err != nil {
			t.Fatalf("connection %d to %s: %v\n%s", i, to, err, h.bed.told())
		}
		t.Cleanup(func() { c.Close() })
		all = append(all, c)
		by[c.server]++
	}
	return all, by
}

// reported waits until choices are made by reports, and for two rounds of them.
func (b *Bed) reported(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := b.Host("lb").Counter("lb_stale_report")
		b.Host("client").untilServed(t)
		time.Sleep(300 * time.Millisecond)
		if b.Host("lb").Counter("lb_stale_report") == before {
			time.Sleep(2200 * time.Millisecond)
			return
		}
	}
	t.Fatalf("no reports of load come in: %s\n%s", b.told(), b.Host("lb").Log())
}

// C-62: new connections go where the fewest are, those that never saw the
// balancer included; when they end, their server gets the next ones; and without
// reports everybody is served all the same, and it is counted.
func TestLeastConnections(t *testing.T) {
	t.Parallel()
	leastConnections(t, New(t, 3))
}

// C-9: the same with servers, reports and agents of IPv6.
func TestLeastConnections6(t *testing.T) {
	t.Parallel()
	leastConnections(t, New6(t, 3))
}

func leastConnections(t *testing.T, b *Bed) {
	reporting(t, b, "Least")
	client, lb, vip := b.Host("client"), b.Host("lb"), b.target()
	client.untilServed(t)
	direct, _ := client.open(t, net.JoinHostPort(b.Host("s1").Addr, itoa(port)), 30)
	b.reported(t)
	stale := lb.Counter("lb_stale_report")
	_, by := client.open(t, vip, 20)
	t.Logf("s1 has 30 connections of its own; of 20 new ones the servers got %v", by)
	if by["s1"] != 0 || by["s2"] < 8 || by["s3"] < 8 {
		t.Errorf("20 connections went to %v, want none to s1, which has 30", by)
	}
	if now := lb.Counter("lb_stale_report"); now != stale {
		t.Errorf("%d choices were made without reports", now-stale)
	}
	for _, c := range direct {
		c.Close()
	}
	b.reported(t)
	_, by = client.open(t, vip, 10)
	t.Logf("these ended; of 10 new ones the servers got %v", by)
	if by["s1"] < 9 {
		t.Errorf("10 connections went to %v, want all to s1, which has none", by)
	}
	b.Host("s1").Kill()
	time.Sleep(3500 * time.Millisecond) // the life of a report, C-62
	stale = lb.Counter("lb_stale_report")
	_, by = client.open(t, vip, 20)
	t.Logf("s1 reports no more; of 20 new ones the servers got %v", by)
	if lb.Counter("lb_stale_report") == stale {
		t.Error("choices without reports are not counted")
	}
}
