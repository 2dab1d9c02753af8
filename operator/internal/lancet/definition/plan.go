// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"cmp"
	"math"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink"
)

// Experiments are the qualified ones: one, or one for each point of a sweep; none
// when the load changes.
func (d Definition) Experiments() []lancet.Experiment {
	var out []lancet.Experiment
	for _, load := range d.Load.points() {
		e := d.experiment()
		e.Load = load
		out = append(out, e)
	}
	return out
}

// Phases are those of a changing load, none when there is none.
func (d Definition) Phases() []lancet.Phase {
	var out []lancet.Phase
	for _, s := range d.Load.Steps {
		out = append(out, lancet.Phase{Load: s.RequestsPerSecond, Duration: seconds(s.Seconds)})
	}
	if d.Load.Sine != nil {
		out = append(out, d.Load.Sine.phases()...)
	}
	return out
}

// Template is the experiment without its load: percentiles of a changing load are
// reported with its confidence.
func (d Definition) Template() lancet.Experiment { return d.experiment() }

// LatencyMeant is which latency the experiment is about.
func (d Definition) LatencyMeant() lancet.Latency {
	if d.Measurement.Latency == "service" {
		return lancet.Service
	}
	return lancet.Response
}

func (l Load) points() []float64 {
	switch {
	case l.RequestsPerSecond != 0:
		return []float64{l.RequestsPerSecond}
	case l.Sweep != nil:
		out := make([]float64, l.Sweep.Points)
		for i := range out {
			out[i] = l.Sweep.From + (l.Sweep.To-l.Sweep.From)*float64(i)/float64(l.Sweep.Points-1)
		}
		return out
	}
	return nil
}

func (s Sine) step() float64 {
	if s.Step == 0 {
		return 1
	}
	return s.Step
}

// phases takes the wave's value in the middle of every step.
func (s Sine) phases() []lancet.Phase {
	var out []lancet.Phase
	for t := 0.0; t < s.Seconds; t += s.step() {
		long := min(s.step(), s.Seconds-t)
		out = append(out, lancet.Phase{
			Load: s.Mean + s.Amplitude*math.Sin(2*math.Pi*(t+long/2)/s.Period), Duration: seconds(long),
		})
	}
	return out
}

func (d Definition) experiment() lancet.Experiment {
	m := d.Measurement
	percentile := m.Percentile
	if percentile == 0 {
		percentile = 99
	}
	arrivals := map[string]lancet.Arrivals{"fixed": lancet.Fixed, "table": lancet.Trace}[d.Interarrival.Kind]
	return lancet.Experiment{
		Arrivals: arrivals, Percentile: share(percentile), Confidence: share(m.ConfidencePercent),
		Width: time.Duration(m.WidthMicroseconds * 1e3), Samples: m.Samples, SamplingRate: m.SamplingRate, Tries: m.Rounds,
		Limit: seconds(m.LimitSeconds), Settle: seconds(m.SettleSeconds),
		ArrivalGaps: m.ArrivalGaps, LatencyAgents: m.LatencyAgents, LatencyRate: m.LatencyRequestsPerSecond,
	}.WithDefaults()
}

// share is a percentage of one, without the dust of a binary division: 99.9 gives
// the same 0.999 that a list of percentiles holds.
func share(percent float64) float64 { return math.Round(percent*1e10) / 1e12 }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Configuration is what agent i of n is told. One agent stores the keys, and all
// draw from streams of their own.
func (d Definition) Configuration(i int) agentlink.Configuration {
	c, r := d.Connections, d.Requests
	out := agentlink.Configuration{
		Protocol: d.Protocol, Timestamps: c.Timestamps, Device: c.Device, Polling: c.Polling, Threads: c.Threads,
		Connections: c.Count, Outstanding: c.Outstanding, TimeoutNanoseconds: c.TimeoutMicroseconds * 1000,
		Arrivals:         map[string]string{"": "poisson", "exponential": "poisson", "fixed": "fixed", "table": "trace"}[d.Interarrival.Kind],
		TraceNanoseconds: d.Interarrival.GapsNanoseconds,
		RequestBytes:     r.RequestBytes, ReplyBytes: r.ReplyBytes, ServiceTime: r.ServiceTime, Path: r.Path, Host: r.Host,
		Keys: r.Keys, KeyOrder: cmp.Or(r.KeyOrder, orders[r.Mix]), KeyBytes: r.KeyBytes, ValueBytes: r.ValueBytes, Mix: r.Mix, ReadRatio: r.ReadRatio,
		ScanLength: r.ScanLength, Preload: r.Preload && i == 0,
	}
	if k := d.Measurement.LatencyAgents; k > 0 {
		out.Role = agentlink.RoleThroughput
		if i < k {
			out.Role = agentlink.RoleLatency
		}
	}
	if out.Role != agentlink.RoleThroughput { // whose latencies nobody looks at
		out.TraceShare = d.Traces.Share
	}
	if d.Seed != 0 {
		out.Seed = d.Seed + uint64(i)
	}
	for _, t := range d.Targets {
		for range max(t.Weight, 1) {
			out.Targets = append(out.Targets, t.Address())
		}
	}
	return out
}
