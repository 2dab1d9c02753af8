// SPDX-License-Identifier: Apache-2.0

// From histograms to a verdict, by pure functions.
package slo

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/enforce"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// measurement is what the histograms say together.
type measurement struct {
	source     v1alpha1.MeasurementSource
	why        string   // there is no source, where that is no matter of pods
	unit       string   // what is counted; requests when empty
	scope      string   // of what the figure speaks, where that needs saying
	incomplete []string // pods in rotation that could not be read
	lossy      bool     // so much was lost uncounted that nobody can tell whether it is met
	value      dataplane.Value
	span                // 95 % confidence interval of value
	unparted   []string // pods that do not tell the parts of their window
	samples    uint64
	unanswered uint64
	requests   uint64
	rejected   uint64
	perSecond  float64
	// meanSeconds of the requests that completed; NaN when none did.
	meanSeconds float64
	covered     int
}

// tail is how many samples must lie beyond a percentile before one speaks of
// it. The count beyond it is then binomial with a relative error of about
// 1/sqrt(10): the order statistic rests on more than a stray request or two.
const tail = 10

// samplesRequired is ceil(tail / (1 - p/100)), computed exactly: 1000 for "99",
// 10000 for "99.9".
func samplesRequired(percentile string) (int64, error) {
	p, ok := new(big.Rat).SetString(percentile)
	hundred := big.NewRat(100, 1)
	if !ok || p.Sign() <= 0 || p.Cmp(hundred) >= 0 {
		return 0, fmt.Errorf("percentile %q must be a decimal above 0 and below 100", percentile)
	}
	beyond := new(big.Rat).Sub(hundred, p)
	n := new(big.Rat).Quo(big.NewRat(tail*100, 1), beyond)
	up := new(big.Int).Add(n.Num(), new(big.Int).Sub(n.Denom(), big.NewInt(1)))
	return up.Div(up, n.Denom()).Int64(), nil
}

// measure merges what all parts have measured. Percentiles are never averaged:
// the counts are added, then the percentile is taken.
func measure(s *snapshot) (measurement, error) {
	m := measurement{source: v1alpha1.SourceNone}
	var all dataplane.Histogram
	for _, p := range s.parts {
		if p.Err != nil || p.Reply == nil || p.Reply.Histogram == nil {
			if p.Required {
				m.incomplete = append(m.incomplete, p.Name)
			}
			continue
		}
		h := p.Reply.Histogram
		all.Merge(h)
		m.requests += p.Reply.Requests
		m.rejected += p.Reply.Rejected
		m.covered = max(m.covered, p.Reply.CoveredSeconds)
		m.source = s.source()
		// Each part has its own age, so rates are added, not counts over the
		// longest time.
		m.perSecond += float64(h.Total()-h.Inf()) / float64(max(p.Reply.CoveredSeconds, 1))
	}
	m.requests, m.rejected = m.requests+s.refused, m.rejected+s.refused
	m.samples, m.unanswered = all.Total(), all.Inf()
	if s.target != nil && render.TCP(s.target) {
		m.describe(s)
	}
	m.meanSeconds = float64(all.SumNanoseconds()) / 1e9 / float64(all.Total()-all.Inf())
	var err error
	if m.value, err = all.Percentile(s.slo.Spec.Percentile); err != nil {
		return m, err
	}
	parts, unparted := inParts(s.parts)
	m.unparted = unparted
	m.span, err = spanOf(&all, parts, s.slo.Spec.Percentile)
	m.lossy = lossy(&all, s.nodes.lost, s.slo) && (within(m.low, objectiveOf(s.slo)) || !missedAnyway(&all, s.nodes.lost, s.slo))
	return m, err
}

func (s *snapshot) source() v1alpha1.MeasurementSource {
	switch {
	case s.group != nil: // whoever answered measured it
		return v1alpha1.SourceServer
	case render.TCP(s.target):
		return v1alpha1.SourceClientNode
	case s.measuringComponent() == v1alpha1.ComponentServer:
		return v1alpha1.SourceServer
	case s.onSwitch != nil && s.target.Spec.Router.Placement == v1alpha1.PlacementSwitch:
		return v1alpha1.SourceSwitch
	}
	return v1alpha1.SourceRouter
}

// plan is what one look at an objective comes to.
type plan struct {
	accepted, programmed, met verdict.Verdict
	measured                  measurement
	required                  int64 // samples
}

// planFor is the one decision about a snapshot. The error is one that trying again
// does not mend.
func planFor(s *snapshot) (*plan, error) {
	p := &plan{accepted: decideAccepted(s)}
	var err error
	if p.required, err = samplesRequired(s.slo.Spec.Percentile); err != nil {
		return nil, err
	}
	if p.measured, err = measure(s); err != nil {
		return nil, err
	}
	p.met = decideMet(s.slo, p.measured, p.required)
	if !p.accepted.OK() {
		p.measured = measurement{source: v1alpha1.SourceNone}
		p.met = verdict.Unknown(v1alpha1.ReasonNoMeasurementSource, p.accepted.Message)
	}
	p.programmed = decideProgrammed(s, p.accepted)
	return p, nil
}

// decideAccepted says whether the objective can be measured at all.
func decideAccepted(s *snapshot) verdict.Verdict {
	spec := s.slo.Spec
	if spec.TargetRef.Names(v1alpha1.TargetGroup, spec.TargetRef.Name) {
		return decideAcceptedGroup(s)
	}
	if s.target == nil {
		return verdict.No(v1alpha1.ReasonTargetNotFound, fmt.Sprintf("there is no RpcService %q in namespace %q; create it or change `spec.targetRef.name`", spec.TargetRef.Name, s.slo.Namespace))
	}
	timeout := int64(s.target.Spec.RequestTimeoutMilliseconds) * 1000
	var beyond, barred verdict.Verdict
	if !render.TCP(s.target) && int64(spec.LatencyMicroseconds) > timeout {
		beyond = verdict.No(v1alpha1.ReasonObjectiveBeyondTimeout, fmt.Sprintf(
			"`spec.latencyMicroseconds` (%d) must not be more than the target's `spec.requestTimeoutMilliseconds` (%d ms): later requests count as unanswered",
			spec.LatencyMicroseconds, s.target.Spec.RequestTimeoutMilliseconds))
	}
	if enforce.Wanted(s.slo) {
		if reason, message := enforce.Refusal(s.target, s.slo); reason != beyond.Reason {
			barred = verdict.No(reason, message)
		}
	}
	if refused, none := verdict.Refusals(beyond, barred); !none {
		return refused
	}
	if enforce.Wanted(s.slo) {
		return verdict.Yes(v1alpha1.ReasonAccepted, "the objective can be measured and enforced")
	}
	if render.TCP(s.target) {
		return verdict.Yes(v1alpha1.ReasonAccepted, "the objective is about the time clients wait for a connection, from SYN to established; nobody sees requests over TCP")
	}
	return verdict.Yes(v1alpha1.ReasonAccepted, "the objective can be measured")
}

// decideMet compares. What was not measured is Unknown, never a guess. False is
// said of what is shown: that the whole confidence interval lies above the
// objective. An interval with the objective inside shows nothing of the kind, and
// an answer that followed its noise would change with every window: it stays True.
// Where the window is a matter of one or two stretches of slow requests, which may
// have been chance or may be the rule, it is Unknown: more are slow than chance would
// make of independent requests, and nothing shows that stretches did not.
func decideMet(slo *v1alpha1.ServiceLevelObjective, m measurement, required int64) verdict.Verdict {
	unknown := func(reason, format string, args ...any) verdict.Verdict {
		return verdict.Unknown(reason, fmt.Sprintf(format, args...))
	}
	switch {
	case len(m.incomplete) > 0:
		return unknown(v1alpha1.ReasonMeasurementIncomplete, "no histogram from %s", strings.Join(m.incomplete, ", "))
	case m.source == v1alpha1.SourceNone:
		return unknown(v1alpha1.ReasonNoMeasurementSource, "%s", cmp.Or(m.why, "no pod that measures is running"))
	case m.lossy:
		return unknown(v1alpha1.ReasonMeasurementIncomplete, "more waits were lost than p%s leaves out of %d %s%s", slo.Spec.Percentile, m.samples, m.unit, m.scope)
	case m.samples < uint64(max(required, 0)):
		return unknown(v1alpha1.ReasonTooFewSamples, "%d %s in the last %d s; p%s needs %d%s",
			m.samples, cmp.Or(m.unit, "requests"), slo.Spec.WindowSeconds, slo.Spec.Percentile, required, m.scope)
	}
	objective := objectiveOf(slo)
	text := fmt.Sprintf("p%s is %s, %s, the objective %s%s", slo.Spec.Percentile, written(m.value),
		m.span.written(), duration(objective), m.evidence()) + m.scope
	switch {
	case m.unknown:
		return unknown(v1alpha1.ReasonTooFewIndependentSamples, "%s", text)
	case !within(m.low, objective):
		return verdict.No(v1alpha1.ReasonObjectiveMissed, text)
	case within(m.high, objective):
		return verdict.Yes(v1alpha1.ReasonObjectiveMet, text)
	case m.open && !within(m.alone, objective):
		return unknown(v1alpha1.ReasonTooFewIndependentSamples, "%s", text)
	}
	return verdict.Yes(v1alpha1.ReasonObjectiveInInterval, text)
}

// objectiveOf is it in nanoseconds.
func objectiveOf(slo *v1alpha1.ServiceLevelObjective) uint64 {
	return uint64(slo.Spec.LatencyMicroseconds) * 1000
}

// within says whether a value is at or below the objective for sure: the doubt of
// a bucket that reaches above it goes against the service.
func within(v dataplane.Value, objective uint64) bool {
	return v.Bound == ll7.Finite && v.Nanoseconds <= objective
}

// written is a percentile for people.
func written(v dataplane.Value) string {
	switch v.Bound {
	case ll7.Finite:
		return duration(v.Nanoseconds)
	case ll7.AtLeast:
		return ">=" + duration(v.Nanoseconds)
	case ll7.Infinite:
		return "+Inf"
	}
	return ""
}

// duration writes nanoseconds with three significant digits in the unit that
// reads best.
func duration(ns uint64) string {
	v, unit := float64(ns)/1e3, "us"
	switch {
	case ns >= 999_500_000:
		v, unit = float64(ns)/1e9, "s"
	case ns >= 999_500:
		v, unit = float64(ns)/1e6, "ms"
	}
	digits := 2
	switch {
	case v >= 99.95:
		digits = 0
	case v >= 9.995:
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + unit
}

// share writes rejected over requests as "3.1%".
func share(rejected, requests uint64) string {
	if requests == 0 {
		return "0.0%"
	}
	return fmt.Sprintf("%.1f%%", 100*math.Min(1, float64(rejected)/float64(requests)))
}
