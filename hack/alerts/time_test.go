// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
)

// interval is how often Prometheus looks at the rules.
const interval = time.Minute

// firing is one time that an alert was heard, in minutes: from the first look at
// which it fired to the last.
type firing struct{ from, to int }

// heard plays an alert over so many minutes as Prometheus would: it is pending as
// long as its expression holds for less than `for`, and resolved by the first look
// at which it does not hold. The rules here have one series each, or none.
func heard(t *testing.T, load string, r rulefmt.Rule, minutes int) (all []firing) {
	t.Helper()
	since, fires := -1, false
	for at, holds := range holding(t, load, r.Expr, minutes) {
		switch {
		case !holds:
			since, fires = -1, false
			continue
		case since < 0:
			since = at
		}
		if time.Duration(at-since)*interval < time.Duration(r.For) {
			continue
		}
		if !fires {
			all = append(all, firing{at, at})
		}
		fires = true
		all[len(all)-1].to = at
	}
	return all
}

// holding says for every look whether the expression holds.
func holding(t *testing.T, load, expr string, minutes int) []bool {
	t.Helper()
	end := time.Unix(0, 0).Add(time.Duration(minutes) * interval)
	result := asked(t, load, func(e *promql.Engine, of storage.Queryable) (promql.Query, error) {
		return e.NewRangeQuery(context.Background(), of, nil, expr, time.Unix(0, 0), end, interval)
	})
	out := make([]bool, minutes+1)
	matrix := result.(promql.Matrix)
	if len(matrix) > 1 {
		t.Fatalf("%d series; the tests here are about one", len(matrix))
	}
	for _, s := range matrix {
		for _, p := range s.Floats {
			out[time.Duration(p.T)*time.Millisecond/interval] = true
		}
	}
	return out
}

// stretch is a time in which so many of 100 requests a second miss.
type stretch struct {
	minutes int
	bad     float64
}

// story is the counters of an objective that allows one miss in a hundred.
func story(parts ...stretch) (load string, minutes int) {
	var bad strings.Builder
	sum := 0.0
	bad.WriteString("0")
	for _, p := range parts {
		for range p.minutes {
			sum += 60 * p.bad
			fmt.Fprintf(&bad, " %g", sum)
		}
		minutes += p.minutes
	}
	const series = `{namespace="demo", name="p99", instance="a"}`
	return fmt.Sprintf("bobtail_slo_requests_total%s 0+6000x%d\nbobtail_slo_violations_total%s %s\nbobtail_slo_allowed_share%s 0.01x%d\n",
		series, minutes, series, bad.String(), series, minutes), minutes
}

const calm = 1500 // more than a day, so that every window is full

// What is heard of a story from its beginning to its end: which alerts, how long
// after the trouble began, how long after it was over, and none twice.
func TestBurnRatesFromBeginningToEnd(t *testing.T) {
	all := rules(t)
	type window struct{ begins, ends [2]int } // minutes after the begin of the trouble, and after its end
	for _, c := range []struct {
		name    string
		trouble stretch
		want    map[string]window
	}{
		// A day's ratio of 3 % is 43 minutes of nothing but misses.
		{"an outage of an hour", stretch{60, 100}, map[string]window{
			"SLOFastBurn": {[2]int{9, 11}, [2]int{0, 6}}, // 14.4 % of an hour, and a minute more
			"SLOBurn":     {[2]int{26, 29}, [2]int{20, 31}},
			"SLOSlowBurn": {[2]int{57, 60}, [2]int{100, 121}},
		}},
		{"five minutes of nothing but misses", stretch{5, 100}, nil},
		{"twenty times the budget for two hours", stretch{120, 20}, map[string]window{
			"SLOFastBurn": {[2]int{43, 46}, [2]int{0, 6}},
			"SLOBurn":     {[2]int{112, 116}, [2]int{15, 31}},
		}},
		{"seven times for ten hours", stretch{600, 7}, map[string]window{
			"SLOBurn": {[2]int{310, 317}, [2]int{0, 31}},
		}},
		{"four times for a day", stretch{1440, 4}, map[string]window{"SLOSlowBurn": {[2]int{1093, 1099}, [2]int{20, 121}}}},
		{"half the budget, for ever", stretch{1440, 0.5}, nil},
		{"twice the budget, for a day", stretch{1440, 2}, nil},
	} {
		load, minutes := story(stretch{calm, 0}, c.trouble, stretch{calm, 0})
		for _, alert := range []string{"SLOFastBurn", "SLOBurn", "SLOSlowBurn"} {
			got := heard(t, load, all["Bobtail"+alert], minutes)
			want, fires := c.want[alert]
			switch {
			case !fires && len(got) > 0:
				t.Errorf("%s: %s fires at %v, minute %d being the first of the trouble; nobody should be called", c.name, alert, got, calm)
			case fires && len(got) != 1:
				t.Errorf("%s: %s is heard %d times: %v", c.name, alert, len(got), got)
			case fires:
				begins, ends := got[0].from-calm, got[0].to-calm-c.trouble.minutes
				if begins < want.begins[0] || begins > want.begins[1] || ends < want.ends[0] || ends > want.ends[1] {
					t.Errorf("%s: %s from %d minutes after the begin to %d after the end, want %v and %v", c.name, alert, begins, ends, want.begins, want.ends)
				}
			}
		}
	}
}

// A look at which an expression holds is not yet an alert where there is a `for`,
// and every alert that has one keeps it.
func TestForIsKept(t *testing.T) {
	want := map[string]time.Duration{
		"SLOFastBurn": time.Minute, "SLOBurn": 5 * time.Minute, "SLOSlowBurn": 15 * time.Minute, "SLORejecting": 5 * time.Minute,
		"SLOCapacityNear": 10 * time.Minute, "SidecarUnreadable": 10 * time.Minute, "OperatorAbsent": 10 * time.Minute,
		"DataplaneDown": 2 * time.Minute, "ConfigRefused": 0, "ConfigWatchFailing": time.Minute, "WorkerEjected": 5 * time.Minute,
		"CrabPoolExhausted": time.Minute, "CrabAddressWithoutOwner": time.Minute,
		"GroupNoLeader": 2 * time.Minute, "GroupMemberUnhealthy": 10 * time.Minute, "GroupNoBox": 2 * time.Minute, "GroupAggregatorBypassed": 15 * time.Minute, "GroupStatesUndecided": 2 * time.Minute, "SwitchNotProgrammed": 5 * time.Minute, "SwitchEntriesLost": 15 * time.Minute,
	}
	all := rules(t)
	if len(all) != len(want) {
		t.Errorf("%d alerts, this test knows %d", len(all), len(want))
	}
	for name, d := range want {
		if got := time.Duration(all["Bobtail"+name].For); got != d {
			t.Errorf("%s waits %s, want %s", name, got, d)
		}
	}
	down := all["BobtailDataplaneDown"]
	for values, alerts := range map[string]int{"1x10 0x1 1x20": 0, "1x10 0x2 1x20": 1, "1x10 0x2 1x5 0x3 1x5": 2} { // a value and so many more
		if got := heard(t, `bobtail_dataplane_up{instance="x"} `+values, down, 30); len(got) != alerts {
			t.Errorf("%s: heard %v, want %d", values, got, alerts)
		}
	}
}

// Whoever is called reads which objective, worker or pod: every label and value
// that an annotation asks for is there when the alert fires.
func TestAnnotationsAsTheyAreRead(t *testing.T) {
	for name, r := range rules(t) {
		series := labels.FromStrings("namespace", "shop", "service", "cart", "name", "cart-p99", "worker", "10.0.0.1:8000", "group", "orders", "instance", "router-1", "reason", "InvalidConfig", "result", "Untrusted")
		for key, text := range r.Annotations {
			got, err := template.NewTemplateExpander(context.Background(), "{{$labels := .Labels}}{{$value := .Value}}"+text, name,
				template.AlertTemplateData(series.Map(), nil, "", promql.Sample{F: 3, Metric: series}), model.Time(0), nil, &url.URL{}, nil).Expand()
			if err != nil || strings.Contains(got, "<no value>") || strings.Contains(got, "{{") || strings.Contains(got, "/ ") && key == "summary" || got == "" {
				t.Errorf("%s, %s: %q, %v", name, key, got, err)
			}
		}
	}
}

// The chart renders these rules, to the letter: Helm's own braces are Prometheus'.
func TestTheChartRendersTheseRules(t *testing.T) {
	cache := os.Getenv("BOBTAIL_CACHE")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache", "bobtail")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "helm-*", "bin", "helm"))
	if len(found) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("no helm in %s: run hack/deps/install", cache)
		}
		t.Skipf("no helm in %s: run hack/deps/install", cache)
	}
	out, err := exec.Command(found[len(found)-1], "template", "bobtail", filepath.Join(top, "charts/bobtail"), "--set=monitoring.prometheusRule.enabled=true").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, rule, ok := strings.Cut(string(out), "kind: PrometheusRule\n")
	if !ok {
		t.Fatal("the chart renders no PrometheusRule")
	}
	rule, _, _ = strings.Cut(rule, "\n---\n")
	_, spec, _ := strings.Cut(rule, "\nspec:\n")
	var groups strings.Builder
	for line := range strings.Lines(spec) {
		groups.WriteString(strings.TrimPrefix(line, "  "))
	}
	text, more := read(t, "charts/bobtail/files/alerts.yaml"), read(t, "charts/bobtail/files/recording-rules.yaml")
	want := text[strings.Index(text, "groups:"):] + more[strings.Index(more, "  - name:"):]
	if got := strings.TrimSpace(groups.String()); got != strings.TrimSpace(want) {
		t.Errorf("the chart renders\n%s", got)
	}
}
