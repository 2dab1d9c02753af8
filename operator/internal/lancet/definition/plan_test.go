// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink"
)

// A sweep is in equal steps, both of its ends among them.
func TestPointsOfALoad(t *testing.T) {
	for _, c := range []struct {
		load Load
		want []float64
	}{
		{Load{}, nil},
		{Load{RequestsPerSecond: 5}, []float64{5}},
		{Load{Sweep: &Sweep{From: 10, To: 20, Points: 2}}, []float64{10, 20}},
		{Load{Sweep: &Sweep{From: 10, To: 20, Points: 5}}, []float64{10, 12.5, 15, 17.5, 20}},
	} {
		if got := c.load.points(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.load, got, c.want)
		}
	}
}

// Steps come one after the other as they are written; a wave's last step ends with it.
func TestPhases(t *testing.T) {
	steps := Load{Steps: []Step{{RequestsPerSecond: 5, Seconds: 1.5}, {RequestsPerSecond: 7, Seconds: 2}}}
	wave := Load{Sine: &Sine{Mean: 100, Amplitude: 50, Period: 8, Seconds: 7, Step: 4}}
	short := Load{Sine: &Sine{Mean: 100, Amplitude: 50, Period: 2, Seconds: 2}}
	for _, c := range []struct {
		load Load
		want []lancet.Phase
	}{
		{Load{}, nil},
		{steps, []lancet.Phase{{Load: 5, Duration: 1500 * time.Millisecond}, {Load: 7, Duration: 2 * time.Second}}},
		{wave, []lancet.Phase{{Load: 150, Duration: 4 * time.Second}, {Load: 53.806, Duration: 3 * time.Second}}}, // its middle at 5.5 s
		{short, []lancet.Phase{{Load: 150, Duration: time.Second}, {Load: 50, Duration: time.Second}}},
	} {
		got := Definition{Load: c.load}.Phases()
		for i := range got {
			got[i].Load = float64(int(got[i].Load*1000+0.5)) / 1000
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.load, got, c.want)
		}
	}
}

// Percentages become shares, numbers of seconds and microseconds durations, and what is
// left out is the method's.
func TestExperimentOfADefinition(t *testing.T) {
	d := Definition{Measurement: Measurement{Percentile: 99.9, ConfidencePercent: 90, WidthMicroseconds: 2.5, LimitSeconds: 1.5, SettleSeconds: 0.25, Rounds: 3}}
	e := d.Template()
	if e.Percentile != 0.999 || e.Confidence != 0.9 || e.Width != 2500*time.Nanosecond || e.Limit != 1500*time.Millisecond || e.Settle != 250*time.Millisecond || e.Tries != 3 {
		t.Errorf("%+v", e)
	}
	if e := (Definition{}).Template(); e.Percentile != 0.99 || e.Confidence != 0.95 {
		t.Errorf("left out: %+v", e)
	}
}

func TestShare(t *testing.T) {
	for percent, want := range map[float64]float64{0: 0, 50: 0.5, 99.9: 0.999, 99.99: 0.9999, 29: 0.29, 99.999: 0.99999} {
		if got := share(percent); got != want {
			t.Errorf("%v: %v, want %v", percent, got, want)
		}
	}
}

func TestLatencyMeant(t *testing.T) {
	for said, want := range map[string]lancet.Latency{"": lancet.Response, "response": lancet.Response, "service": lancet.Service} {
		if got := (Definition{Measurement: Measurement{Latency: said}}).LatencyMeant(); got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}

// Each agent's seed is its own, those that only make load trace nothing, and a target is
// named as often as it weighs.
func TestConfigurationOfAll(t *testing.T) {
	d := Definition{
		Seed: 5, Traces: Traces{Share: 0.5}, Measurement: Measurement{LatencyAgents: 1}, Connections: Connections{TimeoutMicroseconds: 7},
		Targets: []Target{{Host: "a", Port: 1}, {Host: "fd00::1", Port: 2, Weight: 2}, {Host: "c", Port: 3, Weight: 1}},
	}
	for i, want := range []struct {
		role  string
		share float64
		seed  uint64
	}{{agentlink.RoleLatency, 0.5, 5}, {agentlink.RoleThroughput, 0, 6}, {agentlink.RoleThroughput, 0, 7}} {
		c := d.Configuration(i)
		if c.Role != want.role || c.TraceShare != want.share || c.Seed != want.seed || c.TimeoutNanoseconds != 7000 {
			t.Errorf("agent %d: %+v", i, c)
		}
		if targets := []string{"a:1", "[fd00::1]:2", "[fd00::1]:2", "c:3"}; !slices.Equal(c.Targets, targets) {
			t.Errorf("agent %d sends to %v, want %v", i, c.Targets, targets)
		}
	}
	d.Seed, d.Measurement.LatencyAgents = 0, 0
	if c := d.Configuration(1); c.Seed != 0 || c.Role != "" || c.TraceShare != 0.5 {
		t.Errorf("without a seed and without a split: %+v", c)
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"h:1": {Host: "h", Port: 1}, "[fd00::1]:80": {Host: "fd00::1", Port: 80}, "h": {}, "h:x": {}, ":1": {}, "h:": {}, ":x": {}, "fd00::1:80": {},
	} {
		got, err := ParseTarget(text)
		if got != want || (err == nil) != (want != Target{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// Gaps that agents add up stay within what one gap may be, and so does their sum where
// it is looked at.
func TestLongGaps(t *testing.T) {
	d := Definition{Interarrival: Interarrival{GapsNanoseconds: []int64{maxGap, maxGap - 1, 1}}}
	for n, want := range map[int][]int64{1: {maxGap, maxGap - 1, 1}, 2: {maxGap, maxGap, maxGap}, 3: {maxGap}} {
		if got := d.GapsOf(0, n); !slices.Equal(got, want) {
			t.Errorf("of %d agents: %v, want %v", n, got, want)
		}
	}
}
