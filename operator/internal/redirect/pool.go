// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

const noBackend = 0xffff

// newPool is the pool that follows old when these are the servers. A server that
// stays keeps its place and its load counter, so that a SYN that comes again
// finds it (C-25). takeLoad gives a free load counter, or false.
func newPool(old *programs.Pool, servers []Backend, takeLoad func() (uint16, bool)) (*programs.Pool, error) {
	p := &programs.Pool{Generation: old.Generation + 1}
	places, free := keepPlaces(old, servers)
	for i, s := range servers {
		place, kept := places[s.Addr]
		b := programs.Backend{Addr: s.Addr, Weight: max(s.Weight, 1), State: uint8(s.State)}
		if kept {
			b.Load = old.Backend[place].Load
		} else {
			place, free = free[0], free[1:]
			load, ok := takeLoad()
			if !ok {
				return nil, &FieldError{"backends", "this node has no load counter left: 16384 servers in all pools"}
			}
			b.Load = load
		}
		places[servers[i].Addr] = place
		p.Backend[place] = b
		p.Backends = max(p.Backends, uint32(place)+1)
	}
	fillSchedule(p)
	fillMaglev(p)
	return p, nil
}

// keepPlaces finds the servers that were members before, and the free places.
func keepPlaces(old *programs.Pool, servers []Backend) (map[netip.Addr]uint16, []uint16) {
	wanted := make(map[netip.Addr]bool, len(servers))
	for _, s := range servers {
		wanted[s.Addr] = true
	}
	places, taken := map[netip.Addr]uint16{}, make([]bool, programs.MaxBackends)
	for i := range old.Backends {
		if addr := old.Backend[i].Addr; wanted[addr] {
			places[addr], taken[i] = uint16(i), true
		}
	}
	var free []uint16
	for i := 0; len(free) < len(servers)-len(places); i++ {
		if !taken[i] {
			free = append(free, uint16(i))
		}
	}
	return places, free
}

// fillSchedule writes the turn order of the servers that take redirects: each as
// often as it weighs, evenly mixed (smooth weighted round robin).
func fillSchedule(p *programs.Pool) {
	var places []uint16
	var weights []int
	total := 0
	for i := range p.Backends {
		if b := p.Backend[i]; State(b.State) == UpCRAB {
			places, weights = append(places, uint16(i)), append(weights, int(b.Weight))
			total += int(b.Weight)
		}
	}
	if total == 0 {
		return
	}
	total = reduceWeights(weights, total)
	credit := make([]int, len(weights))
	for slot := range total {
		best := 0
		for i, w := range weights {
			credit[i] += w
			if credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= total
		p.Schedule[slot] = places[best]
	}
	p.Scheduled = uint32(total)
}

// reduceWeights makes the sum of the weights fit the schedule, keeping their
// ratios as well as whole numbers can; nobody is left without a turn.
func reduceWeights(weights []int, total int) int {
	div := weights[0]
	for _, w := range weights[1:] {
		div = gcd(div, w)
	}
	if total/div > scheduleAim(len(weights)) {
		aim := scheduleAim(len(weights))
		for i, w := range weights {
			weights[i] = max(1, w*aim/total)
		}
		div = 1
	}
	sum := 0
	for i := range weights {
		weights[i] /= div
		sum += weights[i]
	}
	return sum
}

// scheduleAim bounds the turn order: small pools need no 8,192 slots, and the
// order costs slots times servers to make. Rounding up adds at most one a server.
func scheduleAim(servers int) int {
	return min(programs.ScheduleSlots-servers, max(1024, 2*servers))
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fillMaglev writes the consistent hash table over all servers that are up or
// draining (C-41, C-43). It depends on addresses and weights only, so every
// balancer of a VIP writes the same one.
func fillMaglev(p *programs.Pool) {
	var members []uint16
	for i := range p.Backends {
		if State(p.Backend[i].State) != Down {
			members = append(members, uint16(i))
		}
	}
	for i := range p.Maglev {
		p.Maglev[i] = noBackend
	}
	if len(members) == 0 {
		return
	}
	slices.SortFunc(members, func(a, b uint16) int { return p.Backend[a].Addr.Compare(p.Backend[b].Addr) })
	permute(p, members)
	p.Hashed = programs.MaglevSlots
}

// permute lets the members pick slots in turn, each in an order of its own
// (Maglev, NSDI'16 §3.4); a member of twice the weight picks twice as often.
func permute(p *programs.Pool, members []uint16) {
	const slots = programs.MaglevSlots
	type picker struct {
		at, step uint32
		turn     int
	}
	pickers := make([]picker, len(members))
	heaviest := 1
	for i, m := range members {
		h := fnv64(p.Backend[m].Addr.AsSlice())
		pickers[i] = picker{at: uint32(h % slots), step: uint32(h>>32%(slots-1)) + 1}
		heaviest = max(heaviest, int(p.Backend[m].Weight))
	}
	for filled := 0; ; {
		for i, m := range members {
			pick := &pickers[i]
			if pick.turn += int(p.Backend[m].Weight); pick.turn < heaviest {
				continue
			}
			pick.turn -= heaviest
			for p.Maglev[pick.at] != noBackend {
				pick.at = (pick.at + pick.step) % slots
			}
			p.Maglev[pick.at] = m
			if filled++; filled == slots {
				return
			}
		}
	}
}

func fnv64(addr []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range addr {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h ^= h >> 33 // FNV mixes four bytes poorly into the high half
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}
