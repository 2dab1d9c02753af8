// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// The examples are definitions, and can be run as they stand.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../../examples/lancet/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, e := range d.Experiments() {
			if err := e.Validate(); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if len(d.Experiments()) == 0 && len(d.Phases()) == 0 {
			t.Errorf("%s: no load", file)
		}
		again, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(again); err != nil || back.Validate() != nil {
			t.Errorf("%s: does not survive being written: %v\n%s", file, err, again)
		}
	}
}

func TestPhasesOfASine(t *testing.T) {
	d := Definition{Load: Load{Sine: &Sine{Mean: 1000, Amplitude: 500, Period: 4, Seconds: 5, Step: 1}}}
	phases := d.Phases()
	if len(phases) != 5 {
		t.Fatalf("%d phases, want 5", len(phases))
	}
	total := time.Duration(0)
	for i, want := range []float64{1353.6, 1353.6, 646.4, 646.4, 1353.6} { // 500 · sin 45°
		if got := phases[i].Load; got < want-1 || got > want+1 {
			t.Errorf("phase %d: %.1f requests/s, want %.1f", i, got, want)
		}
		total += phases[i].Duration
	}
	if total != 5*time.Second {
		t.Errorf("%v in all", total)
	}
}

// One agent alone stores the keys, and no two draw the same stream.
func TestConfigurationOfEachAgent(t *testing.T) {
	d := Definition{Protocol: "redis", Seed: 5, Requests: Requests{Preload: true}, Targets: []Target{{Host: "a", Port: 1, Weight: 3}}}
	first, second := d.Configuration(0), d.Configuration(1)
	if !first.Preload || second.Preload || first.Seed == second.Seed || len(first.Targets) != 3 {
		t.Errorf("%+v, %+v", first, second)
	}
}

// L-1, L-2: the first agents measure, the others make the load; without a split all
// do both.
func TestRolesOfTheAgents(t *testing.T) {
	raw := "targets: [{host: h, port: 1}]\nprotocol: echo\nload: {requestsPerSecond: 90000}\n" +
		"measurement: {latencyAgents: 2, latencyRequestsPerSecond: 500, arrivalGaps: 2000}\n"
	d, err := Parse([]byte(raw))
	if err != nil || d.Validate() != nil {
		t.Fatal(err, d.Validate())
	}
	for i, want := range []string{"latency", "latency", "throughput"} {
		if got := d.Configuration(i).Role; got != want {
			t.Errorf("agent %d: role %q, want %q", i, got, want)
		}
	}
	if e := d.Experiments()[0]; e.LatencyAgents != 2 || e.LatencyRate != 500 || e.ArrivalGaps != 2000 || e.Validate() != nil {
		t.Errorf("%+v, %v", e, e.Validate())
	}
	d.Measurement = Measurement{LatencyRequestsPerSecond: 500, ArrivalGaps: 49}
	if role := d.Configuration(0).Role; role != "" {
		t.Errorf("role %q without a split", role)
	}
	err = d.Validate()
	for _, field := range []string{"measurement.latencyRequestsPerSecond: 500", "measurement.arrivalGaps: 49"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("targets: [{host: h, port: 80}]\nprotocol: http\nload: {requestsPerSecond: 5000}\n"))
	f.Add([]byte("load: {sine: {meanRequestsPerSecond: 1, seconds: 1e9, stepSeconds: 1e-9}}\n"))
	f.Add([]byte("targets: [{host: 10.0.0.1, port: 1}]\nload: {sweep: {fromRequestsPerSecond: 1, toRequestsPerSecond: 2, points: -1}}\nswitch: {packets: 1, stamp: {fields: [l4SourcePort], tickNanoseconds: 99999}, histogram: {maxNanoseconds: 1000000000000, relativeError: 0.0001}}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Parse(raw)
		if err == nil && d.ForSwitch() == nil && (d.Switch == nil || len(d.Switch.Histogram.Bounds()) > maxBuckets) {
			t.Fatalf("a switch is given %+v", d.Switch)
		}
		if err != nil || d.Validate() != nil {
			return
		}
		if n := len(d.Phases()); n > maxPhases+1 {
			t.Fatalf("%d phases", n)
		}
		for _, e := range d.Experiments() {
			if err := e.Validate(); err != nil && strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error without a word")
			}
		}
	})
}

// Recorded arrivals are dealt out: put together again, what the agents send is what
// was recorded, once.
func TestGapsAreDealtOut(t *testing.T) {
	recorded := []int64{5, 0, 7, 11, 1, 3}
	for n := 1; n <= 7; n++ {
		var d Definition
		d.Interarrival.GapsNanoseconds = recorded
		const cycles = 420 // a multiple of what any n needs
		want, got := map[int64]int{}, map[int64]int{}
		sum := int64(0)
		for i := range cycles * len(recorded) {
			sum += recorded[i%len(recorded)]
			want[sum]++
		}
		for i := range n {
			gaps, at := d.GapsOf(i, n), int64(0)
			for k := range i + 1 { // where its first arrival stands
				at += recorded[k%len(recorded)]
			}
			if n == 7 && len(gaps) != 6 || n == 6 && len(gaps) != 1 {
				t.Errorf("agent %d of %d has %d gaps", i, n, len(gaps))
			}
			for k := 0; k < cycles*len(recorded)/n; k++ {
				got[at]++
				at += gaps[(k+1)%len(gaps)]
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d agents send at %d moments, recorded were %d", n, len(got), len(want))
		}
	}
	d := Definition{Measurement: Measurement{LatencyAgents: 1}, Interarrival: Interarrival{GapsNanoseconds: recorded}}
	if got := d.GapsOf(1, 3); !slices.Equal(got, recorded) {
		t.Errorf("with agents that only measure: %v", got)
	}
}
