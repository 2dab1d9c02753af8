// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// workers are that many, from the one with that number on.
func workers(from, n int) (out []Worker) {
	for w := from; w < from+n; w++ {
		out = append(out, Worker{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(w >> 16), byte(w >> 8), byte(w)}), 8000), NextHop{MAC: uint64(w) + 0x020000000000, Port: uint32(w%32) + 1}})
	}
	return out
}

func service(name string, choice Choice, depth int, w []Worker) Service {
	last := byte(0)
	for _, c := range name {
		last = last*7 + byte(c)
	}
	return Service{Name: name, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, last}), 8000), Reports: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, last}), 9000),
		Choice: choice, Depth: depth, Held: 100, Patience: 1000, Loss: 50, Router: 7, OwnMAC: 0x0200000000ff, Workers: w}
}

// What stands in each table for two workers by credit, and by turn.
func TestServiceEntries(t *testing.T) {
	i := routerInfo(t)
	for _, row := range []struct {
		s    Service
		want []string
	}{
		{service("a", ByCredit, 3, workers(1, 2)), []string{
			"service hdr.ipv4.dst=0xc0000261 hdr.udp.dst=0x1f40 action 16777217 1=0x05 2=0x0 3=0x09 4=0x0 5=0x02 6=0x01 7=0x64 8=0x03e8 9=0x07",
			"target meta.row=0x09 meta.found=0x01 action 16777222 1=0x02 2=0x0200000000ff 3=0x020000000001 4=0x0a000001 5=0x1f40",
			"member hdr.ipv4.src=0x0a000001 hdr.udp.src=0x1f40 in_port=0x02 hdr.ipv4.dst=0xc0000261 hdr.udp.dst=0x2328 action 16777218 1=0x05 2=0x09 3=0x01 4=0x0 5=0x0 6=0x32",
			"target meta.row=0x09 meta.found=0x02 action 16777222 1=0x03 2=0x0200000000ff 3=0x020000000002 4=0x0a000002 5=0x1f40",
			"member hdr.ipv4.src=0x0a000002 hdr.udp.src=0x1f40 in_port=0x03 hdr.ipv4.dst=0xc0000261 hdr.udp.dst=0x2328 action 16777218 1=0x05 2=0x09 3=0x02 4=0x0 5=0x01 6=0x32",
		}},
		{service("a", ByTurn, 1, workers(1, 2)), []string{
			"service hdr.ipv4.dst=0xc0000261 hdr.udp.dst=0x1f40 action 16777217 1=0x05 2=0x01 3=0x09 4=0x01 5=0x0 6=0x01 7=0x64 8=0x03e8 9=0x07",
			"", "", "", "",
			"ring meta.service=0x05 meta.turn=0x0 action 16777221 1=0x09 2=0x01 3=0x0 4=0xffffffff 5=0x0",
			"ring meta.service=0x05 meta.turn=0x01 action 16777221 1=0x09 2=0x02 3=0x0 4=0x0 5=0xffffffff",
		}},
	} {
		p := Place{ID: 5, Base: 9, Rows: 1, Slots: make([]netip.AddrPort, Slots)}
		for n, w := range row.s.Workers {
			p.Slots[n] = w.Address
		}
		all, err := i.ServiceEntries(row.s, p)
		empty := 0
		if row.s.Choice == ByCredit {
			empty = Slots - len(row.s.Workers)
		}
		if err != nil || len(all) != len(row.want)+empty+1+len(labels) {
			t.Fatalf("%d entries, %v", len(all), err)
		}
		for n, e := range all[len(row.want) : len(row.want)+empty] { // who was there may have left credits
			worker := n % len(row.s.Workers)
			key, value := fmt.Sprintf("target meta.row=0x09 meta.found=0x%02x", len(row.s.Workers)+n+1), fmt.Sprintf(" 4=0x%08x ", 0x0a000001+worker)
			if e.key != key || !strings.Contains(e.value, value) {
				t.Errorf("got  %s %s\nwant %s %s", e.key, e.value, key, value)
			}
		}
		for n, e := range all[:len(row.want)] {
			if got := e.key + " " + e.value; row.want[n] != "" && got != row.want[n] {
				t.Errorf("got  %s\nwant %s", got, row.want[n])
			}
		}
		d := Compare(all, nil, Owner{Tag: ours}, Ranks)
		if last := d.Steps[len(d.Steps)-1]; len(last) != 1 || last[0].Entry.table != tableService {
			t.Errorf("the service is not written last: %s", steps(d)) // W-22
		}
	}
	random := service("r", AtRandom, 1, workers(1, 3))
	if n := random.ringSize(); n != 64 {
		t.Errorf("a ring of %d entries for three workers", n)
	}
}

// W-24: too many workers, services or n are refused with the number that would fit, and
// nothing else is.
func TestAllocateRefuses(t *testing.T) {
	i := routerInfo(t)
	six := service("six", ByCredit, 3, nil)
	six.Address = netip.MustParseAddrPort("[fd00::1]:8000")
	twice := workers(1, 2)
	twice[1] = twice[0]
	var most []Service
	for n := range 1024 {
		most = append(most, service(fmt.Sprint("s", n), ByCredit, 1, nil))
	}
	large := func(n int) (out []Service) {
		for k := range n {
			out = append(out, service(fmt.Sprint("l", k), ByCredit, 1, workers(k*4096, 4096)))
		}
		return out
	}
	for _, row := range []struct {
		name string
		all  []Service
		want string
	}{
		{"n of 64", []Service{service("a", ByCredit, 64, workers(1, 16))}, ""},
		{"n of 65", []Service{service("a", ByCredit, 65, workers(1, 16))}, "service a: n is 65, and must be 1 to 64"},
		{"4,096 workers", large(1), ""},
		{"4,097 workers", []Service{service("a", ByCredit, 1, workers(1, 4097))}, "service a: 4097 workers, and at most 4096 fit into one service"},
		{"256 in turn", []Service{service("a", ByTurn, 1, workers(1, 256))}, ""},
		{"257 in turn", []Service{service("a", ByTurn, 1, workers(1, 257))}, "service a: 257 workers, and at most 256 fit into one service"},
		{"16,384 workers in all", large(4), ""},
		{"one more", append(large(4), service("a", ByCredit, 1, workers(1<<20, 1))), "service a: 1 entries in table target, which has room for 0"},
		{"1,024 services", most, ""},
		{"1,025 services", append(slices.Clone(most), service("a", ByCredit, 1, nil)), "service a: 1 entries in table service, which has room for 0"},
		{"IPv6", []Service{six}, "service six: the switch knows IPv4 alone"},
		{"a worker twice", []Service{service("a", ByCredit, 1, twice)}, "service a: worker 10.0.0.1:8000 stands twice"},
	} {
		now, refused := Allocate(nil, row.all, i)
		if got := strings.Join(refused, "; "); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
		if len(now)+len(refused) != len(row.all) {
			t.Errorf("%s: %d places, %d refused of %d", row.name, len(now), len(refused), len(row.all))
		}
	}
	// 16,384 fit, and none of them frees a row in the step in which it goes.
	whole := large(4)
	places, _ := Allocate(nil, whole, i)
	if _, refused := Allocate(places, append(whole[:3:3], service("a", ByCredit, 1, workers(1<<20, 1))), i); len(refused) != 1 || refused[0] != "service a: 1 workers need 1 rows of 16 in one range; 0 workers would fit" {
		t.Errorf("%v", refused)
	}
	// Rows are there, but not side by side.
	before := Places{}
	for row := 0; row < Rows; row += 2 {
		before[fmt.Sprint("x", row)] = Place{ID: row, Base: row, Rows: 1, Slots: make([]netip.AddrPort, Slots)}
	}
	_, refused := Allocate(before, []Service{service("a", ByCredit, 1, workers(1, 17))}, i)
	if want := "service a: 17 workers need 2 rows of 16 in one range; 16 workers would fit"; strings.Join(refused, "") != want {
		t.Errorf("%v, want %s", refused, want)
	}
}

// W-22: whatever services come, go and change, no two have a row in common, workers
// keep their slots as long as the range does, and a range that changes shares no row
// with any of before; no slot passes from one worker to another in one step.
func TestAllocateKeepsPlaces(t *testing.T) {
	i, seed := routerInfo(t), rand.Uint64()
	for n := range 40 {
		seed := seed + uint64(n)
		r := rand.New(rand.NewPCG(seed, 4))
		before := Places{}
		for range 30 {
			var all []Service
			for s := range 8 {
				if r.IntN(4) > 0 {
					all = append(all, service(fmt.Sprint("s", s), ByCredit, 3, workers(s*1000+r.IntN(20), r.IntN(60))))
				}
			}
			now, refused := Allocate(before, all, i)
			if len(refused) > 0 || len(now) != len(all) {
				t.Fatalf("seed %d: %v", seed, refused)
			}
			if why := unsound(before, now, all); why != "" {
				t.Fatalf("seed %d: %s", seed, why)
			}
			before = now
		}
	}
}

func unsound(before, now Places, all []Service) string {
	rows, ids := map[int]string{}, map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		p, was := now[name], before[name]
		if other := ids[p.ID]; other != "" {
			return fmt.Sprintf("%s and %s have number %d", name, other, p.ID)
		}
		ids[p.ID] = name
		for row := p.Base; row < p.Base+p.Rows; row++ {
			if other := rows[row]; other != "" {
				return fmt.Sprintf("%s and %s have row %d", name, other, row)
			}
			rows[row] = name
			for other, q := range before {
				if row >= q.Base && row < q.Base+q.Rows && (other != name || p.Base != q.Base) {
					return fmt.Sprintf("%s has row %d, which was %s's", name, row, other)
				}
			}
		}
		for n, w := range p.Slots {
			if p.Base == was.Base && n < len(was.Slots) && w.IsValid() && was.Slots[n].IsValid() && w != was.Slots[n] {
				return fmt.Sprintf("slot %d of %s passes from %s to %s", n, name, was.Slots[n], w)
			}
		}
	}
	for _, s := range all {
		for _, w := range s.Workers {
			if !slices.Contains(now[s.Name].Slots, w.Address) {
				return fmt.Sprintf("%s has no slot for %s", s.Name, w.Address)
			}
		}
	}
	return ""
}
