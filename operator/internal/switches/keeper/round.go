// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// round is the life of one charge. Nothing of it is shared.
type round struct {
	keeper *Keeper
	name   string
	charge *charge

	session  *link.Session
	identity string // of the target that session is with
	opened   uint64 // sessions so far: a part of the election id
	term     Term
	failures int
	written  map[string]bool
	// settled: the switch held what is wanted, so what is missing later has been lost.
	settled string
	// places is where services stand, so that what is lost comes back where it was.
	places switches.Places
	next   int // row
	// numbers are those of VIPs, or of groups.
	numbers switches.Numbers
	runs    plannedRuns
	tally   tally
	gauge   gauge
	helms   helms
	// uncounted: the switch lets nobody read its counters.
	uncounted bool
	refused   refusal
	state     State
}

// refusal is of the pipeline that was refused last.
type refusal struct {
	cookie uint64
	fault  *link.Fault
	until  time.Time
}

func (r *round) run(ctx context.Context) {
	defer r.close()
	for ctx.Err() == nil {
		d := r.charge.wanted()
		fault := r.once(ctx, d)
		if ctx.Err() != nil {
			return
		}
		r.state.Generation, r.state.Fault = d.Generation, fault
		if fault != nil {
			r.state.Settled, r.state.Cleared = false, false
		}
		r.state.Connected = r.session != nil && r.session.Ended() == nil
		if r.charge.publish(r.state) && r.keeper.Notify != nil {
			r.keeper.Notify(r.name)
		}
		r.wait(ctx, fault)
	}
}

// breath is the least time between two rounds.
const breath = 10 * time.Millisecond

// wait for the next round: news, or time.
func (r *round) wait(ctx context.Context, fault *link.Fault) {
	pause := r.keeper.Period
	if r.session == nil {
		pause = min(r.keeper.First<<min(r.failures, 16), r.keeper.Longest)
	}
	if fault == nil {
		r.failures = 0
	}
	select { // a switch that has much to say is not listened to more often
	case <-ctx.Done():
		return
	case <-time.After(breath):
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var told <-chan struct{}
	if r.session != nil {
		told = r.session.News()
	}
	for {
		steer, stop := r.steerAgain(fault)
		select {
		case <-steer:
			if r.steer(ctx) {
				continue
			}
		case <-ctx.Done():
		case <-timer.C:
		case <-told:
		case <-r.charge.news:
		}
		stop()
		return
	}
}

func (r *round) close() {
	if r.session != nil {
		r.session.Close()
		r.session = nil
	}
	r.state.Role = link.Role{}
}

// once brings the switch one round further.
func (r *round) once(ctx context.Context, d Desired) *link.Fault {
	if fault := r.connect(ctx, d); fault != nil {
		return fault
	}
	r.state.Role = r.session.Role()
	if !r.state.Role.Primary {
		return link.Faultf(link.Backup, "another controller is primary, with election id %s above ours, %s", r.state.Role.Other, r.state.Role.Election)
	}
	fault := r.program(ctx, d)
	if fault == nil {
		return nil
	}
	switch fault.Kind {
	case link.Refused, link.Fixed, link.Full, link.Empty, link.Fenced:
	default: // whatever state the connection is in, a new one is in a better
		r.failures++
		r.close()
	}
	return fault
}

// connect sees to a session with the target that is meant, in the term that is.
func (r *round) connect(ctx context.Context, d Desired) *link.Fault {
	term, err := r.keeper.Term(ctx)
	if err != nil || term.Over(r.keeper.Now()) {
		r.close()
		r.failures++
		if err != nil {
			return link.Faultf(link.Fenced, "this operator does not know that it leads: %v", err)
		}
		return link.Faultf(link.Fenced, "this operator does not lead any more")
	}
	if r.session != nil && (r.identity != d.Identity || r.session.Ended() != nil || term.Number != r.term.Number) {
		r.close()
	}
	if term.Number != r.term.Number {
		r.opened = 0
	}
	r.term = term
	if r.session != nil {
		return nil
	}
	r.opened++
	session, err := link.Open(ctx, d.Target, link.ElectionOf(term.Number, r.opened), r.keeper.Patience)
	if err != nil {
		r.failures++
		return link.FaultOf(err)
	}
	r.session, r.identity, r.uncounted = session, d.Identity, false
	return nil
}

// program has the pipeline run, and the tables hold what is wanted.
func (r *round) program(ctx context.Context, d Desired) *link.Fault {
	if goOn, fault := r.pipeline(ctx, d); !goOn {
		return fault
	}
	diff, fault := r.compare(ctx, d)
	if fault != nil {
		return fault
	}
	if diff.Settled() {
		return r.count(ctx, d)
	}
	if fault := r.count(ctx, d); fault != nil { // where new places begin
		return fault
	}
	lost := r.settled == d.standing() && !d.Clear
	for _, step := range diff.Steps {
		if fault := r.write(ctx, step); fault != nil {
			return fault
		}
	}
	if lost {
		r.state.Repaired += int64(diff.Missing + diff.Changed)
	}
	diff, fault = r.compare(ctx, d)
	if fault == nil && len(diff.Steps) > 0 {
		n := diff.Missing + diff.Changed + diff.Stale
		return link.Faultf(link.Broken, "the switch took every write, and %d entries are still not as they were written", n)
	}
	if fault != nil {
		return fault
	}
	return r.count(ctx, d) // before anybody is sent there
}

// compare reads everything back.
func (r *round) compare(ctx context.Context, d Desired) (switches.Difference, *link.Fault) {
	read, err := r.session.Read(ctx, d.Pipeline.Info)
	if err != nil {
		return switches.Difference{}, link.FaultOf(err)
	}
	wanted, plan := d.Wanted, switches.Plan{}
	if d.Clear {
		wanted = nil
	} else {
		plan = r.plan(d, ours(read.Entries, d.Tag, r.written))
		wanted = slices.Concat(wanted, plan.Entries)
	}
	if read.NoGroups && slices.ContainsFunc(wanted, func(e switches.Entry) bool { return e.Table() == switches.Groups }) {
		return switches.Difference{}, link.Faultf(link.Refused, "the switch knows no multicast groups, and %s asks for some", r.name)
	}
	diff := switches.Compare(wanted, read.Entries, switches.Owner{Tag: d.Tag, Written: r.written}, d.Ranks)
	r.state.Used, r.state.Strange, r.state.Strangers, r.state.Contested = diff.Used, diff.Strange+read.Outside, diff.Strangers, diff.Contested
	r.state.Settled = diff.Settled() && !d.Clear
	r.state.Cleared = diff.Settled() && d.Clear
	if diff.Settled() {
		r.settled = d.standing()
		for _, e := range wanted {
			r.written[e.String()] = true
		}
	}
	r.placed(d, plan, diff.Settled())
	return diff, nil
}

// plan places what the program of the pipeline is there for.
func (r *round) plan(d Desired, held []switches.Entry) switches.Plan {
	if d.Pipeline.Info.Program() == switches.ProgramCRAB {
		balance := d.Pipeline.Info.PlanVIPs(r.numbers, held, d.VIPs)
		r.numbers = balance.Numbers
		return switches.Plan{Entries: balance.Entries, Refused: balance.Refused}
	}
	if d.Pipeline.Info.Program() == switches.ProgramAggregator {
		groups := d.Pipeline.Info.PlanGroups(r.numbers, held, d.Groups)
		r.numbers = groups.Numbers
		return switches.Plan{Entries: groups.Entries, Refused: groups.Refused}
	}
	if d.Pipeline.Info.Program() == switches.ProgramBox {
		boxes := d.Pipeline.Info.PlanBoxes(r.numbers, held, d.Boxes)
		r.numbers = boxes.Numbers
		return switches.Plan{Entries: boxes.Entries, Refused: boxes.Refused}
	}
	if d.Pipeline.Info.Program() == switches.ProgramSLOG {
		runs := r.runs.of(d)
		return switches.Plan{Entries: runs.Entries, Refused: runs.Refused}
	}
	return d.Pipeline.Info.PlanServices(r.places, held, r.helms.steered(d.Services), r.next)
}

// guests are who is served, each with the version that is asked for.
func (d Desired) guests() map[string]string {
	out := map[string]string{}
	for _, s := range d.Services {
		out[s.Name] = s.Version
	}
	for _, v := range d.VIPs {
		out[v.Name] = v.Version
	}
	for _, v := range d.Runs {
		out[v.Name] = v.Version
	}
	for _, g := range d.Groups {
		out[g.Name] = g.Version
	}
	for _, b := range d.Boxes {
		out[b.Name] = b.Version
	}
	return out
}

// standing names what is wanted.
func (d Desired) standing() string { return fmt.Sprintf("%d %s", d.Generation, d.Revision) }

// ours leaves out what somebody else has put into tables of services: it stands nowhere.
func ours(held []switches.Entry, tag []byte, written map[string]bool) []switches.Entry {
	return slices.DeleteFunc(slices.Clone(held), func(e switches.Entry) bool { return !e.Of(tag) && !written[e.String()] })
}

// placed keeps what a plan says: from its first entry on, places are taken.
func (r *round) placed(d Desired, plan switches.Plan, whole bool) {
	r.places, r.next = plan.Places, plan.Next
	states := map[string]ServiceState{}
	for name, version := range d.guests() {
		state := ServiceState{Version: r.state.Services[name].Version, Refused: plan.Refused[name]}
		if whole && state.Refused == "" && !d.Clear {
			state.Version = version
		}
		states[name] = state
	}
	r.state.Services = states
}

// write sends one step; what others point at must be there before they are sent.
func (r *round) write(ctx context.Context, step []switches.Write) *link.Fault {
	if r.term.Over(r.keeper.Now()) {
		return link.Faultf(link.Fenced, "this operator does not lead any more")
	}
	if !r.term.Until.IsZero() { // nothing is under way when the next one leads
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, time.Now().Add(r.term.Until.Sub(r.keeper.Now())))
		defer cancel()
	}
	for _, w := range step {
		r.written[w.Entry.String()] = true
	}
	refused, err := r.session.Write(ctx, step)
	if err != nil {
		return link.FaultOf(err)
	}
	for _, f := range refused {
		if settledAlready(step[f.Index].Kind, f.Code) {
			continue
		}
		kind := link.Broken
		if f.Code == codes.ResourceExhausted {
			kind = link.Full
		}
		return link.Faultf(kind, "the switch refuses %d of %d entries, %s among them: %s: %s", len(refused), len(step), step[f.Index].Entry, f.Code, f.Text)
	}
	return nil
}

// settledAlready: an update whose effect is there before it. Whether it is the right one
// is what reading back tells.
func settledAlready(kind p4.Update_Type, code codes.Code) bool {
	return kind == p4.Update_DELETE && code == codes.NotFound
}

// pipeline has the wanted one run, and pushes it only where another one does (W-21). go on
// is false when there is nothing to compare.
func (r *round) pipeline(ctx context.Context, d Desired) (goOn bool, fault *link.Fault) {
	running, err := r.session.Pipeline(ctx, false)
	empty := err != nil && link.FaultOf(err).Kind == link.Empty
	if err != nil && !empty {
		return false, link.FaultOf(err)
	}
	r.state.Cookie = running.Cookie
	ours := running.Cookie != nil && *running.Cookie == d.Pipeline.Cookie
	if !ours && !empty && (running.Cookie == nil || !d.Pipeline.Push || d.Clear) {
		if ours, err = r.sameInfo(ctx, d.Pipeline); err != nil {
			return false, link.FaultOf(err)
		}
	}
	switch {
	case ours:
		return true, nil
	case d.Clear: // entries of ours went with the pipeline they were in
		r.state.Settled, r.state.Cleared = false, true
		return false, nil
	case d.Pipeline.Push:
		fault = r.push(ctx, d.Pipeline)
		return fault == nil, fault
	case empty:
		return false, link.FaultOf(err)
	}
	return false, link.Faultf(link.Refused, "the switch runs another pipeline than `spec.pipeline.p4Info` describes, and `spec.pipeline.mode` Verify pushes none")
}

// sameInfo compares the P4Info itself: for servers that keep no cookie, and for pipelines
// that somebody else put there.
func (r *round) sameInfo(ctx context.Context, p Pipeline) (bool, error) {
	running, err := r.session.Pipeline(ctx, true)
	if err != nil {
		return false, err
	}
	return running.Info != nil && proto.Equal(running.Info, p.Info.P4), nil
}

// refusedFor is how long a pipeline that was refused is not tried again.
const refusedFor = time.Minute

func (r *round) push(ctx context.Context, p Pipeline) *link.Fault {
	now := r.keeper.Now()
	if r.refused.cookie == p.Cookie && now.Before(r.refused.until) {
		return r.refused.fault
	}
	if r.term.Over(now) {
		return link.Faultf(link.Fenced, "this operator does not lead any more")
	}
	r.state.Settled = false
	err := r.session.Push(ctx, p.Info.P4, p.Device, p.Cookie)
	if err != nil {
		fault := link.FaultOf(err)
		if fault.Kind == link.Refused || fault.Kind == link.Fixed {
			r.refused = refusal{p.Cookie, fault, now.Add(refusedFor)}
		}
		return fault
	}
	r.state.Pushes++
	r.settled, r.places, r.numbers, r.next, r.helms = "", nil, nil, 0, helms{}
	clear(r.written)
	running, err := r.session.Pipeline(ctx, false)
	if err != nil {
		return link.FaultOf(err)
	}
	r.state.Cookie = running.Cookie
	if running.Cookie != nil && *running.Cookie != p.Cookie {
		fault := link.Faultf(link.Refused, "the switch took the pipeline with cookie %#x and reports %#x", p.Cookie, *running.Cookie)
		r.refused = refusal{p.Cookie, fault, now.Add(refusedFor)}
		return fault
	}
	return nil
}

// same compares what is shown; it need not be told when only a counter of entries moves.
func same(a, b State) bool {
	return a.Generation == b.Generation && a.Connected == b.Connected && a.Role == b.Role && a.Settled == b.Settled && a.Cleared == b.Cleared &&
		maps.Equal(a.Used, b.Used) && a.Strange == b.Strange && slices.Equal(a.Strangers, b.Strangers) && slices.Equal(a.Contested, b.Contested) &&
		maps.Equal(a.Services, b.Services) && a.Repaired == b.Repaired && a.Pushes == b.Pushes && reflect.DeepEqual(a.Fault, b.Fault) && reflect.DeepEqual(a.Cookie, b.Cookie)
}
