// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"net/netip"
	"testing"
)

// A ring of turns has an entry a worker; one of draws as many as the power of two that gives each its share.
func TestRingSizes(t *testing.T) {
	for _, c := range []struct {
		choice        Choice
		workers, want int
	}{{ByTurn, 0, 0}, {ByTurn, 3, 3}, {AtRandom, 0, 0}, {AtRandom, 1, spread}, {AtRandom, 3, 4 * spread}, {AtRandom, 4, 4 * spread}, {AtRandom, 5, 8 * spread}} {
		if got := service("r", c.choice, 1, workers(1, c.workers)).ringSize(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// What no register has is nobody's place: a service, row or slot past the last one.
func TestPlacesAtTheirBounds(t *testing.T) {
	a := service("a", ByCredit, 1, nil)
	fresh := func() *finding {
		return &finding{places: map[int]*Place{}, names: map[int]string{}, exact: map[int]bool{}, strayed: map[int]bool{}}
	}
	told := func(args map[string]uint64) said {
		return said{match: map[string]uint64{"hdr.ipv4.dst": number(a.Reports.Addr()), "hdr.udp.dst": uint64(a.Reports.Port()), "hdr.ipv4.src": 0x0a000001, "hdr.udp.src": 8000}, args: args}
	}
	for _, c := range []struct {
		service, base, last uint64
		want                bool
	}{{numbers - 1, 0, 0, true}, {numbers, 0, 0, false}, {1, Rows - 1, 0, true}, {1, Rows, 0, false}, {1, 0, MaxServiceRows - 1, true}, {1, 0, MaxServiceRows, false}} {
		f := fresh()
		f.service(told(map[string]uint64{"service": c.service, "base": c.base, "last_group": c.last, "choose": uint64(ByCredit)}), nil)
		if p := f.places[int(c.service)]; (p != nil) != c.want || p != nil && (p.Base != int(c.base) || p.Rows != int(c.last)+1) {
			t.Errorf("%+v: %+v", c, p)
		}
	}
	for _, c := range []struct {
		service, row, slot uint64
		want               string
	}{
		{5, 10, 1, "stands in 0"}, {5, 10, Slots, fmt.Sprintf("stands in %d", Slots-1)}, {5, 11, 1, fmt.Sprintf("stands in %d", Slots)}, {5, 10, 0, "strays"}, {5, 10, Slots + 1, "strays"}, {5, 9, 1, "strays"}, {5, 12, 1, "strays"},
		{6, 10, 1, "strays a"}, {numbers, 10, 1, "is nothing"}, {numbers - 1, 10, 1, "strays a"}, {5, Rows, 1, "is nothing"}, {5, Rows - 1, 1, "strays"},
	} {
		f := fresh()
		f.places[5], f.exact[5] = &Place{ID: 5, Base: 10, Rows: 2}, true
		f.member(told(map[string]uint64{"service": c.service, "row": c.row, "slot": c.slot}), []Service{service("b", ByCredit, 1, nil), a})
		got := "is nothing"
		if f.strayed[int(c.service)] {
			got = "strays"
			if name := f.names[int(c.service)]; name != "" {
				got += " " + name
			}
		}
		for n, w := range f.places[5].Slots {
			if w != (netip.AddrPort{}) {
				got = fmt.Sprintf("stands in %d", n)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
