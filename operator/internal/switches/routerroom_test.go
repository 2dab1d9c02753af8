// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
)

// What measures services has an end too: each takes its rows of every table, and all of them share the buckets.
func TestMeasuredServicesFillATable(t *testing.T) {
	cut := Objective{Latency: 1 << 20, Per100k: 99000} // within a bucket, so that rows of its own cut it
	split := int64(service("a", ByTurn, 1, nil).splitsOf(cut))
	if split == 0 {
		t.Fatal("the objective cuts no bucket")
	}
	for _, c := range []struct {
		table string
		size  int64
		want  string
	}{
		{tableAdmit, int64(2 * len(labels)), fmt.Sprintf("%d entries in table %s, which has room for 0", len(labels), tableAdmit)},
		{tableAdmit, int64(3*len(labels) - 1), fmt.Sprintf("%d entries in table %s, which has room for %d", len(labels), tableAdmit, len(labels)-1)},
		{tableAdmit, int64(3 * len(labels)), ""}, {tableObjective, 2, "1 entries in table " + tableObjective + ", which has room for 0"}, {tableObjective, 3, ""},
		{tableBucket, lastBucket + 2*split, fmt.Sprintf("%d entries in table %s, which has room for 0", split, tableBucket)},
		{tableBucket, lastBucket + 3*split, ""},
	} {
		i := narrow(routerInfo(t), c.table, c.size)
		var all []Service
		for n, name := range []string{"a", "b", "c"} {
			s := service(name, ByTurn, 1, workers(1+10*n, 2))
			s.Objective = cut
			all = append(all, s)
		}
		now, refused := Allocate(nil, all, i)
		switch {
		case c.want == "" && (len(refused) > 0 || len(now) != 3):
			t.Errorf("%d in %s: %q", c.size, c.table, refused)
		case c.want != "" && (len(refused) != 1 || refused[0] != "service c: "+c.want || len(now) != 2):
			t.Errorf("%d in %s: %q, want %q", c.size, c.table, refused, c.want)
		}
	}
}

// splitsOf is how many rows an objective's own buckets take.
func (s Service) splitsOf(o Objective) int {
	s.Objective = o
	return s.measuredEntries()[tableBucket]
}

// Three of the things that are wrong are named, whichever they are, and no more.
func TestThreeOfTheFaults(t *testing.T) {
	for wrong, want := range map[int]int{1: 1, 2: 2, 3: 3, 7: 3} {
		f := Fabric{Ports: []uint32{1, 2}}
		for n := range wrong {
			f.NextHops = append(f.NextHops, NextHop{MAC: uint64(n), Port: 1 << 9})
		}
		all, err := routerInfo(t).Entries(f)
		if err == nil || len(strings.Split(err.Error(), "\n")) != want || len(all) == 0 {
			t.Errorf("%d wrong: %v", wrong, err)
		}
	}
}

// The router alone must know packets that pretend to come from the switch: without the table it is none.
func TestOwnSourcesOfARouter(t *testing.T) {
	i := routerInfo(t)
	delete(i.byName, tableOwnSource)
	if _, err := i.Entries(crabFabric()); err == nil || !strings.Contains(err.Error(), "table "+tableOwnSource+" is not there") {
		t.Errorf("%v", err)
	}
	if _, err := boxInfo(t).Entries(crabFabric()); err != nil {
		t.Errorf("a box without it: %v", err)
	}
}

// The counters of a service are those of its own rows and slots; a place without a number has none, and so have counters
// that end before it.
func TestCellsOfAPlace(t *testing.T) {
	i := routerInfo(t)
	id := func(name string) uint32 { return i.counter(name).GetPreamble().GetId() }
	w := netip.MustParseAddrPort("10.0.0.1:8000")
	for _, number := range []int{0, 1, 2047} {
		p := Place{ID: number, Base: 3, Rows: 2, Slots: make([]netip.AddrPort, 2*Slots)}
		p.Slots[0], p.Slots[Slots+2], p.Slots[2*Slots-1] = w, w, w
		want := map[Cell]Fate{{id(counterWaits), int64(number)}: Waited, {id(counterForwarded), 96}: Astray, {id(counterForwarded), 97}: Placed, {id(counterForwarded), 128}: Astray, {id(counterForwarded), 131}: Placed, {id(counterForwarded), 144}: Placed}
		for reason := int64(1); reason <= lastMalformed; reason++ {
			want[Cell{id(counterOutcomes), int64(number)*32 + reason}] = Malformed
		}
		for reason, fate := range reasons {
			want[Cell{id(counterOutcomes), int64(number)*32 + reason}] = fate
		}
		if got := i.CellsOf(p); !maps.Equal(got, want) {
			t.Errorf("%d: %v\nwant %v", number, got, want)
		}
	}
	for c := range i.CellsOf(Place{ID: -1}) {
		if c.Index < 0 {
			t.Errorf("counter %+v", c)
		}
	}
	i.counter(counterWaits).Size = 7
	for number, has := range map[int]bool{6: true, 7: false} {
		if _, is := i.CellsOf(Place{ID: number})[Cell{id(counterWaits), int64(number)}]; is != has {
			t.Errorf("service %d has a counter beyond the end, or none before it", number)
		}
	}
	i.counter(counterWaits).Preamble.Name = "pipe.other"
	if got := i.CellsOf(Place{ID: 1}); slices.Contains(slices.Collect(maps.Values(got)), Waited) {
		t.Error("a counter that the pipeline does not have is read")
	}
}

// What a switch measures has counters as far as the pipeline has some.
func TestMeasuredCellsEnd(t *testing.T) {
	i := routerInfo(t)
	c := i.counter(counterLatencies)
	all := len(i.LatencyCells(Place{ID: 1}))
	c.Size = bucketsEach + 5
	got := i.LatencyCells(Place{ID: 1})
	if all != lastBucket+2 || len(got) != 5 || got[Cell{c.GetPreamble().GetId(), bucketsEach}] != (Seen{InBucket, 0}) {
		t.Errorf("%d of %d: %v", len(got), all, got)
	}
	c.Preamble.Name = "pipe.other"
	if got := i.LatencyCells(Place{ID: 1}); len(got) != 0 || len(i.LatencyCells(Place{ID: nobody})) != 0 || len(i.LatencyCells(Place{ID: Measures})) != 0 {
		t.Errorf("%v", got)
	}
}

// An edge is the last nanosecond of a bucket; the one that an objective cuts ends with the objective, and what is in no
// bucket has no end.
func TestEdgesOfBuckets(t *testing.T) {
	o := Objective{Latency: 1000, Per100k: 99000}
	own := bucketOf(1000)
	_, end := bucketRange(own)
	for _, c := range []struct {
		o      Objective
		bucket int
		want   time.Duration
		some   bool
	}{
		{o, own, 1001*time.Microsecond - 1, true}, {o, aboveObjective, time.Duration(end+1)*time.Microsecond - 1, true}, {o, 5, 6*time.Microsecond - 1, true},
		{Objective{Latency: 1000}, own, time.Duration(end+1)*time.Microsecond - 1, true}, {o, beyond, 0, false}, {o, lastBucket, 0, false},
		{o, lastBucket - 1, (1<<endBits)*time.Microsecond - 1, true},
		{Objective{Latency: 1 << 30, Per100k: 1}, aboveObjective, 0, false},
	} {
		if got, some := c.o.Edge(c.bucket, time.Microsecond); got != c.want || some != c.some {
			t.Errorf("%+v, bucket %d: %v, %v, want %v", c.o, c.bucket, got, some, c.want)
		}
	}
	far := Objective{Latency: 1<<32 - 1}
	if !far.Within(lastBucket-1) || far.Within(lastBucket) || far.Within(beyond) {
		t.Error("what is in no bucket is within an objective, or the last bucket is not")
	}
	for bucket, want := range map[int][2]uint32{0: {0, 0}, 63: {63, 63}, 64: {64, 65}, lastBucket - 1: {31 << 19, 1<<endBits - 1}, lastBucket: {1 << endBits, 1<<32 - 1}, beyond: {1 << endBits, 1<<32 - 1}} {
		if lo, hi := o.Range(bucket); lo != want[0] || hi != want[1] {
			t.Errorf("bucket %d: %d to %d, want %v", bucket, lo, hi, want)
		}
	}
	for arch, want := range map[string]time.Duration{"v1model": time.Microsecond, "tna": 1024, "t2na": 1024} {
		i := routerInfo(t)
		i.P4.PkgInfo.Arch = arch
		if got := i.Tick(); got != want {
			t.Errorf("%s: a tick of %v", arch, got)
		}
	}
}

// An entry is sent with the mark that it is to carry, else with what it has, and what is neither a table's entry nor a
// group is left as it is.
func TestMarks(t *testing.T) {
	i := routerInfo(t)
	group, err := i.Group(9, []uint32{1, 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	entity := group.Entity()
	entity.GetPacketReplicationEngineEntry().GetMulticastGroupEntry().Metadata = []byte("theirs")
	theirs, err := i.Canonical(entity)
	if err != nil {
		t.Fatal(err)
	}
	of := func(e Entry) string {
		return string(e.Entity().GetPacketReplicationEngineEntry().GetMulticastGroupEntry().GetMetadata())
	}
	if of(theirs) != "theirs" || of(tagged(theirs, ours)) != string(ours) || of(group) != "" {
		t.Errorf("%q, %q, %q", of(theirs), of(tagged(theirs, ours)), of(group))
	}
	other := &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{CounterId: 3}}}
	raw, err := proto.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	if got := (Entry{raw: raw, mark: ours}).Entity(); !proto.Equal(got, other) || !proto.Equal(bare(other), other) {
		t.Errorf("%v", got)
	}
	if got := bare(entity); !proto.Equal(got, groupEntity(&p4.MulticastGroupEntry{MulticastGroupId: 9})) {
		t.Errorf("a group is deleted by %v", got)
	}
}

// What the operator never writes is nothing that it compares: entries of other tables, defaults, and what the program has
// as it was compiled.
func TestEntriesOfNobody(t *testing.T) {
	i := routerInfo(t)
	id := i.TableID(tableStation)
	for what, e := range map[string]*p4.TableEntry{
		"of no table": {TableId: 1}, "a default": {TableId: id, IsDefaultAction: true}, "as compiled": {TableId: id, IsConst: true},
	} {
		if got, err := i.Canonical(&p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: e}}); !errors.Is(err, errOutside) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if _, err := i.Canonical(&p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: id}}}); err != nil {
		t.Error(err)
	}
	if i.TableID("none") != 0 || i.TableName(id) != tableStation || i.TableName(1) != "table 1" || id == 0 {
		t.Error("a table is called by another name")
	}
}

// A P4Info is as long as it may be, or one byte longer.
func TestLongestInfo(t *testing.T) {
	const text = `tables { preamble { id: 1 name: "acl" } size: 5 }`
	for more, good := range map[int]bool{0: true, 1: false} {
		if _, err := ParseInfo([]byte(text + strings.Repeat(" ", MaxInfoBytes-len(text)+more))); (err == nil) != good {
			t.Errorf("%d bytes more than may be: %v", more, err)
		}
	}
}
