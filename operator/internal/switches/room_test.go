// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// narrow has a table of the pipeline hold no more than so many entries.
func narrow(i *Info, table string, size int64) *Info {
	i.byName[table].Size = size
	return i
}

// A table is filled to its last entry, and what does not fit is told with how many would; a smaller one behind it still does.
func TestGroupsFillATable(t *testing.T) {
	for _, c := range []struct {
		table string
		size  int64
		g3    string
		g4    bool
	}{
		{tableMember, 6, "3 entries in table member, which has room for 0", false}, {tableMember, 7, "3 entries in table member, which has room for 1", false},
		{tableMember, 8, "3 entries in table member, which has room for 2", true}, {tableReceiver, 8, "3 entries in table receiver, which has room for 2", true},
		{tableMember, 9, "", false}, {tableMember, 11, "", true}, {tableNames, 3, "", false},
		{tableGroupOf, 2, "1 entries in table " + tableGroupOf + ", which has room for 0", false}, {tableGroupOf, 4, "", true},
	} {
		i := narrow(aggregatorInfo(t), c.table, c.size)
		plan := i.PlanGroups(nil, nil, []Group{aGroup(1, 9, 1, 2, 3), aGroup(2, 10, 1, 2, 3), aGroup(3, 11, 1, 2, 3), aGroup(4, 12, 1, 2)})
		_, refused := plan.Refused["shop/g4"]
		if got := plan.Refused["shop/g3"]; (got == "") != (c.g3 == "") || !strings.HasSuffix(got, c.g3) || refused == c.g4 {
			t.Errorf("%d in %s: %v", c.size, c.table, plan.Refused)
		}
	}
}

// fits says of each name whether it is there, or why it was refused.
func fits(refused map[string]string, names ...string) string {
	var out []string
	for _, name := range names {
		if why, is := refused[name]; is {
			name += why[strings.Index(why, ": "):]
		}
		out = append(out, name)
	}
	return strings.Join(out, "; ")
}

// The same of boxes.
func TestBoxesFillATable(t *testing.T) {
	for _, c := range []struct {
		table string
		size  int64
		g3    string
		g4    bool
	}{
		{tableMember, 6, "3 entries in table member, which has room for 0", false}, {tableMember, 8, "3 entries in table member, which has room for 2", true},
		{tableReceiver, 8, "3 entries in table receiver, which has room for 2", true}, {tableMember, 9, "", false}, {tableMember, 11, "", true},
		{tableBoxOf, 2, "1 entries in table " + tableBoxOf + ", which has room for 0", false}, {tableBoxOf, 3, "", false}, {tableBoxOf, 4, "", true},
	} {
		i := narrow(boxInfo(t), c.table, c.size)
		plan := i.PlanBoxes(nil, nil, []Box{aBox(1, 10, 1, 2, 3), aBox(2, 10, 1, 2, 3), aBox(3, 10, 1, 2, 3), aBox(4, 10, 1, 2)})
		_, refused := plan.Refused["shop/g4"]
		if got := plan.Refused["shop/g3"]; (got == "") != (c.g3 == "") || !strings.HasSuffix(got, c.g3) || refused == c.g4 {
			t.Errorf("%d in %s: %v", c.size, c.table, plan.Refused)
		}
	}
}

// A ring is filled to its last turn: of what draws, too, whose turns are a power of two.
func TestRingsFillATable(t *testing.T) {
	random := vip("c", 82, 1, 1)
	random.Random = true // 32 turns
	for size, want := range map[int64]string{
		7: "demo/b: 4 entries in table " + tableRing + ", which has room for 3; demo/c: 32 entries in table " + tableRing + ", which has room for 3; demo/d",
		8: "demo/b; demo/c: 32 entries in table " + tableRing + ", which has room for 0; demo/d: 1 entries in table " + tableRing + ", which has room for 0",
		9: "demo/b; demo/c: 32 entries in table " + tableRing + ", which has room for 1; demo/d", 40: "demo/b; demo/c; demo/d: 1 entries in table " + tableRing + ", which has room for 0",
		41: "demo/b; demo/c; demo/d",
	} {
		plan := narrow(infoOf(t, "crab"), tableRing, size).PlanVIPs(nil, nil, []VIP{vip("a", 80, 2, 1, 1), vip("b", 81, 2, 1, 1), random, vip("d", 83, 1)})
		if got := fits(plan.Refused, "demo/b", "demo/c", "demo/d"); got != want {
			t.Errorf("%d: %s\nwant %s", size, got, want)
		}
	}
}

// Who has nothing new to say stands before others, and keeps none of them waiting.
func TestAnUnknownGroupBeforeAKnownOne(t *testing.T) {
	unknown := aGroup(1, 9)
	unknown.Unknown = true
	i := aggregatorInfo(t)
	plan := i.PlanGroups(nil, nil, []Group{unknown, aGroup(2, 10, 1, 2, 3)})
	if _, has := aGroup(2, 10).NumberIn(plan.Numbers); !has || len(plan.Numbers) != 1 {
		t.Errorf("%v", plan.Numbers)
	}
}

// From what a switch holds numbers are read of the groups' own entries alone, in whatever order it tells, up to the last.
func TestNumbersThatAreRead(t *testing.T) {
	i, b, v := aggregatorInfo(t), boxInfo(t), infoOf(t, "crab")
	for _, number := range []int{1, 2, MaxGroups - 1} {
		g := aGroup(3, 9, 1, 2)
		entries, err := i.groupEntries(g, number)
		if err != nil {
			t.Fatal(err)
		}
		box := aBox(3, 100, 1, 2)
		boxed, err := b.boxEntries(box, number, span{200, 300})
		if err != nil {
			t.Fatal(err)
		}
		redirected, why := v.vipEntries(vip("a", 80, 1, 1), number, 10)
		if why != "" {
			t.Fatal(why)
		}
		for range 2 {
			if got := i.GroupsOf(withFabric(t, i, entries)); !maps.Equal(got, Numbers{g.key(): number}) {
				t.Errorf("groups %v, want %d", got, number)
			}
			if got := b.boxesOf(withFabric(t, b, boxed)); !maps.Equal(got, map[int]heldBox{number: {box.At, span{200, 300}}}) {
				t.Errorf("boxes %v, want %d", got, number)
			}
			if got := v.NumbersOf(withFabric(t, v, redirected)); !maps.Equal(got, Numbers{"192.0.2.9:80": number}) {
				t.Errorf("addresses %v, want %d", got, number)
			}
			slices.Reverse(entries)
			slices.Reverse(boxed)
			slices.Reverse(redirected)
		}
	}
}

// withFabric are entries in front of and behind others of the same switch.
func withFabric(t *testing.T, i *Info, all []Entry) []Entry {
	t.Helper()
	fabric, err := i.Entries(crabFabric())
	if err != nil {
		t.Fatal(err)
	}
	return append(append(slices.Clone(fabric), all...), fabric...)
}

// What cannot be done leaves what the switch has of that number, and nothing of another's.
func TestOnlyItsOwnStays(t *testing.T) {
	v := infoOf(t, "crab")
	one, two := vip("a", 80, 1, 1), vip("b", 81, 1, 2)
	before := v.PlanVIPs(nil, nil, []VIP{one, two})
	one.Servers[0].Address = netip.MustParseAddr("fd00::1")
	plan := v.PlanVIPs(nil, before.Entries, []VIP{one, two})
	if d := Compare(plan.Entries, before.Entries, Owner{Tag: ours}, Ranks); plan.Refused[one.Name] == "" || len(plan.Entries) != len(before.Entries) || d.Missing+d.Changed+d.Stale > 0 {
		t.Errorf("%v: %d of %d entries, %+v", plan.Refused, len(plan.Entries), len(before.Entries), d)
	}
	b := boxInfo(t)
	first, second := aBox(1, 100, 1, 2), aBox(2, 100, 1, 2)
	held := b.PlanBoxes(nil, nil, []Box{first, second})
	first.Members[0].Address = netip.MustParseAddrPort("[fd00::1]:80")
	boxes := b.PlanBoxes(nil, held.Entries, []Box{first, second})
	if d := Compare(boxes.Entries, held.Entries, Owner{Tag: ours}, Ranks); boxes.Refused[first.Name] == "" || len(boxes.Entries) != len(held.Entries) || d.Missing+d.Changed+d.Stale > 0 {
		t.Errorf("%v: %d of %d entries, %+v", boxes.Refused, len(boxes.Entries), len(held.Entries), d)
	}
}

// A box that has another address begins anew, and nobody keeps its former slots for it.
func TestABoxThatMoves(t *testing.T) {
	i := boxInfo(t)
	b := aBox(1, 100, 1, 2)
	before := i.PlanBoxes(nil, nil, []Box{b})
	b.At = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.77"), 8000)
	number := before.Numbers[aBox(1, 100).key()]
	plan := i.PlanBoxes(Numbers{b.key(): number}, before.Entries, []Box{b})
	if got := i.boxesOf(plan.Entries); !maps.Equal(got, map[int]heldBox{number: {b.At, span{0, 100}}}) {
		t.Errorf("%v", got)
	}
}

// Copies of a group go to members by the number of their place, in a multicast group of its own.
func TestCopiesOfABox(t *testing.T) {
	i := boxInfo(t)
	entries, err := i.boxEntries(aBox(1, 10, 5, 9), 7, span{0, 10})
	if err != nil {
		t.Fatal(err)
	}
	var to []string
	var group *p4.MulticastGroupEntry
	for _, e := range entries {
		if m := e.Entity().GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); m != nil {
			group = m
		} else if s, ok := i.read(e); ok && e.table == tableReceiver {
			to = append(to, fmt.Sprintf("%d to %d", s.match["copy"], s.args["ip"]&255))
		} else if ok && e.table == tableBoxOf && s.args["copies"] != firstCopies+7 {
			t.Errorf("copies of multicast group %d", s.args["copies"])
		}
	}
	for _, r := range group.GetReplicas() {
		to = append(to, fmt.Sprintf("%d@%x", r.GetInstance(), r.GetPort()))
	}
	if got := strings.Join(to, " "); got != "1 to 5 2 to 9 1@05 2@09" || group.GetMulticastGroupId() != firstCopies+7 {
		t.Errorf("%s in multicast group %d", got, group.GetMulticastGroupId())
	}
}
