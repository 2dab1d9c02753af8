// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// recordings are the recording rules by name, each without those it is made of: their
// expressions stand in their places.
func recordings(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range parsed(t, "recording-rules.yaml") {
		expr := r.Expr
		for name, of := range out {
			expr = strings.ReplaceAll(expr, name, of)
		}
		out[r.Record] = expr
	}
	return out
}

// twoServices answer 100 requests a second each, of which one takes 1 to 2 ms and the
// other 10 to 20 ms; two routers stand before each.
func twoServices() string {
	var b strings.Builder
	for service, bounds := range map[string][2]string{"quick": {"0.001", "0.002"}, "slow": {"0.01", "0.02"}} {
		for _, pod := range []string{"r1", "r2"} {
			of := fmt.Sprintf(`namespace="demo", service=%q, pod=%q`, service, pod)
			fmt.Fprintf(&b, "bobtail_router_requests_total{%s} 0+3000x20\nbobtail_router_dropped_total{%s, reason=\"queue_full\"} 0+60x20\n", of, of)
			for le, n := range map[string]string{bounds[0]: "0", bounds[1]: "0+3000", "+Inf": "0+3000"} {
				fmt.Fprintf(&b, "bobtail_latency_seconds_bucket{%s, source=\"Router\", le=%q} %sx20\n", of, le, n)
			}
		}
	}
	return b.String()
}

// K-31: each recording rule gives one figure for each service, and that service's own.
func TestRecordingRulesKeepServicesApart(t *testing.T) {
	const rates, latency = "namespace_service:bobtail_router_", "namespace_service_source:bobtail_latency_seconds:"
	type between [2]float64
	quick, slow := between{0.001, 0.002}, between{0.01, 0.02}
	want := map[string]map[string]between{
		rates + "requests:rate5m": {"quick": {99, 101}, "slow": {99, 101}},
		rates + "dropped:rate5m":  {"quick": {1.9, 2.1}, "slow": {1.9, 2.1}},
		latency + "p50_5m":        {"quick": quick, "slow": slow},
		latency + "p99_5m":        {"quick": quick, "slow": slow},
		latency + "p999_5m":       {"quick": quick, "slow": slow},
		"namespace_service_source_le:bobtail_latency_seconds_bucket:rate5m": nil, // what the percentiles are made of
	}
	all := recordings(t)
	for name, expr := range all {
		of, known := want[name]
		if !known {
			t.Errorf("%s: not looked at here", name)
		}
		result := asked(t, twoServices(), func(e *promql.Engine, of storage.Queryable) (promql.Query, error) {
			return e.NewInstantQuery(context.Background(), of, nil, expr, time.Unix(0, 0).Add(15*time.Minute))
		})
		by := map[string]int{}
		for _, s := range result.(promql.Vector) {
			service := s.Metric.Get("service")
			by[service]++
			if s.Metric.Get("namespace") != "demo" || s.Metric.Get("pod") != "" {
				t.Errorf("%s: labels %s", name, s.Metric)
			}
			if bounds := of[service]; of != nil && (s.F < bounds[0] || s.F > bounds[1]) {
				t.Errorf("%s of %s is %g, want %v", name, service, s.F, bounds)
			}
		}
		if len(by) != 2 || by["quick"] != by["slow"] || of != nil && by["slow"] != 1 {
			t.Errorf("%s: series %v", name, by)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d recording rules, want %d", len(all), len(want))
	}
}

// K-31: recording rules are named by their level, read documented metrics and stand on
// the page of metrics.
func TestRecordingRulesAreDocumented(t *testing.T) {
	page := read(t, "docs/reference/metrics.md")
	all := recordings(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		checkMetrics(t, name, all[name], page)
		if !strings.HasPrefix(name, "namespace_service") || !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not name %s", name)
		}
	}
}

// K-31: whoever looks at several services never gets a figure of all of them together:
// what the dashboard adds up, it adds up by service.
func TestDashboardKeepsServicesApart(t *testing.T) {
	for title, exprs := range panels(t) {
		for _, expr := range exprs {
			if strings.Contains(expr, "bobtail_operator_") {
				continue // of all services
			}
			if strings.Contains(expr, "bobtail_group_") { // of groups, each with series of its own
				if !strings.Contains(expr, `namespace=~"$namespace"`) || strings.Contains(expr, "sum") {
					t.Errorf("panel %s mixes groups: %s", title, expr)
				}
				continue
			}
			if !strings.Contains(expr, `service=~"$service"`) || !strings.Contains(expr, `namespace=~"$namespace"`) {
				t.Errorf("panel %s is not of the chosen services: %s", title, expr)
			}
			objective := strings.Contains(expr, "by (namespace, name)") // which has one service
			if strings.Contains(expr, " by (") && !strings.Contains(expr, "by (namespace, service") && !objective {
				t.Errorf("panel %s mixes services: %s", title, expr)
			}
		}
	}
	for _, name := range []string{"namespace", "service", "slo", "pod"} {
		if !strings.Contains(read(t, "charts/bobtail/files/dashboard.json"), `"name": "`+name+`"`) {
			t.Errorf("no variable %s", name)
		}
	}
}
