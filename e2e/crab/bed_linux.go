// SPDX-License-Identifier: Apache-2.0

// Package crab plays CRAB with real clients and servers: every host is a network
// namespace with an agent of its own (bobtail-redirect), all are joined by a
// bridge, and the balancer's link is watched.
package crab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// Bed is the network: client and balancer, and servers numbered from 1.
type Bed struct {
	t    testing.TB
	dir  string
	bpf  string // a bpffs
	tag  string
	all  map[string]*Host
	tool string // bobtail-redirect
	root string // of the repository
	vip  string // and the network of the hosts: of one family
	nets string

	speak    func()   // lets servers say their last word
	second   string   // VIP of the same servers, if there is one
	direct   bool     // servers have the VIPs themselves
	balancer balancer // of a scene
}

var beds atomic.Int64

// Host is one namespace.
type Host struct {
	bed    *Bed
	Name   string
	NS     string
	Addr   string
	config Config
	agent  *exec.Cmd
	under  []string // the command the agent is started by
	log    string
	peer   func() // kills its echo server

	injected int // segments written by hand that left here
}

// Config is the agent's file, as far as the suite writes it.
type Config struct {
	Devices   []map[string]any `json:"devices"`
	VIPs      []map[string]any `json:"vips,omitempty"`
	AllowEcho []string         `json:"allowEcho,omitempty"`
	Lives     map[string]int64 `json:"lives,omitempty"`
	Wire      map[string]int   `json:"wire,omitempty"`
	Announce  map[string]any   `json:"announce,omitempty"`
	Watch     []string         `json:"watch,omitempty"`
	Balancers map[string]any   `json:"balancers,omitempty"`
	Tunnels   map[string]any   `json:"tunnels,omitempty"`
}

const (
	network = "10.97.0."
	// VIP is routed to the balancer and belongs to no device.
	VIP    = "10.97.100.1"
	lbAddr = network + "2"
)

// New makes hosts client, lb and s1…sN.
func New(t testing.TB, servers int) *Bed {
	t.Helper()
	privileged.Need(t, "makes network namespaces and loads eBPF programs")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := &Bed{t: t, root: root, dir: t.TempDir(), tag: fmt.Sprintf("bcrab%dx%d", os.Getpid(), beds.Add(1)), vip: VIP, nets: network + "0/24", all: map[string]*Host{}, tool: filepath.Join(root, "build/bin/bobtail-redirect")}
	b.bpf = filepath.Join(b.dir, "bpf")
	b.must(os.Mkdir(b.bpf, 0o700))
	b.run("mount", "-t", "bpf", "bpf", b.bpf)
	t.Cleanup(func() { b.close() })
	b.run("ip", "netns", "add", b.ns("hub"))
	b.run("ip", "-n", b.ns("hub"), "link", "add", "br0", "type", "bridge")
	b.run("ip", "-n", b.ns("hub"), "link", "set", "br0", "up")
	b.add("client", network+"1")
	b.add("lb", lbAddr)
	for i := 1; i <= servers; i++ {
		b.add(fmt.Sprintf("s%d", i), fmt.Sprintf("%s%d", network, 10+i))
	}
	return b
}

func (b *Bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *Bed) run(name string, args ...string) string {
	b.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// inHub runs a command where the bridge is.
func (b *Bed) inHub(line string) {
	b.t.Helper()
	b.run("nsenter", append([]string{"--net=/var/run/netns/" + b.ns("hub"), "--"}, strings.Fields(line)...)...)
}

func (b *Bed) ns(name string) string { return b.tag + name }

// add plugs a host into the bridge. Routes to the VIP lead through the balancer.
func (b *Bed) add(name, addr string) *Host {
	h := &Host{bed: b, Name: name, NS: b.ns(name), Addr: addr, log: filepath.Join(b.dir, name+".log")}
	b.all[name] = h
	b.run("ip", "netns", "add", h.NS)
	h.plug(addr)
	if b.direct {
		h.completeChecksums()
	}
	return h
}

// plug makes a host's device, its addresses and routes.
func (h *Host) plug(addr string) {
	b, name := h.bed, h.Name
	b.run("ip", "-n", b.ns("hub"), "link", "add", "v"+name, "type", "veth", "peer", "name", "eth0", "netns", h.NS)
	b.run("ip", "-n", b.ns("hub"), "link", "set", "v"+name, "master", "br0", "up")
	for _, line := range []string{"link set lo up", "addr add " + addr + "/24 dev eth0", "link set eth0 up"} {
		b.run("ip", append([]string{"-n", h.NS}, strings.Fields(line)...)...)
	}
	if name != "lb" {
		b.run("ip", "-n", h.NS, "route", "add", "10.97.100.0/24", "via", lbAddr)
	} else {
		h.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.eth0.send_redirects=0")
	}
}

// vips are what clients may dial.
func (b *Bed) vips() []string {
	if b.second == "" {
		return []string{b.vip}
	}
	return []string{b.vip, b.second}
}

// Host by name.
func (b *Bed) Host(name string) *Host { return b.all[name] }

func (b *Bed) close() {
	for _, h := range b.all {
		h.Kill()
		_ = exec.Command(b.tool, "remove", "--root", h.root()).Run()
		_ = exec.Command("ip", "netns", "del", h.NS).Run()
	}
	_ = exec.Command("ip", "netns", "del", b.ns("hub")).Run()
	_ = exec.Command("umount", b.bpf).Run()
}

func (h *Host) root() string { return filepath.Join(h.bed.bpf, h.Name) }

// Command runs in the host's network; mounts are the machine's.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/var/run/netns/" + h.NS, "--", name}, args...)...)
}

// Run a command to its end and fail with what it printed.
func (h *Host) Run(name string, args ...string) string {
	h.bed.t.Helper()
	out, err := h.Command(name, args...).CombinedOutput()
	if err != nil {
		h.bed.t.Fatalf("%s: %s %s: %v: %s", h.Name, name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Inside runs f on a thread of this host's network; sockets made in it stay there.
func (h *Host) Inside(f func() error) error { return bed.Inside(h.NS, f) }

func (h *Host) configFile() string { return filepath.Join(h.bed.dir, h.Name+".json") }

func (h *Host) writeConfig() {
	h.bed.t.Helper()
	raw, err := json.MarshalIndent(h.config, "", " ")
	h.bed.must(err)
	// In one step: the agent looks at the file all the time.
	h.bed.must(os.WriteFile(h.configFile()+".new", raw, 0o600))
	h.bed.must(os.Rename(h.configFile()+".new", h.configFile()))
}

// Shown is what the agent's program shows of the host's state.
type Shown struct {
	Counters map[string]uint64 `json:"counters"`
	Flows    int               `json:"flows"`
	List     []struct{ DIP string }
	VIPs     []map[string]any `json:"vips"`
}

// Show looks into the host's state, agent or no agent.
func (h *Host) Show(args ...string) Shown {
	h.bed.t.Helper()
	var s Shown
	out := h.Run(h.bed.tool, append([]string{"show", "--root", h.root()}, args...)...)
	h.bed.must(json.Unmarshal([]byte(out), &s))
	return s
}

// Counter of a host.
func (h *Host) Counter(name string) uint64 {
	h.bed.t.Helper()
	n, known := h.Show().Counters[name]
	if !known {
		h.bed.t.Fatalf("no counter %s", name)
	}
	return n
}

// quiet runs a command whose failure does not matter.
func (b *Bed) quiet(name string, args ...string) error { return exec.Command(name, args...).Run() }

// told is what every host's programs counted, for a test that failed.
func (b *Bed) told() string {
	var s strings.Builder
	for name, h := range b.all {
		out, err := h.Command(b.tool, "show", "--root", h.root()).Output()
		var shown Shown
		if err != nil || json.Unmarshal(out, &shown) != nil {
			continue
		}
		fmt.Fprintf(&s, "%s:", name)
		for reason, n := range shown.Counters {
			if n > 0 {
				fmt.Fprintf(&s, " %s=%d", reason, n)
			}
		}
		s.WriteString("\n")
	}
	return s.String()
}
