// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// balancers makes two hosts that share the VIP. It belongs to the clients' own
// network: who owns it answers their ARP requests.
func balancers(t *testing.T, b *Bed) []*Host {
	t.Helper()
	key := filepath.Join(b.dir, "key")
	must(t, os.WriteFile(key, []byte(strings.Repeat("k", 32)+"\n"), 0o600))
	both := []*Host{b.Host("lb"), b.add("lb2", network+"3")}
	both[1].Run("ip", "route", "del", "10.97.100.0/24")
	both[1].Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.eth0.send_redirects=0")
	b.Host("client").Run("ip", "route", "replace", "10.97.100.0/24", "dev", "eth0")
	for i, h := range both {
		other := both[1-i]
		h.config = Config{Devices: uplink("balancer"),
			VIPs: []map[string]any{{"addr": VIP, "port": port, "roles": "Balance", "policy": "RoundRobin", "backends": b.Backends("UpCRAB")}},
			Announce: map[string]any{"name": h.Name, "device": "eth0", "listen": h.Addr + ":9440", "keyFile": key,
				"peers": []map[string]any{{"name": other.Name, "addr": other.Addr + ":9440"}}}}
	}
	return both
}

// owns tells by a host's log whether it owns the VIP.
func (h *Host) owns() bool {
	log := h.Log()
	return strings.LastIndex(log, "take "+VIP) > strings.LastIndex(log, "yield "+VIP)
}

// settled waits until one of two hosts owns the VIP and the other does not.
func settled(t *testing.T, hosts []*Host) (owner, other *Host) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if a, b := hosts[0].owns(), hosts[1].owns(); a && !b {
			return hosts[0], hosts[1]
		} else if b && !a {
			return hosts[1], hosts[0]
		}
	}
	t.Fatalf("no single owner:\n%s\n%s", hosts[0].Log(), hosts[1].Log())
	return nil, nil
}

// untilServed dials anew until a connection works, and says how long that took.
func (h *Host) untilServed(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	for time.Since(start) < patience {
		c, err := h.dialWithin(VIP+":"+itoa(port), 200*time.Millisecond)
		if err != nil {
			continue
		}
		err = c.ask("served")
		c.Close()
		if err == nil {
			return time.Since(start)
		}
	}
	t.Fatalf("no connection in %v; %s", patience, h.bed.told())
	return 0
}

// The owner of the VIP loses its link, by carrier and without a sign of it. New
// connections work through the other balancer soon, and old ones all the time.
func TestFailOver(t *testing.T) {
	b := New(t, 2)
	both := balancers(t, b)
	b.Host("client").config = Config{Devices: uplink("client"), VIPs: []map[string]any{
		{"addr": VIP, "port": port, "roles": "Client", "policy": "RoundRobin", "prefixes": []string{network + "0/24"}}}}
	for _, s := range b.Servers() {
		s.config = Config{Devices: uplink("server"), AllowEcho: []string{VIP}}
		s.Echo(port)
	}
	for _, h := range b.all {
		h.Start()
	}
	cuts := []struct{ name, cut, mend string }{
		{"carrier", "ip link set v%s down", "ip link set v%s up"},
		{"silent", "bridge link set dev v%s state 0", "bridge link set dev v%s state 3"},
	}
	var worst time.Duration
	for _, c := range cuts {
		owner, other := settled(t, both)
		client := b.Host("client")
		client.untilServed(t)
		old, err := client.dialMany(VIP+":"+itoa(port), 20)
		must(t, err)
		b.inHub(strings.ReplaceAll(c.cut, "%s", owner.Name))
		took := client.untilServed(t)
		t.Logf("%s: the link of %s was cut; %s served after %v", c.name, owner.Name, other.Name, took)
		worst = max(worst, took)
		if n, first := broken(old, "still here"); n > 0 {
			t.Errorf("%s: %d connections of before are broken: %v", c.name, n, first)
		}
		for end := time.Now().Add(5 * time.Second); owner.owns() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		}
		if owner.owns() {
			t.Errorf("%s: %s is cut off and still owns the VIP:\n%s", c.name, owner.Name, owner.Log())
		}
		b.inHub(strings.ReplaceAll(c.mend, "%s", owner.Name))
		for _, s := range old {
			s.Close()
		}
	}
	Measure(t, "crab_failover_seconds", worst.Seconds())
	if worst > 2*time.Second {
		t.Errorf("fail-over took %v, at most 2 s are allowed", worst)
	}
}

// A balancer that is stopped hands the VIP over at once; the host's own clients
// dial it as before, through whoever owns it.
func TestHandOver(t *testing.T) {
	b := New(t, 1)
	both := balancers(t, b)
	for _, h := range both {
		h.config.Devices = uplink("client", "balancer")
		h.config.VIPs[0]["roles"] = "Client+Balance"
		h.config.VIPs[0]["prefixes"] = []string{network + "0/24"}
		h.Run("ip", "route", "add", "10.97.100.0/24", "dev", "eth0")
		h.Start()
	}
	server := b.Host("s1")
	server.config = Config{Devices: uplink("server"), AllowEcho: []string{VIP}}
	server.Start()
	server.Echo(port)
	owner, other := settled(t, both)
	for _, h := range both {
		h.mustTalk(t, 2)
	}
	owner.Stop()
	took := other.untilServed(t)
	if !other.owns() || took > time.Second {
		t.Errorf("%s owns the VIP: %v, after %v:\n%s", other.Name, other.owns(), took, other.Log())
	}
	before := other.Counter("lb_syn_redirected")
	owner.mustTalk(t, 2)
	if n := other.Counter("lb_syn_redirected") - before; n == 0 {
		t.Logf("%s still balances for its own clients: its programs stay at work", owner.Name)
	}
}
