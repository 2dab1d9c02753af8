// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
)

// What the operator writes has the shipped program refuse the share of a class, as long as it counts; remember what it lets
// in; count each latency in the bucket of the operator's; and tell the time (R-205, R-206, R-223, W-10).
func TestAdmissionOnTheProgram(t *testing.T) {
	p := newProgrammed(t, "router")
	s := service("a", ByTurn, 1, workers(1, 1))
	s.Objective = Objective{Latency: 2000, Per100k: 99000, Until: 1 << MomentBits}
	s.Objective.Shares[0] = 1 << 15
	places, refused := Allocate(nil, []Service{s}, p.info)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	place := places["a"]
	entries, err := p.info.ServiceEntries(s, place)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := p.info.Entries(Fabric{Ports: []uint32{1, 2}, Pool: []netip.Prefix{netip.PrefixFrom(s.Address.Addr(), 32)}, MAC: s.OwnMAC})
	if err != nil {
		t.Fatal(err)
	}
	p.hold(nil, append(wanted, entries...))
	front, worker := uint32(number(s.Address.Addr())), s.Workers[0]
	sums := func() map[Seen]uint64 {
		out := map[Seen]uint64{}
		for cell, of := range p.info.MeasuredCells(place) {
			out[of] += p.count(cell)
		}
		return out
	}
	ask := func(now uint64, client uint16, class, flags uint8) {
		payload := bed.Request(client, []byte("question"))
		if class > 0 || flags > 0 {
			payload = bed.Asking(payload, class, flags)
		}
		p.pass(9, now, bed.Frame(bed.Ends{Src: bed.ClientIP, Dst: front, SrcPort: client, DstPort: 8000}, payload))
	}
	for n := range uint16(2000) {
		ask(1000, 20000+n, 0, 0)
	}
	got := sums()
	if refused := got[Seen{Refused, 0}]; refused < 850 || refused > 1150 || got[Seen{Admitted, 0}]+refused != 2000 {
		t.Errorf("of 2,000 %d were refused at a share of one half", refused)
	}
	for n := range uint16(100) {
		ask(1000, 30000+n, 0, 1) // asks not to be refused
		ask(1000, 31000+n, 4, 0) // another class
	}
	if more := sums(); more[Seen{Refused, 0}] != got[Seen{Refused, 0}] || more[Seen{Refused, 4}] != 0 || more[Seen{Admitted, 4}] != 100 {
		t.Errorf("%v", more)
	}
	for n := range uint16(100) {
		ask(1<<MomentBits+1, 33000+n, 0, 0) // the rate counts no more
	}
	if late := sums(); late[Seen{Refused, 0}] != got[Seen{Refused, 0}] {
		t.Errorf("%d are refused when the rate counts no more", late[Seen{Refused, 0}]-got[Seen{Refused, 0}])
	}

	// The worker reports of requests that took so long: within the objective, in the rest of its bucket, beyond all.
	incarnation, served := uint32(77), uint64(0)
	for n, latency := range []uint64{5, 2000, 2001, 2015, 70_000, 1 << 24} {
		before := sums()
		client, now := uint16(40000+n), uint64(n+2)<<26
		ask(now, client, 4, 0)
		served++
		fb := bed.Feedback{Flags: bed.Pair, N: 1, Incarnation: incarnation, Received: served, Served: served, Client: bed.ClientIP, Port: client, ReqID: client}
		p.pass(uint64(worker.Port), now+latency, bed.Frame(bed.Ends{Src: uint32(number(worker.Address.Addr())), Dst: front, SrcPort: 8000, DstPort: 9000}, fb.Bytes()))
		want := bucketOf(uint32(latency))
		if latency == 2001 || latency == 2015 {
			want = aboveObjective
		}
		after := sums()
		maps.DeleteFunc(after, func(of Seen, n uint64) bool { return of.Kind != InBucket || n == before[of] })
		if len(after) != 1 || after[Seen{InBucket, want}] == 0 {
			t.Errorf("a latency of %d ticks is counted as %v, want bucket %d", latency, after, want)
		}
		if s.Objective.Within(want) != (latency <= 2000) {
			t.Errorf("a latency of %d ticks is on the wrong side of the objective", latency)
		}
	}

	// The clock is that of the last packet.
	var c Clock
	read := func() map[Cell]uint64 {
		out := map[Cell]uint64{}
		for _, cell := range p.info.ClockCells() {
			out[cell] = p.count(cell)
		}
		return out
	}
	c.Read(p.info, read())
	for _, moment := range []uint64{700, 701, 4095} {
		ask(moment<<MomentBits|12345, 50000, 0, 0)
		if got, known := c.Read(p.info, read()); !known || uint64(got) != moment {
			t.Errorf("at moment %d the clock says %d, %v", moment, got, known)
		}
	}
}
