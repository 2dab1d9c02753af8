// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
)

// admits is the shipped program with what the operator writes of a service with an objective.
type admits struct {
	programmed
	service Service
	place   Place
	served  uint64
}

func newAdmits(t *testing.T) *admits {
	t.Helper()
	a := &admits{programmed: newProgrammed(t, "router"), service: service("a", ByTurn, 1, workers(1, 1))}
	a.service.Objective = Objective{Latency: 2000, Per100k: 99000, Until: 1 << MomentBits}
	a.service.Objective.Shares[0] = 1 << 15
	places, refused := Allocate(nil, []Service{a.service}, a.info)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	a.place = places["a"]
	entries, err := a.info.ServiceEntries(a.service, a.place)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := a.info.Entries(Fabric{Ports: []uint32{1, 2}, Pool: []netip.Prefix{netip.PrefixFrom(a.service.Address.Addr(), 32)}, MAC: a.service.OwnMAC})
	if err != nil {
		t.Fatal(err)
	}
	a.hold(nil, append(wanted, entries...))
	return a
}

func (a *admits) sums() map[Seen]uint64 {
	out := map[Seen]uint64{}
	for cell, of := range a.info.MeasuredCells(a.place) {
		out[of] += a.count(cell)
	}
	return out
}

// ask is a request at a time of the switch's.
func (a *admits) ask(now uint64, client uint16, class, flags uint8) {
	payload := bed.Request(client, []byte("question"))
	if class > 0 || flags > 0 {
		payload = bed.Asking(payload, class, flags)
	}
	a.pass(9, now, bed.Frame(bed.Ends{Src: bed.ClientIP, Dst: uint32(number(a.service.Address.Addr())), SrcPort: client, DstPort: 8000}, payload))
}

// answer is the FEEDBACK of the worker, which names the request.
func (a *admits) answer(now uint64, client uint16) {
	a.served++
	w := a.service.Workers[0]
	fb := bed.Feedback{Flags: bed.Pair, N: 1, Incarnation: 77, Received: a.served, Served: a.served, Client: bed.ClientIP, Port: client, ReqID: client}
	a.pass(uint64(w.Port), now, bed.Frame(bed.Ends{Src: uint32(number(w.Address.Addr())), Dst: uint32(number(a.service.Address.Addr())), SrcPort: 8000, DstPort: 9000}, fb.Bytes()))
}

// What the operator writes has the program refuse the share of a class, as long as it counts, and nobody else.
func TestRatesOnTheProgram(t *testing.T) {
	a := newAdmits(t)
	for n := range uint16(2000) {
		a.ask(1000, 20000+n, 0, 0)
	}
	got := a.sums()
	if refused := got[Seen{Refused, 0}]; refused < 850 || refused > 1150 || got[Seen{Admitted, 0}]+refused != 2000 {
		t.Errorf("of 2,000 %d were refused at a share of one half", refused)
	}
	for n := range uint16(100) {
		a.ask(1000, 30000+n, 0, 1) // asks not to be refused
		a.ask(1000, 31000+n, 4, 0) // another class
	}
	if more := a.sums(); more[Seen{Refused, 0}] != got[Seen{Refused, 0}] || more[Seen{Refused, 4}] != 0 || more[Seen{Admitted, 4}] != 100 {
		t.Errorf("%v", more)
	}
	for n := range uint16(100) {
		a.ask(1<<MomentBits+1, 33000+n, 0, 0) // the rate counts no more
	}
	if late := a.sums(); late[Seen{Refused, 0}] != got[Seen{Refused, 0}] {
		t.Errorf("%d are refused when the rate counts no more", late[Seen{Refused, 0}]-got[Seen{Refused, 0}])
	}
}

// Each latency is counted in the bucket of the operator's: within the objective, in the rest of its bucket, beyond all (R-206,
//
func TestLatenciesOnTheProgram(t *testing.T) {
	a := newAdmits(t)
	for n, latency := range []uint64{5, 2000, 2001, 2015, 70_000, 1 << 24} {
		before := a.sums()
		client, now := uint16(40000+n), uint64(n+2)<<26
		a.ask(now, client, 4, 0)
		a.answer(now+latency, client)
		want := bucketOf(uint32(latency))
		if latency == 2001 || latency == 2015 {
			want = aboveObjective
		}
		after := a.sums()
		maps.DeleteFunc(after, func(of Seen, n uint64) bool { return of.Kind != InBucket || n == before[of] })
		if len(after) != 1 || after[Seen{InBucket, want}] == 0 {
			t.Errorf("a latency of %d ticks is counted as %v, want bucket %d", latency, after, want)
		}
		if a.service.Objective.Within(want) != (latency <= 2000) {
			t.Errorf("a latency of %d ticks is on the wrong side of the objective", latency)
		}
	}
}

// The operator's clock is that of the last packet (W-10).
func TestClockOnTheProgram(t *testing.T) {
	a := newAdmits(t)
	var c Clock
	read := func() map[Cell]uint64 {
		out := map[Cell]uint64{}
		for _, cell := range a.info.ClockCells() {
			out[cell] = a.count(cell)
		}
		return out
	}
	c.Read(a.info, read())
	for _, moment := range []uint64{700, 701, 4095} {
		a.ask(moment<<MomentBits|12345, 50000, 0, 0)
		if got, known := c.Read(a.info, read()); !known || uint64(got) != moment {
			t.Errorf("at moment %d the clock says %d, %v", moment, got, known)
		}
	}
}
