// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/e2e/faults/shim"
)

// capacity is what all workers do per second, going by their service time.
const capacity = float64(time.Second/fastService) * servers * workers

// totals of a run.
type totals struct {
	rounds, clean                   int
	requests, endedTwice, lostSight int64
	checks                          int
	faults                          map[string]int64
	failover                        int
	creditsBack                     time.Duration // longest wait beyond the idle second
	capacityRatio                   float64       // lowest after over before
	unanswered                      float64       // largest share of a load beside half-open requests
	sanitizers                      []string
	filesGrown                      int
	rssGrown                        int // KiB, the most of any process between two quiet moments
}

// runner runs rounds in one world.
type runner struct {
	w      *world
	total  *totals
	offset map[string]int64
	burst  time.Duration // of the last burst, the measure of capacity
	files  map[*bed.Process]int
	rss    map[*bed.Process]int
}

// calm is load without faults: every request must be answered; then a burst
// in which every worker must do its share, so that no credit can be missing.
func (r *runner) calm(v *verdict, seed uint64) []*load {
	small, err := r.w.runLoad(shape{name: "calm", rate: 250, seconds: 0.6, bytes: 64, sockets: 4, timeout: 20 * time.Second}, seed)
	if err != nil {
		v.fail(err)
		return nil
	}
	loads, err := r.bursts(seed ^ 1)
	v.fail(err)
	loads = append([]*load{small}, loads...)
	for _, l := range loads {
		v.equal("whole again", l.name+": requests answered, of those offered", int64(l.Completed), int64(l.Offered))
	}
	return loads
}

// bursts are as many as it takes, three at most, until one is served within twice
// the time of the last round's: what a machine that had no processor for them
// cannot be told from missing capacity by a single one.
func (r *runner) bursts(seed uint64) (loads []*load, err error) {
	s := shape{name: "burst", rate: 2 * capacity, seconds: 0.2, bytes: 64, sockets: 8, timeout: 20 * time.Second, fixed: true}
	var best time.Duration
	for i := range uint64(3) {
		l, err := r.w.runLoad(s, seed+i<<32)
		if err != nil {
			return loads, err
		}
		loads = append(loads, l)
		if best == 0 || l.span() < best {
			best = l.span()
		}
		if best <= 2*r.burst || r.burst == 0 {
			break
		}
	}
	if r.burst != 0 {
		ratio := float64(r.burst) / float64(best)
		if r.total.capacityRatio == 0 || ratio < r.total.capacityRatio {
			r.total.capacityRatio = ratio
		}
	}
	r.burst = best
	return loads, nil
}

// checkShares holds that in a burst every worker did at least half of an equal
// part: one that lacks credits cannot.
func (r *runner) checkShares(v *verdict, burst *load, done []execution) {
	sent, part := map[string]bool{}, map[string]int{}
	for _, o := range burst.outcomes {
		sent[o.serial] = true
	}
	for _, e := range done {
		if sent[e.serial] {
			part[e.life+" "+e.worker]++
		}
	}
	least := len(burst.outcomes) / (servers * workers) / 2
	v.equal("whole again", "workers that had a part in the burst", int64(len(part)), servers*workers)
	for worker, n := range part {
		v.hold(n >= least, "whole again", "%s did %d requests of the burst, %d would be half of an equal part", worker, n, least)
	}
}

// underFaults runs load while the plan happens and heals everything at the end.
func (r *runner) underFaults(v *verdict, p *plan, seed uint64) ([]*load, *happening) {
	w := r.w
	shapes := []shape{
		{name: "small", rate: 250, seconds: faultSeconds, bytes: 64, sockets: 4, timeout: 1500 * time.Millisecond, goPeer: w.v.Go},
		{name: "large", rate: 20, seconds: faultSeconds, bytes: 5000, sockets: 2, timeout: 1500 * time.Millisecond},
	}
	if p.has(stopFailover) {
		shapes = []shape{{name: "paced", rate: 8, seconds: 5.5, bytes: 64, sockets: 4, timeout: 400 * time.Millisecond, fixed: true}}
	}
	if p.has(drainServers) {
		shapes[0].rate = 400 // so that most servers have work when they are told to go
		shapes[0].seconds = drainSeconds
	}
	for i := range shapes {
		switch {
		case !p.allow.timeouts:
			shapes[i].timeout = 20 * time.Second // nothing is lost, so the machine may take its time
		case p.theme == string(overload):
			shapes[i].timeout = overloadTimeout // each DROP is to end a request, also one that a busy machine sends late
		}
	}
	var loads []*load
	watched := r.watchRows()
	defer watched(v)
	w.net.Shim.SetRules(p.rules...)
	for i, s := range shapes {
		l, err := w.startLoad(s, seed+uint64(i))
		v.fail(err)
		if err == nil {
			loads = append(loads, l)
		}
	}
	h := w.happen(p, seed)
	if p.theme == "reorder" {
		time.Sleep(time.Second) // both routers have been heard by then
		r.checkGrants(v)
	}
	for _, l := range loads {
		v.fail(l.finish())
	}
	for _, err := range h.finish() {
		v.fail(err)
	}
	w.net.Shim.Heal()
	return append(loads, h.loads...), h
}

// settle waits for a quiet time and then for what must be true after it. How
// much longer it took is reported, since a busy machine runs timers late; that it
// becomes true is required.
func (r *runner) settle(v *verdict, quiet time.Duration) *snapshot {
	_, err := bed.Until(patience, func() error {
		if n := r.w.net.Shim.Counts().Waiting; n != 0 {
			return fmt.Errorf("%d packets wait in the shim", n)
		}
		return nil
	})
	v.fail(err)
	time.Sleep(quiet)
	took, err := bed.Until(patience, r.w.whole)
	v.hold(err == nil, "whole again", "after %v of quiet and %v more: %v", quiet, took, err)
	r.total.creditsBack = max(r.total.creditsBack, took)
	s, err := r.w.snapshot()
	v.fail(err)
	return s
}

// round runs one theme with one seed.
func (r *runner) round(theme string, seed uint64) *verdict {
	v := &verdict{}
	p := draw(r.w.v, theme, seed)
	r.w.net.Shim.Reset(seed)
	before := r.settle(v, 0) // calm load came before
	lives, err := r.incarnations()
	v.fail(err)
	loads, h := r.underFaults(v, &p, seed)
	after := r.settle(v, time.Second)
	if before == nil || after == nil {
		return v
	}
	done, err := r.executionsSince()
	v.fail(err)
	for _, l := range loads {
		r.checkLoad(v, l, p.allow)
	}
	r.checkExecutions(v, loads, done, p.allow)
	r.checkCounters(v, before, after, done, p.allow)
	r.w.checkCredit(v, before, after, p.allow)
	r.w.checkRepairs(v, before, after, loads, p.allow)
	r.w.checkDrops(v, &p, before, after, loads)
	r.checkEvents(v, &p, played{h, before, after, loads, lives})
	r.realised(&after.shim)
	if p.has(stranger) {
		r.checkStranger(v)
	}
	r.checkCalm(v, seed)
	r.checkProcesses(v)
	v.hold(len(v.failures) > 0 || r.realisedAny(&p, &after.shim), "bed", "no fault of %s came about", p.theme)
	return v
}

// checkCalm is the calm load after the faults.
func (r *runner) checkCalm(v *verdict, seed uint64) {
	loads := r.calm(v, seed)
	done, err := r.executionsSince()
	v.fail(err)
	for _, l := range loads {
		r.checkLoad(v, l, allowance{})
	}
	r.checkExecutions(v, loads, done, allowance{})
	if len(loads) >= 2 {
		r.checkShares(v, loads[1], done)
	}
}

// realised adds up what the shim really did.
func (r *runner) realised(c *shim.Counts) {
	for _, k := range shim.Kinds() {
		r.total.faults[k.String()] += int64(c.Total(k))
	}
}

// realisedAny: a round whose rules met no packet shows nothing.
func (r *runner) realisedAny(p *plan, c *shim.Counts) bool {
	for _, e := range p.events {
		r.total.faults[string(e.kind)]++
	}
	return len(p.events) > 0 || c.String() != ""
}

// checkProcesses holds that nobody who should run has ended, and that file
// descriptors and memory did not grow since the last round.
func (r *runner) checkProcesses(v *verdict) {
	for _, p := range r.w.processes() {
		if !p.Running() {
			v.hold(false, "alive", "%s ended:\n%s", p.Name, bed.Tail(p.Log, 30))
			continue
		}
		_, err := p.State() // our own connection is one of its files
		v.fail(err)
		files, rss := p.Files(), p.RSS()
		if was, ok := r.files[p]; ok {
			r.total.filesGrown = max(r.total.filesGrown, files-was)
			v.hold(files <= was, "leaks", "%s has %d files open, %d a round ago", p.Name, files, was)
			r.total.rssGrown = max(r.total.rssGrown, rss-r.rss[p])
		}
		r.files[p], r.rss[p] = files, rss
	}
}

// reports looks for sanitizer reports in every log.
func (w *world) reports() (found []string, err error) {
	for log := range w.logs {
		lines, e := bed.SanitizerReports(log)
		err = errors.Join(err, e)
		for _, l := range lines {
			found = append(found, log+": "+l)
		}
	}
	return found, err
}
