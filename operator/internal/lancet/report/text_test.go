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

// ofOne is a document of one load with something of everything that a table may say.
func ofOne() Document {
	d := document(1, "Load: too slow")
	d.Targets, d.Timestamps, d.Agents = []string{"h:1", "h:2"}, []string{"kernel", "software", "kernel"}, []string{"a:1", "b:1", "c:1"}
	d.BusyPoll = []string{"on", "refused: no", "refused: never"}
	p := &d.Points[0]
	p.Failed, p.Mean, p.Seconds = map[string]uint64{"timeout": 3, "lost": 0, "refused": 4}, us(12_500), 7.4
	p.Warnings = []string{"late", "slow"}
	never := Quantile{Percentile: 99.99, Samples: 100}
	last := Quantile{Percentile: 75, Value: us(1e6), Low: us(1000), High: us(2_500_000), Defined: true}
	p.Percentiles = append(p.Percentiles, never, last)
	p.Other = []Quantile{{Value: us(1)}, {Value: us(2)}, {Value: us(3)}, {Value: us(4)}}
	return d
}

// ofMany are two loads: one with two doubts, one that is known.
func ofMany(changing bool) Document {
	d := document(2, "one")
	d.Changing, d.Latency = changing, "Service"
	d.Points[0].Reasons = []string{"one", "two"}
	d.Points[0].Failed = map[string]uint64{"lost": 2}
	d.Points[1].Conclusive, d.Points[1].StartSeconds = true, 2.5
	d.Points[1].Percentiles = d.Points[1].Percentiles[1:]
	return d
}

const (
	wholeOfOne = `redis h:1 h:2, response latency, kernel and software stamps, busy polling on and refused, 3 agent(s)

PERCENTILE  RESPONSE   95 % INTERVAL       SERVICE
p50         10.0µs     9.0µs … 11.0µs      1.0µs
p99         100.0µs    90.0µs … +Inf       2.0µs
p75         1.000s     1.000ms … 2.500s    4.0µs

offered 1000/s, achieved 999/s, mean 12.500ms, 7 failed, 7 s
1000/s: inconclusive, because Load: too slow
1000/s: 4 requests failed: refused
1000/s: 3 requests failed: timeout
1000/s: warning: late
1000/s: warning: slow
b:1: warning: the kernel does not poll for its sockets: no
c:1: warning: the kernel does not poll for its sockets: never
`
	wholeOfMany = `redis h:1, service latency, kernel stamps, 1 agent(s)

START  OFFERED  ACHIEVED  FAILED  P50     P99      95 % INTERVAL    CONCLUSIVE
-      1000/s   999/s     2       10.0µs  100.0µs  90.0µs … +Inf    no
-      2000/s   999/s     0       +Inf    100.0µs  90.0µs … +Inf    yes
1000/s: inconclusive, because one; two
1000/s: 2 requests failed: lost
`
	wholeOfPhases = `redis h:1, service latency, kernel stamps, 1 agent(s)

START  OFFERED  ACHIEVED  FAILED  P50     P99      95 % INTERVAL    CONCLUSIVE
0.0s   1000/s   999/s     2       10.0µs  100.0µs  90.0µs … +Inf    -
2.5s   2000/s   999/s     0       +Inf    100.0µs  90.0µs … +Inf    -
0.0s: 2 requests failed: lost
the load changes: there is no steady state to qualify, intervals take samples as independent
`
	wholeOfOnePhase = `redis h:1, service latency, kernel stamps, 1 agent(s)

START  OFFERED  ACHIEVED  FAILED  P50  P99      95 % INTERVAL  CONCLUSIVE
2.5s   2000/s   999/s     0       +Inf  100.0µs  90.0µs … +Inf  -
the load changes: there is no steady state to qualify, intervals take samples as independent
`
)

// words are the lines of a table whatever its columns' widths, which no reader counts.
func words(table string) string {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// What people read, from the first word to the last.
func TestWholeTables(t *testing.T) {
	onePhase := ofMany(true)
	onePhase.Points = onePhase.Points[1:]
	for name, c := range map[string]struct {
		d    Document
		want string
	}{
		"one load": {ofOne(), wholeOfOne}, "many loads": {ofMany(false), wholeOfMany},
		"phases": {ofMany(true), wholeOfPhases}, "one phase": {onePhase, wholeOfOnePhase},
	} {
		var out bytes.Buffer
		if err := Table(&out, c.d); err != nil {
			t.Fatal(err)
		}
		if got := words(out.String()); got != words(c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, words(c.want))
		}
	}
}

// A percentile that too few samples bound is shown when it is the one that was asked for, and another one never.
func TestTheOneThatWasAskedForIsShown(t *testing.T) {
	d := document(1, "")
	for i := range d.Points[0].Percentiles {
		d.Points[0].Percentiles[i].Defined = false
	}
	var out bytes.Buffer
	if err := Table(&out, d); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "p50") || !strings.Contains(text, "p99") {
		t.Errorf("%s", text)
	}
}

// Each unit begins where its number is 1.
func TestUnits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.0µs", 999.9: "999.9µs", 1000: "1.000ms", 1500: "1.500ms", 999_999: "999.999ms", 1e6: "1.000s", 2_500_000: "2.500s",
	} {
		if got := latency(&v); got != want {
			t.Errorf("%v us: %s, want %s", v, got, want)
		}
	}
	if got := latency(nil); got != "+Inf" {
		t.Errorf("never: %s", got)
	}
}

// Only the clocks of agents that measured are named, and how many those are.
func TestWhoMeasures(t *testing.T) {
	for _, c := range []struct {
		measuring    int
		stamps, says string
	}{
		{0, "kernel software hardware", "3 agent(s)"}, {1, "kernel", "3 agent(s) of which 1 measure"},
		{3, "kernel software hardware", "3 agent(s) of which 3 measure"}, {4, "kernel software hardware", "3 agent(s) of which 4 measure"},
	} {
		d := Document{Timestamps: []string{"kernel", "software", "hardware"}, Agents: []string{"a", "b", "c"}, LatencyAgents: c.measuring}
		if got := strings.Join(d.measuring(), " "); got != c.stamps || d.agents() != c.says {
			t.Errorf("%d measure: %s; %s", c.measuring, got, d.agents())
		}
	}
}

// A document is as sure as the least sure of its points, and one without any is not.
func TestConclusive(t *testing.T) {
	for _, c := range []struct {
		points []Point
		want   bool
	}{
		{nil, false}, {[]Point{{Conclusive: true}}, true}, {[]Point{{}}, false},
		{[]Point{{Conclusive: true}, {}}, false}, {[]Point{{}, {Conclusive: true}}, false}, {[]Point{{Conclusive: true}, {Conclusive: true}}, true},
	} {
		if got := (Document{Points: c.points}).Conclusive(); got != c.want {
			t.Errorf("%+v: %v", c.points, got)
		}
	}
}

// The numbers of a result are those of its point, in other units.
func TestPointOfAResult(t *testing.T) {
	p := NewPoint(7, lancet.Result{
		Throughput: 6, Mean: 1500 * time.Nanosecond, Elapsed: 1500 * time.Millisecond,
		Percentiles: []lancet.Percentile{{Percentile: 0.999, Value: 2 * time.Microsecond, Low: time.Microsecond, High: lancet.Never, Samples: 3}},
		Rounds:      []lancet.Round{{Samples: 4, SamplingRate: 0.5, Findings: []lancet.Finding{{Check: "Load", Agent: -1, Passed: true, Detail: "d"}}}},
	})
	if p.Offered != 7 || p.Achieved != 6 || *p.Mean != 1.5 || p.Seconds != 1.5 {
		t.Errorf("%+v", p)
	}
	if q := p.Percentiles[0]; q.Percentile != 99.9 || *q.Value != 2 || *q.Low != 1 || q.High != nil || q.Samples != 3 {
		t.Errorf("%+v", q)
	}
	if r := p.Rounds[0]; r.Samples != 4 || r.SamplingRate != 0.5 || r.Findings[0] != (Finding{"Load", -1, true, "d"}) {
		t.Errorf("%+v", r)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]float64{0: 0, 0.29: 29, 0.5: 50, 0.999: 99.9, 0.99999: 99.999, 0.123456784: 12.345678, 0.123456786: 12.345679, 1: 100} {
		if got := Percent(share); got != want {
			t.Errorf("%v: %v, want %v", share, got, want)
		}
	}
}

// What a container says when it ends: numbers rounded to the nearest, latencies upwards.
func TestWholeSummary(t *testing.T) {
	d := ofMany(false)
	d.Points[0].Offered, d.Points[0].Achieved, d.Points[1].Achieved, d.Points[1].StartSeconds = 1000.5, 999.4, 999.6, 2.6
	d.Points[0].Percentiles[1].Value, d.Points[0].Percentiles[1].High = us(100.2), us(0)
	d.Points[1].Percentiles[0].Defined = false
	d.Points[1].Reasons, d.Points[1].Warnings = nil, []string{"late"}
	const one, two = `{"o":1001,"a":999,"v":101,"l":90,"h":0,"r":"one; two"}`, `{"o":2000,"a":1000,"v":100,"c":true,"s":3}`
	if got, want := string(Summarise(d, nil)), `{"loads":[`+one+`,`+two+`]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s, err := ParseSummary(`{"loads":[` + one + `,` + two + `]}`); err != nil || len(s.Loads) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ParseSummary(`{"loads":[` + one + `,{"o":1,"a":1,"h":-1}]}`); err == nil || !strings.Contains(err.Error(), "load 1 has a latency of -1 us") {
		t.Errorf("%v does not say which load", err)
	}
}

// A text is cut behind as many bytes as there is room for, and never within a character.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 4, "abc"}, {"abc", 3, "abc"}, {"abc", 2, "ab…"}, {"aü", 2, "a…"}, {"aüb", 3, "aü…"}, {"abc", 0, "…"}} {
		if got := cut(c.text, c.most); got != c.want {
			t.Errorf("%q in %d bytes: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

// A summary is cut only as far as it must be.
func TestASummaryIsCutLittle(t *testing.T) {
	for _, c := range []struct{ points, room, failure int }{{1, 480, 1920}, {8, 240, 960}, {25, 60, 240}} {
		s, err := ParseSummary(string(Summarise(document(c.points, strings.Repeat("x", 500)), errors.New(strings.Repeat("e", 9000)))))
		if err != nil || len(s.Loads) != c.points || len(s.Loads[0].Reason) != c.room+len("…") || len(s.Error) != c.failure+len("…") {
			t.Errorf("%d points: %d bytes of a reason, %d of the failure, %v", c.points, len(s.Loads[0].Reason), len(s.Error), err)
		}
	}
}
