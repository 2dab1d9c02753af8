// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"math"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Whole numbers are written without an exponent as far as they are exact.
func TestFormatValue(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", -3: "-3", 1e15: "1000000000000000", 1<<53 - 1: "9007199254740991", 1 << 53: "9.007199254740992e+15", -(1 << 53): "-9.007199254740992e+15",
		1 - 1<<53: "-9007199254740991", 1.5: "1.5", 0.000001024: "1.024e-06", math.Inf(1): "+Inf", math.Inf(-1): "-Inf",
	} {
		if got := formatValue(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := formatValue(math.NaN()); got != "NaN" {
		t.Errorf("no number: %s", got)
	}
}

// Letters, digits but the first, and underscores; each other character is an underscore.
func TestMetricName(t *testing.T) {
	for name, want := range map[string]string{
		"azAZ_09": "azAZ_09", "": "_", "0a9": "_a9", "a.b-c": "a_b_c", "@AZ[": "_AZ_", "`az{": "_az_", "a/0:9": "a_0_9", "ü": "_",
	} {
		if got := metricName(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// A whole text: families in the order of their names, labels too, those of a sample
// before the common ones, and all samples of a family together.
func TestExposition(t *testing.T) {
	e := &exposition{common: map[string]string{"service": "echo", "namespace": "demo"}}
	e.add("counter", "b_total", "two\nlines", map[string]string{"a": "q\"\\"}, 3)
	e.add("gauge", "a", "one", nil, 0.5)
	e.add("counter", "b_total", "", map[string]string{"service": "own"}, 4)
	const want = `# HELP a one
# TYPE a gauge
a{namespace="demo",service="echo"} 0.5
# HELP b_total two\nlines
# TYPE b_total counter
b_total{a="q\"\\",namespace="demo",service="echo"} 3
b_total{namespace="demo",service="own"} 4
`
	if got := string(e.bytes()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	bare := &exposition{}
	bare.add("gauge", "a", "one", nil, 1)
	if got := string(bare.bytes()); got != "# HELP a one\n# TYPE a gauge\na 1\n" {
		t.Errorf("%s", got)
	}
}

// Bounds are written as exactly as they are, and seconds are the unit of everything.
func TestUnitsOfMetrics(t *testing.T) {
	h := &ll7.Histogram{}
	h.Record(1500)
	h.RecordInf()
	e := &exposition{}
	collectHistogram(e, "t", "h", map[string]string{"source": "Router"}, h)
	collectSamples(e, "gauge", []dataplane.Sample{{Name: "age_nanoseconds", Value: 1.5e9}, {Name: "pairs", Value: 7}})
	collectState(e, &dataplane.State{
		UptimeSeconds: 2.5,
		Routers:       []dataplane.RouterHeard{{Address: "never", HeardMillisecondsAgo: -1}, {Address: "now", HeardMillisecondsAgo: 0}, {Address: "late", HeardMillisecondsAgo: 1500}},
		Members: []dataplane.WorkerState{
			{Address: "fd00::1", Port: 1, FeedbackAgeMilliseconds: -1}, {Address: "10.0.0.1", Port: 2, FeedbackAgeMilliseconds: 0, Joined: true},
			{Address: "10.0.0.1", Port: 3, FeedbackAgeMilliseconds: 250},
		},
	})
	text := string(e.bytes())
	for _, want := range []string{
		`t_bucket{le="1.024e-06",source="Router"} 0`, `t_bucket{le="1.536e-06",source="Router"} 1`, `t_bucket{le="0.000131072",source="Router"} 1`,
		`t_bucket{le="+Inf",source="Router"} 2`, `t_sum{source="Router"} 1.5e-06`, `t_count{source="Router"} 2`,
		"bobtail_age_seconds 1.5", "bobtail_pairs 7", "bobtail_uptime_seconds 2.5",
		`bobtail_router_heard_seconds{router="now"} 0`, `bobtail_router_heard_seconds{router="late"} 1.5`,
		`bobtail_worker_feedback_age_seconds{worker="10.0.0.1:2"} 0`, `bobtail_worker_feedback_age_seconds{worker="10.0.0.1:3"} 0.25`,
		`bobtail_worker_joined{worker="[fd00::1]:1"} 0`, `bobtail_worker_joined{worker="10.0.0.1:2"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, never := range []string{`router="never"`, `age_seconds{worker="[fd00`} {
		if strings.Contains(text, never) {
			t.Errorf("%s is told", never)
		}
	}
}
