// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Copies are taken back at a load at which most workers are idle, then, to make room,
// at one at which copies keep the others busy.
var takenBack = []struct {
	cancellation string
	rate         int
}{{"Answered", 900}, {"Preemptive", 1800}}

const (
	takenBackFor = 8 * time.Second
	// atRest is when the last FEEDBACK has come, and sidecars have read it.
	atRest = 2 * time.Second
	// leastHonoured is the share of CANCELs that end what they name. The rest comes
	// too late: its copy has just ended by itself.
	leastHonoured = 0.5
)

// cancels sends copies of every request it may, and takes them back.
func (s *Suite) cancels(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "spec.hedging LoadAware, cancellation Answered, then Preemptive: copies are sent, and taken back", Cost: "50 s",
		Cause: "kubectl -n " + Namespace + " get rpcsvc " + Service + " -o yaml; metrics bobtail_router_cancels_total, bobtail_server_cancels_total"},
		func(ctx context.Context) error {
			var errs []error
			for _, t := range takenBack {
				errs = append(errs, s.takeBack(ctx, t.cancellation, t.rate))
			}
			return errors.Join(append(errs, s.hedge(ctx, "null"))...)
		})
}

func (s *Suite) takeBack(ctx context.Context, cancellation string, rate int) error {
	hedging := fmt.Sprintf(`{"mode": "LoadAware", "busyPercent": 100, "cancellation": %q, "probePerMillion": 0}`, cancellation)
	if err := s.hedge(ctx, hedging); err != nil {
		return err
	}
	before, err := s.counted(ctx)
	if err != nil {
		return err
	}
	job := load("taken-back", rate, 0, takenBackFor)
	job.Warmup = 0 // every request counts
	if err := s.Env.StartLoad(ctx, job); err != nil {
		return err
	}
	result, err := s.Env.FinishLoad(ctx, job)
	if err := errors.Join(err, pause(ctx, atRest)); err != nil {
		return err
	}
	after, err := s.counted(ctx)
	if err != nil {
		return err
	}
	return s.judgeCancels(cancellation, result, tallyOf(before, after))
}

// counted are the counters of routers and servers; their names differ.
func (s *Suite) counted(ctx context.Context) (harness.Counts, error) {
	all := harness.Counts{}
	for _, component := range []string{"router", "server"} {
		one, err := s.Env.Counts(ctx, Namespace, Service, component)
		if err != nil {
			return nil, err
		}
		for name, v := range one {
			all[name] += v
		}
	}
	return all, all.Lacks("bobtail_router_forwarded_total", "bobtail_router_hedges_total", "bobtail_router_hedge_completions_total", "bobtail_router_cancels_total",
		"bobtail_router_preemptions_total", "bobtail_worker_sent_total", "bobtail_worker_done_total", "bobtail_worker_lost", "bobtail_worker_outstanding",
		"bobtail_server_requests_total", "bobtail_server_replies_total", "bobtail_server_cancels_total")
}

// tally is what one load made of the counters.
type tally struct {
	requests, copies              float64 // that the routers forwarded
	late                          float64 // completions after the first
	cancels, honoured, tooLate    float64 // by the routers
	unheard, preempted            float64
	letGo, kept                   float64 // by the servers
	sent, done, lost, outstanding float64 // of workers, as the routers count
	taken, replies                float64 // by the servers
}

func tallyOf(before, after harness.Counts) tally {
	d := after.Since(before)
	cancels := func(result string) float64 { return d[`bobtail_router_cancels_total{result="`+result+`"}`] }
	outcome := func(what string) float64 { return d[`bobtail_server_cancels_total{outcome="`+what+`"}`] }
	return tally{
		requests: d["bobtail_router_forwarded_total"], copies: d[`bobtail_router_hedges_total{result="sent"}`],
		late:    d[`bobtail_router_hedge_completions_total{result="late"}`],
		cancels: cancels("sent"), honoured: cancels("honoured"), tooLate: cancels("too_late"), unheard: cancels("unheard"),
		preempted: d["bobtail_router_preemptions_total"], letGo: outcome("removed") + outcome("stopped"), kept: outcome("kept"),
		sent: d["bobtail_worker_sent_total"], done: d["bobtail_worker_done_total"], lost: d["bobtail_worker_lost"],
		outstanding: after["bobtail_worker_outstanding"], taken: d["bobtail_server_requests_total"], replies: d["bobtail_server_replies_total"],
	}
}

func (s *Suite) judgeCancels(cancellation string, r harness.LoadResult, t tally) error {
	s.Steps.Say("     %s: sent %d, answered %d, p50 %.1f ms, p99 %.1f ms at the client; %.0f copies", cancellation, r.Sent, r.Completed,
		r.Percentile("50")/1000, r.Percentile("99")/1000, t.copies)
	s.Steps.Say("     CANCELs of the routers %.0f (%.0f to make room): %.0f honoured, %.0f too late, %.0f unheard; servers let go of %.0f; %.0f second answers",
		t.cancels, t.preempted, t.honoured, t.tooLate, t.unheard, t.letGo, t.late)
	s.Steps.Say("     at rest: %.0f requests to workers, FEEDBACK of %.0f, %.0f lost, %.0f outstanding; servers took %.0f, answered %.0f",
		t.sent, t.done, t.lost, t.outstanding, t.taken, t.replies)
	name := "e2e_cancel_" + map[bool]string{true: "preemptive", false: "answered"}[cancellation == "Preemptive"]
	s.Got.SetFinite(name+"_honoured_share", t.honoured/math.Max(1, t.cancels))
	s.Got.Set(name+"_requests_failed", r.Failed())
	return t.judge(cancellation, r)
}

// judge holds the counters of clients, routers and servers against each other.
func (t tally) judge(cancellation string, r harness.LoadResult) error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(cancellation+": "+format, args...))
		}
	}
	same := func(what string, got, wanted float64) { want(got == wanted, "%s: %.0f, want %.0f", what, got, wanted) }
	want(r.Sent > 0 && r.Completed == r.Sent, "of %d requests %d were answered", r.Sent, r.Completed)
	same("requests that the routers forwarded, as sent", t.requests, float64(r.Sent))
	same("requests sent to workers, as forwarded and copied", t.sent, t.requests+t.copies)
	same("requests that servers took", t.taken, t.sent)
	same("FEEDBACK, one for each", t.done, t.sent)
	same("lost", t.lost, 0)
	same("outstanding at rest", t.outstanding, 0)
	want(t.copies > 0 && t.cancels > 0, "%.0f copies, %.0f CANCELs: nothing was tried", t.copies, t.cancels)
	want(t.honoured >= leastHonoured*t.cancels, "%.0f of %.0f CANCELs were honoured", t.honoured, t.cancels)
	same("CANCELs that ended, as sent", t.honoured+t.tooLate, t.cancels)
	same("CANCELs unheard", t.unheard, 0)
	same("copies that servers let go of, as routers heard", t.letGo, t.honoured)
	same("requests that servers kept", t.kept, 0)
	same("answers, one of each execution not taken back", t.replies, t.sent-t.honoured)
	same("second answers, all others being the first", t.late, t.replies-t.requests)
	want(cancellation != "Preemptive" || t.preempted > 0, "no copy made room for a request")
	want(cancellation == "Preemptive" || t.preempted == 0, "%.0f copies made room for requests", t.preempted)
	return errors.Join(errs...)
}
