// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"strings"
	"testing"
)

// A summary keeps as much of its reasons as the bound leaves, whole characters of them, and is read back.
func TestSummaryKeepsToItsBound(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"", 0, ""}, {"a", 0, "…"}, {"aäb", 2, "a…"}, {"aäb", 3, "aä…"}} {
		if got := cut(c.text, c.most); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
	for _, points := range []int{1, 5, 40} {
		d := Document{}
		for range points {
			d.Points = append(d.Points, Point{Offered: 10.5, Achieved: 9.4, Reasons: []string{strings.Repeat("why ", 200)}})
		}
		raw := Summarise(d, nil)
		s, err := ParseSummary(string(raw))
		if err != nil || len(s.Loads) != points || s.Loads[0].Offered != 11 || s.Loads[0].Achieved != 9 {
			t.Fatalf("%d points: %d bytes, %v", points, len(raw), err)
		}
		if len(raw) > SummaryBytes && s.Loads[0].Reason != "" {
			t.Errorf("%d points: %d bytes, and a reason of %d", points, len(raw), len(s.Loads[0].Reason))
		}
	}
}

// Latencies are rounded up, and a summary that holds nothing, or less than nothing, is refused.
func TestSummariesThatAreNone(t *testing.T) {
	for _, v := range []float64{0, 1, 1.2, 2} {
		if got := *whole(&v); float64(got) < v || float64(got) >= v+1 {
			t.Errorf("%v: %d", v, got)
		}
	}
	zero, less := int64(0), int64(-1)
	for name, c := range map[string]struct {
		s    Summary
		want bool
	}{
		"nothing": {Summary{}, false}, "an error alone": {Summary{Error: "e"}, true}, "a load": {Summary{Loads: []SummaryLoad{{Value: &zero}}}, true},
		"a negative latency": {Summary{Loads: []SummaryLoad{{}, {Value: &less}}}, false}, "a negative end": {Summary{Loads: []SummaryLoad{{High: &less}}}, false}, "a negative beginning": {Summary{Loads: []SummaryLoad{{Low: &less}}}, false},
	} {
		raw, err := json.Marshal(c.s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSummary(string(raw)); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
