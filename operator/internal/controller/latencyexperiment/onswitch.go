// SPDX-License-Identifier: Apache-2.0

// Experiments whose load a switch makes (S-1 to S-24): what is asked of it, and what its counters say.
package latencyexperiment

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"
	"strconv"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
	"github.com/bobtail-dev/bobtail/operator/internal/stretches"
)

// Reading is what a switch has counted of a run up to a time.
type Reading struct {
	At                             time.Time
	Sent, Received, Range, Strange uint64
	Latency                        *ll7.Histogram
}

// onSwitch says that a switch makes the load.
func onSwitch(e *v1alpha1.LatencyExperiment) bool {
	return e.Spec.Placement == v1alpha1.ExperimentOnSwitch && e.Spec.Switch != nil
}

func keyOf(e *v1alpha1.LatencyExperiment) string { return e.Namespace + "/" + e.Name }

// runOf is what is asked of the switch, or why nothing can be.
func runOf(e *v1alpha1.LatencyExperiment) (switchboard.Run, verdict.Verdict) {
	s := e.Spec.Switch
	out := switchboard.Run{Namespace: e.Namespace, Name: e.Name, Switch: s.Name, Created: e.CreationTimestamp.Time, Version: string(e.UID),
		Rate: uint32(e.Spec.Load.RequestsPerSecond), TemplateRate: uint32(s.TemplatesPerSecond), TemplatePort: uint32(s.TemplatePort),
		Fixed: e.Spec.Workload.Interarrival == "Fixed"}
	out.Packets = uint32(min(int64(e.Spec.Load.RequestsPerSecond)*int64(e.Spec.LimitSeconds), math.MaxInt32))
	h := fnv.New32a()
	_, _ = h.Write([]byte(e.UID)) // never fails
	out.Number = max(h.Sum32()&math.MaxInt32, 1)
	for n, text := range e.Spec.Target.Addresses {
		at, err := netip.ParseAddrPort(text)
		if err != nil || !at.Addr().Is4() || at.Port() == 0 {
			return out, verdict.No(v1alpha1.ReasonInvalidExperiment, fmt.Sprintf("`spec.target.addresses[%d]` %q is no IPv4 address with a port: the switch finds no names", n, text))
		}
		for _, other := range out.Targets {
			if other == at {
				return out, verdict.No(v1alpha1.ReasonInvalidExperiment, fmt.Sprintf("`spec.target.addresses[%d]` %s stands twice", n, text))
			}
		}
		out.Targets = append(out.Targets, at)
	}
	return out, verdict.Yes(v1alpha1.ReasonAccepted, "the experiment can be run")
}

// decideAtSwitch is what the switch says of it.
func decideAtSwitch(e *v1alpha1.LatencyExperiment, answer v1alpha1.SwitchService, found, there bool) (accepted, programmed verdict.Verdict) {
	name := e.Spec.Switch.Name
	accepted = verdict.Yes(v1alpha1.ReasonAccepted, "the experiment can be run")
	refuse := func(reason, text string) (a, p verdict.Verdict) {
		v := verdict.No(reason, "`spec.switch.name`: "+text)
		return v, verdict.No(v1alpha1.ReasonNotAccepted, v.Message)
	}
	switch {
	case !there:
		return refuse(v1alpha1.ReasonSwitchNotFound, fmt.Sprintf("there is no ProgrammableSwitch %q", name))
	case !found:
		return accepted, verdict.No(v1alpha1.ReasonReconciling, fmt.Sprintf("ProgrammableSwitch %s has yet to be asked", name))
	case answer.Reason != "" && answer.ConfigHash != string(e.UID):
		return refuse(answer.Reason, answer.Message)
	case answer.ConfigHash != string(e.UID):
		return accepted, verdict.No(v1alpha1.ReasonSwitchNotProgrammed, fmt.Sprintf("ProgrammableSwitch %s is being written", name))
	}
	return accepted, verdict.Yes(v1alpha1.ReasonProgrammed, fmt.Sprintf("ProgrammableSwitch %s makes the load", name))
}

// progress is what was read of a run so far: the first packets, the last reading that more packets came after, and the
// two last ones.
type progress struct {
	began, first, flowing, before, last Reading
}

// next takes a reading; one that was taken before changes nothing.
func (p progress) next(r Reading) progress {
	if p.began.At.IsZero() {
		p.began = r
	}
	if r.Sent > 0 && p.first.At.IsZero() {
		p.first = r
	}
	if r.At.After(p.last.At) {
		if r.Sent > p.last.Sent {
			p.flowing = p.last
		}
		p.before, p.last = p.last, r
	}
	return p
}

// Tolerances of a verdict.
const (
	// rateWithin is how far the rate may be from the one that was asked for, as a share.
	rateWithin = 0.05
	// silence is how long nothing may be sent before the run is given up.
	silence = 30 * time.Second
)

// lost are packets that were sent before the reading before the last, and did not come back until the last one.
func (p progress) lost() uint64 {
	came := p.last.Received + p.last.Range
	return p.before.Sent - min(p.before.Sent, came)
}

// spent: all packets of the run have been sent, and had been at the reading before.
func (p progress) spent(e *v1alpha1.LatencyExperiment) bool {
	return p.last.Sent >= uint64(e.Spec.Load.RequestsPerSecond)*uint64(e.Spec.LimitSeconds) && p.before.Sent == p.last.Sent
}

// rate is how many packets a second were sent. When the last one was is not known: somewhere between two readings, of
// which the earlier one counts.
func (p progress) rate(e *v1alpha1.LatencyExperiment) int64 {
	end := p.last
	switch {
	case p.spent(e) && p.flowing.At.After(p.first.At):
		end = p.flowing
	case p.before.Sent == p.last.Sent:
		end = p.before
	}
	span := end.At.Sub(p.first.At).Seconds()
	if span <= 0 {
		return 0
	}
	return int64(math.Round(float64(end.Sent-p.first.Sent) / span))
}

// decideRun says whether a run is over, and what came of it.
func decideRun(e *v1alpha1.LatencyExperiment, p progress) outcome {
	asked := float64(e.Spec.Load.RequestsPerSecond)
	span := p.last.At.Sub(p.first.At)
	switch {
	case p.last.At.IsZero():
		return outcome{}
	case p.first.At.IsZero():
		if p.last.At.Sub(p.began.At) < silence {
			return outcome{}
		}
		return outcome{over: true, failure: fmt.Sprintf("the switch has sent nothing for %s: do templates come in by port %d (`spec.switch.templatePort`)?", silence, e.Spec.Switch.TemplatePort)}
	}
	load, width := measuredLoad(e, p)
	load.Offered = int64(asked)
	late := span >= time.Duration(e.Spec.LimitSeconds)*time.Second+silence
	if !p.spent(e) && !late { // before the end nobody knows what is lost and what is on its way
		return outcome{}
	}
	load.Reason = doubts(e, p, float64(load.Achieved), width)
	load.Conclusive = load.Reason == ""
	return outcome{over: true, summary: report.Summary{Loads: []report.SummaryLoad{load}}}
}

// measuredLoad is the percentile with its interval; lost packets count as later than all others. width is -1 while the
// interval is open.
func measuredLoad(e *v1alpha1.LatencyExperiment, p progress) (out report.SummaryLoad, width int64) {
	all := p.last.Latency.Clone()
	for range p.lost() {
		all.RecordInf()
	}
	out.Achieved = p.rate(e)
	share, err := strconv.ParseFloat(e.Spec.Percentile, 64)
	if err != nil || all.Total() == 0 {
		return out, -1
	}
	value, err := all.Percentile(e.Spec.Percentile)
	if err != nil {
		return out, -1
	}
	out.Value = micros(value)
	low, high, reaches, err := stretches.Independently(all, share/100)
	if err != nil || !reaches {
		return out, -1
	}
	out.Low, out.High = micros(low), micros(high)
	if out.Low == nil || out.High == nil {
		return out, -1
	}
	return out, *out.High - *out.Low
}

// micros is nothing for what is infinite.
func micros(v ll7.Value) *int64 {
	if v.Bound != ll7.Finite {
		return nil
	}
	n := int64((v.Nanoseconds + 999) / 1000)
	return &n
}

// doubts are why a result may not be trusted; "": it may. Nothing is known of single packets, so independence is not
// tested.
func doubts(e *v1alpha1.LatencyExperiment, p progress, achieved float64, width int64) string {
	asked := float64(e.Spec.Load.RequestsPerSecond)
	switch {
	case p.last.Range > 0:
		return fmt.Sprintf("%d replies came later than the stamp tells apart", p.last.Range)
	case math.Abs(achieved/asked-1) > rateWithin:
		return fmt.Sprintf("the switch sent %.0f packets a second, not %.0f: do %d templates a second come in (`spec.switch.templatesPerSecond`)?", achieved, asked, e.Spec.Switch.TemplatesPerSecond)
	case width < 0:
		return fmt.Sprintf("%d of %d packets did not come back, or too few did: the interval of p%s has no end", p.lost(), p.last.Sent, e.Spec.Percentile)
	case width > int64(e.Spec.WidthMicroseconds):
		return fmt.Sprintf("the interval is %d us wide, not %d, after %d packets", width, e.Spec.WidthMicroseconds, p.last.Sent)
	}
	return ""
}
