// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// checkRows holds R-108 of a router's rows at any moment: outstanding is what
// was sent and neither done nor lost. Of a worker without counters some may have
// been given up besides.
func checkRows(v *verdict, name string, members []ctl.WorkerState, legacy bool) {
	for _, m := range members {
		owed := max(0, int64(m.Sent-m.Done-m.Lost))
		v.hold(m.Outstanding == owed || legacy && m.Outstanding < owed, "credit",
			"%s counts %d outstanding at %s:%d: sent %d, done %d, lost %d (R-108)", name, m.Outstanding, m.Address, m.Port, m.Sent, m.Done, m.Lost)
	}
}

// watchRows looks at the rows of every router again and again. The function it
// returns ends that and adds what was found to the verdict.
func (r *runner) watchRows() func(*verdict) {
	routers, found := slices.Clone(r.w.routers), &verdict{}
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			for i, p := range routers {
				if st, err := p.State(); err == nil { // it may have been killed
					checkRows(found, fmt.Sprintf("router %d under load", i), st.Members, r.w.v.Legacy)
				}
			}
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return func(v *verdict) {
		close(over)
		running.Wait()
		v.checks += found.checks
		v.failures = append(v.failures, found.failures...)
	}
}

// grown adds up how much a number of a router's rows grew, of all workers or of
// those at one address.
func grown(before, after []ctl.WorkerState, address string, of func(ctl.WorkerState) uint64) (n int64) {
	for i := range after {
		if address == "" || after[i].Address == address {
			n += int64(of(after[i]) - of(before[i]))
		}
	}
	return n
}

func sentOf(m ctl.WorkerState) uint64 { return m.Sent }
func doneOf(m ctl.WorkerState) uint64 { return m.Done }
func lostOf(m ctl.WorkerState) uint64 { return m.Lost }

// checkCredit holds, at rest, that the routers' rows say what happened: sent is
// what was forwarded, done what the servers finished, and lost
// nothing unless the network or a host lost requests, or copied them
// before a router: a worker does not receive the same one twice.
func (w *world) checkCredit(v *verdict, before, after *snapshot, a allowance) {
	all := true
	for i, p := range w.routers {
		name := fmt.Sprintf("router %d", i)
		checkRows(v, name, after.rows[p], w.v.Legacy)
		g, lived := survivor(before, after, p)
		if all = all && lived; lived {
			v.equal("credit", name+": requests its rows say were sent, of those forwarded (R-108)", grown(before.rows[p], after.rows[p], "", sentOf), g.of("router_forwarded_total")-g.of("router_forwarded_unmarked_total"))
		}
		if w.v.Legacy {
			w.checkReclaimed(v, name, after.rows[p], after.process[p])
		}
	}
	for i, p := range w.servers {
		if g, lived := survivor(before, after, p); all && lived && !w.v.Legacy && !w.goServer(i) {
			done, lost := int64(0), int64(0)
			for _, r := range w.routers {
				address := w.v.address(w.v.serverHost(i))
				done += grown(before.rows[r], after.rows[r], address, doneOf)
				lost += grown(before.rows[r], after.rows[r], address, lostOf)
			}
			// A copy counts at its worker; its router takes it for its own request unless it knows better.
			finished, copies := g.of("server_replies_total")+g.of("server_dropped_total"), g.of("server_credits_returned_total", "reason", "unwanted")
			v.hold(done >= finished && done <= finished+copies, "credit", "server %d: routers know of %d requests done, it finished %d and had %d twice (R-109)", i, done, finished, copies)
			v.hold(lost == 0 || a.timeouts || a.overflow || a.doubled, "credit", "routers hold %d requests to server %d to be lost, and nothing was (R-111)", lost, i)
		}
	}
}

// checkReclaimed: R-110, what a worker without counters neither answered nor
// owes was taken back, and counted.
func (w *world) checkReclaimed(v *verdict, name string, members []ctl.WorkerState, counters bed.Samples) {
	back := int64(0)
	for _, m := range members {
		back += int64(m.Sent-m.Done-m.Lost) - m.Outstanding
	}
	v.equal("credit", name+": requests neither done nor outstanding, of the credits it took back (R-110)", back, counters.Sum("router_credits_reclaimed_total"))
}

// strangerPackets is how many FEEDBACK each router gets from a stranger in a
// round that has one, while load runs and again when all is quiet.
const strangerPackets = 40

// strangerCase is under what a router counts them.
const strangerCase = "M-21"

// forgedFeedback says, as a worker that everybody should send to might, that a
// pair is done and everything else as well.
func forgedFeedback(number int, legacy bool) []byte {
	p := []byte{
		0xcc, 8, 0x20, 0xc0, 0, byte(number), 0, 1,
		0, byte(number), 0x1f, 0x40, 10, 119, 7, 1,
		1, 0x04, 0, 64, 0x7f, 0xff, 0xff, 0xff,
		0, 0, 0, 1, 0, 0, 0, byte(number), 0, 0, 0, 1, 0, 0, 0, byte(number),
	}
	if legacy {
		return p[:16]
	}
	return p
}

// stranger sends every router FEEDBACK from where no worker is.
func (w *world) stranger(gap time.Duration) error {
	return bed.Inside(w.net.Namespace(clientHost), func() error {
		for i := range w.v.routers() {
			c, err := net.Dial("udp", net.JoinHostPort(w.v.address(w.v.routerHost(i)), strconv.Itoa(9000)))
			if err != nil {
				return err
			}
			for k := range strangerPackets {
				_, e := c.Write(forgedFeedback(k, w.v.Legacy || k%4 == 0))
				err = errors.Join(err, e)
				time.Sleep(gap)
			}
			if err = errors.Join(err, c.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkStranger. With nothing else under way, what a stranger says
// is counted, and moves no credit.
func (r *runner) checkStranger(v *verdict) {
	before, err := r.w.snapshot()
	v.fail(err)
	v.fail(r.w.stranger(time.Millisecond))
	if len(v.failures) > 0 {
		return
	}
	var after *snapshot
	_, err = bed.Until(patience, func() (err error) {
		if after, err = r.w.snapshot(); err != nil {
			return err
		}
		for i, p := range r.w.routers {
			g := growth{before.process[p], after.process[p]}
			if n := g.of("router_discarded_total", "reason", strangerCase); n < strangerPackets {
				return fmt.Errorf("router %d discarded %d of %d FEEDBACK of a stranger", i, n, strangerPackets)
			}
		}
		return nil
	})
	v.hold(err == nil, "stranger", "%v (R-114)", err)
	for i, p := range r.w.routers {
		sameCredit(v, fmt.Sprintf("router %d", i), before.rows[p], after.rows[p])
	}
}

// sameCredit holds that no row moved. n may: workers grant more when they have
// not heard of another router for a second, but never more than they have.
func sameCredit(v *verdict, name string, before, after []ctl.WorkerState) {
	for k, m := range after {
		was := before[k]
		same := m.Sent == was.Sent && m.Done == was.Done && m.Lost == was.Lost && m.Outstanding == was.Outstanding && m.Incarnation == was.Incarnation && m.N <= depth
		v.hold(same, "stranger", "%s, worker %s:%d: sent %d, done %d, lost %d, outstanding %d, n %d after FEEDBACK of a stranger, %d, %d, %d, %d, %d before (R-54)",
			name, m.Address, m.Port, m.Sent, m.Done, m.Lost, m.Outstanding, m.N, was.Sent, was.Done, was.Lost, was.Outstanding, was.N)
	}
}
