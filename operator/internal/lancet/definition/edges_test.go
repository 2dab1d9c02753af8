// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"strings"
	"testing"
)

// What a number is at its bound, it still is: both generators take it, or name the one thing that is wrong with it.
func TestFirstAndLastOfASwitch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *Definition)
		wrong  []string
	}{
		"as many packets as there may be": {func(d *Definition) { d.Switch.Packets = 1e15 }, []string{"switch.packets: 1000000000000000: must be sent within a day"}},
		"one more":                        {func(d *Definition) { d.Switch.Packets = 1e15 + 1 }, []string{"switch.packets: 1000000000000001: must be between 1 and 1e15"}},
		"as fast as gaps are told apart": {func(d *Definition) {
			d.Load = Load{RequestsPerSecond: d.Switch.MostPerSecond()}
		}, nil},
		"from 1 ns to beyond the stamp": {func(d *Definition) {
			d.Switch.Stamp.Fields = []string{fieldPort}
			d.Switch.Stamp.SourceNetwork, d.Switch.Stamp.TickNanoseconds = "", 1
			d.Switch.Histogram = SwitchHistogram{MinNanoseconds: 1, MaxNanoseconds: 40_000}
		}, []string{"switch.histogram.maxNanoseconds: 40000: must be below"}},
		"the coarsest": {func(d *Definition) {
			d.Switch.Stamp.TickNanoseconds = 1
			d.Switch.Histogram = SwitchHistogram{MaxNanoseconds: 1e12, RelativeError: 0.5}
		}, []string{"switch.histogram.maxNanoseconds: 1000000000000: must be below"}},
		"the finest": {func(d *Definition) { d.Switch.Histogram.RelativeError = 0.0001 }, []string{"buckets: must be at most 4096"}},
		"coarser than that": {func(d *Definition) {
			d.Switch.Stamp.TickNanoseconds = 1
			d.Switch.Histogram = SwitchHistogram{MaxNanoseconds: 1e12, RelativeError: 0.6}
		}, []string{"switch.histogram.relativeError: 0.6: must be"}},
		"no field": {func(d *Definition) {
			d.Switch.Stamp.Fields, d.Switch.Stamp.SourceNetwork = nil, ""
		}, []string{"switch.stamp.fields: none: must be"}},
	} {
		d := example(t, "echo.yaml")
		c.change(&d)
		err := d.ForSwitch()
		var got []string
		if err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if len(got) != len(c.wrong) {
			t.Errorf("%s: %d are wrong, want %d: %v", name, len(got), len(c.wrong), err)
			continue
		}
		for n, want := range c.wrong {
			if !strings.Contains(got[n], want) {
				t.Errorf("%s: %s, want %q", name, got[n], want)
			}
		}
	}
}

// A range may begin at 0, and a recording of two equal gaps is one.
func TestWhatBeginsAtZero(t *testing.T) {
	for text, good := range map[string]bool{"uni:0:5": true, "uni:0:0": true, "uni:-1:5": false, "uni:5:4": false} {
		if got := checkDistribution(text); (got == "") != good {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got, err := ParseGaps("5 5"); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// Without a target nothing is measured, and the definition says so.
func TestNoTargets(t *testing.T) {
	d := example(t, "echo.yaml")
	d.Targets = nil
	if err := d.Validate(); err == nil || !strings.Contains(err.Error(), "targets: none: must be at least one {host, port}") {
		t.Error(err)
	}
}

// A recording is as long as it may be, or one gap longer.
func TestLongestRecording(t *testing.T) {
	for _, more := range []int{0, 1} {
		d := example(t, "echo.yaml")
		d.Interarrival = Interarrival{Kind: "table", GapsNanoseconds: make([]int64, maxGaps+more)}
		err := d.Validate()
		if refused := err != nil && strings.Contains(err.Error(), "interarrival.gapsNanoseconds"); refused != (more == 1) {
			t.Errorf("%d gaps: %v", maxGaps+more, err)
		}
	}
}
