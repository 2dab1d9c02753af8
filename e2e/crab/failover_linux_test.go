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

// balancers makes two hosts that share the VIP. It belongs to the clients' own
// network: who owns it answers their ARP requests, or neighbour solicitations.
func balancers(t *testing.T, b *Bed) []*Host {
	t.Helper()
	key := filepath.Join(b.dir, "key")
	must(t, os.WriteFile(key, []byte(strings.Repeat("k", 32)+"\n"), 0o600))
	both := []*Host{b.Host("lb"), b.add("lb2", network+"3")}
	both[1].Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.eth0.send_redirects=0")
	vips := "10.97.100.0/24"
	if b.vip == vip6 {
		vips = "fd97:100::/64"
		both[1].speakSix()
		both[1].Run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
	}
	both[1].Run("ip", "route", "del", vips)
	b.Host("client").Run("ip", "route", "replace", vips, "dev", "eth0")
	for i, h := range both {
		other := both[1-i]
		h.config = Config{Devices: uplink("balancer"),
			VIPs: []map[string]any{{"addr": b.vip, "port": port, "roles": "Balance", "policy": "RoundRobin", "backends": b.Backends("UpCRAB")}},
			Announce: map[string]any{"name": h.Name, "device": "eth0", "listen": net.JoinHostPort(h.Addr, "9440"), "keyFile": key,
				"peers": []map[string]any{{"name": other.Name, "addr": net.JoinHostPort(other.Addr, "9440")}}}}
	}
	return both
}

// owns tells by a host's log whether it owns the VIP.
func (h *Host) owns() bool {
	log := h.Log()
	return strings.LastIndex(log, "take "+h.bed.vip+":") > strings.LastIndex(log, "yield "+h.bed.vip+":")
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
		c, err := h.dialWithin(h.bed.target(), 100*time.Millisecond)
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
	Measure(t, "crab_failover_seconds", failOver(t, New(t, 2)).Seconds())
}

// C-9: the same for a VIP that is announced by neighbour discovery, with agents that
// hear each other over IPv6.
func TestFailOver6(t *testing.T) {
	b := New6(t, 2)
	Measure(t, "crab_failover_seconds_ipv6", failOver(t, b).Seconds())
	for name, roles := range map[string]string{"lb": "Balance", "lb2": "Balance", "client": "Client"} {
		b.Host(name).Apply(func(c *Config) {
			https := map[string]any{"addr": b.vip, "port": 8443, "roles": roles, "policy": "RoundRobin", "prefixes": []string{b.nets}}
			if roles == "Balance" {
				https["backends"] = b.Backends("UpCRAB")
			}
			c.VIPs = append(c.VIPs, https)
		})
	}
	before := b.Host("lb").Counter("lb_syn_redirected") + b.Host("lb2").Counter("lb_syn_redirected")
	b.curl6(t, b.https6(t))
	if n := b.Host("lb").Counter("lb_syn_redirected") + b.Host("lb2").Counter("lb_syn_redirected") - before; n != 4 {
		t.Errorf("%d of 4 SYNs were redirected by the VIP's owner", n)
	}
}

// allowed is the goal of a fail-over.
const allowed = 2 * time.Second

// stood is how long a machine may keep this very test from running during a cut that is judged.
const stood = 500 * time.Millisecond

func failOver(t *testing.T, b *Bed) (worst time.Duration) {
	both := balancers(t, b)
	b.Host("client").config = Config{Devices: uplink("client"), VIPs: []map[string]any{b.dialled(b.vip, port)}}
	for _, s := range b.Servers() {
		s.config = Config{Devices: uplink("server"), AllowEcho: []string{b.vip}}
		s.Echo(port)
	}
	for _, h := range b.all {
		h.Start()
	}
	cuts := []struct{ name, cut, mend string }{
		{"carrier", "ip link set v%s down", "ip link set v%s up"},
		{"silent", "bridge link set dev v%s state 0", "bridge link set dev v%s state 3"},
	}
	for _, c := range cuts {
		took, paused := b.cut(t, both, c.name, c.cut, c.mend)
		for again := 0; took > allowed && paused > stood && again < 2; again++ {
			t.Logf("the machine stood still for %v meanwhile: cut again", paused)
			took, paused = b.cut(t, both, c.name, c.cut, c.mend)
		}
		worst = max(worst, took)
	}
	if worst > allowed {
		t.Errorf("fail-over took %v, at most %v are allowed", worst, allowed)
	}
	return worst
}

// witness notes the longest time for which it did not run, although it wanted to.
func witness() (end func() time.Duration) {
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		var longest time.Duration
		const nap = 5 * time.Millisecond
		for {
			before := time.Now()
			select {
			case <-stop:
				worst <- longest
				return
			case <-time.After(nap):
				longest = max(longest, time.Since(before)-nap)
			}
		}
	}()
	return func() time.Duration { close(stop); return <-worst }
}

// candidate waits until a balancer whose link came back may take VIPs again: it
// listens for a second, and tells the others first that it could.
func candidate() { time.Sleep(1500 * time.Millisecond) }

// cut cuts off the owner of the VIP until another one serves; how long that took, and how long the machine stood still meanwhile.
func (b *Bed) cut(t *testing.T, both []*Host, name, cut, mend string) (took, paused time.Duration) {
	t.Helper()
	owner, other := settled(t, both)
	candidate()
	client := b.Host("client")
	client.untilServed(t)
	old, err := client.dialMany(b.target(), 20)
	must(t, err)
	pauses := witness()
	b.inHub(strings.ReplaceAll(cut, "%s", owner.Name))
	took = client.untilServed(t)
	paused = pauses()
	t.Logf("%s: the link of %s was cut; %s served after %v", name, owner.Name, other.Name, took)
	if n, first := broken(old, "still here"); n > 0 {
		t.Errorf("%s: %d connections of before are broken: %v", name, n, first)
	}
	for end := time.Now().Add(5 * time.Second); owner.owns() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	if owner.owns() {
		t.Errorf("%s: %s is cut off and still owns the VIP:\n%s", name, owner.Name, owner.Log())
	}
	b.inHub(strings.ReplaceAll(mend, "%s", owner.Name))
	for _, s := range old {
		s.Close()
	}
	return took, paused
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
	stopped := time.Now() // what it left pinned serves meanwhile
	other.untilServed(t)
	for !other.owns() && time.Since(stopped) < time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if !other.owns() {
		t.Errorf("%s does not own the VIP after %v:\n%s", other.Name, time.Since(stopped), other.Log())
	}
	// Its programs stay at work: they balance for its own clients, or the other one does. No SYN takes the hash path.
	redirected := func() uint64 { return owner.Counter("lb_syn_redirected") + other.Counter("lb_syn_redirected") }
	before := redirected()
	owner.mustTalk(t, 2)
	if n := redirected() - before; n != 2 {
		t.Errorf("%d of 2 SYNs of %s's own clients were redirected, by whomever", n, owner.Name)
	}
}

// K-12: of two balancers one is gone, no router is on the wire, and nobody says anything for a while. The survivor keeps
// the VIP: there are hosts that answer when they are asked. New connections find no gap.
func TestSurvivorOnAQuietWire(t *testing.T) { eachFamily(t, 2, testSurvivorOnAQuietWire) }

func testSurvivorOnAQuietWire(t *testing.T, b *Bed) {
	both := balancers(t, b)
	client := b.Host("client")
	client.config = Config{Devices: uplink("client"), VIPs: []map[string]any{b.dialled(b.vip, port)}}
	for _, s := range b.Servers() {
		s.config = Config{Devices: uplink("server"), AllowEcho: []string{b.vip}}
		s.Echo(port)
	}
	for _, h := range b.all {
		h.Start()
	}
	owner, other := settled(t, both)
	candidate()
	client.untilServed(t)
	b.inHub("ip link set v" + owner.Name + " down")
	client.untilServed(t)
	for round := range 3 {
		time.Sleep(4 * time.Second)
		if !other.owns() {
			t.Fatalf("round %d: %s, the only balancer, has given the VIP up:\n%s", round, other.Name, other.Log())
		}
		c, err := client.dialWithin(b.target(), time.Second) // before a second SYN could help
		if err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, b.told())
		}
		must(t, c.ask("after the quiet"))
		c.Close()
	}
	if n := other.said("yield " + b.vip + ": nobody is heard on the uplink"); n > 0 {
		t.Errorf("%s gave the VIP up %d times:\n%s", other.Name, n, other.Log())
	}
}
