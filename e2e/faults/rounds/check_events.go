// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// incarnations of every worker as each router knows them.
func (r *runner) incarnations() (map[string]uint64, error) {
	known := map[string]uint64{}
	for i, p := range r.w.routers {
		st, err := p.State()
		if err != nil {
			return nil, err
		}
		for _, m := range st.Members {
			known[fmt.Sprintf("router %d, worker %s:%d", i, m.Address, m.Port)] = m.Incarnation
		}
	}
	return known, nil
}

// played is what a round saw.
type played struct {
	h             *happening
	before, after *snapshot
	loads         []*load
	lives         map[string]uint64 // incarnations before the faults
}

// checkEvents holds what each event must have been answered with.
func (r *runner) checkEvents(v *verdict, p *plan, saw played) {
	for _, e := range p.events {
		switch e.kind {
		case killServer, drainServer, drainServers:
			r.checkNewLife(v, saw.h, saw.lives)
		case pauseServer:
			r.checkSuspicion(v, saw.before, saw.after)
		case stopFailover:
			r.checkFailover(v, saw.loads[0])
		case halfOpen:
			r.checkAnswered(v, saw.loads)
		}
	}
}

// checkNewLife: R-112, a router takes a new incarnation, which is greater.
func (r *runner) checkNewLife(v *verdict, h *happening, lives map[string]uint64) {
	if r.w.v.Legacy {
		return // the short FEEDBACK names no incarnation
	}
	for server := range h.restarted {
		for i, p := range r.w.routers {
			st, err := p.State()
			if err != nil {
				v.fail(err)
				return
			}
			for _, m := range st.Members {
				key := fmt.Sprintf("router %d, worker %s:%d", i, m.Address, m.Port)
				if m.Address == r.w.v.address(r.w.v.serverHost(server)) {
					v.hold(int32(uint32(m.Incarnation)-uint32(lives[key])) > 0, "new life", "%s has incarnation %d, had %d (R-112)", key, m.Incarnation, lives[key])
				}
			}
		}
	}
}

// checkSuspicion: R-138, each router that lived suspected the silent worker and
// took it back. Workers without the long FEEDBACK are silent when idle, and never
// suspected.
func (r *runner) checkSuspicion(v *verdict, before, after *snapshot) {
	for i, p := range r.w.routers {
		if g, ok := survivor(before, after, p); ok {
			if r.w.v.Legacy {
				continue
			}
			suspected := g.of("router_worker_events_total", "event", "suspected")
			back := g.of("router_worker_events_total", "event", "readmitted")
			v.hold(suspected > 0 && back > 0, "suspected", "router %d suspected %d workers and took %d back while one was silent for more than T_dead (R-138)", i, suspected, back)
		}
	}
}

// checkFailover: a socket leaves a router after three timeouts in a row.
func (r *runner) checkFailover(v *verdict, l *load) {
	if r.w.v.Legacy {
		return // one router: there is nowhere to go, and each request times out while it stands
	}
	most, at := failoverTimeouts(l)
	r.total.failover = max(r.total.failover, most)
	v.hold(most <= 3, "fail-over", "%s had %d timeouts in a row, 3 should make it leave", at, most)
	v.hold(most > 0, "fail-over", "no request met the stopped router")
	v.hold(l.RouterMoves > 0, "fail-over", "no socket moved")
	last := map[int]outcome{}
	for _, o := range l.outcomes {
		last[o.port] = o
	}
	for port, o := range last {
		v.hold(o.result == "answered", "fail-over", "the last request of port %d ended by %s at %s", port, o.result, o.router)
	}
}

// checkGrants, what the routers may send to one worker together is
// never more than its n while both are heard.
func (r *runner) checkGrants(v *verdict) {
	if r.w.v.Legacy {
		return
	}
	_, err := bed.Until(patience, func() error {
		n := map[string]int{}
		for _, p := range r.w.routers {
			st, err := p.State()
			if err != nil {
				return err
			}
			for _, m := range st.Members {
				n[fmt.Sprintf("%s:%d", m.Address, m.Port)] += m.N
			}
		}
		for worker, sum := range n {
			if sum > depth {
				return fmt.Errorf("%s grants %d to both routers together, has %d", worker, sum, depth)
			}
		}
		return nil
	})
	v.hold(err == nil, "shares", "under load from both routers: %v (R-137)", err)
}
