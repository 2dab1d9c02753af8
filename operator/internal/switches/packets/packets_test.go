// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package packets has what the operator writes act on packets: the keeper writes to the
// P4Runtime server for tests, which runs the shipped program between bobtail-serve and
// bobtail-load, each in a network namespace of its own.
package packets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	vns "github.com/vishvananda/netns"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/e2e/switchpeer/pipe"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/hack/test/netns"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// requests is the least of each part; make e2e-switch asks for more.
var requests = func() int64 {
	if n, err := strconv.ParseInt(os.Getenv("BOBTAIL_SWITCH_REQUESTS"), 10, 32); err == nil {
		return n
	}
	return 1000
}()

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	device   = 1
	depth    = 3
	ownMAC   = 0x0200000000ff
	perHost  = 2                // workers of a server
	patience = 30 * time.Second // of clients, and of requests that wait
)

var (
	front = netip.MustParseAddrPort("192.0.2.1:8000")
	back  = netip.MustParseAddrPort("192.0.2.1:9000")
	tag   = []byte("bobtail/test")
)

// host is a network namespace behind a port of the switch.
type host struct {
	ns      vns.NsHandle
	port    uint32
	address netip.Addr
	mac     uint64
}

// newHost makes one; the switch's end of its wire is port<number>.
func newHost(t *testing.T, number int) host {
	t.Helper()
	h := host{port: uint32(number), address: netip.AddrFrom4([4]byte{198, 18, 0, byte(number)}), mac: 0x020000000000 + uint64(number)}
	here, err := vns.Get()
	must(t, err)
	h.ns, err = vns.New()
	must(t, err)
	must(t, vns.Set(here))
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "up0", PeerNamespace: netlink.NsFd(h.ns)}
	v.Name = fmt.Sprintf("port%d", number)
	must(t, netlink.LinkAdd(v))
	netns.IP(t, "link", "set", v.Name, "up")
	must(t, vns.Set(h.ns))
	netns.IP(t, "link", "set", "lo", "up")
	netns.IP(t, "link", "set", "up0", "address", fmt.Sprintf("02:00:00:00:00:%02x", number))
	netns.IP(t, "addr", "add", h.address.String()+"/24", "dev", "up0")
	netns.IP(t, "link", "set", "up0", "up")
	netns.IP(t, "route", "add", "192.0.2.0/28", "dev", "up0")
	must(t, vns.Set(here))
	return h
}

// command is a program of the data plane that runs in the namespace of a host.
func (h host) start(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	here, err := vns.Get()
	must(t, err)
	defer here.Close()
	must(t, vns.Set(h.ns)) // a child begins where its thread is
	cmd := exec.Command(needs.CProgram(t, program), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = &strings.Builder{}, &strings.Builder{}
	err = cmd.Start()
	must(t, vns.Set(here))
	must(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// serve is a server with its workers, which reports to the switch.
func (h host) serve(t *testing.T, routers ...string) (workers []switches.Worker, server *exec.Cmd) {
	t.Helper()
	server = h.start(t, "bobtail-serve", "--address="+h.address.String(), fmt.Sprintf("--workers=%d", perHost), "--routers="+strings.Join(append(routers, front.String()), ","),
		"--feedback-port=9000", fmt.Sprintf("--queue-depth=%d", depth), "--service-time=fixed:1ms", "--reply-bytes=echo", "--ctl=")
	for n := range perHost {
		workers = append(workers, switches.Worker{Address: netip.AddrPortFrom(h.address, uint16(8000+n)), NextHop: switches.NextHop{MAC: h.mac, Port: h.port}})
	}
	return workers, server
}

// client speaks R2P2 from here, with whom a name stands for.
func (h host) client(t *testing.T, name *name) *r2p2.Client {
	t.Helper()
	here, err := vns.Get()
	must(t, err)
	defer here.Close()
	must(t, vns.Set(h.ns)) // sockets are made by Dial
	c, err := r2p2.Dial(context.Background(), r2p2.ClientConfig{Targets: []string{"echo:8000"}, Resolver: name, ResolveInterval: 20 * time.Millisecond, Timeout: patience, MTU: 1500})
	must(t, vns.Set(here))
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// name is what clients are given in the place of DNS.
type name struct {
	mu    sync.Mutex
	at    netip.Addr
	asked int
}

// LookupNetIP is of r2p2.Resolver.
func (n *name) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	return []netip.Addr{n.at}, nil
}

// publish gives clients another address, and returns when they have it: what they ask for
// again was answered.
func (n *name) publish(t *testing.T, at netip.Addr) {
	t.Helper()
	n.mu.Lock()
	n.at = at
	before := n.asked
	n.mu.Unlock()
	netns.Until(t, func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.asked >= before+2 }, func() string { return "nobody asks for the name" })
}

func sources(t *testing.T, program string) map[string][]byte {
	t.Helper()
	out, err := pipe.Sources("../../../../dataplane/p4/" + program)
	must(t, err)
	return out
}

// bench is a switch with a client and two servers.
type bench struct {
	pipe   *pipe.Pipe
	peer   *switchpeer.Peer
	keeper *keeper.Keeper
	client *r2p2.Client
	name   *name
	// sent through the switch alone, and placed by it; failed of the last run
	sent, placed, failed int64
	hosts                []host
	wanted               keeper.Desired
}

func newBench(t *testing.T, hosts int) (b *bench, stop func()) {
	t.Helper()
	return benchOf(t, "router", netip.MustParsePrefix("192.0.2.0/28"), hosts)
}

// benchOf is one that runs a program, with a pool of addresses.
func benchOf(t *testing.T, program string, pool netip.Prefix, hosts int) (b *bench, stop func()) {
	t.Helper()
	runtime.LockOSThread() // its namespace changes
	netns.IP(t, "link", "set", "lo", "up")
	b = &bench{pipe: pipe.New(), name: &name{at: front.Addr()}}
	t.Cleanup(b.pipe.Close)
	fabric := switches.Fabric{Pool: []netip.Prefix{pool}, MAC: ownMAC}
	for number := 1; number <= hosts; number++ {
		h := newHost(t, number)
		b.hosts = append(b.hosts, h)
		must(t, b.pipe.Attach(uint64(number), fmt.Sprintf("port%d", number)))
		fabric.Ports = append(fabric.Ports, h.port)
		fabric.NextHops = append(fabric.NextHops, switches.NextHop{MAC: h.mac, Port: h.port})
	}
	var err error
	b.peer, err = switchpeer.Start(switchpeer.Options{Device: device, Dataplane: b.pipe})
	must(t, err)
	t.Cleanup(b.peer.Stop)
	text, err := os.ReadFile("../testdata/" + program + ".p4info.txtpb")
	must(t, err)
	info, err := switches.ParseInfo(text)
	must(t, err)
	archive, err := pipe.Archive(sources(t, program))
	must(t, err)
	entries, err := info.Entries(fabric)
	must(t, err)
	b.wanted = keeper.Desired{Generation: 1, Target: link.Target{Endpoint: b.peer.Address(), DeviceID: device}, Identity: "test",
		Pipeline: keeper.Pipeline{Info: info, Device: archive, Cookie: 7, Push: true}, Wanted: entries, Ranks: switches.Ranks, Tag: tag}
	return b, b.start(t)
}

// start has a new keeper look after the switch, as after a restart of the operator.
func (b *bench) start(t *testing.T) (stop func()) {
	t.Helper()
	b.keeper = &keeper.Keeper{Term: func(context.Context) (keeper.Term, error) { return keeper.Term{Number: 1}, nil }, Now: time.Now,
		Patience: link.Usual, Period: 200 * time.Millisecond, First: 20 * time.Millisecond, Longest: time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	k := b.keeper
	go func() { defer close(ended); _ = k.Start(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// ask has the switch hold something, and waits until that was read back.
func (b *bench) ask(t *testing.T, revision string, services ...switches.Service) keeper.State {
	t.Helper()
	b.wanted.Services = services
	versions := map[string]string{}
	for _, v := range services {
		versions[v.Name] = v.Version
	}
	return b.settle(t, revision, versions)
}

// settle hands over what is wanted, and waits until all of these versions were read back.
func (b *bench) settle(t *testing.T, revision string, versions map[string]string) keeper.State {
	t.Helper()
	b.wanted.Revision = revision
	b.keeper.Set("leaf", b.wanted)
	var s keeper.State
	netns.Until(t, func() bool {
		s, _ = b.keeper.State("leaf")
		for name, version := range versions {
			if s.Services[name].Version != version {
				return false
			}
		}
		return s.Settled && len(s.Services) == len(versions)
	}, func() string { return fmt.Sprintf("the switch is not programmed: %+v, %v", s, s.Fault) })
	return s
}

func echo(version string, workers []switches.Worker) switches.Service {
	return switches.Service{Name: "echo", Version: version, Address: front, Reports: back, Choice: switches.ByCredit, Depth: depth,
		Held: 4000, Patience: uint32(patience.Microseconds()), Loss: 200_000, Router: wire.RouterID(front), OwnMAC: ownMAC, Workers: workers}
}

// credits of the workers of the first row, as the registers of the switch have them.
func (b *bench) credits(workers int) (sum int) {
	b.pipe.Look(func(m *model.Machine) {
		for w := range workers {
			both := m.Register(fmt.Sprintf("Ingress.route.credits_%d", w/2), 0)[0]
			sum += int(int32(uint32(both >> (32 * (w % 2)))))
		}
	})
	return sum
}

// outstanding are the requests that workers of the first row have of the switch, and those
// that go round its loop.
func (b *bench) outstanding(workers int) (n int) {
	n = b.pipe.Waiting()
	b.pipe.Look(func(m *model.Machine) {
		for w := range workers {
			at := uint64(w + 1)
			n += int(int32(uint32(m.Register("Ingress.route.sent", at)[0] - m.Register("Ingress.route.served", at)[0])))
		}
	})
	return n
}

func (b *bench) forwarded() (n uint64) {
	b.pipe.Look(func(m *model.Machine) {
		for at := range uint64(1 << 15) {
			n += m.Count("Ingress.route.forwarded", at)
		}
	})
	return n
}

// warm has the ways known: devices come up, and neighbours are asked for once.
func (b *bench) warm(t *testing.T) {
	t.Helper()
	var err error
	netns.Until(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_, err = b.client.Call(ctx, []byte("warm"))
		return err == nil
	}, func() string { return fmt.Sprintf("nothing comes through: %v, %s", err, b.tally()) })
}

// callers keep so many requests under way: fewer than all workers take at once.
const callers = 5

// run has requests answered until something else is done, too, and says how many. None
// may fail.
func (b *bench) run(t *testing.T, what string, during func()) (total int64) {
	t.Helper()
	done := make(chan struct{})
	var sent, failed atomic.Int64
	var first atomic.Value
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for more := true; more; {
				n := sent.Add(1)
				text := fmt.Sprintf("request %d of %s", n, what)
				got, err := b.client.Call(context.Background(), []byte(text))
				if err != nil || string(got) != text {
					failed.Add(1)
					first.CompareAndSwap(nil, fmt.Sprintf("%q, %v", got, err))
				}
				select {
				case <-done:
					more = n < requests
				default:
				}
			}
		})
	}
	during()
	close(done)
	running.Wait()
	t.Logf("%s: %d sent, %d failed", what, sent.Load(), failed.Load())
	if failed.Load() != 0 {
		t.Errorf("%s: %d of %d requests failed: %v; %s", what, failed.Load(), sent.Load(), first.Load(), b.tally())
	}
	b.failed = failed.Load()
	return sent.Load()
}

// all requests of a run are placed by the switch.
func (b *bench) all(t *testing.T, what string, during func()) {
	t.Helper()
	before := b.forwarded()
	sent := b.run(t, what, during)
	b.sent, b.placed = b.sent+sent, b.placed+int64(b.forwarded()-before)
	if placed := b.forwarded() - before; placed != uint64(sent) {
		t.Errorf("%s: the switch placed %d of %d requests", what, placed, sent)
	}
}

// counted waits until the keeper has read from the switch that so many requests were placed.
func (b *bench) counted(t *testing.T, want uint64) {
	t.Helper()
	var c keeper.Counted
	netns.Until(t, func() bool { c = b.keeper.Counts("leaf")["echo"]; return c.By[switches.Placed] == want },
		func() string { return fmt.Sprintf("the operator counted %+v, want %d placed", c.By, want) })
	if n := c.Refused() + c.By[switches.Malformed] + c.By[switches.OldReport]; n != 0 {
		t.Errorf("the operator counted what was not: %+v", c.By)
	}
}

// note appends a figure to the file that make switch-packets reads, if there is one.
func note(t *testing.T, figure, unit string, digits int, value float64) {
	t.Helper()
	t.Logf("%s %.*f %s", figure, digits, value, unit)
	name := os.Getenv("BOBTAIL_SWITCH_MEASUREMENTS")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	_, err = fmt.Fprintf(f, "{\"name\": %q, \"value\": %.*f}\n", figure, digits, value)
	must(t, errors.Join(err, f.Close()))
}

// tally is what the switch counted, for people.
func (b *bench) tally() string {
	out := fmt.Sprintf("%+v, outcomes", b.pipe.Counts())
	b.pipe.Look(func(m *model.Machine) {
		for at := range uint64(64) {
			if n := m.Count("Ingress.route.outcomes", at); n > 0 {
				out += fmt.Sprintf(" %d/%d:%d", at/32, at%32, n)
			}
		}
	})
	return out
}

// W-22, W-23, R-109, R-129: what the operator writes places real requests on real workers.
// All come back, all were placed by the switch, and each worker's credits return by its
// FEEDBACK. A restart of the operator writes nothing and loses nothing, a server that comes
// takes its part, one that leaves is asked no more, and nothing is left in the end.
func TestRequestsThroughTheSwitch(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	b, stop := newBench(t, 3)
	b.ask(t, "empty")
	workers, _ := b.hosts[1].serve(t)
	b.ask(t, "a", echo("one", workers))
	b.restored(t, len(workers)) // all have joined
	b.client = b.hosts[0].client(t, b.name)
	b.warm(t)
	b.all(t, "one server", func() {})

	more, leaver := b.hosts[2].serve(t)
	all := append(workers[:len(workers):len(workers)], more...)
	b.all(t, "a server comes", func() { b.ask(t, "b", echo("two", all)) })
	b.restored(t, len(all))
	b.counted(t, b.forwarded())

	stop()
	writes := b.peer.Counts()
	b.all(t, "no operator", func() {})
	operatorDown := float64(b.failed)
	stop = b.start(t)
	state := b.ask(t, "b", echo("two", all))
	if now := b.peer.Counts(); now.Writes != writes.Writes || now.Pushes != 1 || state.Repaired != 0 {
		t.Errorf("a restart wrote: %+v, before %+v, %d repaired", now, writes, state.Repaired)
	}
	b.restored(t, len(all))

	b.all(t, "a server leaves", func() {
		must(t, leaver.Process.Signal(syscall.SIGTERM))
		_ = leaver.Wait() // it drains first
		b.ask(t, "c", echo("three", workers))
	})
	note(t, "rpcs_failed_operator_down", "count", 0, operatorDown)
	lost, begun := b.peer.Lose(5), time.Now()
	netns.Until(t, func() bool { s, _ := b.keeper.State("leaf"); return s.Settled && s.Repaired == int64(lost) },
		func() string {
			s, _ := b.keeper.State("leaf")
			return fmt.Sprintf("%d of %d repaired", s.Repaired, lost)
		})
	note(t, "switch_drift_repaired_seconds", "s", 3, time.Since(begun).Seconds())
	since := b.forwarded() - b.keeper.Counts("leaf")["echo"].By[switches.Placed]
	b.all(t, "after a loss", func() {})
	b.counted(t, b.forwarded()-since)

	b.ask(t, "none")
	left := len(b.peer.Held()) - len(b.wanted.Wanted)
	if left != 0 {
		t.Errorf("%d entries are left", left)
	}
	stop()
	note(t, "switch_entries_after_delete", "count", 0, float64(left))
	note(t, "switch_requests_share", "ratio", 3, float64(b.placed)/float64(b.sent))
	note(t, "switch_requests", "count", 0, float64(b.sent))
	note(t, "switch_pushes_without_need", "count", 0, float64(b.peer.Counts().PushesWithoutNeed))
}

// restored: every worker has all its credits, so that nothing is outstanding.
func (b *bench) restored(t *testing.T, workers int) {
	t.Helper()
	sum := 0
	netns.Until(t, func() bool { sum = b.credits(workers); return sum == workers*depth },
		func() string { return fmt.Sprintf("%d of %d credits", sum, workers*depth) })
}

// route is a router in software, for the workers of these hosts.
func (h host) route(t *testing.T, servers ...host) {
	t.Helper()
	doc := &dataplane.Config{APIVersion: dataplane.ConfigAPIVersion, Sources: []dataplane.Source{{Kind: "RpcService", Namespace: "demo", Name: "echo", UID: "u", Generation: 1}},
		Service: dataplane.Service{Name: "echo", Namespace: "demo", Placement: "Software", Policy: "JBSQ", WorkerQueueDepth: depth, CentralQueueLimit: 4096,
			MaxQueueMilliseconds: int(patience.Milliseconds()), Forwarding: "Encapsulated", DeviceProfile: "Kernel", LegacyPeers: "Deny",
			RequestTimeoutMilliseconds: int(patience.Milliseconds()), WorkersPerReplica: perHost},
		Routers: []dataplane.Router{{Name: "router", Address: h.address.String(), RequestPort: 8000, FeedbackPort: 9000}}, KeyIDs: []int{}}
	for _, s := range servers {
		doc.Members = append(doc.Members, dataplane.Member{Name: "server-" + s.address.String(), Address: s.address.String(), FirstPort: 8000, Workers: perHost})
	}
	text, _, err := dataplane.RenderConfig(doc)
	must(t, err)
	file := filepath.Join(t.TempDir(), "config.json")
	must(t, os.WriteFile(file, text, 0o600))
	h.start(t, "bobtail-router", "--address="+h.address.String(), "--config="+file, "--ctl=")
}

// W-25: over to the switch and back, with the steps in their order and requests all the
// time, none is lost: servers report to both, clients are given the one that was read back,
// and what left serves until nobody comes any more.
func TestOverToTheSwitchAndBack(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	b, _ := newBench(t, 4)
	router := b.hosts[3]
	workers, _ := b.hosts[1].serve(t, router.address.String()+":8000")
	more, _ := b.hosts[2].serve(t, router.address.String()+":8000")
	workers = append(workers, more...)
	router.route(t, b.hosts[1], b.hosts[2])
	b.ask(t, "none")
	b.name.at = router.address
	b.client = b.hosts[0].client(t, b.name)
	b.warm(t)
	in := b.run(t, "over to the switch", func() {
		b.ask(t, "echo", echo("one", workers))
		b.name.publish(t, front.Addr())
		before := b.forwarded()
		netns.Until(t, func() bool { return b.forwarded() >= before+uint64(requests)/2 }, func() string { return "the switch places nothing: " + b.tally() })
	})
	note(t, "rpcs_failed_switch_in", "count", 0, float64(b.failed))
	out := b.run(t, "and back", func() {
		b.name.publish(t, router.address)
		// who asked the switch before has an answer
		netns.Until(t, func() bool { return b.outstanding(len(workers)) == 0 }, func() string {
			return fmt.Sprintf("%d requests of the switch are not served", b.outstanding(len(workers)))
		})
		b.ask(t, "none again")
	})
	note(t, "rpcs_failed_switch_out", "count", 0, float64(b.failed))
	note(t, "switch_requests_over_and_back", "count", 0, float64(in+out))
	if n := b.forwarded(); int64(n) < requests/2 || int64(n) >= in+out {
		t.Errorf("the switch placed %d of %d requests", n, in+out)
	}
	if n := len(b.peer.Held()); n != len(b.wanted.Wanted) {
		t.Errorf("%d entries are left, and %d are wanted", n, len(b.wanted.Wanted))
	}
}
