// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

// order asks the leader until it takes an order, and waits until it is done.
func (p *play) order(op string, fields map[string]any) {
	p.t.Helper()
	var last error
	p.must(until(op, func() bool {
		l := p.g.Leader()
		if l == nil {
			return false
		}
		last = p.g.Order(l, op, fields)
		if last != nil && (strings.HasPrefix(last.Error(), "Already") || strings.HasPrefix(last.Error(), "NoMember") || strings.HasPrefix(last.Error(), "LastVoter")) {
			p.t.Fatalf("%s %v: %v", op, fields, last)
		}
		return last == nil
	}))
	p.must(until(op+" done", func() bool {
		l := p.g.Leader()
		s := (*Status)(nil)
		if l != nil {
			s = p.g.Status(l)
		}
		return s != nil && !s.Pending
	}))
}

func (p *play) add(m *Member) {
	p.t.Helper()
	p.order("add", map[string]any{"id": m.ID, "name": m.Name, "address": bed.V4(m.Host), "memberPort": memberPort, "clientPort": clientPort})
}

// phase waits until a member says that it is in a phase, for this reason.
func (p *play) phase(m *Member, phase, reason string) {
	p.t.Helper()
	var s *Status
	if err := until(m.Name+" "+phase+" "+reason, func() bool {
		s = p.g.Status(m)
		return s != nil && s.Phase == phase && s.Reason == reason && !s.Ready
	}); err != nil {
		p.t.Fatalf("%v; it says %+v", err, s)
	}
	if s.Message == "" {
		p.t.Fatalf("%s is %s and does not say why", m.Name, phase)
	}
}

// Three members become five and three again under load; one of them is the leader.
func TestMembership(t *testing.T) {
	p := begin(t, 3, 5, Kind{})
	four, five := p.g.Members[3], p.g.Members[4]
	p.round("grow", func() {
		for _, m := range []*Member{four, five} {
			p.must(p.g.Start(m))
			p.add(m)
			p.order("promote", map[string]any{"id": m.ID})
		}
	})
	p.must(p.g.AwaitReady(p.g.Members...))
	p.same(p.g.Members...)
	var gone []*Member
	p.round("shrink", func() {
		for range 2 {
			l := p.leader()
			p.order("remove", map[string]any{"id": l.ID})
			gone = append(gone, l)
			p.phase(l, "Refused", "Removed")
		}
	})
	// The disk of a removed member returns: refused again, and nobody's term moves.
	term := p.g.Status(p.leader()).Term
	gone[0].Kill()
	p.must(p.g.Start(gone[0]))
	p.phase(gone[0], "Refused", "Removed")
	if now := p.g.Status(p.leader()).Term; now != term {
		t.Fatalf("a removed member moved the term from %d to %d", term, now)
	}
	for _, m := range p.g.Members {
		if m == gone[0] || m == gone[1] {
			m.Kill()
		}
	}
	p.same(p.up()...)
}

// voters waits until these and no others have a vote.
func (p *play) voters(ids ...int) {
	p.t.Helper()
	p.must(until(fmt.Sprint("voters ", ids), func() bool {
		l := p.g.Leader()
		if l == nil {
			return false
		}
		s := p.g.Status(l)
		var have []int
		for _, m := range s.Members {
			if m.Role == "Voter" {
				have = append(have, m.ID)
			}
		}
		slices.Sort(have)
		return !s.Pending && len(s.Members) == len(ids) && slices.Equal(have, ids)
	}))
}

// The document wants other voters, and the leader walks there: three become five,
// and three others, the leader not among them; then one is not to lead.
func TestWanted(t *testing.T) {
	p := begin(t, 3, 5, Kind{})
	p.must(p.g.Start(p.g.Members[3]))
	p.must(p.g.Start(p.g.Members[4]))
	p.round("five", func() {
		p.g.wanted = []int{1, 2, 3, 4, 5}
		p.must(p.g.Apply())
		p.voters(p.g.wanted...)
	})
	l := p.leader()
	p.round("three", func() {
		p.g.wanted = nil
		for i := range 3 {
			p.g.wanted = append(p.g.wanted, (l.ID+i)%5+1)
		}
		slices.Sort(p.g.wanted)
		p.must(p.g.Apply())
		p.voters(p.g.wanted...)
	})
	p.phase(l, "Refused", "Removed")
	p.round("avoided", func() {
		p.g.avoided = []int{p.leader().ID}
		p.must(p.g.Apply())
		p.must(until("another leader", func() bool { l := p.g.Leader(); return l != nil && l.ID != p.g.avoided[0] }))
	})
	p.g.wanted = []int{1, 2}
	if err := p.g.Apply(); err == nil || !strings.Contains(err.Error(), "wantedVoters") {
		t.Fatalf("an even number of voters: %v", err)
	}
}

// A member loses its disk and comes back under its id: the others refuse it, and
// a new one takes its place.
func TestLostDisk(t *testing.T) {
	p := begin(t, 3, 4, Kind{})
	p.round("before", func() {})
	lost := p.g.Members[p.leader().ID%3]
	p.round("lost", func() {
		lost.Kill()
		p.must(os.RemoveAll(lost.Dir))
		p.must(p.g.Start(lost))
		p.phase(lost, "Refused", "WrongDisk")
	})
	next := p.g.Members[3]
	p.round("replaced", func() {
		p.order("remove", map[string]any{"id": lost.ID})
		p.must(p.g.Start(next))
		p.add(next)
		p.order("promote", map[string]any{"id": next.ID})
	})
	lost.Kill()
	p.must(p.g.AwaitReady(p.up()...))
	p.same(p.up()...)
}

// The disk of the leader is full: it hands over, says so, and acknowledges
// nothing; the others serve. With room again it takes part.
func TestDiskFull(t *testing.T) {
	p := begin(t, 3, 3, Kind{})
	full := p.leader()
	// Its disk becomes a small one.
	full.Kill()
	small := filepath.Join(p.g.Dir, "small")
	p.must(os.MkdirAll(small, 0o755))
	p.must(syscall.Mount("bobtail-replica-disk", small, "tmpfs", 0, "size=4m"))
	defer func() {
		if full.Running() {
			full.Kill()
		}
		p.must(syscall.Unmount(small, 0))
	}()
	p.must(os.CopyFS(filepath.Join(small, "disk"), os.DirFS(full.Dir)))
	full.Dir = filepath.Join(small, "disk")
	p.must(p.g.Start(full))
	p.must(p.g.AwaitReady(full))
	p.must(until(full.Name+" leads", func() bool {
		l := p.g.Leader()
		if l != nil && l != full {
			_ = p.g.Order(l, "transfer", map[string]any{"id": full.ID})
		}
		return l == full
	}))
	p.round("full", func() {
		fill(filepath.Join(small, "filler"))
		p.phase(full, "Failed", "DiskFull")
		l, err := p.g.AwaitLeader(full)
		p.must(err)
		if l == full {
			t.Fatal("a member with a full disk leads")
		}
	})
	p.must(os.Remove(filepath.Join(small, "filler")))
	full.Kill()
	p.must(p.g.Start(full))
	p.must(p.g.AwaitReady(p.g.Members...))
	p.same(p.g.Members...)
}

// fill writes until there is no room.
func fill(path string) {
	f, err := os.Create(path)
	if err != nil {
		return
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

// What is Volatile has a new disk after every start: it is refused under its old
// id, and the others go on.
func TestVolatile(t *testing.T) {
	p := begin(t, 3, 4, Kind{Volatile: true})
	m := p.g.Members[p.leader().ID%3]
	p.round("volatile", func() {
		m.Kill()
		p.must(p.g.Start(m))
		p.phase(m, "Refused", "WrongDisk")
		p.order("remove", map[string]any{"id": m.ID})
		next := p.g.Members[3]
		p.must(p.g.Start(next))
		p.add(next)
		p.order("promote", map[string]any{"id": next.ID})
	})
	m.Kill()
	p.same(p.up()...)
}

// A member of another group, and one whose document names another member of its
// disk, do not start; the disk is not touched.
func TestForeignDisks(t *testing.T) {
	p := begin(t, 3, 3, Kind{})
	a, b := p.g.Members[0], p.g.Members[1]
	a.Kill()
	b.Kill()
	a.Dir, b.Dir = b.Dir, a.Dir
	p.must(p.g.Start(a))
	p.phase(a, "Failed", "DiskForeign")
	a.Kill()
	a.Dir, b.Dir = b.Dir, a.Dir
	other := p.g.document(func(doc map[string]any) {
		doc["group"].(map[string]any)["cluster"] = strings.Repeat("0a", 16)
	})
	path := filepath.Join(p.g.Dir, "other.json")
	p.must(os.WriteFile(path, other, 0o644))
	p.g.extra = []string{"--config=" + path}
	p.must(p.g.Start(a))
	p.phase(a, "Failed", "DiskForeign")
	a.Kill()
	p.g.extra = nil
	p.must(p.g.Start(a))
	p.must(p.g.Start(b))
	p.must(p.g.AwaitReady(p.g.Members...))
	p.round("again", func() {})
}

// forge sends a packet to a member's port between members from the clients' host.
func (p *play) forge(to *Member, make func(src, dst netip.AddrPort) []byte) {
	p.t.Helper()
	p.must(bed.Inside(p.g.Net.Namespace(p.g.Clients), func() error {
		src := netip.AddrPortFrom(netip.MustParseAddr(bed.V4(p.g.Clients)), 5555)
		dst := netip.AddrPortFrom(netip.MustParseAddr(bed.V4(to.Host)), memberPort)
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(src), net.UDPAddrFromAddrPort(dst))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(make(src, dst))
		return err
	}))
}

// tagged is a packet with a message, as a member writes it.
func tagged(key *wire.Key, message []byte, src, dst netip.AddrPort) []byte {
	h := wire.Header{Type: wire.RaftRequest, First: true, Last: true, Ext: true, Count: 1}
	h.Options.Present, h.Options.KeyID = wire.HasTag, key.ID
	p, _ := h.Append(nil)
	p = append(p, message...)
	h.Sign(p, key, src, dst)
	return p
}

// vote asks for a vote in a far term, of some cluster, and names a disk behind.
func vote(from uint16, cluster, disk uint64) []byte {
	m := []byte{1, 0}
	m = binary.BigEndian.AppendUint16(m, from)
	m = binary.BigEndian.AppendUint32(m, groupNo)
	m = binary.BigEndian.AppendUint64(m, 1000)
	m = binary.BigEndian.AppendUint64(m, cluster)
	m = binary.BigEndian.AppendUint32(m, 2) // asked for by the leader: no lease protects from it
	m = binary.BigEndian.AppendUint64(m, 1000)
	m = binary.BigEndian.AppendUint64(m, 1<<40)
	m = binary.BigEndian.AppendUint64(m, 999)
	return binary.BigEndian.AppendUint64(m, disk)
}

// Forged, foreign and truncated messages are counted and change nothing.
func TestForged(t *testing.T) {
	p := begin(t, 3, 3, Kind{})
	ours := readKey(t, filepath.Join(p.g.Dir, "keys"), 1)
	theirs := ours
	theirs.Bytes[3] ^= 1
	wrongID := ours
	wrongID.ID = 9
	l := p.leader()
	wireCluster := wireClusterOf(cluster)
	cases := []struct {
		name, counter, label string
		make                 func(src, dst netip.AddrPort) []byte
	}{
		{"noise", "replica_packets_refused_total", "form", func(_, _ netip.AddrPort) []byte { return []byte("hello, members") }},
		{"no tag", "replica_packets_refused_total", "untagged", func(_, _ netip.AddrPort) []byte {
			h := wire.Header{Type: wire.RaftRequest, First: true, Last: true, Ext: true, Count: 1}
			b, _ := h.Append(nil)
			return append(b, vote(2, wireCluster, 1)...)
		}},
		{"another key", "replica_packets_refused_total", "wrong_tag", func(s, d netip.AddrPort) []byte { return tagged(&theirs, vote(2, wireCluster, 1), s, d) }},
		{"a key nobody has", "replica_packets_refused_total", "unknown_key", func(s, d netip.AddrPort) []byte { return tagged(&wrongID, vote(2, wireCluster, 1), s, d) }},
		{"tagged for somebody else", "replica_packets_refused_total", "wrong_tag", func(s, d netip.AddrPort) []byte {
			return tagged(&ours, vote(2, wireCluster, 1), s, netip.AddrPortFrom(d.Addr(), 1))
		}},
		{"too short", "replica_packets_refused_total", "short", func(s, d netip.AddrPort) []byte { return tagged(&ours, vote(2, wireCluster, 1)[:20], s, d) }},
		{"truncated", "replica_events_total", "malformed", func(s, d netip.AddrPort) []byte { return tagged(&ours, vote(2, 1, 1)[:50], s, d) }},
		{"another cluster", "replica_events_total", "foreign", func(s, d netip.AddrPort) []byte { return tagged(&ours, vote(2, wireCluster^1, 1), s, d) }},
		{"another disk", "replica_packets_refused_total", "wrong_disk", func(s, d netip.AddrPort) []byte { return tagged(&ours, vote(uint16(l.ID%3+1), wireCluster, 1), s, d) }},
	}
	before := p.g.Status(l)
	for _, c := range cases {
		was := p.counter(l, c.counter, c.label)
		p.forge(l, c.make)
		p.must(until(c.name+" counted", func() bool { return p.counter(l, c.counter, c.label) > was }))
	}
	after := p.g.Status(l)
	if after.Term != before.Term || after.Role != "Leader" {
		t.Fatalf("forged messages moved %s from term %d to %d, role %s", l.Name, before.Term, after.Term, after.Role)
	}
	p.round("forged", func() {})
	// A request above one message is refused by name; a write tagged as a read by the service.
	if _, err := p.c.list[0].Write(context.Background(), make([]byte, 20000)); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Fatalf("a long write: %v", err)
	}
	o := history.Op{Kind: 'P', Key: "x", Value: "y"}
	if r, err := p.c.list[0].Read(context.Background(), o.Body()); err != nil || r[0] != 'R' {
		t.Fatalf("a write sent as a read: %q %v", r, err)
	}
}

func readKey(t *testing.T, dir string, id int) wire.Key {
	t.Helper()
	k, err := wire.ReadKey(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (p *play) counter(m *Member, name, label string) int64 {
	p.t.Helper()
	s, err := m.proc.Counters()
	p.must(err)
	return s.Sum(name, "reason", label) + s.Sum(name, "event", label)
}

// wireClusterOf is the 64 bits that stand for a cluster id on the wire.
func wireClusterOf(digits string) uint64 {
	id, _ := hex.DecodeString(digits)
	sum := sha256.Sum256(id)
	return binary.BigEndian.Uint64(sum[:])
}
