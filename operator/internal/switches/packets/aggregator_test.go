// SPDX-License-Identifier: Apache-2.0

//go:build linux

package packets

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/test/netns"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

const (
	groupCluster = "b0b7a11000000000000000000000c1d0"
	groupNumber  = 7
	memberPort   = 8100
	members      = 3
)

// counter is where members send to at the switch.
var counter = netip.MustParseAddrPort("192.0.2.1:8300")

// group is one of real members behind ports of the switch, with a box and a client behind two more.
type group struct {
	*bench
	dir     string
	clients []*replica.Client
	boxed   bool  // the switch is its box, and there is no other
	least   int64 // writes of each part
}

// document of the group as members read it.
func (g *group) document() []byte {
	var all []dataplane.GroupMember
	var founders []string
	for n := range members {
		name := fmt.Sprintf("m%d", n+1)
		founders = append(founders, name)
		all = append(all, dataplane.GroupMember{Name: name, ID: n + 1, Address: g.hosts[n].address.String(), MemberPort: memberPort, ClientPort: 8000})
	}
	doc := dataplane.GroupConfig{APIVersion: dataplane.ConfigAPIVersion, Kind: dataplane.KindGroup, Sources: []dataplane.Source{},
		Group: dataplane.Group{Name: "orders", Namespace: "shop", Cluster: groupCluster, Number: groupNumber, Storage: "Always", DeviceProfile: "Kernel",
			// Nobody stands for election because the machine is busy: the checker is slow, and all share its processors.
			ElectionMilliseconds: 4000, HeartbeatMilliseconds: 100, LogEntries: 4096, SnapshotEntries: 512, MaxSnapshotBytes: 1 << 22, InFlightLimit: 1000,
			Protocol: "HovercRaftPlusPlus"},
		InitialMembers: founders, Members: all, KeyIDs: []int{1},
		Boxes:      []dataplane.GroupBox{{Name: "box", Address: g.hosts[members].address.String(), ClientPort: 8000, FeedbackPort: 9000}},
		Aggregator: &dataplane.GroupAggregator{Name: "leaf", Address: counter.Addr().String(), Port: int(counter.Port()), Messages: dataplane.MessagesBySource}}
	if g.boxed {
		doc.Group.Protocol, doc.Aggregator = "HovercRaft", nil
		doc.Boxes = []dataplane.GroupBox{{Name: "leaf", Address: door.Addr().String(), ClientPort: int(door.Port()), FeedbackPort: 9000, Messages: dataplane.MessagesBySource}}
	}
	text, _ := json.Marshal(doc)
	return text
}

// run starts a process of the group.
func (g *group) run(t *testing.T, h host, program, name string, args ...string) {
	t.Helper()
	file := filepath.Join(g.dir, name+".json")
	must(t, os.WriteFile(file, g.document(), 0o600))
	h.start(t, program, append(args, "--name="+name, "--config="+file, "--key-dir="+filepath.Join(g.dir, "keys"), "--ctl="+g.socket(name))...)
}

func (g *group) socket(name string) string { return filepath.Join(g.dir, name+".ctl") }

// hear asks a process by its control socket; false: it does not answer.
func (g *group) hear(name, op string, into any) bool {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: g.socket(name), Net: "unixpacket"})
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(c, `{"v":1,"op":%q}`, op); err != nil {
		return false
	}
	answer := make([]byte, 1<<20)
	n, err := c.Read(answer)
	return err == nil && json.Unmarshal(answer[:n], into) == nil
}

// leader is what the leader says that the most follow; nil: nobody does.
func (g *group) leader() *dataplane.GroupState {
	var best *dataplane.GroupState
	for n := range members {
		s := &dataplane.GroupState{}
		if g.hear(fmt.Sprintf("m%d", n+1), dataplane.OpGroup, s) && s.Role == dataplane.RoleLeader && s.Quorum.Heard >= s.Quorum.Needed && (best == nil || s.Term > best.Term) {
			best = s
		}
	}
	return best
}

// counter of a member, by the value of its one label.
func (g *group) value(t *testing.T, name, metric, label string) (sum uint64) {
	t.Helper()
	var all struct {
		Counters []struct {
			Name   string
			Labels map[string]string
			Value  uint64
		}
	}
	if !g.hear(name, "counters", &all) {
		t.Fatalf("%s does not answer", name)
	}
	for _, c := range all.Counters {
		for _, v := range c.Labels {
			if c.Name == metric && v == label {
				sum += c.Value
			}
		}
	}
	return sum
}

// counts waits until the leader sends by way of the switch, or no longer, and returns what it says.
func (g *group) counts(t *testing.T, wanted bool) *dataplane.GroupState {
	t.Helper()
	var l *dataplane.GroupState
	netns.Until(t, func() bool { l = g.leader(); return l != nil && l.Formed && l.Aggregated == wanted }, func() string {
		return fmt.Sprintf("want a leader with an aggregator: %v; there is %+v; the switch counted %v, %+v", wanted, l, g.keeper.Counts("leaf")["shop/orders"].By, g.pipe.Counts())
	})
	return l
}

// asked is the group as the operator would ask for it, of what its leader says.
func (g *group) asked(l *dataplane.GroupState) switches.Group {
	var cluster [16]byte
	_, _ = hex.Decode(cluster[:], []byte(groupCluster))
	out := switches.Group{Name: "shop/orders", Version: fmt.Sprintf("epoch %d", l.ConfigurationIndex), At: counter, Number: groupNumber, Cluster: switches.WireCluster(cluster),
		Epoch: l.ConfigurationIndex, OwnMAC: ownMAC}
	for _, m := range l.Members {
		h := g.hosts[m.ID-1]
		out.Members = append(out.Members, switches.GroupMember{ID: uint16(m.ID), Votes: m.Role == dataplane.RoleVoter,
			Address: netip.AddrPortFrom(h.address, memberPort), NextHop: switches.NextHop{MAC: h.mac, Port: h.port}})
	}
	return out
}

// begin makes a switch with this program, and the members behind it.
func begin(t *testing.T) *group {
	t.Helper()
	b, _ := benchOf(t, "aggregator", netip.MustParsePrefix("192.0.2.0/28"), members+2)
	g := &group{bench: b, dir: t.TempDir(), least: requests}
	if testing.Short() { // all of them: make switch-packets
		g.least = requests / 20
	}
	g.members(t)
	g.run(t, g.hosts[members], "bobtail-box", "box")
	g.counts(t, false)
	g.dial(t, g.hosts[members].address.String()+":8000")
	return g
}

// members run behind the switch.
func (g *group) members(t *testing.T) {
	t.Helper()
	g.settle(t, "empty", nil)
	must(t, os.Mkdir(filepath.Join(g.dir, "keys"), 0o700))
	must(t, os.WriteFile(filepath.Join(g.dir, "keys", "1"), []byte("00112233445566778899aabbccddeeff\n"), 0o600))
	for n := range members {
		name := fmt.Sprintf("m%d", n+1)
		g.run(t, g.hosts[n], "bobtail-replica", name, "--data="+filepath.Join(g.dir, "disk-"+name))
	}
}

// dial makes clients of whoever takes the group's requests.
func (g *group) dial(t *testing.T, at string) {
	t.Helper()
	g.hosts[members+1].in(t, func() {
		for range callers {
			c, err := replica.Dial(context.Background(), replica.Config{Members: []string{at}, Timeout: 60 * time.Second, Attempt: 2 * time.Second})
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			g.clients = append(g.clients, c)
		}
	})
}

// write has each client write one after the other, so many in all and until something else is done, too. None may fail.
func (g *group) write(t *testing.T, what string, during func()) (total, failed int64) {
	t.Helper()
	done := make(chan struct{})
	var sent, bad atomic.Int64
	var first atomic.Value
	var running sync.WaitGroup
	for _, c := range g.clients {
		running.Go(func() {
			for more := true; more; {
				n := sent.Add(1)
				key := fmt.Sprintf("k%d", n%16)
				body := append(append([]byte{'P', byte(len(key))}, key...), fmt.Sprint(what, n)...)
				if reply, err := c.Write(context.Background(), body); err != nil || len(reply) == 0 {
					bad.Add(1)
					first.CompareAndSwap(nil, fmt.Sprintf("%q, %v", reply, err))
				}
				select {
				case <-done:
					more = n < g.least
				default:
				}
			}
		})
	}
	during()
	close(done)
	running.Wait()
	t.Logf("%s: %d writes, %d failed", what, sent.Load(), bad.Load())
	if bad.Load() != 0 {
		t.Errorf("%s: %d of %d writes failed: %v", what, bad.Load(), sent.Load(), first.Load())
	}
	return sent.Load(), bad.Load()
}

// ask has the switch hold the group as a leader says it is, and waits until that leader sends by way of it.
func (g *group) ask(t *testing.T, revision string, l *dataplane.GroupState) *dataplane.GroupState {
	t.Helper()
	one := g.asked(l)
	g.wanted.Groups = []switches.Group{one}
	g.settle(t, revision, map[string]string{one.Name: one.Version})
	return g.counts(t, true)
}

// withdraw takes the group off the switch.
func (g *group) withdraw(t *testing.T, revision string) {
	t.Helper()
	g.wanted.Groups = nil
	g.settle(t, revision, nil)
}

func (g *group) announced() (n uint64) {
	g.pipe.Look(func(m *model.Machine) {
		for number := range uint64(switches.MaxGroups) {
			n += m.Count("Ingress.aggregate.outcomes", number<<5|23)
		}
	})
	return n
}

// sameReign: nobody else leads, and in no other term.
func sameReign(t *testing.T, what string, before, now *dataplane.GroupState) {
	t.Helper()
	if now.Term != before.Term || now.ID != before.ID {
		t.Errorf("%s member %d leads in term %d, before it was %d in %d", what, now.ID, now.Term, before.ID, before.Term)
	}
}

// rebooted: nothing is left of the switch, not even what members speak through; it is programmed again.
func (g *group) rebooted(t *testing.T) {
	t.Helper()
	pushes := g.peer.Counts().Pushes
	g.peer.Restart()
	netns.Until(t, func() bool { s, _ := g.keeper.State("leaf"); return s.Settled && g.peer.Counts().Pushes > pushes },
		func() string { s, _ := g.keeper.State("leaf"); return fmt.Sprintf("%+v", s) })
	g.counts(t, true)
}

// forged: packets without a tag from elsewhere, and from another port of the switch's address, are counted (W-8).
func (g *group) forged(t *testing.T) {
	t.Helper()
	committed := append([]byte{0xcc, 8, 0x50, 0xe0, 0, 0, 0, 1, 1, 4, 0xff, 0xff}, make([]byte, 60)...)
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(g.hosts[0].address, memberPort))
	refused := func() uint64 { return g.value(t, "m1", "replica_packets_refused_total", "untagged") }
	before, liar := refused(), g.hosts[members+1]
	liar.in(t, func() {
		netns.IP(t, "addr", "add", counter.Addr().String()+"/32", "dev", "up0")
		for _, from := range []netip.AddrPort{netip.AddrPortFrom(liar.address, counter.Port()), netip.AddrPortFrom(counter.Addr(), 8301)} {
			c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(from), at)
			must(t, err)
			_, err = c.Write(committed)
			must(t, errors.Join(err, c.Close()))
		}
	})
	netns.Until(t, func() bool { return refused() >= before+2 }, func() string {
		return fmt.Sprintf("%d packets without a tag were refused, before %d", refused(), before)
	})
	g.counts(t, true)
}

// W-8, W-11: the shipped program aggregates for members that are the shipped ones, by the entries that the
// operator writes. No write fails: with the switch, without its entries in the same term, and after it was emptied. Who only
// pretends to be the switch changes nothing.
func TestGroupCountedBySwitch(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	g := begin(t)
	total, failed := int64(0), int64(0)
	write := func(what string, during func()) {
		n, bad := g.write(t, what, during)
		total, failed = total+n, failed+bad
	}
	with := g.ask(t, "one", g.leader())
	had := g.announced()
	write("by the switch", func() {})
	if g.announced() == had {
		t.Error("the switch announced no commit")
	}
	write("without its entries", func() {
		g.withdraw(t, "none")
		sameReign(t, "without the switch", with, g.counts(t, false))
		sameReign(t, "with it again", with, g.ask(t, "again", g.counts(t, false)))
	})
	if g.value(t, fmt.Sprintf("m%d", with.ID), "replica_events_total", "fallbacks") == 0 {
		t.Error("the leader never left the aggregator")
	}
	write("emptied and begun anew", func() { g.rebooted(t) })
	g.forged(t)
	g.withdraw(t, "gone")
	if n := len(g.peer.Held()); n != len(g.wanted.Wanted) {
		t.Errorf("%d entries are left, and %d are wanted", n, len(g.wanted.Wanted))
	}
	if !testing.Short() {
		note(t, "switch_aggregator_writes_failed", "count", 0, float64(failed))
		note(t, "switch_aggregator_writes", "count", 0, float64(total))
	}
}
