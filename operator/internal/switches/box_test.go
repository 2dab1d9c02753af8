// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

func boxInfo(t *testing.T) *Info {
	t.Helper()
	text, err := os.ReadFile("testdata/box.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	i, err := ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// aBox at an address of its own, with so many slots.
func aBox(at byte, limit int, ids ...uint16) Box {
	b := Box{Name: fmt.Sprintf("shop/g%d", at), Version: "one", At: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, at}), 8000), FeedbackPort: 9000, Cluster: uint64(at), Limit: limit}
	for _, id := range ids {
		b.Members = append(b.Members, GroupMember{ID: id, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, at, 0, byte(id)}), 8000),
			NextHop: NextHop{MAC: 0x020000010000 + uint64(id), Port: uint32(id)}})
	}
	return b
}

// What is bound here is what the shipped sources declare, in both shells; the P4Info in testdata is theirs.
func TestBoxItself(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		p, err := model.Load("../../../dataplane/p4/box/"+shell+".p4", nil)
		if err != nil {
			t.Fatal(err)
		}
		i, err := NewInfo(p.P4Info())
		if err != nil {
			t.Fatal(err)
		}
		if i.Program() != ProgramBox {
			t.Errorf("%s: taken for %q", shell, i.Program())
		}
		f := Fabric{Ports: []uint32{1, 2}, NextHops: []NextHop{{0x02000000000a, 1}}, Pool: []netip.Prefix{netip.MustParsePrefix("192.0.2.8/31")}, MAC: 0x0200000000ff}
		if _, err := i.Entries(f); err != nil {
			t.Errorf("%s: %v", shell, err)
		}
		if plan := i.PlanBoxes(nil, nil, []Box{aBox(1, 1000, 1, 2, 3)}); len(plan.Refused) > 0 || len(plan.Entries) != 3+3+1+1 {
			t.Errorf("%s: %v, %d entries", shell, plan.Refused, len(plan.Entries))
		}
		if cells := i.BoxCells(255); len(cells) != len(boxFates) {
			t.Errorf("%s: %d counters of the last group", shell, len(cells))
		}
		if shell == "v1model" && !proto.Equal(p.P4Info(), boxInfo(t).P4) {
			t.Error("testdata/box.p4info.txtpb is not what hack/p4 makes of dataplane/p4/box/v1model.p4")
		}
	}
}

// slotsOf are the ranges that the entries give, by address.
func slotsOf(i *Info, entries []Entry) string {
	var out []string
	for id, h := range i.boxesOf(entries) {
		if id > 0 {
			out = append(out, fmt.Sprintf("%s %d-%d", h.at.Addr(), h.slots.first, h.slots.end))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// W-23, W-24: a group keeps its slots and its number as long as it asks with the same limit; others get what is free, and what
// does not fit is refused with the number that would.
func TestSlotsOfBoxes(t *testing.T) {
	i := boxInfo(t)
	a, b, c := aBox(1, 30000, 1, 2, 3), aBox(2, 30000, 1, 2, 3), aBox(3, 6000, 1)
	first := i.PlanBoxes(nil, nil, []Box{a, b, c})
	if got := slotsOf(i, first.Entries); got != "192.0.2.1 0-30000; 192.0.2.2 30000-60000" || !strings.Contains(first.Refused[c.Name], "6000 requests at once, and of the switch's 65536 slots 5536 are free") {
		t.Fatalf("%s; %v", got, first.Refused)
	}
	again := i.PlanBoxes(first.Numbers, first.Entries, []Box{b, a}) // in another order, and after a restart of the operator
	heir := i.PlanBoxes(nil, first.Entries, []Box{b, a})
	for _, plan := range []GroupPlan{again, heir} {
		if got := slotsOf(i, plan.Entries); got != "192.0.2.1 0-30000; 192.0.2.2 30000-60000" || plan.Numbers[a.key()] != first.Numbers[a.key()] {
			t.Errorf("%s, numbers %v, before %v", got, plan.Numbers, first.Numbers)
		}
	}
	b.Limit = 5000 // it begins anew elsewhere; its former slots are free in the next step
	less := i.PlanBoxes(first.Numbers, first.Entries, []Box{a, b})
	if got := slotsOf(i, less.Entries); got != "192.0.2.1 0-30000; 192.0.2.2 60000-65000" {
		t.Error(got)
	}
	if got := slotsOf(i, i.PlanBoxes(less.Numbers, less.Entries, []Box{a, b, c}).Entries); got != "192.0.2.1 0-30000; 192.0.2.2 60000-65000; 192.0.2.3 30000-36000" {
		t.Error(got)
	}
}

// What no switch can do is said; what the switch has of such a group stays, and so it does of one that nobody speaks of.
func TestBoxesThatDoNotFit(t *testing.T) {
	i := boxInfo(t)
	good := aBox(1, 1000, 1, 2, 3)
	held := i.PlanBoxes(nil, nil, []Box{good})
	for _, row := range []struct {
		name, says string
		change     func(*Box)
	}{
		{"IPv6", "knows IPv4 alone", func(b *Box) { b.Members[0].Address = netip.MustParseAddrPort("[fd00::1]:8000") }},
		{"too many at once", "65537 requests at once", func(b *Box) { b.Limit = BoxSlots + 1 }},
		{"too many members", "17 members", func(b *Box) { b.Members = make([]GroupMember, 17) }},
		{"nobody known", "", func(b *Box) { b.Unknown, b.Members = true, nil }},
	} {
		b := aBox(1, 1000, 1, 2, 3)
		row.change(&b)
		plan := i.PlanBoxes(held.Numbers, held.Entries, []Box{b})
		if len(plan.Entries) != len(held.Entries) || !strings.Contains(plan.Refused[b.Name], row.says) || (plan.Refused[b.Name] == "") != (row.says == "") {
			t.Errorf("%s: %d entries of %d, %v", row.name, len(plan.Entries), len(held.Entries), plan.Refused)
		}
	}
	if plan := i.PlanBoxes(held.Numbers, held.Entries, nil); len(plan.Entries) != 0 || len(plan.Numbers) != 0 {
		t.Errorf("%d entries of nobody", len(plan.Entries))
	}
	var many []Box
	for n := range MaxGroups {
		b := aBox(1, 1, 1)
		b.At = netip.AddrPortFrom(b.At.Addr(), uint16(8000+n))
		b.Name, b.Cluster, b.FeedbackPort = fmt.Sprintf("shop/n%d", n), uint64(n), uint16(20000+n)
		many = append(many, b)
	}
	if plan := i.PlanBoxes(nil, nil, many); len(plan.Refused) != 1 || !strings.Contains(plan.Refused["shop/n255"], "room for 255 groups") {
		t.Errorf("%v", plan.Refused)
	}
}

// Every reason of the program has a fate, and only those of the fabric have none.
func TestBoxFates(t *testing.T) {
	for reason := int64(1); reason < bed.BoxReasons; reason++ {
		_, has := boxFates[reason]
		if fabric := reason == 17 || reason == 28; has == fabric {
			t.Errorf("reason %d", reason)
		}
	}
	if boxFates[int64(bed.BoxReason["answered"])] != Answered || boxFates[int64(bed.BoxReason["busy"])] != Full || boxFates[int64(bed.BoxReason["passed"])] != Passed {
		t.Errorf("%v", boxFates)
	}
}
