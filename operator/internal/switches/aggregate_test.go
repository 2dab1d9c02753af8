// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

func aggregatorInfo(t *testing.T) *Info {
	t.Helper()
	text, err := os.ReadFile("testdata/aggregator.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	i, err := ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// aGroup of voters, at an address of its own.
func aGroup(at byte, cluster uint64, ids ...uint16) Group {
	g := Group{Name: fmt.Sprintf("shop/g%d", at), Version: "one", At: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, at}), 8300), Number: uint32(at), Cluster: cluster, Epoch: 1<<32 + 3, OwnMAC: 0x0200000000ff}
	for _, id := range ids {
		g.Members = append(g.Members, GroupMember{ID: id, Votes: true, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, at, 0, byte(id)}), 8100),
			NextHop: NextHop{MAC: 0x020000010000 + uint64(id), Port: uint32(id)}})
	}
	return g
}

// What is bound here is what the shipped sources declare, in both shells; the P4Info in testdata is theirs.
func TestAggregatorItself(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		p, err := model.Load("../../../dataplane/p4/aggregator/"+shell+".p4", nil)
		if err != nil {
			t.Fatal(err)
		}
		i, err := NewInfo(p.P4Info())
		if err != nil {
			t.Fatal(err)
		}
		if i.Program() != ProgramAggregator {
			t.Errorf("%s: taken for %q", shell, i.Program())
		}
		f := Fabric{Ports: []uint32{1, 2}, NextHops: []NextHop{{0x02000000000a, 1}}, Pool: []netip.Prefix{netip.MustParsePrefix("192.0.2.8/31")}, MAC: 0x0200000000ff}
		if _, err := i.Entries(f); err != nil {
			t.Errorf("%s: %v", shell, err)
		}
		if plan := i.PlanGroups(nil, nil, []Group{aGroup(1, 9, 1, 2, 3)}); len(plan.Refused) > 0 || len(plan.Entries) != 3+3+1+1+1 {
			t.Errorf("%s: %v, %d entries", shell, plan.Refused, len(plan.Entries))
		}
		if cells := i.GroupCells(255); len(cells) != len(groupFates) {
			t.Errorf("%s: %d counters of the last group", shell, len(cells))
		}
		if shell == "v1model" && !proto.Equal(p.P4Info(), aggregatorInfo(t).P4) {
			t.Error("testdata/aggregator.p4info.txtpb is not what hack/p4 makes of dataplane/p4/aggregator/v1model.p4")
		}
	}
}

// slots are the members of a group as its entries have them: id, whether it counts, and where copies go.
func slots(i *Info, entries []Entry) string {
	var out []string
	for _, e := range entries {
		if s, ok := i.read(e); ok && e.table == tableMember {
			out = append(out, fmt.Sprintf("%d:%d/%d", s.args["slot"], s.args["id"], s.args["counts"]))
		} else if ok && e.table == tableGroupOf {
			out = append(out, fmt.Sprintf("half %d epoch %d.%d", s.args["half"], s.args["epoch_high"], s.args["epoch"]))
		} else if ok && e.table == tableNames {
			out = append(out, fmt.Sprintf("names %d %d %d", s.args["id_1"], s.args["id_4"], s.args["id_9"]))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// members are in the slots of their order, learners count for nothing, and half of the voters is of all of them,
// also of one that is not found.
func TestGroupEntries(t *testing.T) {
	i := aggregatorInfo(t)
	g := aGroup(1, 9, 7, 2, 600, 5)
	g.Members[2].Votes, g.Members[2].Port = false, 3 // a learner
	g.Members[3].Address = netip.AddrPort{}          // nobody knows where it is
	plan := i.PlanGroups(nil, nil, []Group{g})
	if got, want := slots(i, plan.Entries), "1:2/1; 3:7/3; 4:600/0; half 1 epoch 1.3; names 2 600 65534"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var copies *p4.MulticastGroupEntry
	for _, e := range plan.Entries {
		if m := e.Entity().GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); m != nil {
			copies = m
		}
	}
	var to []string
	for _, r := range copies.GetReplicas() {
		to = append(to, fmt.Sprintf("%d@%x", r.GetInstance(), r.GetPort()))
	}
	if got := strings.Join(to, " "); got != "1@02 3@07 4@03" || copies.GetMulticastGroupId() <= Flood+511 {
		t.Errorf("copies %s in multicast group %d", got, copies.GetMulticastGroupId())
	}
}

// while members, roles or addresses of them change, nothing of the group is counted: its own entry goes first and
// comes last.
func TestMembershipChangesWhole(t *testing.T) {
	i := aggregatorInfo(t)
	before := aGroup(1, 9, 1, 2, 3)
	held := i.PlanGroups(nil, nil, []Group{before}).Entries
	for n := range held {
		held[n] = answered(t, i, held[n], ours)
	}
	after := aGroup(1, 9, 2, 3, 4, 5) // 1 went, so that all slots move
	after.Members[3].Votes, after.Epoch = false, before.Epoch+1
	plan := i.PlanGroups(nil, held, []Group{after})
	steps := Compare(plan.Entries, held, Owner{Tag: ours}, Ranks).Steps
	first, last := steps[0], -1
	if len(first) != 1 || first[0].Kind != p4.Update_DELETE || first[0].Entry.table != tableGroupOf {
		t.Fatalf("first of all: %v", first)
	}
	for n, step := range steps[1:] {
		for _, w := range step {
			switch {
			case w.Entry.table == tableGroupOf && w.Kind == p4.Update_INSERT && last < 0:
				last = n
			case w.Entry.table == tableGroupOf:
				t.Errorf("step %d: %s %s", n, w.Kind, w.Entry)
			case last >= 0 && w.Kind != p4.Update_DELETE:
				t.Errorf("%s is written behind the group's own entry", w.Entry)
			}
		}
	}
	if last < 0 {
		t.Error("the group's own entry does not come back")
	}
	// Nothing else than where a member is: its slot stays, and the group is counted all the time.
	moved := aGroup(1, 9, 1, 2, 3)
	moved.Members[0].Address = netip.MustParseAddrPort("10.1.0.99:8100")
	for _, step := range Compare(i.PlanGroups(nil, held, []Group{moved}).Entries, held, Owner{Tag: ours}, Ranks).Steps {
		for _, w := range step {
			if w.Entry.table == tableGroupOf {
				t.Errorf("for a member that moved: %s %s", w.Kind, w.Entry)
			}
		}
	}
}

// W-24: numbers stay, are of one group each, and end; another group at an address is not taken for the one before, whose
// terms the registers remember.
func TestNumbersOfGroups(t *testing.T) {
	i := aggregatorInfo(t)
	one, two := aGroup(1, 9, 1, 2, 3), aGroup(2, 9+MaxGroups-2, 1, 2, 3) // of the same first choice
	plan := i.PlanGroups(nil, nil, []Group{one, two})
	a, _ := one.NumberIn(plan.Numbers)
	b, _ := two.NumberIn(plan.Numbers)
	if a == 0 || b == 0 || a == b {
		t.Fatalf("numbers %d and %d", a, b)
	}
	// From what the switch holds alone, as a new operator knows it, and in another order.
	again := i.PlanGroups(nil, plan.Entries, []Group{two, one})
	if !maps.Equal(again.Numbers, plan.Numbers) {
		t.Errorf("numbers %v, were %v", again.Numbers, plan.Numbers)
	}
	heir := one
	heir.Cluster++
	if n, _ := heir.NumberIn(i.PlanGroups(plan.Numbers, plan.Entries, []Group{heir, two}).Numbers); n == a || n == b {
		t.Errorf("another group at that address has number %d, as one before", n)
	}
	var all []Group
	for n := range MaxGroups {
		g := aGroup(byte(n), uint64(n)*7, 1, 2, 3)
		g.Name = fmt.Sprintf("shop/all-%d", n)
		all = append(all, g)
	}
	full := i.PlanGroups(nil, nil, all)
	seen := map[int]bool{}
	for _, n := range full.Numbers {
		if n < 1 || n >= MaxGroups || seen[n] {
			t.Fatalf("number %d", n)
		}
		seen[n] = true
	}
	if len(full.Refused) != 1 || !strings.Contains(full.Refused["shop/all-255"], "room for 255 groups") {
		t.Errorf("refused %v", full.Refused)
	}
}

// What cannot be done is said by name, and what the switch has of that group stays; so does that of one whose members nobody
// knows now.
func TestGroupsThatDoNotFit(t *testing.T) {
	i := aggregatorInfo(t)
	held := i.PlanGroups(nil, nil, []Group{aGroup(1, 9, 1, 2, 3)})
	for name, row := range map[string]struct {
		change func(*Group)
		says   string
	}{
		"ten members":          {func(g *Group) { *g = aGroup(1, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) }, "10 members, learners among them, and the switch counts 9"},
		"a high number":        {func(g *Group) { g.Members[0].ID = firstPad }, "up to number 65525"},
		"a member by IPv6":     {func(g *Group) { g.Members[0].Address = netip.MustParseAddrPort("[fd00::1]:8100") }, "IPv4 alone"},
		"two at one address":   {func(g *Group) { g.Members[0].Address = g.Members[1].Address }, "another member is there"},
		"nobody knows who":     {func(g *Group) { g.Unknown, g.Members = true, nil }, ""},
		"a port of the switch": {func(g *Group) { g.Members[0].Port = 1 << 9 }, "does not fit into 9 bits"},
	} {
		g := aGroup(1, 9, 1, 2, 3)
		row.change(&g)
		plan := i.PlanGroups(nil, held.Entries, []Group{g})
		if got := plan.Refused[g.Name]; row.says == "" != (got == "") || !strings.Contains(got, row.says) {
			t.Errorf("%s: %q", name, got)
		}
		if d := Compare(plan.Entries, held.Entries, Owner{Tag: ours}, Ranks); len(plan.Entries) != len(held.Entries) || d.Missing+d.Changed+d.Stale > 0 {
			t.Errorf("%s: %d of %d entries stay, %+v", name, len(plan.Entries), len(held.Entries), d)
		}
		if fresh := i.PlanGroups(nil, nil, []Group{g}); len(fresh.Entries) > 0 {
			t.Errorf("%s: %d entries on an empty switch", name, len(fresh.Entries))
		}
	}
}

// The operator and members make the same 64 bits of a cluster's id.
func TestWireCluster(t *testing.T) {
	if got := WireCluster([16]byte{0x5a}); got != 0x7113aa2d2fde1c06 {
		t.Errorf("%x", got)
	}
}
