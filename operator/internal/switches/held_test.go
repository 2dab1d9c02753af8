// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// holds has a switch that holds something hold what is wanted: what it held goes where
// nothing says that it stays.
func holds(wanted []Entry) []Entry {
	out := slices.Clone(wanted)
	for n := range out {
		out[n] = tagged(out[n], ours)
	}
	return out
}

func sayings(all []Entry) (out []string) {
	for _, e := range all {
		out = append(out, e.key+" "+e.value)
	}
	slices.Sort(out)
	return out
}

func some(r *rand.Rand, choices ...Choice) (all []Service) {
	for s := range 8 {
		if r.IntN(4) > 0 {
			all = append(all, service(fmt.Sprint("s", s), choices[s%len(choices)], 3, workers(s*1000+r.IntN(20), r.IntN(60))))
		}
	}
	return all
}

// Places survive a restart of whoever looks after the switch: read from the switch, they
// are those that were given, and nothing is written anew (W-23). The registers of a worker
// are its own as long as it is there.
func TestPlacesOfHeld(t *testing.T) {
	i, seed := routerInfo(t), rand.Uint64()
	for n := range 5 {
		r := rand.New(rand.NewPCG(seed+uint64(n), 5))
		var known Places
		var held []Entry
		next := 0
		for step := range 8 {
			all := some(r, ByCredit, ByTurn, AtRandom)
			p := i.PlanServices(known, held, all, next)
			if len(p.Refused) > 0 {
				t.Fatalf("seed %d: %v", seed, p.Refused)
			}
			before := known
			if before == nil {
				before = Places{}
			}
			if why := unsound(before, p.Places, all); why != "" {
				t.Fatalf("seed %d, step %d: %s", seed+uint64(n), step, why)
			}
			held, known, next = holds(p.Entries), p.Places, p.Next
			found := i.PlacesOf(held, all)
			for _, s := range all {
				was, is := known[s.Name], found[s.Name]
				if was.ID != is.ID || was.Base != is.Base || s.Choice == ByCredit && !slices.Equal(was.Slots, is.Slots) {
					t.Fatalf("seed %d, step %d: %s stands at %+v, read as %+v", seed+uint64(n), step, s.Name, was, is)
				}
			}
			if len(found) != len(all) {
				t.Fatalf("%d places of %d services", len(found), len(all))
			}
			again := i.PlanServices(nil, held, all, 0)
			if !slices.Equal(sayings(again.Entries), sayings(held)) {
				t.Fatalf("seed %d, step %d: a restart writes anew", seed+uint64(n), step)
			}
		}
	}
}

// What the switch lost comes back where it was, as long as somebody remembers; without, it
// comes back complete, and in rows of which nobody has entries.
func TestPlacesAfterLoss(t *testing.T) {
	i, seed := routerInfo(t), rand.Uint64()
	for n := range 15 {
		r := rand.New(rand.NewPCG(seed+uint64(n), 6))
		all := some(r, ByCredit)
		p := i.PlanServices(nil, nil, all, 0)
		held := holds(p.Entries)
		held = slices.DeleteFunc(held, func(Entry) bool { return r.IntN(3) == 0 })
		if got := i.PlanServices(p.Places, held, all, 0); !slices.Equal(sayings(got.Entries), sayings(p.Entries)) {
			t.Fatalf("seed %d: what was lost came back elsewhere", seed+uint64(n))
		}
		got := i.PlanServices(nil, held, all, 0)
		if len(got.Refused) > 0 {
			t.Fatalf("seed %d: %v", seed+uint64(n), got.Refused)
		}
		if why := unsound(Places{}, got.Places, all); why != "" {
			t.Fatalf("seed %d: %s", seed+uint64(n), why)
		}
		for _, s := range all {
			if other := stranger(i, held, got.Places[s.Name]); other != "" {
				t.Fatalf("seed %d: %s stands at row %d, where there is %s", seed+uint64(n), s.Name, got.Places[s.Name].Base, other)
			}
		}
	}
}

// stranger is a worker of another service in the rows of a place.
func stranger(i *Info, held []Entry, p Place) string {
	for _, e := range held {
		s, ok := i.read(e)
		row := int(s.args["row"])
		if ok && e.table == tableMember && s.args["service"] != uint64(p.ID) && row >= p.Base && row < p.Base+p.Rows {
			return e.String()
		}
	}
	return ""
}

// A service that asks for what cannot be keeps what it has (W-24), and others go on.
func TestRefusedServiceStays(t *testing.T) {
	i := routerInfo(t)
	all := []Service{service("a", ByTurn, 3, workers(1, 3)), service("b", ByCredit, 3, workers(100, 20))}
	first := i.PlanServices(nil, nil, all, 0)
	for _, known := range []Places{first.Places, nil} {
		asked := []Service{service("a", ByTurn, 3, workers(1, 300)), service("b", ByCredit, 3, workers(100, 21))}
		p := i.PlanServices(known, holds(first.Entries), asked, 0)
		if p.Refused["a"] != "300 workers, and at most 256 fit into one service" || len(p.Refused) != 1 {
			t.Errorf("refused %v", p.Refused)
		}
		of := func(p Plan) []string { return sayings(i.EntriesAt(p.Entries, p.Places["a"])) }
		if got, want := of(p), of(first); len(want) != 10+1+len(labels) || !slices.Equal(got, want) || len(p.Entries) != len(first.Entries)+1 { // of a slot that was empty
			t.Errorf("of %d entries of the service %d stay; %d in all, of %d", len(want), len(got), len(p.Entries), len(first.Entries))
		}
	}
}

// Whatever a switch says it holds, places are within bounds, and nothing breaks.
func TestPlacesOfNonsense(t *testing.T) {
	i, seed := routerInfo(t), rand.Uint64()
	for n := range 60 {
		r := rand.New(rand.NewPCG(seed+uint64(n), 7))
		all := some(r, ByCredit, ByTurn)
		held := holds(i.PlanServices(nil, nil, all, 0).Entries)
		for n, e := range held {
			if x := e.Entity(); r.IntN(2) == 0 {
				spoil(r, x.GetTableEntry())
				held[n], _ = e.keep(x, e.metadata) // what cannot be sent is not answered either
			}
		}
		for name, p := range i.PlacesOf(held, all) {
			if p.Base < 0 || p.Rows < 0 || p.Rows > 0 && p.Base+p.Rows > Rows || len(p.Slots) != p.Rows*Slots {
				t.Fatalf("seed %d: %s at %+v", seed+uint64(n), name, p)
			}
		}
		got := i.PlanServices(nil, held, all, 0)
		if why := unsound(Places{}, named(got.Places, all), served(all, got.Refused)); why != "" {
			t.Fatalf("seed %d: %s", seed+uint64(n), why)
		}
	}
}

func spoil(r *rand.Rand, e *p4.TableEntry) {
	octets := make([]byte, r.IntN(12))
	for n := range octets {
		octets[n] = byte(r.Uint32() >> r.IntN(8))
	}
	params := e.GetAction().GetAction().GetParams()
	switch {
	case r.IntN(3) == 0 && len(params) > 0:
		params[r.IntN(len(params))].Value = octets
	case r.IntN(2) == 0 && len(e.Match) > 0:
		e.Match[r.IntN(len(e.Match))] = &p4.FieldMatch{FieldId: uint32(r.IntN(4)), FieldMatchType: &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: octets}}}
	default:
		e.Action = nil
	}
}

func named(p Places, all []Service) Places {
	out := maps.Clone(p)
	maps.DeleteFunc(out, func(name string, _ Place) bool {
		return !slices.ContainsFunc(all, func(s Service) bool { return s.Name == name })
	})
	return out
}

func served(all []Service, refused map[string]string) []Service {
	return slices.DeleteFunc(slices.Clone(all), func(s Service) bool { return refused[s.Name] != "" })
}

// A service in the midst of a move, of which nothing is remembered, moves on to rows that
// neither the old range nor the new one has.
func TestPlacesInTheMidstOfAMove(t *testing.T) {
	i := routerInfo(t)
	small := []Service{service("a", ByCredit, 3, workers(1, 16))}
	first := i.PlanServices(nil, nil, small, 0)
	grown := []Service{service("a", ByCredit, 3, workers(1, 17))}
	second := i.PlanServices(first.Places, holds(first.Entries), grown, 0)
	if second.Places["a"].Base == first.Places["a"].Base {
		t.Fatal("it did not move")
	}
	// targets and members are written, the service is not (W-22)
	var held []Entry
	for _, e := range second.Entries {
		if e.table != tableService {
			held = append(held, tagged(e, ours))
		}
	}
	for _, e := range first.Entries {
		if e.table == tableService {
			held = append(held, tagged(e, ours))
		}
	}
	third := i.PlanServices(nil, held, grown, 0).Places["a"]
	for _, p := range []Place{first.Places["a"], second.Places["a"]} {
		if third.Base < p.Base+p.Rows && p.Base < third.Base+third.Rows {
			t.Errorf("rows %d to %d again", third.Base, third.Base+third.Rows-1)
		}
	}
	if third.ID != first.Places["a"].ID || !slices.Contains(third.Slots, netip.MustParseAddrPort("10.0.0.17:8000")) {
		t.Errorf("%+v", third)
	}
}

// rows are used again as late as can be, because their registers refuse a worker
// that began before the one they had.
func TestRowsAreUsedAgainLate(t *testing.T) {
	i := routerInfo(t)
	p := i.PlanServices(nil, nil, []Service{service("young", ByCredit, 3, workers(1, 40))}, 0)
	gone := i.PlanServices(p.Places, holds(p.Entries), nil, p.Next)
	old := i.PlanServices(gone.Places, nil, []Service{service("old", ByCredit, 3, workers(100, 40))}, gone.Next)
	if was, is := p.Places["young"], old.Places["old"]; is.Base < was.Base+was.Rows {
		t.Errorf("rows from %d on, of which %d to %d were another service's", is.Base, was.Base, was.Base+was.Rows-1)
	}
	again := i.PlanServices(nil, holds(old.Entries), []Service{service("old", ByCredit, 3, workers(100, 40)), service("next", ByCredit, 3, workers(200, 1))}, 0)
	if is := again.Places["next"]; is.Base != 6 {
		t.Errorf("after a restart rows from %d on are taken", is.Base)
	}
	around := i.PlanServices(Places{}, nil, []Service{service("a", ByCredit, 3, workers(1, 40))}, Rows-2)
	if is := around.Places["a"]; is.Base != 0 || is.Rows != 3 {
		t.Errorf("%d rows from %d on", is.Rows, is.Base)
	}
}

// What the switch holds elsewhere than is remembered keeps its rows until it is gone.
func TestRowsHeldElsewhere(t *testing.T) {
	i := routerInfo(t)
	a, b := service("a", ByCredit, 3, workers(1, 4)), service("b", ByCredit, 3, workers(100, 4))
	here, there := i.PlanServices(nil, nil, []Service{a}, 0), i.PlanServices(Places{}, nil, []Service{a}, 5)
	p := i.PlanServices(here.Places, holds(there.Entries), []Service{a, b}, 5)
	if p.Places["a"].Base != 0 || p.Places["b"].Base == 5 {
		t.Errorf("%+v", p.Places)
	}
}
