// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// found is what was read of places: range by number.
func found(names map[int]string, places ...Place) *finding {
	f := &finding{places: map[int]*Place{}, names: names, exact: map[int]bool{}, strayed: map[int]bool{}}
	for _, p := range places {
		f.places[p.ID] = &p
	}
	return f
}

// ranges are places by name: their number, where they begin and how many rows they have.
func ranges(all Places) map[string][3]int {
	out := map[string][3]int{}
	for name, p := range all {
		out[name] = [3]int{p.ID, p.Base, p.Rows}
		if len(p.Slots) != p.Rows*Slots {
			out[name] = [3]int{-1, -1, len(p.Slots)}
		}
	}
	return out
}

// Ranges with a row in common are of neither; what has no name, or a name that another has, is told by its number; and a
// range ends with the registers.
func TestRangesThatAreRead(t *testing.T) {
	for what, c := range map[string]struct {
		f    *finding
		want map[string][3]int
	}{
		"side by side":  {found(map[int]string{1: "a", 2: "b"}, Place{ID: 1, Base: 0, Rows: 2}, Place{ID: 2, Base: 2, Rows: 1}), map[string][3]int{"a": {1, 0, 2}, "b": {2, 2, 1}}},
		"a row in both": {found(map[int]string{1: "a", 2: "b"}, Place{ID: 1, Base: 0, Rows: 3}, Place{ID: 2, Base: 2, Rows: 1}), map[string][3]int{"left/1": {1, 0, 3}, "a": {1, 0, 0}, "left/2": {2, 2, 1}, "b": {2, 0, 0}}},
		"beyond":        {found(map[int]string{1: "a"}, Place{ID: 1, Base: Rows - 2, Rows: 9}), map[string][3]int{"a": {1, Rows - 2, 2}}},
		"without name":  {found(nil, Place{ID: 5, Base: 7, Rows: 1}), map[string][3]int{"gone/5": {5, 7, 1}}},
	} {
		if got := ranges(c.f.all()); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	twice := ranges(found(map[int]string{1: "a", 2: "a"}, Place{ID: 1, Base: 0, Rows: 1}, Place{ID: 2, Base: 4, Rows: 1}).all())
	if _, named := twice["a"]; len(twice) != 2 || !named {
		t.Errorf("two of a name: %v", twice)
	}
	f := found(map[int]string{1: "a", 2: "b"}, Place{ID: 2, Base: 0, Rows: 1})
	f.strayed[1], f.strayed[2], f.strayed[3], f.rows = true, true, true, []int{9}
	want := map[string][3]int{"a": {1, 0, 0}, "b": {2, 0, 0}, "left/2": {2, 0, 1}, "gone/3": {3, 0, 0}, "row/9": {-1, 9, 1}}
	if got := ranges(f.all()); !maps.Equal(got, want) {
		t.Errorf("strays: %v, want %v", got, want)
	}
}

// Who is served by turn says how many workers there are, and a row has room for sixteen.
func TestRowsOfTurns(t *testing.T) {
	for last, want := range map[uint64]int{0: 1, Slots - 1: 1, Slots: 2, 2*Slots - 1: 2, 2 * Slots: 3} {
		f := found(nil)
		f.service(said{args: map[string]uint64{"service": 1, "last_group": last, "choose": uint64(ByTurn)}}, nil)
		if got := f.places[1].Rows; got != want {
			t.Errorf("up to worker %d: %d rows, want %d", last, got, want)
		}
	}
}

// What a switch holds of a service is all that was written of it and nothing of another's, whether it is measured or not:
// the buckets that all share are nobody's.
func TestEntriesOfOnePlace(t *testing.T) {
	i := routerInfo(t)
	all := []Service{service("a", AtRandom, 1, workers(1, 3)), service("b", ByCredit, 2, workers(11, 3)), service("c", ByTurn, 1, workers(21, 17))}
	for n := range all {
		all[n].Objective = Objective{Latency: 1 << 20, Per100k: 99000}
	}
	fabric, err := i.Entries(crabFabric())
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []int{1, Measures - 1, Measures} {
		held, parts, places := slices.Clone(fabric), [][]string{}, []Place{}
		for n, s := range all {
			p := Place{ID: first + n, Base: 10 * n, Rows: 1}.of(s)
			entries, err := i.ServiceEntries(s, p)
			if err != nil {
				t.Fatal(err)
			}
			measured := slices.ContainsFunc(entries, func(e Entry) bool {
				return e.table == tableAdmit || e.table == tableObjective || e.table == tableBucket
			})
			if measured != (p.ID < Measures) {
				t.Errorf("service %d is measured: %v", p.ID, measured)
			}
			held, parts, places = append(held, entries...), append(parts, sayings(entries)), append(places, p)
		}
		for n, p := range places {
			if got := sayings(i.EntriesAt(held, p)); !slices.Equal(got, parts[n]) {
				t.Errorf("service %d: %d entries, want %d:\n%s", p.ID, len(got), len(parts[n]), strings.Join(got, "\n"))
			}
		}
	}
}

// of gives a place the workers of a service, in as many rows as they need.
func (p Place) of(s Service) Place {
	p.Rows = (len(s.Workers) + Slots - 1) / Slots
	for _, w := range s.Workers {
		p.Slots = append(p.Slots, w.Address)
	}
	p.Slots = append(p.Slots, make([]netip.AddrPort, p.Rows*Slots-len(p.Slots))...)
	return p
}

// The longest gap of a load is as rare as one number in all: the middle of the last of as many parts of the distribution.
func TestLongestGap(t *testing.T) {
	r := run("a", 1_000_000, 100_000_000, 1)
	gaps := r.gaps()
	longest, want := float64(slices.Max(gaps)), -math.Log(0.5/Gaps)*100
	if math.Abs(longest/want-1) > 0.02 || slices.Min(gaps) != 0 {
		t.Errorf("from %d to %v templates, want %v", slices.Min(gaps), longest, want)
	}
}
