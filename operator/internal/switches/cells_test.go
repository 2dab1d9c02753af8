// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
)

// wantCells are those of one counter: a row of so many for each number.
func wantCells(i *Info, number int64, fates map[int64]Fate) map[Cell]Fate {
	out := map[Cell]Fate{}
	for reason, fate := range fates {
		out[Cell{i.counter(counterOutcomes).GetPreamble().GetId(), 32*number + reason}] = fate
	}
	return out
}

// Each number has a row of its own; what lies beyond the counter's end is left out, to the last cell.
func TestCellsOfANumber(t *testing.T) {
	for name, c := range map[string]struct {
		info  func(*testing.T) *Info
		cells func(*Info, int) map[Cell]Fate
		fates map[int64]Fate
	}{
		"box":        {boxInfo, (*Info).BoxCells, boxFates},
		"aggregator": {aggregatorInfo, (*Info).GroupCells, groupFates},
	} {
		for _, number := range []int{0, 1, 7, 255} {
			i := c.info(t)
			if got := c.cells(i, number); !maps.Equal(got, wantCells(i, int64(number), c.fates)) {
				t.Errorf("%s %d: %v", name, number, got)
			}
		}
		i := c.info(t)
		short := maps.Clone(c.fates)
		maps.DeleteFunc(short, func(reason int64, _ Fate) bool { return reason >= 13 })
		i.counter(counterOutcomes).Size = 3*32 + 13
		if got := c.cells(i, 3); !maps.Equal(got, wantCells(i, 3, short)) {
			t.Errorf("%s: of a counter that ends there: %v", name, got)
		}
		i.counter(counterOutcomes).Preamble.Name = "pipe.others"
		if got := c.cells(i, 3); len(got) != 0 {
			t.Errorf("%s: without the counter: %v", name, got)
		}
	}
}

// The counters of a balanced address: its row of outcomes, and its own place among what clients wrote.
func TestCellsOfAVIP(t *testing.T) {
	i := infoOf(t, "crab")
	foreign := i.counter("foreign").GetPreamble().GetId()
	for _, number := range []int{0, 1, 5, 255} {
		want := wantCells(i, int64(number), vipFates)
		want[Cell{foreign, int64(number)}] = Forged
		if got := i.VIPCells(number); !maps.Equal(got, want) {
			t.Errorf("%d: %v", number, got)
		}
	}
	i.counter("foreign").Size = 5
	if got := i.VIPCells(5); len(got) != len(vipFates) {
		t.Errorf("of a counter that ends there: %v", got)
	}
	i.counter("foreign").Preamble.Name = "pipe.others"
	if got := i.VIPCells(1); len(got) != len(vipFates) {
		t.Errorf("without the counter: %v", got)
	}
}

// The counters of a service: requests that waited, each outcome, and for each row of slots those that went astray and each slot.
func TestCellsOfAService(t *testing.T) {
	i := routerInfo(t)
	of := func(name string) uint32 { return i.counter(name).GetPreamble().GetId() }
	worker := netip.MustParseAddrPort("10.0.0.1:80")
	p := Place{ID: 3, Base: 2, Slots: make([]netip.AddrPort, Slots+2)}
	p.Slots[0], p.Slots[4], p.Slots[Slots+1] = worker, worker, worker
	want := map[Cell]Fate{{of(counterWaits), 3}: Waited}
	for reason := int64(1); reason <= 19; reason++ {
		want[Cell{of(counterOutcomes), 3*32 + reason}] = Malformed
	}
	for reason, fate := range reasons {
		want[Cell{of(counterOutcomes), 3*32 + reason}] = fate
	}
	for _, row := range []int64{2, 3} {
		want[Cell{of(counterForwarded), row * 32}] = Astray
	}
	for _, at := range []int64{2*32 + 1, 2*32 + 5, 3*32 + 2} {
		want[Cell{of(counterForwarded), at}] = Placed
	}
	if got := i.CellsOf(p); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	i.counter(counterWaits).Size = 3
	if got := i.CellsOf(p); len(got) != len(want)-1 {
		t.Errorf("of a counter that ends there: %d cells, want %d", len(got), len(want)-1)
	}
	i.counter(counterWaits).Size = 4
	i.counter(counterWaits).Preamble.Name = "pipe.others"
	if got := i.CellsOf(p); len(got) != len(want)-1 {
		t.Errorf("without the counter: %d cells, want %d", len(got), len(want)-1)
	}
}

// Only what ended with DROP was refused.
func TestFatesThatAreRefusals(t *testing.T) {
	for fate, want := range map[Fate]bool{Placed: false, Waited: false, Malformed: false, OldReport: false, Astray: false,
		BadOption: true, BadPolicy: true, NoRoom: true, Full: true, Late: true, Nobody: true, Shed: true} {
		if fate.Refused() != want {
			t.Errorf("%s", fate)
		}
	}
}

// Numbers are written without leading zeros, in as many bits as there are.
func TestNumbersAreCanonical(t *testing.T) {
	for _, c := range []struct {
		v    uint64
		bits int32
		want string // empty: does not fit
	}{
		{0, 1, "[0]"}, {1, 1, "[1]"}, {2, 1, ""}, {255, 8, "[255]"}, {256, 8, ""}, {256, 9, "[1 0]"}, {1 << 32, 48, "[1 0 0 0 0]"},
		{1<<63 - 1, 63, "[127 255 255 255 255 255 255 255]"}, {1 << 63, 63, ""}, {1 << 63, 64, "[128 0 0 0 0 0 0 0]"}, {7, 128, "[7]"}, {0, 0, ""}, {0, -1, ""},
	} {
		got, err := octets(c.v, c.bits)
		if (err == nil) != (c.want != "") || err == nil && fmt.Sprint(got) != c.want {
			t.Errorf("%d in %d bits: %v, %v", c.v, c.bits, got, err)
		}
	}
	e := Entry{metadata: []byte("a")}
	if !e.Of([]byte("a")) || e.Of([]byte("b")) || e.Of(nil) || (Entry{}).Of(nil) || (Entry{}).Of([]byte{}) {
		t.Error("whose an entry is")
	}
}

// What is just within a switch's bounds fits.
func TestBoundsOfASwitch(t *testing.T) {
	ids := func(n int) (all []uint16) {
		for id := range n {
			all = append(all, uint16(id+1))
		}
		return all
	}
	six := netip.MustParseAddrPort("[fd00::1]:80")
	for _, c := range []struct {
		name string
		why  string
		fits bool
	}{
		{"one slot", aBox(1, 1, 1).fault(), true}, {"no slot", aBox(1, 0, 1).fault(), false}, {"all slots", aBox(1, BoxSlots, 1).fault(), true}, {"one slot more", aBox(1, BoxSlots+1, 1).fault(), false},
		{"as many members as a box has", aBox(1, 9, ids(BoxMembers)...).fault(), true}, {"one member more", aBox(1, 9, ids(BoxMembers+1)...).fault(), false},
		{"as many members as are counted", aGroup(1, 9, ids(GroupSlots)...).fault(), true}, {"one more of them", aGroup(1, 9, ids(GroupSlots+1)...).fault(), false},
		{"the last number of a member", aGroup(1, 9, firstPad-1).fault(), true}, {"the one after it", aGroup(1, 9, firstPad).fault(), false}, {"no number", aGroup(1, 9, 0).fault(), false},
		{"a member twice", aGroup(1, 9, 2, 2).fault(), false},
		{"as many turns as fit", vip("v", 80, MaxServers).fault(), true}, {"one turn more", vip("v", 80, MaxServers, 1).fault(), false},
		{"as many servers as fit", vip("v", 80, make([]int, MaxServers)...).fault(), true}, {"one server more", vip("v", 80, make([]int, MaxServers+1)...).fault(), false},
		{"IPv6", Box{At: six, Limit: 1}.fault(), false}, {"a group at IPv6", Group{At: six}.fault(), false}, {"a VIP of IPv6", VIP{At: six}.fault(), false},
	} {
		if (c.why == "") != c.fits {
			t.Errorf("%s: %q", c.name, c.why)
		}
	}
}

// Of servers with the same credit the first has its turn; a random choice is among a power of two, in the same ratio.
func TestTurnsOfServers(t *testing.T) {
	for _, c := range []struct {
		weights []int
		want    []int
	}{
		{nil, nil}, {[]int{1}, []int{0}}, {[]int{1, 1}, []int{0, 1}}, {[]int{1, 1, 1}, []int{0, 1, 2}}, {[]int{2, 1}, []int{0, 1, 0}}, {[]int{3, 1}, []int{0, 0, 1, 0}}, {[]int{0, 2}, []int{1, 1}},
	} {
		if got := vip("v", 80, c.weights...).turns(); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.weights, got, c.want)
		}
	}
	random := vip("v", 80, 2, 1)
	random.Random = true
	got := random.turns()
	if size := len(got); size < 3*spread || size >= 6*spread || size&(size-1) != 0 || !slices.Equal(got[:6], []int{0, 1, 0, 0, 1, 0}) {
		t.Errorf("%d turns, %v", len(got), got[:6])
	}
	random.Servers = nil
	if got := random.turns(); len(got) != 0 {
		t.Errorf("without servers: %v", got)
	}
}

// A gap that is just large enough is taken, the first of them; the longest is told where none is.
func TestGapsBetweenBoxes(t *testing.T) {
	for _, c := range []struct {
		taken []span
		size  int
		want  span
		free  int
	}{
		{nil, BoxSlots, span{0, BoxSlots}, BoxSlots}, {[]span{{0, 10}}, 5, span{10, 15}, 5}, {[]span{{5, 10}}, 5, span{0, 5}, 5}, {[]span{{5, 10}}, 6, span{10, 16}, 6},
		{[]span{{30, BoxSlots}, {0, 10}}, 20, span{10, 30}, 20}, {[]span{{30, BoxSlots}, {0, 10}}, 21, span{}, 20}, {[]span{{0, BoxSlots}}, 1, span{}, 0},
		{[]span{{20, 30}, {0, 10}, {12, 14}}, 6, span{14, 20}, 6},
	} {
		p := boxPlan{taken: c.taken}
		if got, free := p.gap(c.size); got != c.want || free != c.free {
			t.Errorf("%v, %d: %v, %d", c.taken, c.size, got, free)
		}
	}
}

// Numbers are given from the first that is free; the last one is given, too, and none after it.
func TestNumbersThatAreFree(t *testing.T) {
	all := Numbers{}
	for n := 1; n < VIPs-1; n++ {
		all[fmt.Sprint(n)] = n
	}
	if got := freeNumber(nil, nil); got != 1 {
		t.Errorf("the first: %d", got)
	}
	if got := freeNumber(Numbers{"a": 1}, Numbers{"b": 2}); got != 3 {
		t.Errorf("after two: %d", got)
	}
	if got := freeNumber(all, nil); got != VIPs-1 {
		t.Errorf("the last: %d", got)
	}
	if got := freeNumber(all, Numbers{"x": VIPs - 1}); got != -1 {
		t.Errorf("none: %d", got)
	}
	groups := Numbers{}
	for n := 1; n < MaxGroups-1; n++ {
		groups[fmt.Sprint(n)] = n
	}
	for cluster, want := range map[uint64]int{0: 1, 1: 2, MaxGroups - 2: MaxGroups - 1, MaxGroups - 1: 1, MaxGroups: 2} {
		if got := freeGroup(Group{Cluster: cluster}, nil, nil); got != want {
			t.Errorf("cluster %d: %d, want %d", cluster, got, want)
		}
	}
	if got := freeGroup(Group{Cluster: 7}, groups, nil); got != MaxGroups-1 {
		t.Errorf("the last: %d", got)
	}
	if got := freeGroup(Group{Cluster: 7}, groups, Numbers{"x": MaxGroups - 1}); got != -1 {
		t.Errorf("none: %d", got)
	}
}
