// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// twoCPUs lets a test say on which of two processors its packets are seen.
func twoCPUs(t *testing.T) (to func(which int)) {
	t.Helper()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	if before.Count() < 2 {
		t.Skip("needs two processors")
	}
	var cpus []int
	for cpu := 0; len(cpus) < 2; cpu++ {
		if before.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	runtime.LockOSThread()
	t.Cleanup(func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	})
	return func(which int) {
		t.Helper()
		var one unix.CPUSet
		one.Set(cpus[which])
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
	}
}

// inTurn sends SYNs of new connections and tells the places of the servers chosen.
func inTurn(t *testing.T, n *Node, port *uint16, times int) (places []int) {
	t.Helper()
	for range times {
		*port++
		dip := chosen(t, n, lbSYN(*port, marked()))
		places = append(places, slices.IndexFunc(servers(4), func(b Backend) bool { return b.Addr == dip }))
	}
	return places
}

// C-61: RoundRobin has one turn for all processors.
func TestRoundRobinIsOfAllProcessors(t *testing.T) { bothFamilies(t, testRoundRobin) }

func testRoundRobin(t *testing.T) {
	to, port := twoCPUs(t), uint16(1000)
	n := balancerNode(t, 4, func(v *VIP) { v.Policy = RoundRobin })
	last := inTurn(t, n, &port, 1)[0]
	for i := range 100 {
		to(i % 2)
		for _, place := range inTurn(t, n, &port, 1+i%3) {
			if place != (last+1)%4 {
				t.Fatalf("after server %d came %d", last, place)
			}
			last = place
		}
	}
}

// C-61: RoundRobinPerCPU has a turn for each processor, which nothing on another one moves.
func TestRoundRobinPerCPUIsOfOneProcessor(t *testing.T) { bothFamilies(t, testRoundRobinPerCPU) }

func testRoundRobinPerCPU(t *testing.T) {
	to, port := twoCPUs(t), uint16(1000)
	n := balancerNode(t, 4, func(v *VIP) { v.Policy = RoundRobinPerCPU })
	var last [2]int
	for cpu := range last {
		to(cpu)
		last[cpu] = inTurn(t, n, &port, 1)[0]
	}
	for i := range 100 {
		cpu := i % 2
		to(cpu)
		for _, place := range inTurn(t, n, &port, 1+i%3) {
			if place != (last[cpu]+1)%4 {
				t.Fatalf("processor %d: after server %d came %d", cpu, last[cpu], place)
			}
			last[cpu] = place
		}
	}
}

// again is how many of a hundred connections have the same server with another initial sequence number.
func again(t *testing.T, n *Node) (same int) {
	t.Helper()
	for i := range 100 {
		p := lbSYN(uint16(5000+i), marked())
		first := chosen(t, n, p)
		p.seq++
		if chosen(t, n, p) == first && first.IsValid() {
			same++
		}
	}
	return same
}

// Hash sends a connection's name to one server, whatever else is in its SYN; names are spread over all of them.
func TestHash(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := balancerNode(t, 4, func(v *VIP) { v.Policy = Hash })
		if same := again(t, n); same != 100 {
			t.Errorf("%d of 100 connections have their former server", same)
		}
		shares(t, n, map[int]span{0: {60, 140}, 1: {60, 140}, 2: {60, 140}, 3: {60, 140}})
	})
}

// span is how many of 400 SYNs a server may have.
type span struct{ from, to int }

func shares(t *testing.T, n *Node, want map[int]span) {
	t.Helper()
	seen := distribution(t, n, 400)
	for place, s := range want {
		if got := seen[servers(4)[place].Addr]; got < s.from || got > s.to {
			t.Errorf("server %d has %d of 400, want %d to %d", place, got, s.from, s.to)
		}
	}
}

// C-60: Random has no order and no memory. Of 400 SYNs a quarter is 100, with a standard deviation of 8.7; what is
// allowed is 7 of them, so that it happens once in 10^11 runs that chance fails the test.
func TestRandom(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := balancerNode(t, 4, func(v *VIP) { v.Policy = Random })
		shares(t, n, map[int]span{0: {39, 161}, 1: {39, 161}, 2: {39, 161}, 3: {39, 161}})
		port, following := uint16(20000), 0
		places := inTurn(t, n, &port, 401)
		for i, place := range places[1:] {
			if place == (places[i]+1)%4 {
				following++
			}
		}
		if following < 39 || following > 161 {
			t.Errorf("%d of 400 went to the server behind the last one", following)
		}
		if same := again(t, n); same > 56 { // 25, and 7 times 4.3
			t.Errorf("%d of 100 connections have their former server", same)
		}
	})
}

// C-62: one of four servers is busy. PowerOfTwo chooses it where both draws are of it, one time of 16 (25 of 400, with
// a standard deviation of 4.8); Least never does, and has the others in equal parts.
func TestBusyServer(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		for policy, want := range map[Policy]map[int]span{
			PowerOfTwo: {0: {1, 58}, 1: {95, 155}, 2: {95, 155}, 3: {95, 155}},
			Least:      {0: {0, 0}, 1: {133, 134}, 2: {133, 134}, 3: {133, 134}},
		} {
			t.Run(policy.String(), func(t *testing.T) {
				n := balancerNode(t, 4, func(v *VIP) { v.Policy = policy; v.ReportLife = time.Hour })
				for i, open := range []uint32{1_000_000, 0, 0, 0} {
					must(t, n.Report(VIPKey{testVIP, 80}, servers(4)[i].Addr, Report{open}))
				}
				shares(t, n, want)
			})
		}
	})
}

// C-62: every policy honours weights: of 400 SYNs one of weight 1 has 100 beside one of weight 3, in turns exactly, by
// load as exactly as two draws make it, and by chance within 7 standard deviations.
func TestWeightsOfEachPolicy(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		for policy, want := range map[Policy]span{
			RoundRobin: {100, 100}, RoundRobinPerCPU: {100, 100}, Random: {39, 161}, Hash: {60, 140}, PowerOfTwo: {39, 161}, Least: {99, 101},
		} {
			t.Run(policy.String(), func(t *testing.T) {
				onOneCPU(t) // here: a subtest has a thread of its own
				n := balancerNode(t, 2, func(v *VIP) { v.Policy = policy; v.ReportLife = time.Hour; v.Backends[1].Weight = 3 })
				for _, b := range servers(2) {
					must(t, n.Report(VIPKey{testVIP, 80}, b.Addr, Report{0}))
				}
				shares(t, n, map[int]span{0: want, 1: {400 - want.to, 400 - want.from}})
			})
		}
	})
}
