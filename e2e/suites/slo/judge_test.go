// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

var (
	disturbed = harness.Elsewhere{Withheld: 0.02, Others: 0.01, Seconds: 50, Disturbed: 3}
	left      = harness.Elsewhere{Others: 0.01, Seconds: 50}
	track     = phase{name: "track", mode: "Reject", controller: "Track", tries: 3}
)

// The overload has as many tries as a load of the sweep, but only for a miss while the
// machine was seen to be disturbed.
func TestAnOverloadIsMeasuredAgainOnlyForADisturbedMiss(t *testing.T) {
	good, bad := histogram(40*time.Millisecond), histogram(60*time.Millisecond)
	for name, one := range map[string]struct {
		row  row
		want judgement
	}{
		"met the goals":     {row{phase: track, try: 1, routers: good, inTime: 9000, elsewhere: disturbed}, judgement{why: "met the goals"}},
		"slow, disturbed":   {row{phase: track, try: 1, routers: bad, inTime: 9000, elsewhere: disturbed}, judgement{again: true, why: "p99 is 1.2"}},
		"little, disturbed": {row{phase: track, try: 2, routers: good, inTime: 8900, elsewhere: disturbed}, judgement{again: true, why: "goodput is 0.890"}},
		"slow, left alone":  {row{phase: track, try: 1, routers: bad, inTime: 9000, elsewhere: left}, judgement{why: "not disturbed"}},
		"nobody knows":      {row{phase: track, try: 1, routers: bad, inTime: 9000, elsewhere: disturbed, unknown: errors.New("no group")}, judgement{why: "not known: no group"}},
		"the last":          {row{phase: track, try: 3, routers: bad, inTime: 9000, elsewhere: disturbed}, judgement{why: "the last try"}},
		"cut short":         {row{phase: track, try: 1, routers: good, inTime: 9900, elsewhere: disturbed, short: errors.New("short")}, judgement{again: true, why: "not offered"}},
		"nothing answered":  {row{phase: track, try: 1, routers: &ll7.Histogram{}, elsewhere: disturbed}, judgement{again: true, why: "p99"}},
		"one try":           {row{phase: phase{name: "aiad", tries: 1}, try: 1, routers: bad, elsewhere: disturbed}, judgement{why: "one try"}},
	} {
		s := &Suite{Setup: setup, swept: 10000, rows: []row{one.row}}
		if got := s.judge(one.row); got.again != one.want.again || !strings.Contains(got.why, one.want.why) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// Every try is shown, with the one that is judged and why; its figures are the ones
// that are recorded.
func TestAllTriesAreShownAndOneIsRecorded(t *testing.T) {
	good, bad := histogram(40*time.Millisecond), histogram(80*time.Millisecond)
	s := &Suite{Got: &harness.Measurements{}, Setup: setup, swept: 10000}
	for try, h := range []*ll7.Histogram{bad, good} {
		r := row{phase: track, try: try + 1, routers: h, client: h, inTime: 9500, elsewhere: disturbed}
		s.rows = append(s.rows, r)
		s.rows[try].judgement = s.judge(r)
	}
	text := s.table()
	for _, want := range []string{"2, judged", "3.0%/3", "Reject Track, 1: missed: p99 is 1.6", "3 of 50 seconds were disturbed", "Reject Track, 2, judged: met the goals"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	got := recorded(t, s)
	for _, want := range []string{`"e2e_overload_p99_over_slo","value":0.8`, `"e2e_overload_tries","value":2`, `"e2e_slo_service_ms","value":5}`} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s of the judged try; recorded %s", want, got)
		}
	}
}

func recorded(t *testing.T, s *Suite) string {
	t.Helper()
	root := t.TempDir()
	s.record()
	if err := s.Got.Write(root, "e2e-slo"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "build", "measurements", "e2e-slo.json"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(" ", "", "\n", "").Replace(string(raw))
}

func TestAMachineThatCannotCarryTheWorkersIsSaidSo(t *testing.T) {
	met := histogram(40 * time.Millisecond)
	for name, one := range map[string]struct {
		suite Suite
		want  string
	}{
		"none met":  {Suite{points: []point{{elsewhere: harness.Elsewhere{Others: 0.4, Seconds: 10}}}}, "no load of the sweep met p99 <= 50ms; 40 % of the processors' time went elsewhere"},
		"too few":   {Suite{swept: 9593}, "9593 requests/s, 0.749 of what they can do, less than 0.75"},
		"carried":   {Suite{swept: 9600}, ""},
		"by a load": {Suite{swept: 9000, rows: []row{{routers: met, inTime: 9700}}}, ""},
		"cut short": {Suite{swept: 9000, cut: errors.New("job j sent 9000 requests of 10000")}, "job j sent 9000"},
	} {
		one.suite.Setup = setup
		got := one.suite.cannotCarry()
		if (got == "") != (one.want == "") || !strings.Contains(got, one.want) || (got != "" && !strings.HasPrefix(got, "the machine cannot carry 64 workers of 5ms: ")) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// A longer service time is an additional row: its figures have its name, and those that
// have none stay those of what was asked for.
func TestALongerServiceTimeReplacesNothing(t *testing.T) {
	if got := setup.instead(); len(got) != 2 || got[0] != 10*time.Millisecond || got[1] != 20*time.Millisecond {
		t.Errorf("instead of 5 ms: %v", got)
	}
	if got := (Setup{1, 1, 20 * time.Millisecond}).instead(); len(got) != 0 {
		t.Errorf("instead of 20 ms: %v", got)
	}
	h := histogram(40 * time.Millisecond)
	first := &Suite{Got: &harness.Measurements{}, Setup: setup, swept: 5000}
	second := first.again(10 * time.Millisecond)
	second.swept = 6000
	second.rows = []row{{phase: track, try: 1, routers: h, client: h, inTime: 5900}}
	first.record()
	got := recorded(t, second)
	for _, want := range []string{`"e2e_slo_10ms_service_ms","value":10}`, `"e2e_slo_sweep_rps","value":5000}`, `"e2e_overload_10ms_goodput_share","value":0.9833}`} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s; recorded %s", want, got)
		}
	}
	if strings.Contains(got, `"e2e_overload_goodput_share"`) {
		t.Errorf("the longer service time took the name of the one that was asked for: %s", got)
	}
	text := summary([]*Suite{first, second})
	for _, want := range []string{"5ms  the machine cannot carry", "10ms  the machine carries them; p99 0.4", "goodput 0.983"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if summary([]*Suite{first}) != "" {
		t.Error("one row needs no summary")
	}
}

// A burst of slow requests across the border of two disjoint windows is 1.6 % of those
// of a window that holds all of it, and less than a percent of either of these.
func TestTheWorstWindowSlidesByASecond(t *testing.T) {
	if got := worstWindow(burst(10, 4, 5), 5); got < 900000 {
		t.Errorf("got %v us", got)
	}
	for _, half := range [][]*ll7.Histogram{burst(10, 4, 5)[:5], burst(10, 4, 5)[5:]} {
		if got := worstWindow(half, 5); got > 2000 {
			t.Errorf("half of the burst is no percent: %v us", got)
		}
	}
	for name, edge := range map[string][]*ll7.Histogram{"first": burst(10, 0, 1), "last": burst(10, 8, 9), "last, before": burst(10, 5, 9)} {
		if got := worstWindow(edge, 5); got < 900000 {
			t.Errorf("the %s seconds lie in no window: %v us", name, got)
		}
	}
	if got := worstWindow(make([]*ll7.Histogram, 5), 5); !math.IsNaN(got) {
		t.Errorf("nothing came through, and that took %v us", got)
	}
}

// burst is so many seconds of 100 fast requests, of which four are slow in two of them.
func burst(seconds int, slow ...int) []*ll7.Histogram {
	out := make([]*ll7.Histogram, seconds)
	for i := range out {
		out[i] = &ll7.Histogram{}
		for j := range 100 {
			latency := time.Millisecond
			if slices.Contains(slow, i) && j < 4 {
				latency = time.Second
			}
			out[i].Record(uint64(latency.Nanoseconds()))
		}
	}
	return out
}
