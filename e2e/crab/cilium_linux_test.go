// SPDX-License-Identifier: Apache-2.0

//go:build crab && cilium

package crab

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The datapath programs of Cilium, compiled from its own module and loaded by its own library
// (e2e/cilium), beside CRAB's on every host: they are Cilium's, and so are all packets' ways through them.
const (
	ciliumNodePort = 30080
	ciliumPodID    = 42
	// leastPrograms is how many of Cilium's programs a host with a pod has to have: those of bpf_host, bpf_lxc and bpf_overlay.
	leastPrograms = 14
)

// datapath plays Cilium's agent on the hosts of a bed.
type datapath struct {
	b           *Bed
	objects     string // of one variant
	hostRouting bool
	pod         *Host  // on s2
	links       int    // attached since the beginning
	state       string // of the node port's server, as CRAB's prober finds it
}

// ciliumAttached is what one attach of cilium-datapath did.
type ciliumAttached struct {
	Programs         []string
	Created, Updated int
}

// ciliumObjects is where `make e2e-crab-cilium` compiled them to.
func ciliumObjects(t *testing.T, variant string) string {
	t.Helper()
	dir := os.Getenv("CILIUM_OBJECTS")
	if dir == "" {
		t.Fatal("CILIUM_OBJECTS does not say where Cilium's objects are: use make e2e-crab-cilium")
	}
	return filepath.Join(dir, variant)
}

// describe writes what Cilium's agent would know of a host.
func (d *datapath) describe(h *Host) string {
	b := d.b
	var nodes []string
	for _, other := range b.all {
		if other != h {
			nodes = append(nodes, other.Addr)
		}
	}
	pod := map[string]any{"id": ciliumPodID, "address": d.pod.Addr}
	if h.Name == "s2" {
		pod["device"], pod["mac"] = "p"+d.pod.Name, d.pod.mac()
	}
	raw, err := json.Marshal(map[string]any{
		"bpffs": filepath.Join(b.bpf, "cilium-"+h.Name), "objects": d.objects, "device": "eth0", "own": []string{h.Addr}, "nodes": nodes,
		"hostRouting": d.hostRouting, "pods": []any{pod},
		"services": []map[string]any{{"id": 1, "nodePort": ciliumNodePort, "backend": d.pod.Addr, "port": port}},
	})
	b.must(err)
	file := filepath.Join(b.dir, "cilium-"+h.Name+".json")
	b.must(os.WriteFile(file, raw, 0o600))
	return file
}

func (d *datapath) command(h *Host, verb string, into any) {
	d.b.t.Helper()
	out := h.Run(filepath.Join(d.b.root, "build/bin/cilium-datapath"), verb, d.describe(h))
	d.b.must(json.Unmarshal([]byte(out), into))
}

// mac is that of a host's device.
func (h *Host) mac() string {
	h.bed.t.Helper()
	return strings.TrimSpace(h.Run("cat", "/sys/class/net/eth0/address"))
}

// everywhere attaches Cilium's programs on all hosts, or exchanges those that are there.
func (d *datapath) everywhere(t *testing.T) {
	t.Helper()
	most := 0
	for _, h := range d.b.all {
		var did ciliumAttached
		d.command(h, "attach", &did)
		if did.Created > 0 && did.Updated > 0 {
			t.Errorf("%s: %d links were made and %d programs exchanged", h.Name, did.Created, did.Updated)
		}
		d.links += did.Created
		most = max(most, len(did.Programs))
	}
	if most < leastPrograms {
		t.Errorf("the most programs on a host are %d, want at least %d", most, leastPrograms)
	}
	MeasureMost(t, "cilium_programs_loaded", float64(most))
}

// exchanged replaces the programs as a new version of Cilium's agent does: no link is made.
func (d *datapath) exchanged(t *testing.T) {
	t.Helper()
	before := d.links
	d.everywhere(t)
	if d.links != before {
		t.Errorf("%d links were made where programs were to be exchanged", d.links-before)
	}
}

func (d *datapath) leaves() {
	for _, h := range d.b.all {
		d.command(h, "detach", &struct{}{})
	}
	d.links = 0
}

// ciliumShown is what Cilium's programs counted on a host.
type ciliumShown struct {
	Forwarded uint64
	Dropped   map[string]uint64
}

// forwarded are the packets that passed Cilium's programs, over all hosts.
func (d *datapath) forwarded(t *testing.T) (n uint64) {
	t.Helper()
	for _, h := range d.b.all {
		var shown ciliumShown
		d.command(h, "show", &shown)
		n += shown.Forwarded
	}
	return n
}

// unroutable is Cilium's reason for a packet on cilium_host that leads nowhere: one that the kernel says when the device comes up.
const unroutable = "151"

// quiet fails if Cilium's programs dropped anything else.
func (d *datapath) quiet(t *testing.T) {
	t.Helper()
	for _, h := range d.b.all {
		var shown ciliumShown
		d.command(h, "show", &shown)
		delete(shown.Dropped, unroutable)
		if len(shown.Dropped) > 0 {
			t.Errorf("%s: Cilium dropped packets, by its own reasons: %v", h.Name, shown.Dropped)
		}
		MeasureMore(t, "cilium_packets_forwarded", float64(shown.Forwarded))
	}
}

// tried counts connections and those that failed, whoever opened them.
func tried(t *testing.T, to string, n int, failed []error) {
	t.Helper()
	for i, err := range failed {
		if i == 3 {
			t.Errorf("%s: and %d more", to, len(failed)-3)
			break
		}
		t.Errorf("%s: %v", to, err)
	}
	MeasureMore(t, "cilium_connections", float64(n))
	MeasureMore(t, "cilium_connections_failed", float64(len(failed)))
}

// connect opens n connections one after the other; each asks a few segments' worth and sees the address it dialled.
func (h *Host) connect(t *testing.T, to string, n int) {
	t.Helper()
	var failed []error
	for i := range n {
		c, err := h.dialWithin(to, patience/2)
		if err == nil {
			err = c.ask(strings.Repeat("c", 3000))
			if got := c.RemoteAddr().String(); err == nil && got != to {
				err = fmt.Errorf("the client sees %s", got)
			}
			c.Close()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("connection %d: %w", i, err))
		}
	}
	tried(t, to, n, failed)
}

// hold opens n connections from a range of ports and returns how to count those that live.
func (h *Host) hold(t *testing.T, to string, n int, ports string) (live func(when string), end func()) {
	t.Helper()
	h.Run("sysctl", "-qw", "net.ipv4.ip_local_port_range="+ports)
	all, err := h.dialMany(to, n)
	if err != nil {
		tried(t, to, n, []error{err})
		t.FailNow()
	}
	tried(t, to, n, nil)
	live = func(when string) {
		t.Helper()
		if lost, first := broken(all, when); lost > 0 {
			t.Errorf("%s: %s: %d of %d connections broke; the first: %v", to, when, lost, n, first)
			MeasureMore(t, "cilium_connections_failed", float64(lost))
		}
	}
	return live, func() {
		for _, s := range all {
			s.ends()
		}
	}
}

// ciliumBed is a client, a balancer, a server on each of two nodes, and a pod on the second one behind a node port of both.
func ciliumBed(t *testing.T, variant string, hostRouting bool) (*Bed, *datapath) {
	b := New(t, 2)
	pod := b.Host("s2").pod("pweb", b.podAddr(130))
	for name, h := range b.all {
		h.forwards()
		if name != "s2" {
			h.Run("ip", "route", "add", b.podNet(128, 25), "via", b.Host("s2").Addr)
		}
	}
	pod.Echo(port)
	for _, s := range b.Servers() {
		s.Echo(port)
	}
	return b, &datapath{b: b, objects: ciliumObjects(t, variant), hostRouting: hostRouting, pod: pod, state: "UpCRAB"}
}

// crabEverywhere is CRAB's part of the bed: the VIP on lb, whose servers are both hosts and the pod; and s1's node port, whose one is s2.
func crabEverywhere(b *Bed, d *datapath) {
	s1, s2 := b.Host("s1"), b.Host("s2")
	dialled := func(addr string, port int) map[string]any {
		return map[string]any{"addr": addr, "port": port, "roles": "Client", "policy": "RoundRobin", "prefixes": []string{b.nets, b.podNet(128, 25)}}
	}
	ported := dialled(s1.Addr, ciliumNodePort)
	ported["roles"], ported["backends"] = "Balance+StackFallback", []map[string]any{{"addr": s2.Addr, "state": d.state}}
	allowed := append(b.vips(), s1.Addr, d.mark())
	b.Host("client").config = Config{Devices: uplink("client"), VIPs: []map[string]any{dialled(b.vip, port), dialled(s1.Addr, ciliumNodePort)}}
	b.Host("lb").config = Config{Devices: uplink("balancer"), VIPs: []map[string]any{{"addr": b.vip, "port": port, "roles": "Balance", "policy": "RoundRobin",
		"backends": append(b.Backends("UpCRAB"), map[string]any{"addr": d.pod.Addr, "state": "UpCRAB"})}}}
	s1.config = Config{Devices: uplink("server", "balancer"), VIPs: []map[string]any{ported}, AllowEcho: allowed}
	s2.config = Config{Devices: podDevices([]string{"server"}, d.pod.Name), AllowEcho: allowed}
	for _, h := range b.all {
		h.writeConfig()
		h.launch()
	}
	for _, h := range b.all {
		h.await("ready", 1)
	}
}

// mark is nobody's address: what a prober asks with.
func (d *datapath) mark() string { return d.b.either("192.0.0.8", "100::8") }

// probed asks, as an agent does, whether the node port's server echoes, and has the balancer act on the answer.
func (d *datapath) probed(t *testing.T, want string) {
	t.Helper()
	b, s1 := d.b, d.b.Host("s1")
	to := net.JoinHostPort(b.Host("s2").Addr, itoa(ciliumNodePort))
	for end := time.Now().Add(patience); ; { // an agent asks again and again, too
		d.state = strings.TrimSpace(s1.Run(b.tool, "probe", "--from", s1.Addr, "--mark", d.mark(), "--to", to, "--timeout", "15s"))
		if d.state != "Down" || time.Now().After(end) {
			break
		}
	}
	if d.state != want {
		d.quiet(t)
		t.Fatalf("the node with the pod is %s, want %s\n%s", d.state, want, b.told())
	}
	s1.Apply(func(c *Config) {
		c.VIPs[0]["backends"] = []map[string]any{{"addr": b.Host("s2").Addr, "state": d.state}}
	})
}

// crabLeaves takes CRAB's programs and state away from every host.
func crabLeaves(b *Bed) {
	for _, h := range b.all {
		h.Kill()
		h.Run(b.tool, "remove", "--root", h.root())
	}
}

// Cilium's own programs and CRAB's on every host, whoever came first, while either is replaced, and when either goes.
func TestCilium(t *testing.T) {
	for _, c := range []struct {
		name        string
		variant     string
		hostRouting bool
		ciliumFirst bool
	}{
		{name: "NodePort", variant: "nodeport", ciliumFirst: true},
		{name: "HostRouting", variant: "nodeport", hostRouting: true},
		{name: "Firewall", variant: "firewall"},
		{name: "FirewallHostRouting", variant: "firewall", hostRouting: true, ciliumFirst: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, d := ciliumBed(t, c.variant, c.hostRouting)
			order := []func(){func() { crabEverywhere(b, d) }, func() { d.everywhere(t) }}
			if c.ciliumFirst {
				order[0], order[1] = order[1], order[0]
			}
			for _, begin := range order {
				begin()
			}
			testBesideCilium(t, b, d)
		})
	}
}

func testBesideCilium(t *testing.T, b *Bed, d *datapath) {
	client, nodePort := b.Host("client"), net.JoinHostPort(b.Host("s1").Addr, itoa(ciliumNodePort))
	// With host routing neither end of the pod's SYN-ACK is where CRAB could know it by: the prober finds that out.
	redirects := !d.hostRouting
	want := map[bool]string{true: "UpCRAB", false: "UpPlain"}[redirects]
	d.probed(t, want)
	ported := func(n int) {
		t.Helper()
		w := b.Watch("s1")
		client.connect(t, nodePort, n)
		frames := w.Frames(func(f Frame) bool { return f.ToHost && f.Src.Addr().String() == client.Addr })
		if redirects != (len(frames) == n) {
			t.Errorf("node s1 saw %d packets of %d connections to its node port, whose server is %s\n%s", len(frames), n, d.state, b.told())
		}
	}
	before := d.forwarded(t)
	client.connect(t, b.target(), 99)
	if seen := client.mustTalk(t, 3); len(seen) != 3 {
		t.Errorf("three connections met %v, want both hosts and the pod", seen)
	}
	if seen := d.forwarded(t) - before; seen < 102 {
		t.Errorf("Cilium's programs saw %d packets of 102 connections", seen)
	}
	ported(50)
	if t.Failed() {
		t.Fatal(b.told())
	}

	d.replaced(t, nodePort)
	d.handedOver(t, nodePort, ported)
}

// replaced: each of the two is exchanged under connections.
func (d *datapath) replaced(t *testing.T, nodePort string) {
	t.Helper()
	b, client := d.b, d.b.Host("client")
	// The pod is met by the VIP and by the node port, and Cilium leaves a client its port. From one port both would be
	// the same connection there, which no client can know that dials two addresses.
	held, closeHeld := client.hold(t, b.target(), 50, "40000 44999")
	heldPort, closePort := client.hold(t, nodePort, 50, "50000 54999")
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"CRAB's agents killed", func() {
			for _, h := range b.all {
				h.Kill()
			}
		}},
		{"CRAB's agents started again", func() {
			for _, h := range b.all {
				h.Restart()
			}
		}},
		{"Cilium's programs exchanged", func() { d.exchanged(t) }},
	} {
		step.do()
		held(step.name)
		heldPort(step.name)
	}
	closeHeld()
	closePort()
	d.quiet(t)
}

// handedOver: each of the two goes and comes again.
func (d *datapath) handedOver(t *testing.T, nodePort string, ported func(n int)) {
	t.Helper()
	b, client := d.b, d.b.Host("client")
	// Cilium goes: who serves the node port is gone with it, the VIP is served on. It comes again, behind CRAB.
	d.leaves()
	client.connect(t, b.target(), 25)
	d.everywhere(t)
	ported(25)
	// CRAB goes: Cilium's own balancing has the node port. CRAB comes again, before Cilium.
	crabLeaves(b)
	client.connect(t, nodePort, 25)
	crabEverywhere(b, d)
	client.connect(t, b.target(), 25)
	ported(25)
	d.quiet(t)
}
