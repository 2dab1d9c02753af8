// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

func document(points int, reason string) Document {
	d := Document{Protocol: "redis", Targets: []string{"h:1"}, Timestamps: []string{"kernel"}, Agents: []string{"a"}, Latency: "Response", Percentile: 99, Confidence: 95}
	for i := range points {
		p := NewPoint(float64(1000*(i+1)), lancet.Result{
			Conclusive: reason == "", Reasons: []string{reason}, Throughput: 999,
			Percentiles: []lancet.Percentile{
				{Percentile: 0.5, Value: 10 * time.Microsecond, Low: 9 * time.Microsecond, High: 11 * time.Microsecond, Defined: true, Samples: 100},
				{Percentile: 0.99, Value: 100 * time.Microsecond, Low: 90 * time.Microsecond, High: lancet.Never, Defined: true, Samples: 100},
			},
			Other: make([]lancet.Percentile, 2),
		})
		d.Points = append(d.Points, p)
	}
	return d
}

// The summary fits into a termination message, whatever the reasons, and comes back.
func TestSummaryFits(t *testing.T) {
	for points, reason := range map[int]string{1: "short", 12: strings.Repeat("ü\"", 3000), 100: strings.Repeat("x", 500)} {
		raw := Summarise(document(points, reason), errors.New(strings.Repeat("e", 9000)))
		s, err := ParseSummary(string(raw))
		if err != nil {
			t.Fatalf("%d points: %v in %s", points, err, raw)
		}
		if points <= 12 && (len(raw) > SummaryBytes || len(s.Loads) != points || s.Loads[0].Reason == "" || s.Error == "") {
			t.Errorf("%d points: %d bytes, %d loads", points, len(raw), len(s.Loads))
		}
		if s.Loads[0].High != nil || *s.Loads[0].Value != 100 {
			t.Errorf("load %+v: an infinite bound is absent", s.Loads[0])
		}
	}
	for _, bad := range []string{"", "{}", "panic: x", `{"loads":[{"o":1,"a":1,"v":-5}]}`} {
		if _, err := ParseSummary(bad); err == nil {
			t.Errorf("%q is taken for a summary", bad)
		}
	}
}

// As many phases as the status has room for fit at the largest numbers there are;
// they come back with their beginnings.
func TestSummaryOfPhases(t *testing.T) {
	const room, longest, highest = 40, 86_400 * time.Second / 40, 100_000_000
	d := document(0, "")
	d.Changing = true
	doubt := "phase 7: Arrivals, agent 0: " + strings.Repeat("late ", 100)
	for i := range room {
		p := NewPoint(highest, lancet.Result{Reasons: []string{"the load changes"}, Warnings: []string{doubt}, Throughput: highest, Percentiles: []lancet.Percentile{
			{Percentile: 0.99, Value: 600 * time.Second, Low: 600 * time.Second, High: 600 * time.Second, Defined: true, Samples: 100}}, Other: make([]lancet.Percentile, 1)})
		p.StartSeconds = (time.Duration(i) * longest).Seconds()
		d.Points = append(d.Points, p)
	}
	raw := Summarise(d, nil)
	s, err := ParseSummary(string(raw))
	if err != nil || len(raw) > SummaryBytes || len(s.Loads) != room || !s.Changing || s.Loads[39].Start != 39*2160 || *s.Loads[39].High != 600_000_000 {
		t.Errorf("%d bytes, %d loads, %v: %.300s", len(raw), len(s.Loads), err, raw)
	}
	d.Points = d.Points[:3]
	if s, err := ParseSummary(string(Summarise(d, nil))); err != nil || !strings.HasPrefix(s.Loads[2].Reason, "phase 7: Arrivals, agent 0: late") {
		t.Errorf("%v; a phase's doubt: %+v", err, s.Loads)
	}
}

func FuzzParseSummary(f *testing.F) {
	f.Add(string(Summarise(document(2, "why"), nil)))
	f.Fuzz(func(t *testing.T, raw string) {
		if s, err := ParseSummary(raw); err == nil && s.Error == "" && len(s.Loads) == 0 {
			t.Fatal("an empty summary")
		}
	})
}

// L-27, L-32: infinite latencies and too few samples are said, not shown as numbers.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := Table(&out, document(1, "Load: too slow")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p99", "90.0µs … +Inf", "inconclusive, because Load: too slow"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	d := document(2, "")
	d.Points[0].Percentiles[1].Defined = false
	out.Reset()
	if err := Table(&out, d); err != nil || !strings.Contains(out.String(), "undefined: 100 samples") || !strings.Contains(out.String(), "yes") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A line for each percentile of each load; loads are written as they are, latencies
// to the nanosecond, and what never ends stays empty.
func TestCSV(t *testing.T) {
	d := document(2, "too slow")
	d.Points[0].StartSeconds, d.Points[0].Offered = 1.5, 1234.5678
	d.Points[0].Reasons = []string{"one", "two"}
	var out bytes.Buffer
	if err := CSV(&out, d); err != nil {
		t.Fatal(err)
	}
	want := "start_s,offered_rps,achieved_rps,conclusive,percentile,value_us,low_us,high_us,defined,other_us,samples,reasons\n" +
		"1.5,1234.5678,999,false,50,10.000,9.000,11.000,true,0.000,100,one; two\n" +
		"1.5,1234.5678,999,false,99,100.000,90.000,,true,0.000,100,one; two\n" +
		"0,2000,999,false,50,10.000,9.000,11.000,true,0.000,100,too slow\n" +
		"0,2000,999,false,99,100.000,90.000,,true,0.000,100,too slow\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

// L-2: what the kernel said to the agent that asked it to poll stands above the table, and why it refused below.
func TestTableSaysWhoIsPolledFor(t *testing.T) {
	d := document(1, "")
	d.Agents, d.LatencyAgents = []string{"quiet:1", "loud:2"}, 1
	for said, want := range map[string][]string{
		"off":                {"kernel stamps, 2 agent(s)"},
		"":                   {"kernel stamps, 2 agent(s)"}, // an agent that does not tell
		"on":                 {"kernel stamps, busy polling on, 2 agent(s)"},
		"refused: no: never": {"kernel stamps, busy polling refused, 2 agent(s)", "quiet:1: warning: the kernel does not poll for its sockets: no: never\n"},
	} {
		d.BusyPoll = []string{said, "off"}
		var out bytes.Buffer
		if err := Table(&out, d); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: %q is missing in\n%s", said, w, &out)
			}
		}
		if refused := len(want) == 2; strings.Contains(out.String(), "warning") != refused {
			t.Errorf("%s: a warning, or none:\n%s", said, &out)
		}
	}
}

func TestPlotRefuses(t *testing.T) {
	if err := Plot(t.TempDir()+"/x.gif", document(1, "")); err == nil || !strings.Contains(err.Error(), ".svg") {
		t.Errorf("a GIF: %v", err)
	}
	if err := Plot(t.TempDir()+"/x.svg", document(1, "")); err == nil || !strings.Contains(err.Error(), "finite") {
		t.Errorf("nothing but infinite intervals: %v", err)
	}
}

// Microseconds are rounded up, as everywhere: the doubt goes against the service.
func TestWholeMicroseconds(t *testing.T) {
	for v, want := range map[float64]int64{12: 12, 12.001: 13, 0.2: 1, 0: 0} {
		if got := whole(&v); got == nil || *got != want {
			t.Errorf("%v us: %v, want %d", v, got, want)
		}
	}
	if whole(nil) != nil {
		t.Error("infinity is a number")
	}
}
