// SPDX-License-Identifier: Apache-2.0

//go:build linux

package onswitch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/e2e/switchpeer/pipe"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Where the switch stands: its P4Runtime server is at the control plane's address, and
// each node has a wire to it beside that to the cluster's bridge.
const (
	device = 1
	ownMAC = "02:00:00:00:00:ff"
	holder = "control-plane"
)

// site is a switch with a program, and its wires.
type site struct {
	name, program, endpoint, pool string
	// near and far are the names of its wires' ends, and third is a byte of the addresses of those at nodes.
	near, far string
	third     int
	// gateway is what the pool is routed by, where its addresses are no neighbours; empty: they are.
	gateway string
	// carries: what pods of one node send to those of another goes by its wires, too, as where a switch is all there is.
	carries bool
}

var (
	router     = site{name: leaf, program: "router", endpoint: "10.99.0.1:9559", pool: "192.0.2.0/28", near: "sw-", far: "sw0", third: 1}
	balancer   = site{name: "leaf-2", program: "crab", endpoint: "10.99.0.1:9561", pool: "192.0.2.32/28", near: "sc-", far: "sc0", third: 3, carries: true}
	gatherer   = site{name: "agg-1", program: "aggregator", endpoint: "10.99.0.1:9562", pool: "192.0.2.48/28", near: "sg-", far: "sg0", third: 4}
	doorkeeper = site{name: "box-1", program: "box", endpoint: "10.99.0.1:9563", pool: "192.0.2.64/28", near: "sb-", far: "sb0", third: 5}
	generator  = site{name: "gen-1", program: "slog", endpoint: "10.99.0.1:9560", pool: "172.30.0.0/16", near: "sl-", far: "sl0", third: 2, gateway: "198.18.2.254"}
)

func (s site) macOf(n int) string        { return fmt.Sprintf("02:00:00:00:%02x:%02x", s.third, n+1) }
func (s site) addressOf(n int) string    { return fmt.Sprintf("198.18.%d.%d/24", s.third, n+1) }
func (s site) wireOf(node string) string { return s.near + node }

// route has a node send to the pool.
func (s site) route() string {
	if s.gateway == "" {
		return fmt.Sprintf("ip route add %s dev %s", s.pool, s.far)
	}
	return fmt.Sprintf("ip neigh replace %[1]s lladdr %[2]s dev %[3]s nud permanent\nip route add %[4]s via %[1]s dev %[3]s", s.gateway, ownMAC, s.far, s.pool)
}

// others has a node send to the pods of the others by the switch: halves of their networks win against the whole ones.
func (s site) others(of int) (out string) {
	for n := range nodes {
		if s.carries && n != of {
			at := strings.TrimSuffix(s.addressOf(n), "/24")
			out += fmt.Sprintf("\nip neigh replace %[1]s lladdr %[2]s dev %[3]s nud permanent\nip route add 10.244.%[4]d.0/25 via %[1]s dev %[3]s\nip route add 10.244.%[4]d.128/25 via %[1]s dev %[3]s", at, s.macOf(n), s.far, n)
		}
	}
	return out
}

// nodes are those of an embedded cluster of two, in the order of their ports.
var nodes = []string{"a", "b"}

func portOf(n int) int            { return n + 1 }
func podsOf(n int) string         { return fmt.Sprintf("10.244.%d.0/24", n) }
func front(service int) string    { return fmt.Sprintf("192.0.2.%d", service) }
func isFront(address string) bool { return strings.HasPrefix(address, "192.0.2.") }

func (s site) sourcesOf(root string) string  { return filepath.Join(root, "dataplane", "p4", s.program) }
func (s site) p4InfoOf(folder string) string { return filepath.Join(folder, s.program+".p4info.txtpb") }
func (s site) binaryOf(folder string) string { return filepath.Join(folder, s.program+".bin") }

// bed is a switch between the nodes of a cluster: what P4Runtime writes acts on packets.
type bed struct {
	site
	env  *harness.Env
	at   proc.Ref // whose network namespace holds the switch's ports
	pipe *pipe.Pipe
	peer *switchpeer.Peer
	// before are the counts of servers that were stopped.
	before switchpeer.Counts
}

// newBed draws the wires, and has the switch's ports and its server up. It runs nothing yet.
func newBed(ctx context.Context, env *harness.Env, at site) (*bed, error) {
	b := &bed{site: at, env: env, pipe: pipe.New()}
	var err error
	if b.at, err = env.Process(holder); err != nil {
		return b, err
	}
	for n, node := range nodes {
		if err := b.wire(ctx, n, node); err != nil {
			return b, err
		}
	}
	return b, b.power()
}

// wire gives a node its port. What arrives there from pods of other nodes has another way
// back, so the node must not ask the way back (rp_filter 2 asks only whether there is one).
func (b *bed) wire(ctx context.Context, n int, node string) error {
	far, err := b.env.Process("node-" + node)
	if err != nil {
		return err
	}
	near := b.wireOf(node)
	if _, err := b.env.Cluster(ctx, "exec-node", holder, "--", "sh", "-ec", fmt.Sprintf(
		`ip link del %[1]s 2>/dev/null || true
ip link add %[1]s type veth peer name %[3]s netns %[2]d
ip link set %[1]s addrgenmode none
ip link set %[1]s up`, near, far.Pid, b.far)); err != nil {
		return err
	}
	_, err = b.env.Cluster(ctx, "exec-node", node, "--", "sh", "-ec", fmt.Sprintf(
		`ip link set %[1]s address %[2]s addrgenmode none
ip addr add %[3]s dev %[1]s
ip link set %[1]s up
sysctl -qw net.ipv4.conf.%[1]s.rp_filter=2
%[4]s%[5]s`, b.far, b.macOf(n), b.addressOf(n), b.route(), b.others(n)))
	return err
}

// inside runs on a thread in the network namespace of the switch; sockets made there stay
// there, and the thread ends.
func (b *bed) inside(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", b.at.Pid))
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = ns.Close() }()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the network of %s: %w", holder, err)
			return
		}
		done <- do()
	}()
	return <-done
}

func (b *bed) power() error {
	return b.inside(func() error {
		for n, node := range nodes {
			if err := b.pipe.Attach(uint64(portOf(n)), b.wireOf(node)); err != nil {
				return err
			}
		}
		return b.serve()
	})
}

// serve begins in the network namespace of the switch.
func (b *bed) serve() (err error) {
	b.peer, err = switchpeer.Start(switchpeer.Options{Device: device, Address: b.endpoint, Dataplane: b.pipe})
	return err
}

// kill is a switch that loses its power: no packet passes, no controller has a session.
func (b *bed) kill() {
	b.before = b.counts()
	b.peer.Stop()
	b.peer = nil
	b.pipe.Unload()
}

// revive is its return: empty, without a pipeline.
func (b *bed) revive() error { return b.inside(b.serve) }

// counts are those of all its servers.
func (b *bed) counts() switchpeer.Counts {
	c := b.before
	if b.peer != nil {
		now := b.peer.Counts()
		c.Pushes, c.Writes, c.Updates = c.Pushes+now.Pushes, c.Writes+now.Writes, c.Updates+now.Updates
		c.PushesWithoutNeed, c.FromOldLeader = c.PushesWithoutNeed+now.PushesWithoutNeed, c.FromOldLeader+now.FromOldLeader
	}
	return c
}

// close takes switch and wires away.
func (b *bed) close(ctx context.Context) error {
	if b.peer != nil {
		b.peer.Stop()
	}
	b.pipe.Close()
	for _, node := range nodes {
		if _, err := b.env.Cluster(ctx, "exec-node", holder, "--", "ip", "link", "del", b.wireOf(node)); err != nil {
			return err
		}
	}
	return nil
}

// forwarded are the requests that the switch gave to workers.
func (b *bed) forwarded() (n uint64) {
	b.pipe.Look(func(m *model.Machine) {
		for at := range uint64(1 << 15) {
			if at%32 == 0 {
				continue // of rows: requests that went astray
			}
			n += m.Count("Ingress.route.forwarded", at)
		}
	})
	return n
}

// shedReason is what the program counts of a request that the rate of its class refused (headers.p4).
const shedReason = 30

// shed are the requests that admission control refused.
func (b *bed) shed() (n uint64) {
	b.pipe.Look(func(m *model.Machine) {
		for service := range uint64(1 << 11) {
			n += m.Count("Ingress.route.outcomes", service*32+shedReason)
		}
	})
	return n
}

// tally is what the switch counted, for people: packets, and outcomes by service, VIP or group and reason (headers.p4).
// The control block has them that decides: "route", "balance", "aggregate" or "admit".
func (b *bed) tally(block string) string {
	out := fmt.Sprintf("%+v, outcomes", b.pipe.Counts())
	b.pipe.Look(func(m *model.Machine) {
		for at := range uint64(1 << 13) {
			if n := m.Count("Ingress."+block+".outcomes", at); n > 0 {
				out += fmt.Sprintf(" %d/%d:%d", at/32, at%32, n)
			}
		}
	})
	return out
}

// held says how many entries the switch holds.
func (b *bed) held() int {
	if b.peer == nil {
		return 0
	}
	return len(b.peer.Held())
}

// compile writes what this data plane takes for a compiled program, and its P4Info, as the
// compiler of a real switch would.
func (s site) compile(root, folder string) error {
	files, err := pipe.Sources(s.sourcesOf(root))
	if err != nil {
		return err
	}
	prog, err := pipe.Read(files)
	if err != nil {
		return fmt.Errorf("load the program: %w", err)
	}
	info, err := prototext.MarshalOptions{Multiline: true}.Marshal(prog.P4Info())
	if err != nil {
		return fmt.Errorf("write the P4Info: %w", err)
	}
	archive, err := pipe.Archive(files)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.p4InfoOf(folder), info, 0o644); err != nil {
		return fmt.Errorf("write the P4Info: %w", err)
	}
	return os.WriteFile(s.binaryOf(folder), archive, 0o644)
}
