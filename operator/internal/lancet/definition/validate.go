// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Protocols are the words of those the agent speaks.
var Protocols = words(v1alpha1.ExperimentProtocols)

func words(table []v1alpha1.ExperimentProtocolWord) []string {
	out := make([]string, 0, len(table))
	for _, row := range table {
		out = append(out, row.Word)
	}
	return out
}

// maxPhases bounds a changing load: a line of output each.
const maxPhases = 10_000

// maxTargets is what an agent takes, weights counted.
const maxTargets = 64

// Validate names every field that is wrong and what it may be. What only an agent
// can know (does the target answer, are there kernel stamps) is left to it.
func (d Definition) Validate() error {
	var all []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			all = append(all, fmt.Errorf("%s: %v: must be %s", field, value, want))
		}
	}
	d.checkShared(check)
	d.checkNotSwitch(check)
	if d.Switch != nil { // what is not used here is still read
		d.Switch.check(check)
	}
	check(slices.Contains(Protocols, d.Protocol), "protocol", d.Protocol, "one of "+strings.Join(Protocols, ", "))
	d.Requests.check(check)
	d.Measurement.check(check)
	t := d.Traces
	check(t.Share >= 0 && t.Share <= 1, "traces.share", t.Share, "between 0 and 1")
	check(t.Share == 0 || d.Protocol == "r2p2", "traces.share", t.Share, "left out with a protocol other than r2p2, which carries trace ids")
	check((t.Share > 0) == (t.OTLPEndpoint != ""), "traces.otlpEndpoint", t.OTLPEndpoint, "given with traces.share, and only with it")
	return errors.Join(all...)
}

// checkShared is what every generator reads.
func (d Definition) checkShared(check checker) {
	d.checkTargets(check)
	d.Load.check(check)
	kinds := []string{"", "exponential", "fixed", "table", "bimodal"}
	check(slices.Contains(kinds, d.Interarrival.Kind), "interarrival.kind", d.Interarrival.Kind, "exponential, fixed, table or, for a switch, bimodal")
	gaps := len(d.Interarrival.GapsNanoseconds)
	check((d.Interarrival.Kind == "table") == (gaps > 0), "interarrival.gapsNanoseconds", fmt.Sprintf("%d gaps", gaps),
		"given with kind table, and only with it")
	check(gaps <= maxGaps, "interarrival.gapsNanoseconds", fmt.Sprintf("%d gaps", gaps), "at most 65,536")
	b := d.Interarrival.Bimodal
	check((d.Interarrival.Kind == "bimodal") == (b != nil), "interarrival.bimodal", b != nil, "given with kind bimodal, and only with it")
	if b != nil {
		check(b.LongShare > 0 && b.LongShare < 1, "interarrival.bimodal.longShare", b.LongShare, "above 0 and below 1")
		check(b.Ratio > 1 && b.Ratio <= 1e6, "interarrival.bimodal.ratio", b.Ratio, "above 1 and at most 1e6")
	}
}

type checker func(ok bool, field string, value any, want string)

func (d Definition) checkTargets(check checker) {
	check(len(d.Targets) > 0, "targets", "none", "at least one {host, port}")
	weights := 0
	for i, t := range d.Targets {
		field := fmt.Sprintf("targets[%d].", i)
		check(t.Host != "", field+"host", `""`, "a name or an address")
		check(t.Port >= 1 && t.Port <= 65535, field+"port", t.Port, "between 1 and 65535")
		check(t.Weight >= 0 && t.Weight <= maxTargets, field+"weight", t.Weight, fmt.Sprintf("between 1 and %d", maxTargets))
		weights += max(t.Weight, 1)
	}
	check(weights <= maxTargets, "targets", fmt.Sprintf("weights of %d", weights), fmt.Sprintf("at most %d in all", maxTargets))
}

func (l Load) check(check checker) {
	patterns := 0
	for _, there := range []bool{l.RequestsPerSecond != 0, l.Sweep != nil, l.Steps != nil, l.Sine != nil} {
		if there {
			patterns++
		}
	}
	check(patterns == 1, "load", fmt.Sprintf("%d patterns", patterns), "exactly one of requestsPerSecond, sweep, steps, sine")
	rate := func(field string, v float64) {
		check(v > 0 && v <= 1e9, "load."+field, v, "requests per second, above 0 and at most 1e9")
	}
	if l.RequestsPerSecond != 0 {
		rate("requestsPerSecond", l.RequestsPerSecond)
	}
	if s := l.Sweep; s != nil {
		rate("sweep.fromRequestsPerSecond", s.From)
		rate("sweep.toRequestsPerSecond", s.To)
		check(s.To > s.From, "load.sweep.toRequestsPerSecond", s.To, "above fromRequestsPerSecond")
		check(s.Points >= 2 && s.Points <= 100, "load.sweep.points", s.Points, "between 2 and 100")
	}
	for i, s := range l.Steps {
		rate(fmt.Sprintf("steps[%d].requestsPerSecond", i), s.RequestsPerSecond)
		check(s.Seconds > 0 && s.Seconds <= 86_400, fmt.Sprintf("load.steps[%d].seconds", i), s.Seconds, "above 0 and at most 86,400")
	}
	check(len(l.Steps) <= maxPhases, "load.steps", fmt.Sprintf("%d steps", len(l.Steps)), fmt.Sprintf("at most %d", maxPhases))
	if s := l.Sine; s != nil {
		s.check(check, rate)
	}
}

func (s Sine) check(check checker, rate func(string, float64)) {
	rate("sine.meanRequestsPerSecond", s.Mean)
	check(s.Amplitude > 0 && s.Amplitude < s.Mean, "load.sine.amplitudeRequestsPerSecond", s.Amplitude, "above 0 and below the mean")
	check(s.Seconds > 0 && s.Seconds <= 86_400, "load.sine.seconds", s.Seconds, "above 0 and at most 86,400")
	check(s.Step >= 0 && s.Seconds/s.step() <= maxPhases, "load.sine.stepSeconds", s.Step, fmt.Sprintf("such that there are at most %d steps", maxPhases))
	check(s.Period >= 4*s.step(), "load.sine.periodSeconds", s.Period, "at least four steps (stepSeconds)")
}

func (m Measurement) check(check checker) {
	check(slices.Contains([]string{"", "response", "service"}, m.Latency), "measurement.latency", m.Latency, "response or service")
	check(m.Percentile >= 0 && m.Percentile < 100, "measurement.percentile", m.Percentile, "above 0 and below 100, such as 99")
	check(m.ConfidencePercent >= 0 && m.ConfidencePercent < 100, "measurement.confidencePercent", m.ConfidencePercent, "above 0 and below 100, such as 95")
	check(m.WidthMicroseconds >= 0, "measurement.widthMicroseconds", m.WidthMicroseconds, "above 0")
	check(m.LimitSeconds >= 0 && m.LimitSeconds <= 86_400, "measurement.limitSeconds", m.LimitSeconds, "above 0 and at most 86,400")
	check(m.ArrivalGaps == 0 || m.ArrivalGaps >= 50 && m.ArrivalGaps <= 100_000, "measurement.arrivalGaps", m.ArrivalGaps, "between 50 and 100,000")
	check(m.LatencyAgents >= 0 && m.LatencyAgents <= 1024, "measurement.latencyAgents", m.LatencyAgents, "between 0 and 1024")
	check(m.LatencyRequestsPerSecond >= 0 && m.LatencyRequestsPerSecond <= 1e8, "measurement.latencyRequestsPerSecond", m.LatencyRequestsPerSecond,
		"above 0 and at most 1e8")
	check(m.LatencyRequestsPerSecond == 0 || m.LatencyAgents > 0, "measurement.latencyRequestsPerSecond", m.LatencyRequestsPerSecond,
		"left out without latencyAgents, whose rate it bounds")
	check(m.SettleSeconds >= 0, "measurement.settleSeconds", m.SettleSeconds, "0 or more")
}
