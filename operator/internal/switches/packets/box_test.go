// SPDX-License-Identifier: Apache-2.0

//go:build linux

package packets

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/test/netns"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// door is where clients ask the switch.
var door = netip.MustParseAddrPort("192.0.2.1:8000")

// box is the group as the operator would ask for it.
func (g *group) box(limit int) switches.Box {
	var cluster [16]byte
	_, _ = hex.Decode(cluster[:], []byte(groupCluster))
	out := switches.Box{Name: "shop/orders", Version: fmt.Sprintf("limit %d", limit), At: door, FeedbackPort: 9000, Cluster: switches.WireCluster(cluster), Limit: limit}
	for n := range members {
		h := g.hosts[n]
		out.Members = append(out.Members, switches.GroupMember{ID: uint16(n + 1), Address: netip.AddrPortFrom(h.address, 8000), NextHop: switches.NextHop{MAC: h.mac, Port: h.port}})
	}
	return out
}

// open has the switch hold the group.
func (g *group) open(t *testing.T, revision string, limit int) {
	t.Helper()
	one := g.box(limit)
	g.wanted.Boxes = []switches.Box{one}
	g.settle(t, revision, map[string]string{one.Name: one.Version})
}

// outcome of the box's program, of all its groups.
func (g *group) outcome(reason uint64) (n uint64) {
	g.pipe.Look(func(m *model.Machine) {
		for number := range uint64(switches.MaxGroups) {
			n += m.Count("Ingress.admit.outcomes", number<<5|reason)
		}
	})
	return n
}

// unbelieved: requests without a tag from elsewhere, and from another port of the switch's address, are counted (W-8).
func (g *group) unbelieved(t *testing.T) {
	t.Helper()
	boxed := append([]byte{0xcc, 16, 0x02, 0xc0, 0, 9, 0, 1, 1, 8, 0x77, 0x77, 192, 0, 2, 99}, []byte("P\x01kforged")...)
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(g.hosts[0].address, 8000))
	refused := func() uint64 { return g.value(t, "m1", "replica_requests_unread_total", "untagged") }
	before, liar := refused(), g.hosts[members+1]
	liar.in(t, func() {
		netns.IP(t, "addr", "add", door.Addr().String()+"/32", "dev", "up0")
		defer netns.IP(t, "addr", "del", door.Addr().String()+"/32", "dev", "up0")
		for _, from := range []netip.AddrPort{netip.AddrPortFrom(liar.address, 8007), netip.AddrPortFrom(door.Addr(), 8001)} {
			c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(from), at)
			must(t, err)
			_, err = c.Write(boxed)
			must(t, errors.Join(err, c.Close()))
		}
	})
	netns.Until(t, func() bool { return refused() >= before+2 }, func() string {
		return fmt.Sprintf("%d requests without a tag were refused, before %d", refused(), before)
	})
}

// W-8: the shipped program is the box of members that are the shipped ones, by the entries that the operator
// writes. No write fails: with room for all, and after the switch was emptied. With one slot some are refused, and all of them
// done in the end.
func TestGroupBehindSwitch(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	b, _ := benchOf(t, "box", netip.MustParsePrefix("192.0.2.0/28"), members+2)
	g := &group{bench: b, dir: t.TempDir(), least: requests, boxed: true}
	if testing.Short() { // all of them: make switch-packets
		g.least = requests / 20
	}
	g.members(t)
	netns.Until(t, func() bool { l := g.leader(); return l != nil && l.Formed }, func() string { return "nobody leads" })
	g.open(t, "one", 1000)
	g.dial(t, door.String())
	total, failed := int64(0), int64(0)
	write := func(what string, during func()) {
		n, bad := g.write(t, what, during)
		total, failed = total+n, failed+bad
	}
	write("by the switch", func() {})
	if passed, answered := g.outcome(25), g.outcome(27); passed < uint64(g.least) || answered == 0 || answered > passed {
		t.Errorf("%d requests passed, %d were answered", passed, answered)
	}
	write("with one slot", func() { g.open(t, "few", 1) })
	if g.outcome(23) == 0 {
		t.Error("nothing was refused at the limit")
	}
	write("emptied and begun anew", func() {
		pushes := g.peer.Counts().Pushes
		g.peer.Restart()
		netns.Until(t, func() bool { s, _ := g.keeper.State("leaf"); return s.Settled && g.peer.Counts().Pushes > pushes },
			func() string { s, _ := g.keeper.State("leaf"); return fmt.Sprintf("%+v", s) })
	})
	g.unbelieved(t)
	g.wanted.Boxes = nil
	g.settle(t, "gone", nil)
	if n := len(g.peer.Held()); n != len(g.wanted.Wanted) {
		t.Errorf("%d entries are left, and %d are wanted", n, len(g.wanted.Wanted))
	}
	if !testing.Short() {
		note(t, "switch_box_writes_failed", "count", 0, float64(failed))
		note(t, "switch_box_writes", "count", 0, float64(total))
	}
}
