// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
)

var ours = []byte("ours")

var testRanks = map[string]int{"port_role": 0, "next_hop": 1, "worker": 2, "feedback": 3, Groups: 3, "service": 4}

func testInfo(t testing.TB) *Info {
	t.Helper()
	text, err := os.ReadFile("testdata/pipeline.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	i, err := ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func bound(t testing.TB, i *Info, rows ...Row) (out []Entry) {
	t.Helper()
	for _, r := range rows {
		r.Rank = testRanks[r.Table]
		e, err := i.Bind(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func hopRow(address, port, mac uint64) Row {
	return Row{Table: "next_hop", Match: []Match{{Field: "address", Value: address}}, Action: "forward", Args: []Arg{{"port", port}, {"mac", mac}}}
}

func workerRow(slot, address uint64) Row {
	return Row{Table: "worker", Match: []Match{{Field: "slot", Value: slot}}, Action: "to_worker", Args: []Arg{{"address", address}, {"udp_port", 8000}}}
}

func serviceRow(address, first uint64) Row {
	return Row{Table: "service", Match: []Match{{Field: "address", Value: address}, {Field: "udp_port", Value: 8000}},
		Action: "place", Args: []Arg{{"first", first}, {"groups", 1}, {"depth", 3}}}
}

// answered is an entry as a switch that keeps metadata reads it back.
func answered(t testing.TB, i *Info, e Entry, tag []byte) Entry {
	t.Helper()
	out, err := i.Canonical(proto.CloneOf(tagged(e, tag).Entity()))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func steps(d Difference) string {
	var out []string
	for _, step := range d.Steps {
		var one []string
		for _, w := range step {
			one = append(one, fmt.Sprintf("%s %s", w.Kind, w.Entry))
		}
		slices.Sort(one)
		out = append(out, strings.Join(one, ", "))
	}
	return strings.Join(out, "; ")
}

// W-22, W-23: what is missing is made, what is pointed at before what points; what is
// stale goes last, what points first; what is not ours stays and is reported.
func TestCompare(t *testing.T) {
	i := testInfo(t)
	b := func(rows ...Row) []Entry { return bound(t, i, rows...) }
	group, err := i.Group(7, []uint32{1, 2}, 3)
	if err != nil {
		t.Fatal(err)
	}
	theirs := []byte("theirs")
	for _, row := range []struct {
		name      string
		wanted    []Entry
		held      []Entry
		written   map[string]bool
		steps     string
		strangers string
		contested string
	}{
		{name: "nothing"},
		{name: "an empty switch", wanted: append(b(serviceRow(9, 0), workerRow(1, 5), hopRow(5, 1, 0xaabb)), group),
			steps: "INSERT next_hop address=0x05; INSERT worker slot=0x01; INSERT multicast group 7; INSERT service address=0x09 udp_port=0x1f40"},
		{name: "all there", wanted: b(hopRow(5, 1, 1)), held: []Entry{answered(t, i, b(hopRow(5, 1, 1))[0], ours)}},
		{name: "another value", wanted: b(hopRow(5, 1, 1)), held: []Entry{answered(t, i, b(hopRow(5, 2, 1))[0], ours)}, steps: "MODIFY next_hop address=0x05"},
		{name: "a service moves to a second range", wanted: b(serviceRow(9, 16), workerRow(16, 5)),
			held:  []Entry{answered(t, i, b(serviceRow(9, 0))[0], ours), answered(t, i, b(workerRow(0, 5))[0], ours)},
			steps: "INSERT worker slot=0x10; MODIFY service address=0x09 udp_port=0x1f40; DELETE worker slot=0x0"},
		{name: "all goes, the service first", held: []Entry{
			answered(t, i, b(hopRow(5, 1, 1))[0], ours), answered(t, i, b(workerRow(0, 5))[0], ours), answered(t, i, b(serviceRow(9, 0))[0], ours), answered(t, i, group, ours)},
			steps: "DELETE service address=0x09 udp_port=0x1f40; DELETE multicast group 7; DELETE worker slot=0x0; DELETE next_hop address=0x05"},
		{name: "a stranger's entry", held: []Entry{answered(t, i, b(hopRow(5, 1, 1))[0], theirs)}, strangers: "next_hop address=0x05"},
		{name: "an entry without a mark", held: []Entry{answered(t, i, b(hopRow(5, 1, 1))[0], nil)}, strangers: "next_hop address=0x05"},
		{name: "ours, on a switch that keeps no marks", held: []Entry{answered(t, i, b(hopRow(5, 1, 1))[0], nil)},
			written: map[string]bool{"next_hop address=0x05": true}, steps: "DELETE next_hop address=0x05"},
		{name: "without a mark, on a switch that keeps them", wanted: b(hopRow(6, 1, 1)), written: map[string]bool{"next_hop address=0x05": true},
			held: []Entry{answered(t, i, b(hopRow(6, 1, 1))[0], ours), answered(t, i, b(hopRow(5, 1, 1))[0], nil)}, strangers: "next_hop address=0x05"},
		{name: "a stranger in the place of ours", wanted: b(hopRow(5, 1, 1)), held: []Entry{answered(t, i, b(hopRow(5, 2, 1))[0], theirs)}, contested: "next_hop address=0x05"},
		{name: "a stranger's that says the same", wanted: b(hopRow(5, 1, 1)), held: []Entry{answered(t, i, b(hopRow(5, 1, 1))[0], theirs)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := Compare(row.wanted, row.held, Owner{Tag: ours, Written: row.written}, testRanks)
			if got := steps(d); got != row.steps {
				t.Errorf("steps %s, want %s", got, row.steps)
			}
			if got := strings.Join(d.Strangers, ", "); got != row.strangers {
				t.Errorf("strangers %q, want %q", got, row.strangers)
			}
			if got := strings.Join(d.Contested, ", "); got != row.contested {
				t.Errorf("contested %q, want %q", got, row.contested)
			}
			if settled := row.steps == "" && row.contested == ""; d.Settled() != settled {
				t.Errorf("settled %v", d.Settled())
			}
		})
	}
}

// Whatever stands on a switch, playing the writes step by step never leaves an entry
// that points at nothing, and in the end there is what is wanted and what was others'.
func TestCompareFromAnywhere(t *testing.T) {
	i, seed := testInfo(t), rand.Uint64()
	for n := range 300 {
		seed := seed + uint64(n)
		r := rand.New(rand.NewPCG(seed, 1))
		some := func() (out []Entry) {
			for slot := range uint64(6) {
				if r.IntN(2) == 0 {
					continue
				}
				out = append(out, bound(t, i, hopRow(slot, r.Uint64N(3), 1), workerRow(slot, slot), serviceRow(slot, slot))...)
			}
			return out
		}
		before, wanted := some(), some()
		there := map[string]Entry{}
		for _, e := range before {
			there[e.key] = answered(t, i, e, ours)
		}
		foreign := answered(t, i, bound(t, i, hopRow(77, 1, 1))[0], []byte("theirs"))
		there[foreign.key] = foreign
		all := func() (out []Entry) {
			for _, e := range there {
				out = append(out, e)
			}
			return out
		}
		for _, step := range Compare(wanted, all(), Owner{Tag: ours}, testRanks).Steps {
			for _, w := range step {
				if w.Kind == p4.Update_DELETE {
					delete(there, w.Entry.key)
					continue
				}
				there[w.Entry.key] = answered(t, i, w.Entry, ours)
			}
			for key := range there {
				var slot string
				if n, _ := fmt.Sscanf(key, "service address=%s", &slot); n == 1 && there["worker slot="+slot].key == "" {
					t.Fatalf("seed %d: %s points at nothing", seed, key)
				}
				if n, _ := fmt.Sscanf(key, "worker slot=%s", &slot); n == 1 && there["next_hop address="+slot].key == "" {
					t.Fatalf("seed %d: %s points at nothing", seed, key)
				}
			}
		}
		if d := Compare(wanted, all(), Owner{Tag: ours}, testRanks); !d.Settled() || d.Strange != 1 {
			t.Fatalf("seed %d: not settled: %s, strange %d", seed, steps(d), d.Strange)
		}
	}
}

func TestBindRefusesWhatDoesNotFit(t *testing.T) {
	i := testInfo(t)
	for _, row := range []struct {
		row  Row
		want string
	}{
		{Row{Table: "nowhere"}, "table nowhere is not there"},
		{Row{Table: "next_hop", Action: "loop"}, "table next_hop has no action loop"},
		{Row{Table: "next_hop", Action: "forward"}, "has 1 fields, not 0"},
		{Row{Table: "next_hop", Action: "forward", Match: []Match{{Field: "x"}}}, "no field x"},
		{hopRow(1<<32, 1, 1), "4294967296 does not fit into 32 bits"},
		{hopRow(1, 512, 1), "parameter port: 512 does not fit into 9 bits"},
		{Row{Table: "next_hop", Match: []Match{{Field: "address"}}, Action: "forward", Args: []Arg{{"port", 1}, {"max", 1}}}, "has a parameter mac"},
	} {
		if _, err := i.Bind(row.row); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %q", row.row, err, row.want)
		}
	}
}

func TestParseInfo(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "describes no table"},
		{"tables: 3", "is no P4Info in protobuf's text format"},
		{strings.Repeat("#", MaxInfoBytes+1), "must be at most"},
		{`tables { preamble { id: 1 name: "a" } } tables { preamble { id: 1 name: "b" } }`, "table b (id 0x1) stands twice"},
		{`tables { preamble { id: 1 name: "a" } } tables { preamble { id: 2 name: "pipe.a" } }`, "table a (id 0x2) stands twice"},
		{`tables { preamble { id: 1 name: "a" } action_refs { id: 5 } }`, "names action 0x5"},
		{`actions { preamble { id: 1 } } actions { preamble { id: 1 } }`, "action id 0x1 stands twice"},
	} {
		if _, err := ParseInfo([]byte(row.text)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.40q: %v, want %q", row.text, err, row.want)
		}
	}
}

// Some servers pad values, and some answer with old fields: all of it is the same entry.
func TestCanonical(t *testing.T) {
	i := testInfo(t)
	plain := bound(t, i, hopRow(5, 1, 0xaabb))[0]
	padded := proto.CloneOf(plain.Entity())
	padded.GetTableEntry().Match[0].GetExact().Value = []byte{0, 0, 0, 5}
	params := padded.GetTableEntry().GetAction().GetAction().Params
	params[0], params[1] = params[1], params[0]
	params[0].Value = append([]byte{0, 0}, params[0].Value...)
	got, err := i.Canonical(padded)
	if err != nil || got.key != plain.key || got.value != plain.value {
		t.Errorf("%+v, %v is not %+v", got, err, plain)
	}
	group, err := i.Group(3, []uint32{1, 300}, 0)
	if err != nil {
		t.Fatal(err)
	}
	old := proto.CloneOf(group.Entity())
	for n, r := range old.GetPacketReplicationEngineEntry().GetMulticastGroupEntry().GetReplicas() {
		//lint:ignore SA1019 what old servers answer
		r.PortKind = &p4.Replica_EgressPort{EgressPort: []uint32{1, 300}[n]}
	}
	if got, err := i.Canonical(old); err != nil || got.value != group.value {
		t.Errorf("%+v, %v is not %+v", got, err, group)
	}
}

// Nothing that a server can answer makes reading or comparing fail.
func FuzzCanonical(f *testing.F) {
	i := testInfo(f)
	group, err := i.Group(3, []uint32{1}, 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range append(bound(f, i, hopRow(5, 1, 0xaabb), serviceRow(1, 2)), group) {
		raw, err := proto.Marshal(e.Entity())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	wanted := bound(f, i, hopRow(5, 1, 0xaabb), serviceRow(1, 2))
	f.Fuzz(func(t *testing.T, raw []byte) {
		entity := &p4.Entity{}
		if proto.Unmarshal(raw, entity) != nil {
			return
		}
		e, err := i.Canonical(entity)
		if err != nil {
			return
		}
		d := Compare(wanted, []Entry{e}, Owner{Tag: ours, Written: map[string]bool{e.key: true}}, testRanks)
		for _, step := range d.Steps {
			for _, w := range step {
				if _, err := proto.Marshal(w.Update()); err != nil {
					t.Errorf("%v: %v", w, err)
				}
			}
		}
	})
}
