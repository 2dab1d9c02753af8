// SPDX-License-Identifier: Apache-2.0

package r2p2

import "time"

// Replies leave together when their requests came together and are short: a
// reply that is ready waits while the next request is executed, if handlers have
// been done at once lately, and never for long.
const (
	runBrief    = 20 * time.Microsecond  // a handler that takes less is done at once
	runTogether = 50 * time.Microsecond  // replies wait while requests of so long are executed,
	runAtMost   = 100 * time.Microsecond // and leave then though a handler still runs
)

// runs is what executeLoop knows; guard alone is used by others.
type runs struct {
	took  time.Duration // the newest handler
	since time.Time     // the oldest reply waits; zero: none does
	guard *time.Timer   // sends them though a handler takes its time

	reply  []byte // the newest of one packet
	single [1][]byte
}

// executeLoop runs one request at a time: a worker is one unit of service.
func (w *worker) executeLoop() {
	for {
		select {
		case <-w.server.ctx.Done():
			return
		case p := <-w.queue:
			w.execute(p)
			w.afterRun()
		}
	}
}

// afterRun sends the replies that wait, or leaves them for after the next request.
func (w *worker) afterRun() {
	r := &w.runs
	if len(w.queue) > 0 && r.took < runBrief {
		now := time.Now()
		if r.since.IsZero() {
			r.since = now
			r.guard.Reset(runAtMost)
		}
		if now.Sub(r.since) < runTogether {
			return
		}
	}
	if !r.since.IsZero() {
		r.guard.Stop()
		r.since = time.Time{}
	}
	w.depart()
}

// depart sends what waits, and notes how long the requests of its replies took.
func (w *worker) depart() {
	w.out.flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, begun := range w.replied {
		w.server.latency.Record(time.Since(begun))
	}
	w.replied = w.replied[:0]
}
